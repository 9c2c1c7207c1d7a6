"""However TensorFlow comes into the process, the plan is there before its first device."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest

from tests.programs.on_card import RunOnCard

pytestmark = pytest.mark.slow

REPORT_LIMITS = """
import gpuconf
import tensorflow as tf
x = tf.constant([1.0])
settings = {s.name: (s.effective, s.status) for s in gpuconf.activation().settings}
report(limits=[v for k, v in settings.items() if k.startswith("limit of")],
     differing=[k for k, v in settings.items() if v[1] == "differs"], growth=settings.get(
     "TF_FORCE_GPU_ALLOW_GROWTH"), gpus=len(tf.config.list_physical_devices("GPU")))
"""


@pytest.mark.parametrize(
    "first",
    [
        "from tensorflow.python.framework import ops",
        "import keras",
        "import tf_keras",
        "import tensorflow.compat.v1 as tf1",
        "import importlib; importlib.import_module('tensorflow')",
    ],
)
def test_every_way_of_importing_gets_the_plan(first: str, run_on_card: RunOnCard) -> None:
    """Both GPUs have the plan's limit, read back from the devices, with growth."""
    outcome = run_on_card(f"import gpuconf.auto\n{first}\n{REPORT_LIMITS}")
    assert outcome.values["limits"] == [["7884 MiB", "ok"], ["7884 MiB", "ok"]], outcome.log
    assert outcome.values["differing"] == []
    assert outcome.values["growth"] == ["true", "ok"]


def test_imported_but_not_initialized_is_applied_at_once(
    run_on_card: RunOnCard, write_profile: Callable[[str], str]
) -> None:
    """TensorFlow came first and has listed its GPUs: limits and the choice of GPU still act."""
    profile = write_profile("extends: half-card\ngpus: [1]\n")
    outcome = run_on_card(
        "import tensorflow as tf\n"
        "before = len(tf.config.list_physical_devices('GPU'))\n"
        "import gpuconf.auto, os\n"
        "report(before=before, visible=[d.name[-5:] for d in tf.config.get_visible_devices('GPU')],"
        " cuda=os.environ['CUDA_VISIBLE_DEVICES'])\n" + REPORT_LIMITS,
        profile,
    )
    assert outcome.values["before"] == 2, outcome.log
    assert outcome.values["visible"] == ["GPU:1"]
    assert outcome.values["cuda"].startswith("GPU-")
    assert outcome.values["limits"] == [["3942 MiB", "ok"]]


def test_unequal_limits_and_a_chosen_card(
    run_on_card: RunOnCard, write_profile: Callable[[str], str]
) -> None:
    """per_gpu limits reach the right GPUs; the order of the profile's list is TensorFlow's."""
    profile = write_profile(
        "extends: shared-desktop\ngpus: [1, 0]\nper_gpu: {1: {memory: {memory_limit: 2GiB}}}\n"
    )
    outcome = run_on_card("import gpuconf.auto\n" + REPORT_LIMITS, profile)
    assert outcome.values["limits"] == [["2048 MiB", "ok"], ["7884 MiB", "ok"]], outcome.log


def test_gpus_that_cannot_be_matched(run_on_card: RunOnCard) -> None:
    """TensorFlow lists two of three planned GPUs, and each gets the smallest limit of all."""
    outcome = run_on_card(
        """
import tensorflow as tf
from gpuconf.backends.tensorflow.devices import configure
from gpuconf.machine.cards import Gpu
from gpuconf.planner import GpuPlan, Plan
from gpuconf.profile import Profile
gpus = tuple(GpuPlan(Gpu(i), mib << 20) for i, mib in enumerate((3000, 1000, 2000)))
configure(Plan(Profile("any"), gpus), tf, lambda _setting: None)
tf.constant([1.0])
"""
    )
    assert outcome.log.count("with 1000 MB memory") == 2, outcome.log
    assert "GPUs that TensorFlow uses: requested 3, got 2: " in outcome.log


def test_a_refused_setting_fails_the_import_every_time(run_on_card: RunOnCard) -> None:
    """No retry of the import gets through; another profile then does.

    What TensorFlow has imported on the way, such as Keras, is within the plan meanwhile.
    """
    outcome = run_on_card(
        """
import gpuconf.auto, os, sys
errors = []
for _ in range(3):
    try:
        import tensorflow
    except gpuconf.BackendError as error:
        errors.append(error.hint)
report(errors=errors, left="tensorflow" in sys.modules)
if os.fork() == 0:
    import keras
    device = keras.ops.ones((2, 2)).device
    limits = [str(s) for s in gpuconf.activation().settings if s.name.startswith("memory_limit")]
    try:
        gpuconf.configure("half-card")
    except gpuconf.TooLateError as error:
        report(device=device[-5:], limits_of_keras=limits, late=str(error))
    os._exit(0)
os.wait()
gpuconf.configure("half-card")
"""
        + REPORT_LIMITS,
        "keras-v1-session",
        fresh="an import that fails is repeated",
        TF_USE_LEGACY_KERAS="0",
    )
    assert len(outcome.values["errors"]) == 3, outcome.log
    assert "pip install tf_keras" in outcome.values["errors"][0]
    assert outcome.values["left"] is False
    assert outcome.values["device"] == "GPU:0", outcome.log
    assert "too late: TensorFlow initialized its GPUs at" in outcome.values["late"]
    limits = ["memory_limit GPU:0: 7884 MiB", "memory_limit GPU:1: 7884 MiB"]
    assert outcome.values["limits_of_keras"] == limits, outcome.log
    assert outcome.values["limits"] == [["3942 MiB", "ok"], ["3942 MiB", "ok"]], outcome.log


def test_an_interrupt_within_the_hook_comes_after_the_guards(run_on_card: RunOnCard) -> None:
    """Ctrl-C before TensorFlow is held: the program may go on with the Keras that it has loaded."""
    outcome = run_on_card(
        """
import gpuconf.auto, os, signal, sys
class Interrupts:
    def find_spec(self, name, path, target=None):
        if name == "gpuconf.backends.tensorflow.guards":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000): pass
sys.meta_path.insert(0, Interrupts())
try:
    import tensorflow
except KeyboardInterrupt:
    import keras
    report(device=keras.ops.ones((2, 2)).device[-5:], limits=[
        str(s) for s in gpuconf.activation().settings if s.name.startswith("limit of")])
""",
        "half-card",
        fresh="an import that fails is repeated",
        TF_USE_LEGACY_KERAS="0",
    )
    limits = ["limit of GPU:0: 3942 MiB", "limit of GPU:1: 3942 MiB"]
    assert outcome.values == {"device": "GPU:0", "limits": limits}, outcome.log


def test_keras_on_another_backend_keeps_tensorflow_off_the_card(run_on_card: RunOnCard) -> None:
    """Keras 3 computes on JAX: TensorFlow, imported before or after it, sees no GPU.

    While the program has not imported Keras, TensorFlow keeps its GPUs, with their limits.
    """
    without_keras = f"""
import os
import tensorflow as tf
if os.fork() == 0:
{textwrap.indent(REPORT_LIMITS, "    ")}
    os._exit(0)
os.wait()
"""
    for first in ("import keras", without_keras):
        outcome = run_on_card(
            f"import gpuconf.auto\n{first}\nimport keras, tensorflow as tf\n"
            "x = tf.constant([1.0])\n"
            "report(device=x.device[-5:], visible=len(tf.config.get_visible_devices('GPU')))",
            KERAS_BACKEND="jax",
        )
        assert outcome.values["device"] == "CPU:0", (first, outcome.log)
        assert outcome.values["visible"] == 0
    assert outcome.values["limits"] == [["7884 MiB", "ok"], ["7884 MiB", "ok"]], outcome.log
