"""KAI's portion of a GPU as a share: the variables that its binder sets, by its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf.hardware import Gpu, Inventory
from gpuconf.planner import make_plan
from gpuconf.profile import load_profile
from gpuconf.shares import assigned_share, with_share
from gpuconf.units import GIB, MIB

_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "GPU_PORTION": "0.5", "RUNAI_NUM_OF_GPUS": "0.5"}
_WHOLE = 16 * 1024 - 384  # of the card beside a context
_T4 = Gpu(0, uuid="GPU-1", name="NVIDIA T4", total_bytes=16 * GIB, free_bytes=16 * GIB)


def limit(folder: Path, memory: str, environ: dict[str, str], gpu: Gpu = _T4) -> int | None:
    """The limit on one card, in MiB."""
    path = folder / "pod.yaml"
    path.write_text(f"memory: {{{memory}}}\n")
    profile = load_profile(path)
    inventory = with_share(Inventory((gpu,)), assigned_share(profile, environ))
    (planned,) = make_plan(profile, inventory, environ=environ).gpus
    return None if planned.limit_bytes is None else planned.limit_bytes // MIB


def test_a_pod_is_held_to_its_portion(tmp_path: Path) -> None:
    """By itself; what other pods hold is theirs, and takes nothing from this one's part."""
    context = "context: 384MiB"
    assert limit(tmp_path, context, _POD) == 8192 - 384
    busy = _T4._replace(free_bytes=9 * GIB)
    assert limit(tmp_path, context, _POD, busy) == 8192 - 384
    assert limit(tmp_path, f"{context}, share: none", _POD) == _WHOLE


def test_the_variable_alone_is_no_pod(tmp_path: Path) -> None:
    """Its name is common; the profile may ask for it elsewhere."""
    outside = {"GPU_PORTION": "0.5"}
    assert limit(tmp_path, "context: 384MiB", outside) == _WHOLE
    assert limit(tmp_path, "context: 384MiB, share: kai", outside) == 8192 - 384


@pytest.mark.parametrize("portion", ["", "0", "-1", "1.5", "nan", "half"])
def test_what_is_no_portion_is_no_limit(tmp_path: Path, portion: str) -> None:
    environ = {**_POD, "GPU_PORTION": portion}
    share = assigned_share(load_profile("shared-desktop"), environ)
    assert share is not None
    assert share.part is None, share
    assert limit(tmp_path, "context: 384MiB", environ) == _WHOLE
    assert limit(tmp_path, "context: 384MiB, share: kai", environ) == _WHOLE
