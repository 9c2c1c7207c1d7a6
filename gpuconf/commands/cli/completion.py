"""``gpuconf completion``: complete commands, options and profiles in bash, zsh and fish."""

from __future__ import annotations

import argparse

from gpuconf.commands.cli.output import Output
from gpuconf.errors import MissingDependencyError
from gpuconf.support.command_line import describe

_SHELLS = ("bash", "zsh", "fish")
_PROFILES = ("profile", "as_option", "extends", "name")  # arguments that take a profile's name

_DESCRIPTION = """\
Print the setup that lets your shell complete gpuconf's commands, options,
profiles and files. It needs argcomplete: pip install 'gpuconf[completion]'."""

_EXAMPLES = """\
put one of these in your shell's startup file:
  eval "$(gpuconf completion bash)"           # ~/.bashrc
  eval "$(gpuconf completion zsh)"            # ~/.zshrc, below compinit
  gpuconf completion fish | source            # ~/.config/fish/config.fish"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set this command's description and add its arguments."""
    describe(parser, _DESCRIPTION, _EXAMPLES)
    parser.add_argument(
        "shell", choices=_SHELLS, metavar="bash|zsh|fish", help="the shell that you use"
    )
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Print the shell's setup code."""
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
    """Answer the shell's completion request and exit; without argcomplete, return."""
    try:
        import argcomplete
        from argcomplete.completers import FilesCompleter
    except ModuleNotFoundError:
        return

    class Values(FilesCompleter):
        """Completes profile names where a profile is expected, and file names."""

        def __call__(self, prefix: str, **asked: object) -> list[str]:
            wanted = getattr(asked["action"], "dest", None)
            names = _profiles() if wanted in _PROFILES else []
            return [*names, *super().__call__(prefix)]

    argcomplete.autocomplete(parser, always_complete_options=True, default_completer=Values())


def _profiles() -> list[str]:
    """Return the names of all profiles found here."""
    from gpuconf.profile import list_profiles

    return [entry.name for entry in list_profiles()]
