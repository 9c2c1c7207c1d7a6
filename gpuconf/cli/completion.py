"""``gpuconf completion``: commands, options and profiles completed by bash, zsh and fish."""

from __future__ import annotations

import argparse

from gpuconf.cli.output import Output
from gpuconf.command_line import describe
from gpuconf.errors import MissingDependencyError

_SHELLS = ("bash", "zsh", "fish")
_PROFILES = ("profile", "as_option", "extends", "name")  # the arguments that name one

_DESCRIPTION = """\
Print the setup that lets your shell complete gpuconf's commands, options,
profiles and files. It needs argcomplete: pip install 'gpuconf[completion]'."""

_EXAMPLES = """\
put one of these into your shell's startup file:
  eval "$(gpuconf completion bash)"           # ~/.bashrc
  eval "$(gpuconf completion zsh)"            # ~/.zshrc, below compinit
  gpuconf completion fish | source            # ~/.config/fish/config.fish"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe this command, and add its arguments."""
    describe(parser, _DESCRIPTION, _EXAMPLES)
    parser.add_argument(
        "shell", choices=_SHELLS, metavar="bash|zsh|fish", help="the shell that you use"
    )
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Print the shell's code."""
    try:
        from argcomplete.shell_integration import shellcode
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "completion needs argcomplete, which is not installed",
            hint="pip install 'gpuconf[completion]'",
        ) from error
    output.raw(shellcode(["gpuconf"], shell=options.shell))
    return 0


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell, and end; nothing is answered without argcomplete."""
    try:
        import argcomplete
        from argcomplete.completers import FilesCompleter
    except ModuleNotFoundError:
        return

    class Values(FilesCompleter):
        """A profile's name where one is wanted, or a file's."""

        def __call__(self, prefix: str, **asked: object) -> list[str]:
            wanted = getattr(asked["action"], "dest", None)
            names = _profiles() if wanted in _PROFILES else []
            return [*names, *super().__call__(prefix)]

    argcomplete.autocomplete(parser, always_complete_options=True, default_completer=Values())


def _profiles() -> list[str]:
    """The names of the profiles that can be found here."""
    from gpuconf.profile import list_profiles

    return [entry.name for entry in list_profiles()]
