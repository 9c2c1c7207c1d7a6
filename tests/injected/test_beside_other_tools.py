"""What else hooks into Python's start works in a run: .pth files, coverage, debuggers."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

from tests.injected.injected_runs import run_environment, run_in, variable
from tests.programs.processes import Program, Start, run_with, write_package
from tests.programs.stand_ins import JAX_WITH_DEVICES, write_torch

pytestmark = pytest.mark.slow  # starts and waits for many programs

HELD = "import torch\ntorch.cuda._lazy_init()\nprint(torch.cuda.fractions)\n"


@pytest.fixture(scope="module")
def program_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that uses torch, next to it the torch, and one that starts it as a child."""
    folder = write_torch(tmp_path_factory.mktemp("program"))
    (folder / "train.py").write_text(HELD, encoding="utf-8")
    parent = "import subprocess, sys\nsubprocess.check_call([sys.executable, 'train.py'])\n"
    (folder / "parent.py").write_text(parent, encoding="utf-8")
    return folder


def test_pth_files_run(program_folder: Path, tmp_path: Path) -> None:
    """Those of a virtual environment run before us; a framework that one imports is held too."""
    venv.create(tmp_path / "env", symlinks=True)
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (site / "a.pth").write_text(f"{program_folder}\nimport os; os.pth_ran = 1\n", encoding="utf-8")
    (site / "b.pth").write_text("import torch\n", encoding="utf-8")
    python = str(tmp_path / "env" / "bin" / "python")
    environ = run_environment(variable())
    done = run_in(python, HELD + "import os; print(os.pth_ran)", environ, tmp_path)
    assert (done.stdout, done.stderr) == ("{0: 0.25}\n1\n", "")


def test_devices_of_a_pth_file_end_the_program(tmp_path: Path) -> None:
    """They are made before the plan is there, and no limit can be set for them any more."""
    venv.create(tmp_path / "env", symlinks=True)
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    write_package(site, JAX_WITH_DEVICES)
    (site / "a.pth").write_text("import jax\n")
    python = str(tmp_path / "env" / "bin" / "python")
    done = run_in(python, "print('computes')", run_environment(variable()), tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "JAX initialized its GPUs before gpuconf could set the limit" in done.stderr


@pytest.mark.parametrize("way", ["variable", "patch"])
def test_coverage_measures_children(way: str, program_folder: Path, tmp_path: Path) -> None:
    """By COVERAGE_PROCESS_START in a sitecustomize of the user's, and by coverage's own patch."""
    settings = tmp_path / "coveragerc"
    patch = "patch = subprocess\n" if way == "patch" else ""
    data = tmp_path / "data"
    settings.write_text(f"[run]\nparallel = true\ndata_file = {data}\n{patch}", encoding="utf-8")
    own = tmp_path / "own"
    own.mkdir()
    if way == "variable":
        start = "import coverage\ncoverage.process_startup()\n"
        (own / "sitecustomize.py").write_text(start, encoding="utf-8")
    more = {"COVERAGE_PROCESS_START": str(settings)} if way == "variable" else {}
    environ = run_environment(variable(), own, more=more)
    coverage = [sys.executable, "-m", "coverage"]
    measured_run = [*coverage, "run", f"--rcfile={settings}", "parent.py"]
    done = run_with(measured_run, environ, program_folder, timeout_s=120)
    assert (done.stdout, done.returncode) == ("{0: 0.25}\n", 0), done.stderr
    plain = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    report = tmp_path / "report.json"
    for words in (["combine", "-q"], ["json", "-q", "-o", str(report)]):
        command = [*coverage, *words, f"--rcfile={settings}"]
        subprocess.run(command, env=plain, cwd=program_folder, check=True, timeout=120)
    files = json.loads(report.read_text(encoding="utf-8"))["files"]
    measured = {Path(name).name: file["executed_lines"] for name, file in files.items()}
    assert measured["train.py"] == [1, 2, 3]  # which only the child ran
    assert measured["parent.py"] == [1, 2]


def test_debugpy_attaches_and_the_program_is_held(program_folder: Path, start: Start) -> None:
    """A program under debugpy waits for a client as ever, takes its orders, and is held."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    words = ["-Xfrozen_modules=off", "-m", "debugpy", "--listen", str(port), "--wait-for-client"]
    environ = run_environment(variable(), more={"PYDEVD_DISABLE_FILE_VALIDATION": "1"})
    child = start([sys.executable, *words, str(program_folder / "train.py")], environ)
    with _connected(port, child) as client:
        _ask(client, 1, "initialize", {"adapterID": "test", "clientID": "test"})
        _ask(client, 2, "attach", {"subProcess": False})
        _wait_for(client, r'"event": ?"initialized"')
        _ask(client, 3, "configurationDone", {})
        _wait_for(client, r'"event": ?"terminated"')  # it ends once the client has gone
    said, _ = child.communicate(timeout=60)
    assert (said, child.returncode) == ("{0: 0.25}\n", 0), child.log


def _connected(port: int, child: Program) -> socket.socket:
    """A connection to the debugger once it listens; it takes seconds to start."""
    while child.poll() is None:
        client = socket.socket()
        client.settimeout(60)
        if client.connect_ex(("127.0.0.1", port)) == 0:
            return client
        client.close()
        time.sleep(0.05)
    raise AssertionError(child.log)


def _ask(client: socket.socket, number: int, command: str, arguments: dict[str, object]) -> None:
    body = {"seq": number, "type": "request", "command": command, "arguments": arguments}
    text = json.dumps(body)
    client.sendall(f"Content-Length: {len(text)}\r\n\r\n{text}".encode())


def _wait_for(client: socket.socket, pattern: str) -> None:
    seen = ""
    while not re.search(pattern, seen):
        more = client.recv(65536).decode()
        assert more, seen
        seen += more
