"""Changing one's mind: other profiles, other variables, forked workers, refused settings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.backends.test_borders_on_card import LIMITS
from tests.programs.on_card import RunOnCard

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("listed", ["", "tf.config.list_physical_devices('GPU')"])
def test_every_pair_of_profiles(listed: str, run_on_card: RunOnCard) -> None:
    """Until devices exist another profile may be put active, also after the GPUs were listed."""
    outcome = run_on_card(
        f"""
import itertools, os, gpuconf
import tensorflow as tf
{listed}
names = ("shared-desktop", "dedicated", "half-card", "virtual-pair", "small-laptop", "notebook")
wrong = []
for first, second in itertools.permutations(names, 2):
    gpuconf.configure(first)
    gpuconf.configure(second)
    plans = gpuconf.activation().plan.gpus
    for device, gpu in zip(tf.config.list_physical_devices("GPU"), plans, strict=True):
        made = tf.config.get_logical_device_configuration(device)
        seen = [logical.memory_limit << 20 for logical in made]
        if seen != list(gpu.logical_devices_bytes or (gpu.limit_bytes,)):
            wrong.append((first, second, seen))
report(wrong=wrong, pairs=len(list(itertools.permutations(names, 2))))

gpuconf.configure("shared-desktop", memory=dict.fromkeys(
    ("per_process_gpu_memory_fraction", "keep_free", "at_least")))
devices = tf.config.list_physical_devices("GPU")
report(growth=[tf.config.experimental.get_memory_growth(d) for d in devices],
     logical=[tf.config.get_logical_device_configuration(d) for d in devices])
gpuconf.configure("cpu-only")
report(hidden=len(tf.config.get_visible_devices("GPU")))
gpuconf.configure("notebook")
x = tf.constant([1.0])
report(device=x.device[-5:], made=len(tf.config.list_logical_devices("GPU")))
"""
    )
    assert outcome.values["wrong"] == [], outcome.log
    assert outcome.values["pairs"] == 30
    assert outcome.values["growth"] == [True, True]
    assert outcome.values["logical"] == [None, None]
    assert outcome.values["hidden"] == 0
    assert outcome.values["device"] == "GPU:0"
    assert outcome.values["made"] == 2


def test_a_gpu_wanted_after_all_were_hidden(run_on_card: RunOnCard) -> None:
    """CUDA was started with every GPU hidden: too late, said as such, not as a missing library."""
    outcome = run_on_card(
        """
import gpuconf; gpuconf.configure("cpu-only")
import tensorflow as tf
tf.config.list_physical_devices("GPU")
try:
    gpuconf.configure("shared-desktop")
except gpuconf.TooLateError as error:
    report(error=str(error))
report(still=gpuconf.activation().profile)
"""
    )
    assert "all GPUs were hidden" in outcome.values["error"], outcome.log
    assert outcome.values["still"] == "cpu-only"


def test_a_refused_profile_leaves_the_one_before_in_force(run_on_card: RunOnCard) -> None:
    """Refused first, nothing is set; refused later, the plan before holds sessions and report."""
    outcome = run_on_card(
        """
import os, keras, tensorflow as tf
import gpuconf
def refused():
    before = dict(os.environ)
    try:
        gpuconf.configure("keras-v1-session")
    except gpuconf.BackendError as error:
        return [str(error), dict(os.environ) == before, tf.executing_eagerly()]
report(first=refused(), none=str(gpuconf.activation()))
gpuconf.configure("notebook")
report(second=refused(), profile=gpuconf.activation().profile)
tf.compat.v1.disable_eager_execution()
options = tf.compat.v1.GPUOptions(per_process_gpu_memory_fraction=0.95)
with tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(gpu_options=options)) as session:
    report(limits=[d.memory_limit_bytes >> 20 for d in session.list_devices() if "GPU" in d.name])
"""
    )
    error, *unchanged = outcome.values["first"]
    assert "has no set_session" in error, outcome.log
    assert unchanged == [True, True]
    assert outcome.values["none"] == "None"
    assert outcome.values["second"] == outcome.values["first"]
    assert outcome.values["profile"] == "notebook"
    assert outcome.values["limits"] == [4505, 4505]


def test_the_script_sets_variables_after_our_line(run_on_card: RunOnCard) -> None:
    """CUDA_VISIBLE_DEVICES of the script's own is planned with, and the report says it."""
    program = f"""
import gpuconf; gpuconf.configure("shared-desktop", gpus={{"pick": "most-free"}})
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "VALUE"
import tensorflow as tf
{LIMITS}
report(device=tf.constant([1.0]).device[-5:], limits=limits(),
     gpus=[gpu.gpu.index for gpu in gpuconf.activation().plan.gpus])
"""
    second = run_on_card(program.replace("VALUE", "1"))
    assert second.values == {"device": "GPU:0", "limits": ["7884 MiB"], "gpus": [1]}, second.log
    assert "pci bus id: 0000:02:00.0" in second.log
    none = run_on_card(program.replace("VALUE", "-1"))
    assert none.values == {"device": "CPU:0", "limits": [], "gpus": []}, none.log
    assert "hides every GPU" in none.log


def test_growth_on_a_limit_without_a_growth_rule(
    run_on_card: RunOnCard, write_profile: Callable[[str], str]
) -> None:
    """The simplest profile there is, and the loop that stands in half the scripts there are."""
    outcome = run_on_card(
        """
import gpuconf.auto, gpuconf
import numpy, tensorflow as tf
from gpuconf.machine.cards import read_inventory
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
report(growth=[tf.config.experimental.get_memory_growth(gpu) for gpu in gpus])
before = read_inventory().gpus[0].used_bytes
x = tf.constant(numpy.zeros((64, 1024, 256), "float32"))
report(held=(read_inventory().gpus[0].used_bytes - before) >> 20)
""",
        write_profile("memory: {memory_limit: 4GiB}\n"),
    )
    assert outcome.values["growth"] == [True, True], outcome.log
    assert outcome.values["held"] < 256
    assert outcome.log.count("with 4096 MB memory") == 2


def test_sizes_that_are_none(run_on_card: RunOnCard) -> None:
    """A memory_limit of -1 or 0 means "all" to TensorFlow; it gets the plan's limit."""
    outcome = run_on_card(
        f"""
import gpuconf.auto, gpuconf
import tensorflow as tf
{LIMITS}
first, second = tf.config.list_physical_devices("GPU")
size = tf.config.LogicalDeviceConfiguration
tf.config.set_logical_device_configuration(first, [size(memory_limit=-1)])
tf.config.set_logical_device_configuration(second, [size(memory_limit=1000), size(memory_limit=0)])
tf.constant([1.0])
report(limits=limits())
"""
    )
    assert outcome.values["limits"] == ["7884 MiB", "887 MiB", "6996 MiB"], outcome.log


def test_read_back_knows_which_card_it_reads(
    run_on_card: RunOnCard, write_profile: Callable[[str], str]
) -> None:
    """Narrowed by the script, or cut into twelve: no false alarm, whatever the numbers."""
    unequal = "extends: shared-desktop\nper_gpu: {0: {memory: {memory_limit: 2GiB}}}\n"
    narrowed = run_on_card(
        f"""
import gpuconf.auto, gpuconf
import tensorflow as tf
{LIMITS}
tf.config.set_visible_devices(tf.config.list_physical_devices("GPU")[1:], "GPU")
tf.constant([1.0])
report(limits=limits(), statuses=[s.status for s in gpuconf.activation().settings])
""",
        write_profile(unequal),
    )
    assert narrowed.values["limits"] == ["7884 MiB"], narrowed.log
    assert "differs" not in narrowed.values["statuses"]
    sizes = ", ".join(f"{100 + 10 * n}MiB" for n in range(12))
    cut = run_on_card(
        f"""
import gpuconf.auto, gpuconf
import tensorflow as tf
{LIMITS}
tf.constant([1.0])
report(limits=limits(), statuses=[s.status for s in gpuconf.activation().settings])
""",
        write_profile(f"gpus: [0]\nvirtual_devices: [{sizes}]\n"),
    )
    assert cut.values["limits"] == [f"{100 + 10 * n} MiB" for n in range(12)], cut.log
    assert "differs" not in cut.values["statuses"]


def test_the_read_back_never_ends_a_program(run_on_card: RunOnCard) -> None:
    """A TensorFlow whose C API does not tell limits: the program runs, the report says so."""
    outcome = run_on_card(
        """
import gpuconf.auto, gpuconf
import tensorflow as tf
from tensorflow.python.client import pywrap_tf_session
del pywrap_tf_session.TF_DeviceListMemoryBytes
report(device=tf.constant([1.0]).device[-5:])
report(why=[s.why_not for s in gpuconf.activation().settings if s.name == "limits read back"])
"""
    )
    assert outcome.values["device"] == "GPU:0", outcome.log
    assert "TF_DeviceListMemoryBytes" in outcome.values["why"][0]


def test_a_context_that_tensorflow_makes_anew(run_on_card: RunOnCard) -> None:
    """DTensor's shutdown drops TensorFlow's context, and with it all settings."""
    outcome = run_on_card(
        f"""
import gpuconf; gpuconf.configure("half-card")
import tensorflow as tf
{LIMITS}
tf.experimental.dtensor.initialize_accelerator_system("GPU")
tf.experimental.dtensor.shutdown_accelerator_system()
report(device=tf.ones(2).device[-5:], limits=limits())
"""
    )
    assert outcome.values == {"limits": ["3942 MiB", "3942 MiB"], "device": "GPU:0"}, outcome.log
    assert outcome.log.count("with 3942 MB memory") == 2


def test_a_name_taken_before_us_is_guarded(run_on_card: RunOnCard) -> None:
    """list_local_devices imported by name before configure still makes the plan's devices."""
    outcome = run_on_card(
        """
from tensorflow.python.client.device_lib import list_local_devices
import gpuconf; gpuconf.configure("notebook")
report(limits=[d.memory_limit >> 20 for d in list_local_devices() if d.device_type == "GPU"])
"""
    )
    assert outcome.values["limits"] == [4505, 4505], outcome.log


def test_session_workers_that_only_load_data(run_on_card: RunOnCard) -> None:
    """keras-v1-session gives workers no session at import: on a full GPU they live."""
    outcome = run_on_card(
        """
import gpuconf.auto, gpuconf
import tensorflow as tf
import multiprocessing

def load(number):
    return number * 2, gpuconf.activation().session is None

if __name__ == "__main__":
    # One device more than the limit leaves: the rest of both GPUs.
    with tf.device("GPU:0"):
        report(session=gpuconf.activation().session is not None)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        report(worker=pool.apply(load, (21,)))
""",
        "keras-v1-session",
        fresh="the profile sets TF_USE_LEGACY_KERAS, which TensorFlow reads when it is imported",
    )
    assert outcome.values["session"] is True, outcome.log
    assert outcome.values["worker"] == [42, True]


def test_a_tensorflow_without_the_functions_we_wrap(run_on_card: RunOnCard) -> None:
    """Names of a future TensorFlow gone: the plan holds anyway, and the report says so."""
    outcome = run_on_card(
        f"""
import tensorflow as tf, sys
from tensorflow.python.eager import context
lists = context.Context._initialize_physical_devices
del context.Context._initialize_physical_devices
context.Context.__getattr__ = lambda self, name: (
    lists.__get__(self) if name == "_initialize_physical_devices" else object.__getattribute__(
        self, name))
sys.modules["tensorflow.python.training.server_lib"] = None
import gpuconf.auto, gpuconf
{LIMITS}
tf.constant([1.0])
report(limits=limits(), unguarded=[
    s.name for s in gpuconf.activation().settings if s.name.startswith("guard of")])
"""
    )
    assert outcome.values["limits"] == ["7884 MiB", "7884 MiB"], outcome.log
    assert outcome.values["unguarded"] == [
        "guard of _initialize_physical_devices",
        "guard of __init__",
    ]


def test_a_hidden_gpu_stays_hidden_from_sessions(
    run_on_card: RunOnCard, write_profile: Callable[[str], str]
) -> None:
    """CUDA was started with both GPUs in sight: a session with options of its own sees one."""
    outcome = run_on_card(
        """
import tensorflow as tf
tf.config.list_physical_devices("GPU")
import gpuconf.auto
options = tf.compat.v1.GPUOptions(per_process_gpu_memory_fraction=0.9)
with tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(gpu_options=options)) as session:
    report(limits=[d.memory_limit_bytes >> 20 for d in session.list_devices() if "GPU" in d.name])
""",
        write_profile("extends: shared-desktop\ngpus: [1]\n"),
    )
    assert outcome.values["limits"] == [7884], outcome.log
    assert "pci bus id: 0000:02:00.0" in outcome.log
