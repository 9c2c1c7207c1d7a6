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
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.errors import UsageError
from gpuconf.running.reach import refuse_unreachable
from gpuconf.running.wrappers import read_options

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


@pytest.mark.parametrize(
    "line",
    [
        "python train.py -I",
        "python -m train -E",
        "python -c pass -S",
        "python - -E",
        "python -X importtime t.py",
        "python -W error::I t.py",
        "python -WE t.py",
        "python -XE t.py",
        "python -su t.py",
        "python -uB -O t.py",
        "python -W error -Bsic 'a b'",
        "python -P t.py",
        "python -cE",
        "python -mE",
        "python",
        "python --version",
        "python -- -I.py",
        "python --check-hash-based-pycs always t.py",
        "train.sh -E",
        "uv run -I t.py",
        "uv run --isolated t.py",
        "conda run -n env python t.py",
        "poetry run python t.py",
        "pipenv run python t.py",
        "torchrun --nproc-per-node 2 t.py",
        "mpirun -np 2 python t.py",
        "mpirun -np 2 -host localhost:2 python t.py",
        f"mpirun -host {HERE} python t.py",
        f"mpirun -H {WITH_DOMAIN}:2 python t.py",
        "horovodrun -np 2 -H localhost:2 python t.py",
        "srun python t.py",
        "srun -N 1 python t.py",
        "srun -n 4 python t.py",
        "accelerate launch t.py",
        "docker ps",
        "docker build -t run .",
        "apptainer pull x",
        "kubectl get pods",
        "pipx list",
        "env FOO=1 python t.py",
        "env",
        "env -u FOO python t.py",
        "env -C /tmp python t.py",
        "env -S python -u t.py",
        "nice -n 5 python t.py",
        "nice -5 python t.py",
        "nohup python t.py",
        "timeout -k 5 60 python t.py -I",
        "timeout --signal KILL 60 python t.py",
        "setsid -f python t.py",
        "stdbuf -oL python t.py",
        "taskset -c 0-3 python t.py",
        "systemd-run --scope --user python t.py",
        "ionice -c 3 python t.py",
        "numactl -N 0 python t.py",
        "nice nosuch",
        "timeout 60",
    ],
)
def test_what_the_plan_reaches(line: str, environ: Mapping[str, str]) -> None:
    """Nothing is refused that the environment and the open file go through."""
    assert refusal(line, environ) is None


RUN = "gpuconf run -- "


@pytest.mark.parametrize(
    ("line", "said", "hint"),
    [
        ("python -I t.py", "-I makes Python ignore PYTHONPATH", RUN + "python t.py"),
        ("python -sE t.py --lr 1", "-E makes Python ignore", RUN + "python -s t.py --lr 1"),
        ("python -IB t.py", "python -I", RUN + "python -B t.py"),
        ("python3.12 -u -S t.py", "sitecustomize", RUN + "python3.12 -u t.py"),
        ("pypy3 -Em train", "python -E", RUN + "pypy3 -m train"),
        ("python -X dev -E -c pass", "python -E", RUN + "python -X dev -c pass"),
        (
            "timeout -k 5 60 nice -n 5 python -I t.py",
            "-I",
            RUN + "timeout -k 5 60 nice -n 5 python t.py",
        ),
        ("env A=1 nohup python -E t.py", "-E", RUN + "env A=1 nohup python t.py"),
        ("env - python t.py", "empties the environment", f'env -i PATH="$PATH" {RUN}python t.py'),
        ("env -i python t.py", "empties", f'env -i PATH="$PATH" {RUN}python t.py'),
        ("env -vi A=1 python t.py", "empties", f'env -i PATH="$PATH" A=1 {RUN}python t.py'),
        ("env --ignore-environment python t.py", "empties", ""),
        (
            "env PYTHONPATH=src python t.py",
            "sets PYTHONPATH",
            f"env PYTHONPATH=src {RUN}python t.py",
        ),
        (
            "env -u PYTHONPATH python t.py",
            "env -u PYTHONPATH",
            f"env -u PYTHONPATH {RUN}python t.py",
        ),
        ("env --unset GPUCONF_RUN python t.py", "GPUCONF_RUN", ""),
        (
            "nice env CUDA_VISIBLE_DEVICES=1 python t.py",
            "CUDA_VISIBLE_DEVICES",
            f"nice env CUDA_VISIBLE_DEVICES=1 {RUN}python t.py",
        ),
        (
            "env -S 'PYTHONPATH=a python -u' t.py",
            "PYTHONPATH",
            f"env PYTHONPATH=a {RUN}python -u t.py",
        ),
        ("PYTHONPATH='a b' python t.py", "a variable", f"PYTHONPATH='a b' {RUN}python t.py"),
        ("A=1 B= python t.py", "a variable", f"A=1 B= {RUN}python t.py"),
        ("sudo python t.py", "closes the lease's file", f"sudo {RUN}python t.py"),
        (
            "sudo -E -u bob A=1 python t.py",
            "its own environment",
            f"sudo -E -u bob A=1 {RUN}python t.py",
        ),
        ("sudo --preserve-env=PYTHONPATH python t.py", "--preserve-env does not", ""),
        ("doas -u bob python t.py", "doas", f"doas -u bob {RUN}python t.py"),
        ("pkexec python t.py", "pkexec", f"pkexec {RUN}python t.py"),
        ("su bob -c 'python t.py'", "su", f"su bob -c '{RUN}python train.py'"),
        ("docker run --rm image python t.py", "a container", f"IMAGE {RUN}python train.py"),
        ("docker --context x compose -f a.yml run app", "a container", ""),
        ("podman exec box python t.py", "a container", "podman run --gpus all"),
        ("docker-compose up", "a container", ""),
        ("apptainer exec --nv a.sif python t.py", "a container", "apptainer exec --nv"),
        (
            "kubectl -n ns exec pod -- python t.py",
            "",
            f"kubectl -n ns exec pod -- {RUN}python t.py",
        ),
        ("ssh -p 22 box python t.py", "another machine", f"ssh -p 22 box {RUN}python t.py"),
        ("sbatch job.sh", "Slurm runs the job", "gpuconf run -- python train.py"),
        ("srun -N 2 python t.py", "another machine", f"srun -N 2 {RUN}python t.py"),
        ("srun --nodelist=far python t.py", "another machine", ""),
        ("mpirun -np 4 -host far:2 python t.py", "-host far:2", "mpirun -host far:2"),
        ("horovodrun -np 4 -H localhost:2,far:2 python t.py", "far", ""),
        ("systemd-run python t.py", "the service manager", "systemd-run --scope"),
        ("tmux new-session python t.py", "its server", "tmux new-session"),
        ("pipx run --spec a app x", "takes PYTHONPATH away", f"{RUN}app x"),
        ("nice sudo python t.py", "sudo", ""),
        ("env A=1 timeout 5 docker run x", "docker", ""),
    ],
)
def test_what_the_plan_cannot_reach(
    line: str, said: str, hint: str, environ: Mapping[str, str]
) -> None:
    """Exit code 2, what and why, and the command to use instead."""
    error = refusal(line, environ)
    assert error is not None
    assert error.exit_code == 2
    assert said in error.message
    assert error.hint is not None
    assert hint in error.hint


@pytest.mark.parametrize(
    ("line", "code", "said", "hint"),
    [
        ("nosuch x", 127, "it was not found", "check the command"),
        ("/nowhere/x", 127, "it was not found", ""),
        ("/etc/passwd", 126, "may not be executed", "python /etc/passwd"),
        ("/etc/", 126, "it is a folder", ""),
        ("cd x", 127, "", "gpuconf run -- bash -c 'cd x'"),
        ("'python train.py'", 127, "", "without the quotes: gpuconf run -- python train.py"),
    ],
)
def test_what_cannot_be_started(
    line: str, code: int, said: str, hint: str, environ: Mapping[str, str]
) -> None:
    """The exit code that a shell would give, and a hint."""
    error = refusal(line, environ)
    assert error is not None
    assert error.exit_code == code
    assert said in error.message
    assert hint in (error.hint or "")


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
    lines = [
        "python -c pass",
        "python -I -c pass",
        "python -sE -c pass",
        "python -S -c pass",
        "python -BO -c pass",
        "python -c pass -I",
        "python -X dev -c pass",
        "python -Wignore -c pass",
        "python -W ignore -Ec pass",
        "python -m this -E",
        "nice -n 1 python -Im this",
        f"env -i {python} -c pass",
        f"env - {python} -c pass",
        "env A=1 nice python -c pass",
        "env PYTHONPATH=x python -c pass",
        "env -u PYTHONPATH python -c pass",
        "env -u A python -c pass",
        "env -S 'python -E -c pass'",
        "env -S'A=1 python -c' pass",
        "env -uPYTHONPATH -u A python -c pass",
        f"env --ignore-env {python} -c pass",
        "timeout 60 setsid -w stdbuf -oL nohup python -Ec pass",
        "timeout 60 setsid -w stdbuf -oL nohup python -c pass",
        "timeout -s KILL 60 python -c pass",
        _script(tmp_path / "plain", f"#!{python}"),
        _script(tmp_path / "through-env", "#!/usr/bin/env python"),
        _script(tmp_path / "split", "#!/usr/bin/env -S python -E"),
        _script(tmp_path / "split-fine", "#! /usr/bin/env -S A=1 python -u "),
        _script(tmp_path / "ignoring", f"#!{python} -Es"),
        f"{chain}/0",
        f"{chain}/1",
        f"{chain}/2",
        f"{chain}/3",
        f"nice {chain}/2",
    ]
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
