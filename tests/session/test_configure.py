"""From a profile to a limited process, without TensorFlow: over a stand-in NVML."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from tests.machine.cards import standin
from tests.programs.binding_programs import CARD as OLDER
from tests.programs.binding_programs import with_rules
from tests.programs.processes import Nvml, run, run_python, write_package

pytestmark = pytest.mark.slow  # starts many programs

CARD = OLDER._replace(name="NVIDIA GeForce RTX 2080 Ti", major=7, minor=5)
STORY = standin.Machine((CARD,))
FULL = standin.Machine((CARD._replace(used=11000 * MIB),))
TWO = standin.Machine((CARD, CARD._replace(uuid=standin.uuid(1), used=100 * MIB)))

# What a test program may say of its environment.
OURS = """
import os
def ours():
    names = ("CUDA_VISIBLE_DEVICES", "TF_FORCE_GPU_ALLOW_GROWTH", "XLA_PYTHON_CLIENT_PREALLOCATE",
             "XLA_CLIENT_MEM_FRACTION", "CUPY_GPU_MEMORY_LIMIT")
    return {name: os.environ[name] for name in names if name in os.environ}
"""


def test_one_line_sets_what_needs_no_figures_and_the_rest_at_a_frameworks_import(
    tmp_path: Path, nvml: Nvml
) -> None:
    """The environment is then the plan's, the report has the sum, and nothing is said."""
    program = """
import gpuconf.auto
import gpuconf, sys
from gpuconf.session.import_hook import hooks as _hooks
at_once = {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
assert ours() == at_once, ours()
made = gpuconf.activation()
assert made.plan is None and "no plan yet" in str(made)
import cupy
limits = {"XLA_CLIENT_MEM_FRACTION": "0.699928939", "CUPY_GPU_MEMORY_LIMIT": "8266973184"}
assert ours() == {**at_once, **limits}, ours()
assert gpuconf.activation() is made
assert made.plan.gpus[0].limit_bytes == 7884 * 1024**2
assert made.environment == ours()
assert made.profile == "shared-desktop" and made.disabled is None
assert os.path.basename(made.source) == "shared-desktop.yaml"
assert made.as_dict()["settings"][0]["status"] == "ok"
assert sys.meta_path[0] is _hooks
print(made)
"""
    report = run_python(OURS + program, tmp_path, environ=nvml(STORY)).splitlines()
    assert report[0].startswith("profile shared-desktop (/")
    assert report[1:] == [
        "GPU 0 (NVIDIA GeForce RTX 2080 Ti)",
        "  fraction 0.7 × 11264 MiB total = 7884 MiB",
        "  9319 MiB free - 512 MiB keep_free - 512 MiB context = 8295 MiB",
        "  limit = min(7884 MiB, 8295 MiB) = 7884 MiB",
        "  lease = 1024 MiB reserve + 512 MiB context = 1536 MiB",
        "  TensorFlow: memory_limit 7884 MiB",
        "  JAX: 7884 MiB (a multiple of 2 MiB) / 11264 MiB total = fraction 0.699928939, allocated "
        "as needed",
        "  PyTorch: 7884 MiB / 11264 MiB total = fraction 0.6999, allocated as needed",
        "ok      TF_FORCE_GPU_ALLOW_GROWTH: true",
        "ok      XLA_PYTHON_CLIENT_PREALLOCATE: false",
        "ok      XLA_CLIENT_MEM_FRACTION: 0.699928939",
        "ok      CUPY_GPU_MEMORY_LIMIT: 8266973184",
    ]


@pytest.mark.usefixtures("nvml")
def test_switched_off(tmp_path: Path) -> None:
    """GPUCONF_DISABLE=1: nothing is read, set or hooked, even with a profile that is wrong."""
    log = tmp_path / "nvml.log"
    environ = standin.environment(STORY, tmp_path / "standin", log=log)
    environ |= {"GPUCONF_DISABLE": "1", "GPUCONF_PROFILE": "no-such"}
    program = """
import sys
before, finders, events = dict(os.environ), list(sys.meta_path), set()
sys.addaudithook(lambda event, args: events.add(event))
import gpuconf.auto, gpuconf
assert dict(os.environ) == before and sys.meta_path == finders
assert "import" in events and "sys.addaudithook" not in events
assert gpuconf.activation().plan is None
assert str(gpuconf.activation()) == "gpuconf is off: GPUCONF_DISABLE=1"
assert gpuconf.configure() is gpuconf.activation()
try:
    gpuconf.install_session()
except gpuconf.BackendError as error:
    assert "GPUCONF_DISABLE=1" in str(error)
else:
    raise AssertionError
assert "tensorflow" not in sys.modules
"""
    run_python(OURS + program, tmp_path, environ=environ)
    assert not log.exists()
    environ["GPUCONF_DISABLE"] = "0"
    environ["GPUCONF_PROFILE"] = "cpu-only"
    on = "import gpuconf.auto\nassert ours() == {'CUDA_VISIBLE_DEVICES': '-1'}\n"
    run_python(OURS + on, tmp_path, environ=environ)


@pytest.mark.parametrize(
    ("profile", "machine", "words"),
    [
        ("shared-desk", STORY, ("error: there is no profile named", "shared-desktop")),
        ("./bad.yaml", STORY, ("bad.yaml:2:3: memory.keep_fre: unknown key", "keep_free")),
        ("shared-desktop", FULL, ("not enough GPU memory", "gpuconf ps")),
        (
            "./third.yaml",
            STORY,
            ("gpus: 2 matches no visible GPU", "gpuconf ps"),
        ),
    ],
)
def test_what_is_wrong_stops_the_program_and_changes_nothing(
    profile: str, machine: standin.Machine, words: tuple[str, str], tmp_path: Path, nvml: Nvml
) -> None:
    """Our error and a hint, and no traceback from `import gpuconf.auto`; the environment stays; a
    retry fails too."""
    write_package(
        tmp_path,
        {
            "bad.yaml": "memory:\n  keep_fre: 1GiB\n",
            "third.yaml": "gpus: [2]\n",
            "train.py": "import gpuconf.auto\nimport cupy\nprint('continued without limits')\n",
        },
    )
    environ = {**nvml(machine), "GPUCONF_PROFILE": profile}
    done = run([sys.executable, "train.py"], tmp_path, environ=environ)
    assert (done.returncode, done.stdout) == (1, "")
    error, hint = words
    last = done.stderr[done.stderr.index(error) :]
    assert hint in last.partition("\n  hint: ")[2]
    if "profile" in error or "unknown key" in error:  # the first line fails, not the framework's
        assert done.stderr.startswith("gpuconf: error: ")
        assert len(done.stderr.splitlines()) == 2
        debugged = run(
            [sys.executable, "train.py"], tmp_path, environ={**environ, "GPUCONF_LOG": "debug"}
        )
        assert debugged.returncode == 1
        assert "gpuconf/session/configure.py" in debugged.stderr, "with the frames below"
    program = """
import sys
before = dict(os.environ)
for _ in range(2):
    try:
        import gpuconf.auto
        before = dict(os.environ)  # what needs no figures has been set
        import cupy
    except (ValueError, RuntimeError) as error:
        assert type(error).__module__.startswith("gpuconf.")
    else:
        raise AssertionError
assert dict(os.environ) == before
import gpuconf
assert gpuconf.activation() is None or gpuconf.activation().plan is None
assert "cupy" not in sys.modules
"""
    run_python(OURS + program, tmp_path, environ=environ)


def test_configuring_again(tmp_path: Path, nvml: Nvml) -> None:
    """The same arguments give the same object; others are applied in place of the first."""
    program = """
import gpuconf, gpuconf.auto, os
first = gpuconf.activation()
assert gpuconf.configure() is first
before = ours()
other = gpuconf.configure("half-card", memory={"memory_limit": "3GiB"})
assert other is not first and gpuconf.activation() is other
import cupy  # the plan is made
assert other.plan.gpus[0].limit_bytes == 3 * 1024**3
assert ours()["TF_FORCE_GPU_ALLOW_GROWTH"] == "false"
assert not [s for s in other.settings if s.why_not], other
assert gpuconf.configure("half-card", memory={"memory_limit": "3GiB"}) is other
try:
    gpuconf.configure("half-card", memory={"memory_limt": "2GiB"})
except gpuconf.ProfileError as error:
    assert "memory_limit" in str(error)
assert gpuconf.activation() is other
hidden = gpuconf.configure(gpus="none")
assert ours()["CUDA_VISIBLE_DEVICES"] == "-1"
gpuconf.configure()
# There has been a plan: now there is one for every profile.
assert ours().pop("XLA_CLIENT_MEM_FRACTION") == "0.699928939"
before = ours()
assert gpuconf.plan("dedicated").gpus[0].limit_bytes == 7783 * 1024**2
assert ours() == before
assert set(gpuconf.__all__) <= set(dir(gpuconf)) and not hasattr(gpuconf, "no_such")
"""
    run_python(OURS + program, tmp_path, environ=nvml(STORY))


def test_what_the_user_set_stays_and_is_told_once(tmp_path: Path, nvml: Nvml) -> None:
    """A line on stderr for each value that stays, and for a void one that is replaced none."""
    file = tmp_path / "train.py"
    file.write_text(
        OURS + "import gpuconf.auto, gpuconf\ngpuconf.configure()\nprint(ours())\n"
        "print(gpuconf.activation())\n"
    )
    environ = {
        **nvml(STORY),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "true",
        "TF_FORCE_GPU_ALLOW_GROWTH": "1",
    }
    done = run([sys.executable, "train.py"], tmp_path, environ=environ)
    assert done.returncode == 0, done.stderr
    assert "'XLA_PYTHON_CLIENT_PREALLOCATE': 'true'" in done.stdout
    assert "'TF_FORCE_GPU_ALLOW_GROWTH': 'true'" in done.stdout
    assert "differs XLA_PYTHON_CLIENT_PREALLOCATE: requested false, got true" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("gpuconf: XLA_PYTHON_CLIENT_PREALLOCATE: requested false, got true")
    assert "unset XLA_PYTHON_CLIENT_PREALLOCATE" in line


def test_a_machine_without_a_driver(tmp_path: Path, nvml: Nvml) -> None:
    """The program runs, with one line on stderr; GPUCONF_LOG=debug tells what was set."""
    file = tmp_path / "train.py"
    file.write_text("import gpuconf.auto\nimport cupy\n")
    for more, count in ({}, 1), ({"GPUCONF_LOG": "debug"}, 3):
        done = run([sys.executable, "train.py"], tmp_path, environ=nvml("no_library") | more)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.count("\n") == done.stderr.count("gpuconf: ") == count
        assert "any GPU is limited to 0.7 of its total" in done.stderr


SPAWN = f"""{OURS}
import multiprocessing, sys
import gpuconf.auto, gpuconf
def look(_):
    import cupy
    made = gpuconf.activation()
    complaints = [str(s) for s in made.settings if s.why_not]
    return os.getpid(), ours(), made.plan, complaints
if __name__ == "__main__":
    import cupy
    BETWEEN
    with multiprocessing.get_context("METHOD").Pool(1) as pool:
        pid, theirs, plan, complaints = pool.apply(look, (None,))
    assert pid != os.getpid() and not complaints, complaints
    AFTER
"""


def _spawning(method: str, between: str, after: str) -> str:
    program = SPAWN.replace("METHOD", method).replace("BETWEEN", between)
    return program.replace("AFTER", after)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_worker_processes_get_the_same(method: str, tmp_path: Path, nvml: Nvml) -> None:
    """A spawned child imports the main module, us first: same GPU, same growth, no complaint."""
    environ = {**nvml(TWO), "GPUCONF_PROFILE": "./picked.yaml"}
    (tmp_path / "picked.yaml").write_text(
        "extends: shared-desktop\ngpus: {pick: most-free, count: 1}\n"
    )
    # Meanwhile the other GPU has become the freer one.
    other = standin.Machine((CARD._replace(used=0), TWO.cards[1]._replace(used=2000 * MIB)))
    between = f"os.environ['STANDIN_NVML'] = {nvml(other)['STANDIN_NVML']!r}"
    after = (
        f"assert ours()['CUDA_VISIBLE_DEVICES'] == {standin.uuid(1)!r}\n"
        "    assert theirs.pop('XLA_CLIENT_MEM_FRACTION')\n"
        "    assert theirs == {k: v for k, v in ours().items() if 'FRACTION' not in k}, theirs"
    )
    run_python(_spawning(method, between, after), tmp_path, environ=environ)


def test_a_worker_does_not_wait(tmp_path: Path, nvml: Nvml) -> None:
    """A worker that only loads data neither waits for the full card nor dies of the shortage."""
    between = f"os.environ['STANDIN_NVML'] = {nvml(FULL)['STANDIN_NVML']!r}"
    environ = {**nvml(STORY), **with_rules(tmp_path, "on_shortage: {wait: 1h}")}
    after = "assert plan is None and 'CUDA_VISIBLE_DEVICES' not in theirs"
    run_python(_spawning("spawn", between, after), tmp_path, environ=environ)


def test_another_profile_in_the_environment_is_another_request(tmp_path: Path, nvml: Nvml) -> None:
    """configure() without a name follows GPUCONF_PROFILE when it has changed, as in a notebook."""
    program = """
import os
import gpuconf.auto, gpuconf
first = gpuconf.activation()
assert gpuconf.configure() is first
os.environ["GPUCONF_PROFILE"] = "half-card"
assert gpuconf.configure().profile == "half-card"
assert os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] == "false"
assert gpuconf.configure() is gpuconf.activation() is not first
"""
    run_python(program, tmp_path, environ=nvml(STORY))


def test_a_child_program_trains_where_its_parent_does(tmp_path: Path, nvml: Nvml) -> None:
    """A program started by subprocess inherits the pick, and is told what the user set."""
    (tmp_path / "picked.yaml").write_text(
        "gpus: {pick: most-free, count: 1}\nmemory: {keep_free: 1GiB}\n"
    )
    child = "import gpuconf.auto, cupy, os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    other = standin.Machine((CARD._replace(used=0), TWO.cards[1]._replace(used=2000 * MIB)))
    program = f"""
import os, subprocess, sys
import gpuconf.auto, cupy
environ = {{**os.environ, "STANDIN_NVML": {nvml(other)["STANDIN_NVML"]!r}}}
command = [sys.executable, "-c", {child!r}]
print(subprocess.check_output(command, env=environ, text=True).strip())
assert os.environ["CUDA_VISIBLE_DEVICES"] == {standin.uuid(1)!r}
environ["CUDA_VISIBLE_DEVICES"] = "0"  # the user's own word for this child
print(subprocess.check_output(command, env=environ, text=True).strip())
"""
    environ = {**nvml(TWO), "GPUCONF_PROFILE": "./picked.yaml"}
    assert run_python(program, tmp_path, environ=environ).split() == [standin.uuid(1), "0"]
