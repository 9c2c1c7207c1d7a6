"""The examples of docs/examples/ray, unchanged, on the simulated GPU: each worker has its share.

0.25 × (8192 - 1024 - 512) - 640 = 1024 MiB, and 0.4 of it 2022 MiB.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.machine.schedulers.ray_card import run_driver

# Starts Ray, and a framework in each of its workers; test_ray.py has the promise for the gate.
pytestmark = [pytest.mark.slow, pytest.mark.nightly]

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples" / "ray"
_WORKER = re.compile(r"worker (\d+): .*?limit (\d+) MiB")
_HOOK = 'runtime_env={"worker_process_setup_hook": "gpuconf.ray.setup"}'
# Without it there is no limit to request, and trials that hold 200 MiB meet on the GPU.
_ASKS = "(device,) = tf.config.get_logical_device_configuration(gpu)"
_NEVER = "device = tf.config.LogicalDeviceConfiguration(0)"
_BEGINS = "    x = np.random"
_HOLDS = "    import time; kept = tf.ones([200, 512, 512]); time.sleep(10)\n"
_ERRORS = re.compile(r"Error file: (/\S+)")
_TRIAL = re.compile(r"^rate (\S+): loss \S+, limit (\d+) MiB$", re.MULTILINE)


def output_of(folder: Path, example: Path, framework: str | None = None) -> str:
    """What an example prints, which must succeed."""
    done = run_driver(folder, [str(example)], framework=framework)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


def test_every_trial_of_the_sweep_has_a_quarter(tmp_path: Path) -> None:
    """Ray Tune: eight trials of 0.25, and none fails."""
    limits = dict(_TRIAL.findall(output_of(tmp_path, EXAMPLES / "tune_sweep.py")))
    assert len(limits) == 8
    assert set(limits.values()) == {"1024"}


def test_without_the_hook_trials_of_the_sweep_run_out_of_memory(tmp_path: Path) -> None:
    """The same file less the hook: the first TensorFlow takes the GPU."""
    text = (EXAMPLES / "tune_sweep.py").read_text(encoding="utf-8")
    for old, new in ((_HOOK, ""), (_ASKS, _NEVER), (_BEGINS, _HOLDS + _BEGINS)):
        assert text.count(old) == 1
        text = text.replace(old, new)
    without = tmp_path / "without_hook.py"
    without.write_text(text, encoding="utf-8")
    done = run_driver(tmp_path, [str(without)])
    assert done.returncode != 0
    errors = [Path(name).read_text(encoding="utf-8") for name in _ERRORS.findall(done.stdout)]
    assert any("out of memory" in each or "OOM" in each for each in errors), errors


@pytest.mark.parametrize(
    ("example", "framework", "words"),
    [
        # Not tf_keras, which TensorflowTrainer requests.
        ("train_keras.py", None, "worker 0: Keras 3."),
        ("train_jax.py", "jax", "MiB on cuda:0"),
        ("train_torch.py", "torch", ""),
    ],
)
def test_each_worker_of_ray_train_has_its_share(
    tmp_path: Path, example: str, framework: str | None, words: str
) -> None:
    """Two workers of 0.4 on one GPU."""
    output = output_of(tmp_path, EXAMPLES / example, framework)
    assert dict(_WORKER.findall(output)) == {"0": "2022", "1": "2022"}
    assert words in output
