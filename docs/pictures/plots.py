"""Plots of the commands as SVG pictures that are readable on light and on dark pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from pictures.labels import labeled  # next to this file, in a folder that no package holds
from transcripts import ROOT, environment

# Texts as texts, which are small and can be read by programs; the same names in every run.
SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gpuconf",
    "font.sans-serif": "DejaVu Sans, Verdana, Arial",
}
# The colors of gpuconf/support/reporting/picture.py and gpuconf/commands/estimate/plot.py, and
# those that take their place where the reader's pages are dark.
_ON_DARK = {
    "#ffffff": "#161b22",
    "#22303c": "#e6edf3",
    "#6d7882": "#a3adb8",
    "#e3e7ea": "#30363d",
    "#c1121f": "#ff7b72",
    "#1d3f5e": "#5a6fb0",
    "#2a6f97": "#3f8fc0",
    "#f4f1ea": "#24211b",
    "#e6eef4": "#19232e",
    "#eef2e6": "#1d2419",
}
_PATH = re.compile(r'\bd="([^"C]+)"')
# A step of one: M or L with a point, or z.  A path with curves is left as it is.
_STEP = re.compile(r"([MLz])(?: (\S+) (\S+))?")
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)


def plotted(arguments: Sequence[str], folder: Path, about: str) -> str:
    """The picture that ``gpuconf`` draws with ``--plot`` in that folder of the checkout."""
    with tempfile.TemporaryDirectory(prefix="picture-") as name:
        home, plot = Path(name), Path(name, "plot.svg")
        lines = [f"{key}: {value}\n" for key, value in SETTINGS.items()]
        Path(home, "matplotlibrc").write_text("".join(lines), encoding="utf-8")
        environ = {**environment(home, os.environ), "MATPLOTLIBRC": str(home / "matplotlibrc")}
        subprocess.run(
            [sys.executable, "-m", "gpuconf", *arguments, "--plot", str(plot)],
            cwd=ROOT / folder,
            env=environ,
            stdout=subprocess.DEVNULL,
            check=False,  # 1: it does not fit, or the run of the log failed
        )
        return for_both(plot.read_text(encoding="utf-8"), about)


def for_both(svg: str, about: str) -> str:
    """A plot of matplotlib's with ``about`` as its title, and with other colors on dark pages."""
    rules = [
        f'[style*="{what}: {light}"] {{ {what}: {dark} !important }}\n'
        for light, dark in _ON_DARK.items()
        for what in ("fill", "stroke")
        if f"{what}: {light}" in svg
    ]
    dark = f"@media (prefers-color-scheme: dark) {{\n{''.join(rules)}}}"
    style = f"<style>\ntext {{ white-space: pre }}\n{dark}\n</style>"
    smaller = _PATH.sub(_smaller, _METADATA.sub("", svg))
    smaller = re.sub(r"^ +(?=<)", "", smaller, flags=re.MULTILINE)
    head, end, body = labeled(smaller, about).partition("</title>")
    return f"{head}{end}\n{style}{body}"


def _smaller(path: re.Match[str]) -> str:
    """A path to a tenth of a point, its upright and level lines by one number: no eye sees it."""
    made, last = [], ("", "")
    for command, x, y in _STEP.findall(path[1]):
        if not x:
            made.append(command)
            continue
        here = (f"{float(x):.1f}", f"{float(y):.1f}")
        if command == "L" and here == last:
            continue
        if command == "L" and here[0] == last[0]:
            made.append(f"V{here[1]}")
        elif command == "L" and here[1] == last[1]:
            made.append(f"H{here[0]}")
        else:
            made.append(f"{command}{here[0]} {here[1]}")
        last = here
    return f'd="{"".join(made)}"'
