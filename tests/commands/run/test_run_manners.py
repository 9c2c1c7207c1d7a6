"""`gpuconf run` is not noticed by its command: process, exit code, signals, terminal, files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpuconf.basics.environment import RUN_VARIABLE
from gpuconf.commands.run.launch import command_name
from gpuconf.injected import SITE
from gpuconf.machine.leases.files import is_locked
from gpuconf.simcard import Card
from tests.commands.cli.commands import BUILT
from tests.commands.run.on_card import environ, leases
from tests.programs.card_clients import wait_until
from tests.programs.processes import Program, Start, clean_environment, run
from tests.programs.terminals import OnTerminal

pytestmark = pytest.mark.slow  # starts and waits for many programs

RUN = (sys.executable, "-m", "gpuconf", "run", "--profile", "half-card", "--")
SAYS_PID = "echo pid $$; "
Begin = Callable[..., Program]


@pytest.fixture
def begin(start: Start, card: Card, tmp_path: Path) -> Begin:
    """Start a shell's command under `gpuconf run`."""

    def begin_one(script: str, *, words: Sequence[str] = RUN) -> Program:
        command = [*words, "bash", "-c", script]
        return start(command, clean_environment(tmp_path, environ(card)), start_new_session=True)

    return begin_one


def test_the_command_is_the_same_process_with_its_lease(
    card: Card, begin: Begin, tmp_path: Path
) -> None:
    """The number that was started, in the folder, with its input; the lease lives as long."""
    child = begin(SAYS_PID + 'pwd; read word; echo "read $word"; exit 42')
    assert child.read_line() == f"pid {child.pid}"
    assert child.read_line() == str(tmp_path)
    (lease,) = leases(card)
    assert f".{child.pid}." in lease.name
    assert child.communicate("hello\n", timeout=60)[0] == "read hello\n"
    assert child.returncode == 42
    assert child.log == (
        "gpuconf: bash: limit 3942 MiB on GPU 0 (profile half-card); 4582 MiB reserved including "
        "the CUDA context\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1])
def test_a_signal_ends_the_command_and_its_lease(
    number: signal.Signals, card: Card, begin: Begin
) -> None:
    """The exit status is the signal's, and nobody else lives on: no watcher, no lease."""
    child = begin(SAYS_PID + "exec sleep 60")
    child.read_line()
    child.send_signal(number)
    child.communicate(timeout=60)
    assert child.returncode == -number
    program = [sys.executable, "-m", "gpuconf", "ps", "--json"]
    shown = subprocess.run(program, env=environ(card), capture_output=True, check=True, text=True)
    (gpu,) = json.loads(shown.stdout)["gpus"]
    assert (gpu["processes"], gpu["bar"]["promised_bytes"]) == ([], 0)


def test_handled_signals_and_their_defaults(begin: Begin) -> None:
    """A trap runs as without us, and SIGPIPE ends a program as a shell expects."""
    child = begin("trap 'echo trapped; exit 3' TERM; echo ready; while :; do sleep 0.05; done")
    assert child.read_line() == "ready"
    child.terminate()
    assert child.communicate(timeout=60)[0] == "trapped\n"
    assert child.returncode == 3
    child = begin("yes | head -n 1; echo ${PIPESTATUS[0]}")
    assert child.communicate(timeout=60)[0] == "y\n141\n"


def test_the_environment_is_the_users_own_and_the_plans(card: Card, tmp_path: Path) -> None:
    """What was set is the plan's variables, the payload's folder before the user's own, no more."""
    before = {**clean_environment(tmp_path, environ(card)), "PYTHONPATH": "/mine:", "LANG": "C"}
    before.pop("LC_ALL", None)
    before.pop("LC_CTYPE", None)
    script = "env -0"
    done = subprocess.run(
        [*RUN, "sh", "-c", script], env=before, capture_output=True, check=True, cwd=tmp_path
    )
    after = dict(each.split("=", 1) for each in done.stdout.decode().split("\0") if each)
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    assert changed - {"_", "PWD", "SHLVL", "OLDPWD"} == {
        "TF_FORCE_GPU_ALLOW_GROWTH",
        *("XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_CLIENT_MEM_FRACTION"),
        *("PYTHONPATH", RUN_VARIABLE, "GPUCONF_STATE"),
    }
    folder, _, rest = after["PYTHONPATH"].partition(":")
    assert rest == "/mine:"
    compiled = {"__pycache__", "sitecustomize.pyc"}  # which Pythons leave there
    assert set(os.listdir(folder)) - compiled == {"sitecustomize.py"}


def test_descriptors_reach_the_command(card: Card, tmp_path: Path) -> None:
    """Those that the caller passes on, and none of ours but the lease."""
    read, write = os.pipe()
    done = subprocess.run(
        [*RUN, "bash", "-c", f"echo passed >&{write}; ls -l /proc/self/fd"],
        env=clean_environment(tmp_path, environ(card)),
        pass_fds=(write,),
        capture_output=True,
        check=True,
        text=True,
        cwd=tmp_path,
    )
    assert os.read(read, 100) == b"passed\n"
    os.close(read)
    os.close(write)
    targets = [line.partition(" -> ")[2] for line in done.stdout.splitlines() if " -> " in line]
    others = [each for each in targets if not each.startswith(("pipe:", "/proc/", "/dev/null"))]
    assert [Path(each).name.partition(".")[0] for each in others] == ["lease"]


def test_a_script_that_writes_over_descriptors_keeps_the_lease(card: Card, begin: Begin) -> None:
    """The numbers that shell scripts take for their own are not the lease's."""
    taken = " ".join(f"{number}>/dev/null" for number in (*range(3, 13), 42, 99, 100, 200, 255))
    child = begin(f"exec {taken}; echo taken; read word")
    assert child.read_line() == "taken"
    (lease,) = leases(card)
    assert is_locked(str(lease))
    child.communicate("\n", timeout=60)
    assert child.returncode == 0


def test_a_terminal_stays_the_commands(card: Card, tmp_path: Path) -> None:
    """Ctrl-C, Ctrl-Z and fg of a shell act on the command alone, and its closing ends it."""
    command = " ".join([*RUN, "bash", "-c", "'echo on $$; sleep 300; echo ended'"])
    with OnTerminal(
        ["/bin/bash", "--norc", "-i"], tmp_path, columns=100, environ=environ(card)
    ) as terminal:
        terminal.press(f"{command}\n".encode())
        terminal.read_until(r"\non \d+")
        terminal.press(b"\x1a")
        terminal.read_until(r"Stopped")
        terminal.press(b"echo sta''te $(jobs -p); fg\n")
        seen = terminal.read_until(r"state \d+[\s\S]*gpuconf run")
        pid = int(seen.rpartition("state ")[2].split()[0])
        assert f"on {pid}" in seen
        wait_until(lambda: _fields(pid)[0] == "S" and _fields(pid)[5] == str(pid))  # in front
        terminal.press(b"\x03")
        terminal.press(b"echo co''de $?\n")
        terminal.read_until(r"code 130")
        assert "ended\r\n" not in terminal.raw
        terminal.press(f"{command}\n".encode())
        terminal.read_until(r"code 130[\s\S]*\non \d+")
        (lease,) = leases(card)
        pid = int(lease.name.split(".")[3])
    # The terminal is closed: the shell's SIGHUP ends the command.
    wait_until(lambda: _fields(pid)[0] == "Z")


def _fields(pid: int) -> list[str]:
    """/proc/PID/stat from the state on; the sixth is the terminal's foreground process group."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["Z"]


def test_what_ends_a_run_before_it_begins(card: Card, tmp_path: Path) -> None:
    """Usage and bad profiles are 2, a shortage 1, no such command 127: nothing has been started."""
    touch = ("touch", str(tmp_path / "started"))
    base = (sys.executable, "-m", "gpuconf", "run")
    big = ("--set", "memory.at_least=10GiB")
    cases = [
        (2, (*base, "--profile", "no-such", "--", *touch), "no-such"),
        (2, (*base, "--set", "memory.memory_limits=1GiB", "--", *touch), "memory_limit"),
        (2, (*base, "--processes", "0", "--", *touch), "at least 1"),
        (2, (*base, "--wait", "soon", "--", *touch), "soon"),
        (2, (*base, "--profile"), "--profile"),
        (2, base, "there is no command to run"),
        (2, (*base, "touch", "x", "--profile", "half-card"), "put -- before the command"),
        (1, (*base, *big, "--", *touch), "limit 7884 MiB; at_least is 10240 MiB"),
        (1, (*base, *big, "--wait", "1s", "--", *touch), "limit 7884 MiB; at_least is 10240 MiB"),
        (127, (*base, "--", "no-such-command-here"), "no-such-command-here"),
        (126, (*base, "--", str(tmp_path)), "cannot start"),
    ]
    for code, command, says in cases:
        done = run(command, tmp_path, environ=environ(card))
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert says in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "started").exists()
    assert leases(card) == []


def test_it_waits_in_line(begin: Begin) -> None:
    """A second run for which too little is left starts when the first has ended."""
    first = begin(SAYS_PID + "read word")
    first.read_line()
    words = [*RUN[:-1], "--set", "memory.per_process_gpu_memory_fraction=0.7", "--wait"]
    words += ["--set", "memory.at_least=6GiB", "--"]
    second = begin("echo ran", words=words)
    wait_until(lambda: "waiting" in second.log)
    first.communicate("\n", timeout=60)
    out, _ = second.communicate(timeout=60)
    assert (out, second.returncode) == ("ran\n", 0)
    assert "waited" in second.log


def test_switched_off_and_inside_a_run(card: Card, tmp_path: Path) -> None:
    """GPUCONF_DISABLE runs the command alone; inside a run that run's plan holds."""
    off = run([*RUN, "env"], tmp_path, environ={**environ(card), "GPUCONF_DISABLE": "1"})
    assert off.returncode == 0
    assert RUN_VARIABLE not in off.stdout
    assert "without a plan" in off.stderr
    nested = [*RUN, sys.executable, "-m", "gpuconf", "run"]
    inside = run([*nested, "--", "sh", "-c", "exit 5"], tmp_path, environ=environ(card))
    assert inside.returncode == 5
    assert "its plan (half-card) applies" in inside.stderr
    another = run([*nested, "--processes", "2", "--", "true"], tmp_path, environ=environ(card))
    assert another.returncode == 2
    assert "leave it first" in another.stderr


def test_a_run_inside_a_run_carries_its_plan(card: Card, tmp_path: Path) -> None:
    """Also where a script has replaced PYTHONPATH; a run that has ended is planned again."""
    words = f"{sys.executable} -m gpuconf"
    script = f"PYTHONPATH=src {words} run -- sh -c 'echo $PYTHONPATH; exec {words} ps'"
    first = run([*RUN, "sh", "-c", script], tmp_path, environ=environ(card))
    assert first.stdout.startswith(f"{SITE}:src\n")
    assert "half-card  4582 MiB" in first.stdout
    left = run([*RUN, "env", "-0"], tmp_path, environ=environ(card)).stdout
    after = dict(each.split("=", 1) for each in left.split("\0") if each)
    anew = run([*RUN, "sh", "-c", f"{words} ps; true"], tmp_path, environ=after)
    assert "its plan" not in anew.stderr
    assert "half-card  4582 MiB" in anew.stdout


def test_commands_inside_a_run_know_its_plan(card: Card, tmp_path: Path) -> None:
    """Its own lease is no shortage, for plan and doctor; a simulated GPU within it has no plan."""
    python = f"{sys.executable} -m"
    script = (
        f"{python} gpuconf plan && {python} gpuconf doctor profile.plan -v && "
        f"{python} gpuconf.simcard run --total 4GiB -- env"
    )
    words = [*RUN[:-1], "--processes", "2", "--", "sh", "-c", script]
    done = run(words, tmp_path, environ={**environ(card), **BUILT})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lease = 2 × (3942 MiB limit + 640 MiB context) = 9164 MiB" in done.stdout
    assert "this is inside a gpuconf run" in done.stderr
    assert f"{RUN_VARIABLE}=" not in done.stdout


def test_plan_shows_what_a_run_would_do(card: Card, tmp_path: Path) -> None:
    """`gpuconf plan` takes the options of `gpuconf run` that change a profile."""
    words = [sys.executable, "-m", "gpuconf", "plan", "half-card", "--processes", "3"]
    done = run([*words, "--set", "memory.context=0MiB"], tmp_path, environ=environ(card))
    assert "limit = min(3942 MiB, 3063 MiB) = 3063 MiB" in done.stdout, done.stdout + done.stderr


def test_who_escapes_is_named_when_the_command_has_ended(card: Card, tmp_path: Path) -> None:
    """A program that computes without a place, here for `python -I`; one with a place is not."""
    client = Path(__file__).parents[2] / "programs" / "cuda_client.py"
    computes = "cuda.enter(); cuda.allocate(300 * MIB); time.sleep(2.5)"  # over two looks
    reports = (
        "import json; from gpuconf.injected.places import take_places; "
        "run = json.loads(os.environ['GPUCONF_RUN']); "
        "take_places(run['leases'], 1, list(run['leases'])); "
    )
    script = (
        f'{sys.executable} "{client}" "{reports}{computes}" & '
        f'{sys.executable} -I "{client}" "{computes}" & echo $!; wait'
    )
    done = run([*RUN, "bash", "-c", script], tmp_path, environ=environ(card))
    assert done.returncode == 0
    escaped = int(done.stdout)
    lines = [line for line in done.stderr.splitlines() if "computed" in line]
    assert lines == [
        f"gpuconf: pid {escaped} (cuda_client.py) computed on GPU 0 (300 MiB) without its limit: "
        "the plan of gpuconf run never reached it"
    ]
    assert "hint: inside the command, python -I, -E or -S, sudo" in done.stderr


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["python", "-m", "ipykernel_launcher", "-f", "x.json"], "ipykernel_launcher"),
        (["/usr/bin/python3.11", "-u", "-m", "pkg.train", "a.py"], "pkg.train"),
        (["python", "train.py", "-m", "fast"], "train.py"),
        (["mpirun", "-m", "x", "python", "train.py"], "train.py"),
        (["/bin/bash"], "bash"),
        (["torchrun", "-m", "x"], "torchrun"),
    ],
)
def test_thecommand_name_a_command(words: list[str], name: str) -> None:
    """What `gpuconf ps` and the line of the decision call it: the script or the module."""
    assert command_name(words) == name


def test_no_gpu_at_all(tmp_path: Path) -> None:
    """Without a driver the command runs, and two lines say which limit is left, and why."""
    done = run([*RUN, "sh", "-c", "exit 6"], tmp_path)
    assert done.returncode == 6
    why, decided = done.stderr.splitlines()
    assert why.startswith("gpuconf: any GPU is limited to 0.35 of its total, without free - ")
    assert decided == "gpuconf: sh: limit 0.35 of the total on each GPU (profile half-card)"
