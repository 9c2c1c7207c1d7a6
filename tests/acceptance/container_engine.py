"""Podman or Docker on this machine, an image for it, and programs in its containers and outside.

The image is almost empty: this machine's /usr, Python and checkout are mounted into it, so nothing
is pulled.  What stands for the GPU is a simulated GPU, whose file is mounted too.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpuconf.basics.units import MIB
from gpuconf.machine.leases.folder import VARIABLE
from gpuconf.simcard import Card, CardSpec, create_card, support_for_command

ROOT = Path(__file__).resolve().parents[2]
SPECS = ROOT / "docs" / "examples" / "containers"
PROGRAM = Path(__file__).with_name("programs") / "container_train.py"
IMAGE = "my-training:1"  # as in compose.yaml and pod.yaml
CARD = CardSpec(total_bytes=8192 * MIB, used_bytes=1024 * MIB, context_bytes=450 * MIB)
_TIMEOUT_S = 180.0  # TensorFlow's import, on a busy machine
_REMOVED_WITHIN_S = 15.0
_FOLDERS = ("usr", "etc", "proc", "sys", "dev", "run", "var", "root", "app")


class EngineError(Exception):
    """Containers cannot be used here; the text says why."""


class Program:
    """A running program: its line of JSON, and its standard error."""

    def __init__(self, command: Sequence[str], *, environ: Mapping[str, str], folder: Path) -> None:
        self.errors: list[str] = []
        self._process = subprocess.Popen(
            command,
            env=environ,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()
        self._watch = threading.Timer(_TIMEOUT_S, self._process.kill)
        self._watch.start()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self.errors.extend(self._process.stderr)

    def answer(self) -> dict[str, Any]:
        """Its next line of JSON; raises EngineError with its standard error if it ends before."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            _, brace, rest = line.partition("{")  # compose writes the service's name before it
            if brace:
                return dict(json.loads(brace + rest))
        self.end()
        raise EngineError("".join(self.errors[-20:]) or "the program printed nothing")

    def end(self) -> None:
        """Kill it, if it still runs, and wait for it."""
        self._watch.cancel()
        self._process.kill()
        self._process.wait()
        self._reader.join(timeout=5)


class Engine(NamedTuple):
    """``podman`` or ``docker``, the simulated GPU that its containers see, and a work folder."""

    name: str
    card: Card
    work: Path
    takes_gpus: bool = True
    """Whether it takes `--gpus all`; Docker does where NVIDIA's toolkit is installed."""

    def output(self, *words: str) -> str:
        """What ``podman WORDS`` prints."""
        return output_of([self.name, *words])

    def host_environ(self, **changes: str) -> dict[str, str]:
        """For a program on the host: the GPU, and the folder of leases that is the default."""
        return {**os.environ, **self.card_environ(), **changes}

    def card_environ(self) -> dict[str, str]:
        """What shows the GPU to a program."""
        shown = self.card.environment({}, wheels=support_for_command(["python"]))
        return {name: value for name, value in shown.items() if name != VARIABLE}

    def mounts(self) -> list[str]:
        """The folders of this machine that the image lacks; the GPU's may be written in."""
        preload = self.card_environ().get("LD_PRELOAD", "").split(":")
        needed = ["/usr", sys.base_prefix, str(ROOT), sys.prefix, str(self.card.libraries)]
        needed += [os.path.dirname(each) for each in preload if each]
        found: list[str] = []
        for path in needed:
            if not any(Path(path).is_relative_to(each) for each in found):
                found.append(path)
        return [*(f"{path}:{path}:ro" for path in found), f"{self.work}:{self.work}"]

    def mount_options(self) -> list[str]:
        """`mounts`, as options of `podman run`."""
        return [word for mount in self.mounts() for word in ("--volume", mount)]

    def start(self, profile: str, *, take_mib: int = 0) -> Program:
        """Start the program on the host."""
        environ = self.host_environ(GPUCONF_PROFILE=profile, TAKE=str(take_mib or ""))
        return Program([sys.executable, str(PROGRAM)], environ=environ, folder=self.work)

    def remove(self, container: str) -> None:
        """Remove a container, with SIGKILL for what runs in it, and wait until its name is free."""
        for words in (["kill", container], ["rm", "--force", container]):
            subprocess.run([self.name, *words], capture_output=True, check=False)
        # With --rm Docker removes it too, and refuses the second removal before the first is done.
        end = time.monotonic() + _REMOVED_WITHIN_S
        while self._has(container) and time.monotonic() < end:
            time.sleep(0.2)

    def _has(self, container: str) -> bool:
        return container in self.output("ps", "--all", "--format", "{{.Names}}").split()


def output_of(command: Sequence[str], environ: Mapping[str, str] | None = None) -> str:
    """The standard output; raises EngineError with the standard error where it fails."""
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EngineError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def find_engine(named: str | None = None) -> str:
    """The first of podman and docker that works here; raises EngineError with the reasons."""
    reasons = []
    for name in (named,) if named else ("podman", "docker"):
        if shutil.which(name) is None:
            reasons.append(f"{name} is not installed")
            continue
        try:
            output_of([name, "info"])
        except EngineError as error:
            reasons.append(str(error).splitlines()[-1])
            continue
        return name
    raise EngineError("; ".join(reasons))


@contextlib.contextmanager
def running_engine(name: str, work: Path) -> Iterator[Engine]:
    """The engine with an image and a fresh GPU; the image is removed on leaving."""
    engine = Engine(name, create_card(work / "card", CARD), work)
    _import_image(engine)
    try:
        trial = [name, "run", "--rm", "--gpus", "all", *engine.mount_options(), IMAGE, "true"]
        done = subprocess.run(trial, capture_output=True, check=False)
        yield engine._replace(takes_gpus=done.returncode == 0)
    finally:
        subprocess.run([name, "rmi", "--force", IMAGE], capture_output=True, check=False)


def _import_image(engine: Engine) -> None:
    """Make the image: empty folders, /app/train.py, and the variables that show the GPU."""
    archive = engine.work / "image.tar"
    with tarfile.open(archive, "w") as tar:
        for folder in (*_FOLDERS, "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        for folder in ("bin", "sbin", "lib", "lib64"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{folder}"
            tar.addfile(entry)
        tar.add(PROGRAM, "app/train.py")
        _add_text(tar, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
    path = f"{os.path.dirname(sys.executable)}:/usr/local/bin:/usr/bin:/bin"
    environ = {
        **engine.card_environ(),
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    changes = ["WORKDIR /app", *(f"ENV {key}={value}" for key, value in environ.items())]
    options = [word for change in changes for word in ("--change", change)]
    engine.output("import", *options, str(archive), IMAGE)


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(text.encode())
    tar.addfile(entry, io.BytesIO(text.encode()))
