"""``python -m gpuconf``: the same as the ``gpuconf`` command."""

from gpuconf.cli.main import run

if __name__ == "__main__":
    run()
