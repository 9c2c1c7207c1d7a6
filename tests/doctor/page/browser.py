"""A headless Chromium, by its command line alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

_NAMES = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
)
_SETTINGS = (
    "--headless",
    "--no-sandbox",  # the gate runs as root, and the page is our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--enable-logging=stderr",
    "--log-level=0",
)


def browser() -> str | None:
    """The path of a Chromium; $GPUCONF_TEST_BROWSER names one that is elsewhere."""
    named = os.environ.get("GPUCONF_TEST_BROWSER")
    return named or next(filter(None, map(shutil.which, _NAMES)), None)


class Visit:
    """One opening of a page: what the console said, what was asked of the network."""

    def __init__(self, page: Path, folder: Path, *options: str, dark: bool = False) -> None:
        command = browser()
        assert command is not None
        net_log = folder / "net.json"
        scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
        done = subprocess.run(
            [command, *_SETTINGS, scheme, f"--user-data-dir={folder / 'profile'}",
             f"--log-net-log={net_log}", *options, page.as_uri()],
            capture_output=True, text=True, timeout=120, check=True, cwd=folder,
        )  # fmt: skip
        self.stdout = done.stdout
        self.console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
        self.requests = _requests(net_log)


def _requests(net_log: Path) -> list[str]:
    """The addresses asked for; files and data are none."""
    found: Any = json.loads(net_log.read_text(encoding="utf-8"))
    urls = {str(event.get("params", {}).get("url", "")) for event in found["events"]}
    return sorted(url for url in urls if url.startswith(("http:", "https:", "ws:", "ftp:")))
