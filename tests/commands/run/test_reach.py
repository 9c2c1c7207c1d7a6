"""What the plan of a run cannot reach is refused at start, with the command to use instead."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.commands.run.reach import refuse_unreachable
from gpuconf.commands.run.wrappers import read_options
from gpuconf.errors import UsageError

LINES = yaml.safe_load(Path(__file__).with_name("reach.yaml").read_text(encoding="utf-8"))
HERE = socket.gethostname()
WITH_DOMAIN = HERE if "." in HERE else f"{HERE}.cluster.example"
PRESENT = (
    *("python", "python3.12", "pypy3", "train.sh", "uv", "conda", "poetry", "pipenv", "pipx"),
    *("sudo", "doas", "pkexec", "su", "docker", "podman", "docker-compose", "apptainer", "oc"),
    *("kubectl", "ssh", "sbatch", "srun", "mpirun", "horovodrun", "systemd-run", "tmux", "time"),
    *("torchrun", "accelerate", "ionice", "taskset", "numactl"),
)


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """A PATH on which every program of the tables exists and may be executed."""
    folder = tmp_path_factory.mktemp("bin")
    for name in PRESENT:
        (folder / name).touch(mode=0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def refusal(line: str, environ: Mapping[str, str]) -> UsageError | None:
    """What is raised for a command line, as a shell would split it."""
    try:
        refuse_unreachable(shlex.split(line), environ)
    except UsageError as error:
        return error
    return None


def test_what_the_plan_reaches(environ: Mapping[str, str]) -> None:
    """Nothing is refused that the environment and the open file go through."""
    lines = [line.format(HERE=HERE, WITH_DOMAIN=WITH_DOMAIN) for line in LINES["reached"]]
    refused = {line: refusal(line, environ) for line in lines}
    assert {line: error for line, error in refused.items() if error is not None} == {}


@pytest.mark.parametrize("kind", ["not reached", "not started"])
def test_what_is_refused(kind: str, environ: Mapping[str, str]) -> None:
    """The exit code that a shell would give, or 2; what and why; and the command to use instead."""
    for row in LINES[kind]:
        line = row["line"]
        error = refusal(line, environ)
        assert error is not None, line
        assert error.exit_code == row.get("code", 2), line
        assert row.get("says", "") in error.message, line
        assert "code" in row or error.hint is not None, line
        assert row.get("hint", "") in (error.hint or ""), line


def test_time_is_a_word_of_the_shell() -> None:
    """Where no program of that name is installed, it goes in front of gpuconf."""
    error = refusal("time python t.py", {"PATH": "/nowhere"})
    assert error is not None
    assert error.hint == "time gpuconf run -- python t.py"


def test_hosts_of_a_file(tmp_path: Path, environ: Mapping[str, str]) -> None:
    """A file of hosts is read: this machine alone is fine."""
    hosts = tmp_path / "hosts"
    line = f"mpirun -np 2 --hostfile {hosts} python t.py"
    hosts.write_text(f"# all\n\nlocalhost slots=2\n{HERE}:2\n", encoding="utf-8")
    assert refusal(line, environ) is None
    hosts.write_text("localhost slots=2\nfar slots=2\n", encoding="utf-8")
    assert refusal(line, environ) is not None


def _script(path: Path, first: str) -> str:
    path.write_text(f"{first}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_what_is_refused_is_what_is_lost(tmp_path: Path) -> None:
    """Each line is started for real: refused exactly where no sitecustomize of ours has run."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("print('reached')\n", encoding="utf-8")
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    chain = tmp_path
    _script(chain / "0", f"#!{python} -sE")
    for depth in (1, 2, 3):
        _script(chain / str(depth), f"#!{chain}/{depth - 1}")
    places = {"python": python, "chain": chain}
    lines = [line.format(**places) for line in LINES["started"]]
    for name, first in LINES["scripts"].items():
        lines.append(_script(tmp_path / name, first.format(**places)))
    started = [
        subprocess.Popen(
            shlex.split(line),
            env={**environ, "PYTHONPATH": str(site)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        for line in lines
    ]
    reached = {
        line: "reached" in child.communicate()[0]
        for line, child in zip(lines, started, strict=True)
    }
    assert all(child.returncode == 0 for child in started), reached
    assert {line: refusal(line, environ) is None for line in lines} == reached


def test_a_script_whose_program_is_missing(tmp_path: Path) -> None:
    """126, and a hint that fits: line ends of Windows are seen."""
    environ = {"PATH": "/usr/bin:/bin"}
    gone = refusal(_script(tmp_path / "gone", "#!/nowhere/python"), environ)
    windows = refusal(_script(tmp_path / "windows", "#!/usr/bin/python3\r"), environ)
    assert gone is not None
    assert windows is not None
    assert (gone.exit_code, windows.exit_code) == (126, 126)
    assert "'/nowhere/python', which was not found" in gone.message
    assert "sed -i" in str(windows.hint)


WORDS = st.lists(st.text(alphabet="-=abcES ", max_size=5), max_size=6)


@given(WORDS, st.sampled_from(["", "a", "bc"]), st.sampled_from(["", "c"]))
def test_no_word_is_lost(words: list[str], valued: str, last: str) -> None:
    """What the options leave is the end of the line, whatever the words."""
    options = read_options(words, valued, ("aa",), last)
    assert options.rest == words[len(words) - len(options.rest) :]
    if not options.given and options.rest == words and words:
        assert not words[0].startswith("-") or words[0] == "-"


def test_a_chain_without_end(tmp_path: Path) -> None:
    """A script that names itself ends the search, not the program."""
    script = tmp_path / "self"
    assert refusal(_script(script, f"#!{script}"), {"PATH": "/bin"}) is None
