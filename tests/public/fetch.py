"""Fetch the public scripts into a folder outside the tree: ``python -m tests.public.fetch``.

One shallow fetch for each repository and commit. Needs git and a network; nothing is run.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import tempfile

from tests.public.listing import SOURCES, Script, read


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=pathlib.Path, default=SOURCES)
    parser.add_argument(
        "--from", dest="pattern", default="https://github.com/{repository}.git", metavar="ADDRESS",
        help="where a repository is, with {repository} or {folder} in it (default: %(default)s)",
    )  # fmt: skip
    options = parser.parse_args()
    for key, scripts in by_commit(read()).items():
        paths = [path for script in scripts for path in (script.path, *script.beside)]
        missing = [
            path for path in paths if not (options.sources / scripts[0].folder / path).exists()
        ]
        if missing:
            repository, commit = key
            address = options.pattern.format(
                repository=repository, folder=repository.replace("/", "+")
            )
            fetch(address, commit, missing, options.sources / scripts[0].folder)
    return 0


def by_commit(scripts: list[Script]) -> dict[tuple[str, str], list[Script]]:
    """The scripts of each repository and commit."""
    found: dict[tuple[str, str], list[Script]] = {}
    for script in scripts:
        found.setdefault((script.repository, script.commit), []).append(script)
    return found


def fetch(address: str, commit: str, paths: list[str], target: pathlib.Path) -> None:
    """Fetch one commit without its history, and of its files these alone."""
    print(f"{address} at {commit}: {len(paths)} files", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        git(folder, "init", "-q")
        git(folder, "remote", "add", "origin", address)
        git(folder, "fetch", "-q", "--depth", "1", "--filter=blob:none", "origin", commit)
        for path in paths:
            text = git(folder, "show", f"{commit}:{path}")
            file = target / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)


def git(folder: str, *arguments: str) -> bytes:
    """What git prints on stdout; its own error is on stderr, and then the program ends."""
    done = subprocess.run(["git", "-C", folder, *arguments], check=False, stdout=subprocess.PIPE)
    if done.returncode:
        raise SystemExit(f"git {arguments[0]} failed; --from ADDRESS names another place")
    return done.stdout


if __name__ == "__main__":
    raise SystemExit(main())
