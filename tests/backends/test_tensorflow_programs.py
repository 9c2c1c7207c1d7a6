"""Programs of several processes or cells, with real TensorFlow on a simulated GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.programs.on_card import RunOnCard

pytestmark = pytest.mark.slow

SPAWN = """
import gpuconf.auto
import multiprocessing, os

def only_loads_data(number):
    return number * 2, os.environ["CUDA_VISIBLE_DEVICES"], gpuconf.activation().profile

def trains(_):
    import tensorflow as tf
    return tf.constant([1.0]).device

if __name__ == "__main__":
    import tensorflow as tf
    hog = tf.raw_ops.Empty(shape=[1, 1024, 256, 1024], dtype=tf.float32)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        loaded = pool.apply(only_loads_data, (21,))
        trained = pool.apply(trains, (0,))
    report(loaded=loaded, trained=trained, ours=os.environ["CUDA_VISIBLE_DEVICES"])
"""


def test_spawned_workers_use_the_parents_card(
    run_on_card: RunOnCard, write_profile: Callable[[str], str]
) -> None:
    """The parent picked a GPU and leases a part; its child does not run off to the other."""
    profile = write_profile(
        "extends: shared-desktop\ngpus: {pick: most-free, count: 1}\nmemory: {memory_limit: 3GiB}\n"
    )
    outcome = run_on_card(SPAWN, profile)
    assert outcome.values["loaded"] == [42, outcome.values["ours"], "profile"], outcome.log
    assert "was set before gpuconf" not in outcome.log
    assert outcome.values["trained"].endswith("GPU:0")


def test_a_notebook_cell_run_twice(run_on_card: RunOnCard) -> None:
    """IPython: the same cell again changes nothing; another profile is too late, with the cell."""
    outcome = run_on_card(
        """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
cell = "import gpuconf; made = gpuconf.configure('notebook'); import tensorflow as tf"
for code in (cell, cell, "x = tf.constant([1.0])", cell, "again = made is gpuconf.activation()"):
    shell.run_cell(code, store_history=True).raise_error()
error = shell.run_cell("gpuconf.configure('half-card')", store_history=True).error_in_exec
report(again=shell.user_ns["again"], error=f"{type(error).__name__}: {error}")
"""
    )
    assert outcome.values["again"] is True, outcome.log
    assert outcome.values["error"].startswith("TooLateError")
    assert "at In [3]:1, under profile notebook" in outcome.values["error"]
    assert "GPUCONF_PROFILE=NAME" in outcome.values["error"]


def test_a_notebook_that_imported_us_too_late(run_on_card: RunOnCard) -> None:
    """The cell that initialized the GPUs is named, by number and text."""
    outcome = run_on_card(
        """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for code in ("import tensorflow as tf", "x = tf.constant([1.0])"):
    shell.run_cell(code, store_history=True).raise_error()
error = shell.run_cell("import gpuconf.auto", store_history=True).error_in_exec
report(error=f"{type(error).__name__}: {error}")
"""
    )
    assert "TooLateError" in outcome.values["error"], outcome.log
    assert "In [2]:1 (x = tf.constant([1.0]))" in outcome.values["error"]


def test_install_session(run_on_card: RunOnCard) -> None:
    """The script's own graph mode: install_session gives Keras the plan's session, once."""
    outcome = run_on_card(
        """
import gpuconf.auto, gpuconf
import tensorflow as tf
try:
    gpuconf.install_session()
except gpuconf.BackendError as error:
    report(eager=str(error))
tf.compat.v1.disable_eager_execution()
session = gpuconf.install_session()
backend = tf.compat.v1.keras.backend
report(same=session is backend.get_session() is gpuconf.install_session(),
     fraction=session._config.gpu_options.per_process_gpu_memory_fraction)
with tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(device_count={"GPU": 1})) as other:
    report(value=float(other.run(tf.constant(2.0))))
""",
        TF_USE_LEGACY_KERAS="1",
    )
    assert "eager mode" in outcome.values["eager"], outcome.log
    assert outcome.values["same"] is True
    assert outcome.values["fraction"] == 0.7
    assert outcome.values["value"] == 2.0


def test_sessions_left_alone(run_on_card: RunOnCard, write_profile: Callable[[str], str]) -> None:
    """session: none leaves a session its own options, and the report says what came of it."""
    code = """
import gpuconf.auto, gpuconf
import tensorflow as tf
config = tf.compat.v1.ConfigProto()
config.gpu_options.per_process_gpu_memory_fraction = 0.8
with tf.compat.v1.Session(config=config) as session:
    limits = [d.memory_limit_bytes >> 20 for d in session.list_devices() if "GPU" in d.name]
report(limits=limits, differing=[
    s.name for s in gpuconf.activation().settings if s.status == "differs"])
"""
    alone = write_profile("extends: shared-desktop\ntensorflow: {session: none}\n")
    outcome = run_on_card(code, alone)
    assert outcome.values["limits"] == [9011, 9011], outcome.log
    assert outcome.values["differing"] == ["limit of GPU:0", "limit of GPU:1"]
    assert "limit of GPU:0: requested 7884 MiB, got 9011 MiB: " in outcome.log
    held = run_on_card(code)
    assert held.values["limits"] == [7884, 7884]
    assert (
        "requested per_process_gpu_memory_fraction 0.8 (9011 MiB), got 0.7 (7884 MiB)" in held.log
    )


def test_a_server_and_a_mirrored_strategy(run_on_card: RunOnCard) -> None:
    """tf.distribute: a server's devices keep the limit; virtual-pair gives two replicas a GPU."""
    served = run_on_card(
        "import gpuconf.auto\nimport tensorflow as tf\n"
        "server = tf.distribute.Server.create_local_server()\nreport(target=server.target)"
    )
    assert served.values["target"].startswith("grpc://"), served.log
    assert served.log.count("with 7884 MB memory") == 2
    mirrored = run_on_card(
        "import gpuconf.auto\nimport tensorflow as tf\n"
        "strategy = tf.distribute.MirroredStrategy()\n"
        "with strategy.scope():\n    weights = tf.Variable(tf.constant([1.0, 2.0]))\n"
        "report(replicas=strategy.num_replicas_in_sync, copies=[\n"
        "    [v.device[-5:], v.numpy().tolist()] for v in weights.values])",
        "virtual-pair",
    )
    assert mirrored.values["replicas"] == 4, mirrored.log
    assert mirrored.values["copies"] == [[f"GPU:{i}", [1.0, 2.0]] for i in range(4)]


_RESERVED = """
import gpuconf.auto, gpuconf
import tensorflow as tf
if "{mode}" == "graph":
    tf.compat.v1.disable_eager_execution()
    session = tf.compat.v1.Session()
else:
    tf.test.gpu_device_name()  # before eager execution has devices
    report(peaks=[tf.config.experimental.get_memory_info(each.name)["peak"]
                  for each in tf.config.list_logical_devices("GPU")])
report(lines=[str(each) for each in gpuconf.activation().settings])
"""


@pytest.mark.parametrize(
    ("mode", "rules", "taken"),
    [
        ("graph", "", ["1024 MiB", "1024 MiB"]),
        ("eager", "memory: {reserve: 1536MiB}\n", ["1536 MiB", "1536 MiB"]),
        ("eager", "virtual_devices: [1GiB, 3GiB]\n", ["256 MiB", "768 MiB"] * 2),
        ("eager", "memory: {hold: false}\n", []),
    ],
)
def test_the_reserve_is_taken_with_the_devices(
    mode: str,
    rules: str,
    taken: list[str],
    run_on_card: RunOnCard,
    write_profile: Callable[[str], str],
) -> None:
    """On each of the two GPUs, for their logical devices, and the peak does not count it."""
    profile = write_profile("extends: shared-desktop\n" + rules)
    outcome = run_on_card(_RESERVED.format(mode=mode), profile)
    lines = [line for line in outcome.values["lines"] if line.startswith("reserve of")]
    assert lines == [f"reserve of GPU:{i}: {size}" for i, size in enumerate(taken)], outcome.log
    assert all(peak < 1 << 20 for peak in outcome.values.get("peaks", []))
