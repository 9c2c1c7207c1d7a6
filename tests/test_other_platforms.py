"""What gpuconf does on Windows and macOS, in the emulation of `tests.programs.other_platforms`.

Nothing here has run on a real Windows or macOS.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from gpuconf.basics.units import MIB
from gpuconf.simcard import Card, CardSpec, simulated_card
from gpuconf.support.command_line import COMMANDS, WORK_ON_WINDOWS
from tests.programs.on_card import environment_on
from tests.programs.other_platforms import names_in
from tests.programs.processes import run, run_with, write_package

pytestmark = pytest.mark.slow  # starts many programs

ON_WINDOWS = (
    "gpuconf: any GPU is limited to 0.7 of its total, without free - keep_free - context: "
    "no NVIDIA driver found (cannot load nvml.dll)\n"
)
ON_MACOS = "gpuconf: no limit is set; only allow_growth applies: macOS has no NVIDIA driver\n"


EMULATED = [sys.executable, "-m", "tests.programs.other_platforms"]
# A GPU as the driver on Windows shows it.  rich has separate code for Windows.
CARD = CardSpec(total_bytes=11264 * MIB, used_bytes=1945 * MIB, processes="unknown")
WINDOWS = "win32:rich.console"
ACTIVE = "active here: shared-desktop, because nothing else is set\n"


def with_nvml(card: Card, folder: Path) -> dict[str, str]:
    """Variables with which nvidia-ml-py finds the simulated NVML where Windows has its own."""
    (folder / "System32").mkdir()
    (folder / "System32" / "nvml.dll").symlink_to(card.libraries / "libnvidia-ml.so.1")
    return {"WINDIR": str(folder)}


def run_on(
    platform: str, folder: Path, *words: str, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``python words...`` as on ``platform``."""
    return run([*EMULATED, platform, *words], folder, environ=environ, timeout_s=120)


def program_on(
    platform: str, folder: Path, program: str, *, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program of a few lines as on ``platform``; it must succeed."""
    file = folder / "program.py"
    file.write_text(dedent(program), encoding="utf-8")
    done = run_on(platform, folder, str(file), environ=environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.parametrize(
    ("platform", "absent", "present"),
    [
        ("win32", ["os.getuid", "os.register_at_fork", "signal.SIGHUP"], ["os.getpid", "os.kill"]),
        (
            "darwin",
            ["os.memfd_create", "os.sched_getaffinity", "time.CLOCK_BOOTTIME"],
            ["os.getuid", "os.register_at_fork", "signal.SIGHUP"],
        ),
    ],
)
def test_the_emulation_lacks_what_the_platform_lacks(
    tmp_path: Path, platform: str, absent: list[str], present: list[str]
) -> None:
    """Names, modules, NVIDIA's library and /proc; all of the names exist here, and none remains
    that typeshed lists for Linux only.
    """
    program = f"""
        import ctypes, importlib, os, signal, sys, time
        assert sys.platform == {platform!r}
        for dotted in {absent!r} + {present!r}:
            module, name = dotted.split(".")
            assert hasattr(globals()[module], name) is (dotted in {present!r}), dotted
        for attempt in (
            lambda: ctypes.CDLL("libnvidia-ml.so.1"),
            lambda: open("/proc/self/stat"),
            lambda: os.listdir("/proc"),
        ):
            try:
                attempt()
            except OSError:
                continue
            raise AssertionError("it can be opened")
        try:
            import fcntl
        except ImportError:
            assert sys.platform == "win32"
        else:
            assert sys.platform == "darwin"
    """
    program_on(platform, tmp_path, program)
    for dotted in absent:
        module, name = dotted.split(".")
        assert hasattr(sys.modules[module], name)
        assert name in names_in(module, "linux") - names_in(module, platform)


@pytest.mark.parametrize(
    ("platform", "line"), [("win32", ON_WINDOWS), ("darwin", ON_MACOS)], ids=["win32", "darwin"]
)
def test_a_script_runs_and_prints_one_line_at_most(
    tmp_path: Path, platform: str, line: str
) -> None:
    """Also with a profile that needs figures, and none with GPUCONF_DISABLE=1."""
    write_package(tmp_path, {"cupy.py": "value = 1\n"})
    program = "import gpuconf.auto\nimport cupy\nprint(cupy.value)\n"
    assert program_on(platform, tmp_path, program).stderr == line
    off = {"GPUCONF_DISABLE": "1", "GPUCONF_PROFILE": "no-such-profile"}
    done = program_on(platform, tmp_path, program, environ=off)
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_pytorch_gets_its_limit_on_windows(tmp_path: Path) -> None:
    """Real PyTorch keeps to the part that NVML's figures allow; no driver there attributes use."""
    program = """
        import gpuconf.auto
        import torch
        import gpuconf
        torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
        print(gpuconf.activation().plan.gpus[0].limit_bytes >> 20)
        print(int(torch.cuda.get_per_process_memory_fraction() * 11264))
        torch.empty(3943 << 20, dtype=torch.uint8, device="cuda")
    """
    file = tmp_path / "program.py"
    file.write_text(dedent(program), encoding="utf-8")
    with simulated_card(CARD) as card:
        environ = {**environment_on(card, ("torch",)), "GPUCONF_PROFILE": "half-card"}
        environ |= with_nvml(card, tmp_path)
        done = run_with([*EMULATED, "win32:torch", str(file)], environ, tmp_path, timeout_s=120)
    assert done.stdout == "3942\n3942\n", done.stderr
    assert "torch.OutOfMemoryError" in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("gpuconf: ")]
    assert "reservations do not work on Windows" in lines[0]
    assert "is 3942 MiB (profile half-card)" in lines[1]


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_every_public_name_can_be_imported(tmp_path: Path, platform: str) -> None:
    """Functions, subpackages, and what `%load_ext gpuconf` looks up."""
    program = """
        import gpuconf
        for name in (*gpuconf.__all__, *gpuconf._PACKAGES, *gpuconf._OF_IPYTHON):
            getattr(gpuconf, name)
    """
    assert program_on(platform, tmp_path, program).stderr == ""


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_isolated_functions_need_linux(tmp_path: Path, platform: str) -> None:
    """A module that decorates its functions can be imported, and a call names the platform."""
    program = """
        import gpuconf
        decorated = gpuconf.isolated(print)
        try:
            decorated()
        except gpuconf.GpuconfError as error:
            print(error)
    """
    shown = f"gpuconf.isolated works only on Linux; this is {platform}\n"
    assert program_on(platform, tmp_path, program).stdout == shown


@pytest.mark.parametrize("options", [(), ("--help",)], ids=["bare", "help"])
def test_a_command_works_on_windows_or_is_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Exit code 1 and two lines for each that needs Linux; none ends as a bug in gpuconf."""
    program = f"""
        import json
        from gpuconf.commands.cli.main import main
        from gpuconf.support.command_line import COMMANDS
        print(json.dumps({{name: main([name, *{options!r}]) for name in COMMANDS}}))
    """
    done = program_on(WINDOWS, tmp_path, program)
    refused = [name for name in COMMANDS if name not in WORK_ON_WINDOWS]
    codes = json.loads(done.stdout.splitlines()[-1])
    assert [name for name, code in codes.items() if code == 1] == refused
    lines = [line for line in done.stderr.splitlines() if "does not work on Windows" in line]
    assert lines == [
        f"gpuconf: error: `gpuconf {name}` does not work on Windows" for name in refused
    ]
    assert "bug" not in done.stderr


def test_the_commands_for_windows_do_their_work_there(tmp_path: Path) -> None:
    """A log is explained, a page shown, a shell's completion printed; so are version and help.

    Without a driver, a profile is planned, and the doctor finds nothing wrong.
    """
    log = tmp_path / "train.log"
    log.write_text("failed to allocate: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n", "utf-8")
    for words, expected in (
        (["explain", str(log)], "oom-device-startup"),
        (["docs", "get-started"], "# Get started"),
        (["completion", "bash"], "gpuconf"),
        (["plan", "cpu-only"], "profile cpu-only"),
        (["profiles"], "shared-desktop"),
        (["ps"], "reservations do not work on Windows"),
        (["doctor"], "No problems found."),
        (["--version"], "gpuconf "),
        (["--help"], "usage: gpuconf"),
    ):
        done = run_on(WINDOWS, tmp_path, "-m", "gpuconf", *words)
        assert (done.returncode, done.stderr) in [(0, ""), (0, ACTIVE)]
        assert expected in done.stdout


def test_a_refusal_on_windows_is_json_if_asked(tmp_path: Path) -> None:
    """A script that calls gpuconf reads the reason like that of any other error."""
    done = run_on("win32", tmp_path, "-m", "gpuconf", "trust", "--json")
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert error["message"] == "`gpuconf trust` does not work on Windows"


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_the_step_of_an_estimate_is_refused_before_anything_starts(
    tmp_path: Path, platform: str
) -> None:
    """Whether XLA would compile it or not."""
    program = """
        import subprocess
        from gpuconf.errors import BackendError
        from gpuconf.commands.estimate.compile_target import CompileTarget
        from gpuconf.commands.estimate.runner.runner import StepRunner
        del subprocess.Popen
        for is_compiled in (True, False):
            try:
                StepRunner(CompileTarget()).start(is_compiled=is_compiled)
            except BackendError as error:
                print(error.message)
    """
    done = program_on(platform, tmp_path, program)
    assert done.stdout == 2 * f"a simulated GPU needs Linux, but this is {platform}\n"


def test_commands_with_a_gpu_on_windows(tmp_path: Path) -> None:
    """The plan has NVML's figures; the doctor names what differs there, and no fix is Linux's."""
    with simulated_card(CARD) as card:
        environ = {**card.environment({}), **with_nvml(card, tmp_path)}
        plan = run_on(WINDOWS, tmp_path, "-m", "gpuconf", "plan", "half-card", environ=environ)
        init = run_on(WINDOWS, tmp_path, "-m", "gpuconf", "init", environ=environ)
        file = tmp_path / "limitless.yaml"
        file.write_text("memory: {allow_growth: true}\n")
        environ["GPUCONF_PROFILE"] = str(file)
        doctor = run_on(WINDOWS, tmp_path, "-m", "gpuconf", "doctor", "-v", environ=environ)
    assert (plan.returncode, plan.stderr) == (0, "")
    assert "limit 3942 MiB" in plan.stdout
    assert init.stdout.startswith("wrote gpuconf.yaml: extends shared-desktop"), init.stderr
    assert "under Windows running out is not an error" in doctor.stdout, doctor.stderr
    fixes = re.findall("fix: (.*)", doctor.stdout)
    assert fixes == 2 * ['$env:GPUCONF_PROFILE = "shared-desktop"']
    assert "driver.wsl  Windows with NVIDIA's driver" in doctor.stdout
    assert "leases.folder  reservations do not work on Windows" in doctor.stdout


@pytest.mark.parametrize("words", [["estimate", "net.py:make"], ["rehearse", "--", "python", "x"]])
def test_what_needs_a_simulated_gpu_is_refused_on_macos(tmp_path: Path, words: list[str]) -> None:
    """Before a framework is looked for."""
    done = run_on("darwin", tmp_path, "-m", "gpuconf", *words)
    assert "error: a simulated GPU needs Linux, but this is darwin\n" in done.stderr
    assert done.returncode != 0
    assert "tensorflow" not in done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["plan"], "note: no limit is set; only allow_growth applies: macOS has no NVIDIA driver"),
        (["doctor"], "No problems found."),
        (["ps"], "macOS has no NVIDIA driver"),
        (["profiles"], "shared-desktop"),
        (["run", "--help"], "usage: gpuconf run"),
    ],
)
def test_commands_on_macos(tmp_path: Path, words: list[str], expected: str) -> None:
    """They work without figures; none names a library of Linux, or advises what needs Linux."""
    done = run_on("darwin", tmp_path, "-m", "gpuconf", *words)
    assert done.returncode == 0, done.stderr
    output = done.stdout + done.stderr
    assert expected in output
    assert not re.search("libnvidia-ml|simulated GPU", output)


def test_run_on_macos(tmp_path: Path) -> None:
    """The command runs, and its exit code is gpuconf's."""
    command = [sys.executable, "-c", "print('trained'); raise SystemExit(7)"]
    done = run_on("darwin", tmp_path, "-m", "gpuconf", "run", "--", *command)
    assert (done.returncode, done.stdout) == (7, "trained\n"), done.stderr
    assert done.stderr.startswith(ON_MACOS)


def test_children_on_macos(tmp_path: Path) -> None:
    """As `gpuconf doctor --probe` uses them: a child's report is read, and the child is ended."""
    program = """
        import os, sys, time
        from gpuconf.support.children.family import AdoptingFamily
        from gpuconf.support.children.run import memory_file, whole_text_of
        with memory_file("test") as descriptor:
            code = f"import os, time; os.write({descriptor}, b'done'); time.sleep(600)"
            with AdoptingFamily() as family:
                command = [sys.executable, "-c", code]
                child = family.start(command, os.environ, pass_fds=[descriptor])
                while whole_text_of(descriptor) != "done":
                    time.sleep(0.01)
                assert child.poll() is None
            print(family.is_gone, child.poll())
    """
    assert program_on("darwin", tmp_path, program).stdout == "True -9\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "platform", ["win32:keras", pytest.param("darwin", marks=pytest.mark.nightly)]
)
def test_keras_trains(tmp_path: Path, platform: str) -> None:
    """On JAX: Keras's fit and ours, evaluate, predict, a callback."""
    program = """
        import gpuconf.auto
        import keras
        import numpy as np
        import gpuconf
        layers = [keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(2)]
        model = keras.Sequential(layers)
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        x, y = np.zeros((4, 8, 8, 3), "float32"), np.array([0, 1, 0, 1])
        model.fit(x, y, verbose=0, callbacks=[gpuconf.callbacks.MemoryUsage()])
        gpuconf.fit(model, x, y, verbose=0)
        gpuconf.evaluate(model, x, y, verbose=0)
        print(keras.backend.backend(), gpuconf.predict(model, x, verbose=0).shape)
    """
    done = program_on(platform, tmp_path, program, environ={"KERAS_BACKEND": "jax"})
    assert done.stdout == "jax (4, 2)\n"
    assert (ON_MACOS if platform == "darwin" else ON_WINDOWS) in done.stderr


@pytest.mark.nightly
def test_images_are_read_on_macos(tmp_path: Path) -> None:
    """Where a process cannot know which processors it may use; TensorFlow cannot be imported as on
    Windows.
    """
    program = """
        from PIL import Image
        import gpuconf
        for number in range(8):
            Image.new("RGB", (40, 30), (number * 30, 0, 0)).save(f"{number}.png")
        paths = [f"{number}.png" for number in range(8)]
        images = gpuconf.images.stream(paths, size=(8, 8), batch_size=4)
        print([batch.shape.as_list() for batch in images])
    """
    done = program_on("darwin", tmp_path, program)
    assert done.stdout == "[[4, 8, 8, 3], [4, 8, 8, 3]]\n"
