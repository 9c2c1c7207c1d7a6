"""The table: which program failed in which way, and with what the log of it was made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Recipe(NamedTuple):
    """How one log is made: a program as ``train.py``, on a simulated GPU or without one."""

    name: str
    program: str
    card: tuple[str, ...] = ("--total", "2GiB")  # options of `gpuconf.simcard run`; () for no GPU
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    extra: tuple[str, ...] = ()  # further programs next to train.py
    tensorflow: str = "2.21"
    preload: str | None = None  # a C source under programs/, built and preloaded
    notebook: bool = False  # the log is notebook.ipynb, which the program writes


RECIPES = (
    # Memory that a tensor wants and the GPU has not.
    Recipe("oom-eager", "oom_eager"),
    Recipe("oom-fit", "oom_fit"),
    Recipe("oom-session-report", "oom_session_report", ("--total", "3GiB")),
    Recipe("oom-jit-compile", "jit_oom"),
    Recipe("oom-xla-caught", "caught_xla_oom", ("--total", "900MiB", "--xla")),
    Recipe("oom-tf215", "three_matrices", tensorflow="2.15"),
    Recipe(
        "malloc-async-unsupported",
        "three_matrices",
        environment={"TF_GPU_ALLOCATOR": "cuda_malloc_async"},
    ),
    Recipe("oom-caught", "caught_oom"),
    Recipe("oom-retried", "retry_oom"),
    Recipe("fragmentation", "fragmentation", ("--total", "4GiB")),
    # A whole array, not a batch of it, sent to the GPU.
    Recipe("whole-array-fit", "whole_array_fit"),
    Recipe("whole-array-evaluate", "whole_array_evaluate"),
    Recipe("whole-array-tf215", "whole_array_fit", tensorflow="2.15"),
    # A GPU that others hold.
    Recipe(
        "startup-neighbor",
        "beside_evaluator",
        ("--total", "4GiB"),
        arguments=("4000",),
        extra=("evaluate",),
    ),
    Recipe("startup-fraction", "fraction_of_full_card", ("--total", "4GiB", "--used", "4000MiB")),
    Recipe(
        "startup-tf215",
        "fraction_of_full_card",
        ("--total", "4GiB", "--used", "4000MiB"),
        tensorflow="2.15",
    ),
    Recipe("startup-nearly-full", "full_card", ("--total", "8GiB", "--used", "8092MiB")),
    Recipe(
        "startup-no-context",
        "full_card",
        ("--total", "8GiB", "--used", "8000MiB", "--context", "450MiB"),
    ),
    Recipe("ladder-healthy", "beside_evaluator", ("--total", "4GiB"), extra=("evaluate",)),
    # Settings.
    Recipe("growth-mismatch", "growth_mismatch", ("--total", "2GiB", "--count", "2")),
    Recipe("late-growth", "late_growth"),
    Recipe("late-limit", "late_limit", ("--total", "4GiB")),
    Recipe("cpu-hidden-card", "cpu_training", environment={"CUDA_VISIBLE_DEVICES": "-1"}),
    Recipe("cpu-no-driver", "cpu_training", ()),
    # Handles of cuDNN and cuBLAS, which stand-ins of our own refuse.
    Recipe("cudnn-handle", "pool", ("--total", "4GiB", "--no-bridge"), preload="cudnn"),
    Recipe(
        "cudnn-handle-tf215",
        "pool",
        ("--total", "4GiB", "--no-bridge"),
        preload="cudnn",
        tensorflow="2.15",
    ),
    Recipe("cublas-handle", "product", ("--total", "4GiB", "--no-bridge"), preload="cublas"),
    # Not the GPU's fault.
    Recipe("host-oom", "host_oom", ("--total", "4GiB")),
    Recipe("full-tmpdir", "full_tmpdir", ("--total", "2GiB", "--xla"), extra=("small_disk",)),
    Recipe("full-checkpoints", "full_checkpoints", extra=("small_disk",)),
    Recipe("shape-mismatch", "shape_mismatch", ("--total", "4GiB")),
    Recipe("healthy", "healthy", ("--total", "4GiB")),
    # A notebook.
    Recipe("notebook", "run_notebook", notebook=True),
)
