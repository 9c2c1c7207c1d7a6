"""A command on a terminal, and what it prints there as an SVG picture."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

sys.path.insert(0, str(Path(__file__).parents[1]))
from pictures.labels import labeled  # next to this file, in a folder that no package holds
from transcripts import HOME

COLUMNS, ROWS = 100, 60
# Dark on every page; even what is dim stands out by more than 4.5 : 1.
BACKGROUND = (22, 27, 34)
_ANSI = [
    (110, 118, 129), (255, 123, 114), (126, 231, 135), (227, 179, 65),
    (121, 192, 255), (210, 168, 255), (118, 227, 234), (240, 243, 246),
]  # fmt: skip
_THEME = TerminalTheme(BACKGROUND, (240, 243, 246), _ANSI)
_FONT_OF_THE_NETWORK = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def printed(command: Sequence[str], environ: Mapping[str, str], folder: Path) -> str:
    """What ``command`` prints on a terminal with colors, with the reader's paths in it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**environ, "TERM": "xterm-256color"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(theirs)
        output = _read(ours)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}\n{output}")
    return output.replace("\r\n", "\n").replace(sys.prefix, f"{HOME}/venv")


def _read(terminal: int) -> str:
    """All that is printed until the program ends, when reading from its terminal fails."""
    parts = []
    with open(terminal, "rb", buffering=0) as stream:
        while True:
            try:
                parts.append(stream.read(65536))
            except OSError:
                return b"".join(parts).decode()
            if not parts[-1]:
                return b"".join(parts).decode()


def picture(prompt: str, output: str, about: str) -> str:
    """The terminal as an SVG with its own background; nothing is fetched for it."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False
    )
    console.print(Text(f"$ {prompt}", style="bold"), soft_wrap=True)
    console.print(Text.from_ansi(output.rstrip("\n")), soft_wrap=True)
    name = re.sub(r"\W+", "-", prompt)
    svg = console.export_svg(title=prompt[prompt.index("gpuconf") :], unique_id=name, theme=_THEME)
    return labeled(_FONT_OF_THE_NETWORK.sub("", svg), about)


def text_of(ansi: str) -> str:
    """What a terminal shows, without colors."""
    return Text.from_ansi(ansi).plain
