"""The shipped profiles as values, by the fingerprints of their files: `make generated`.

A file with another fingerprint is read, as any profile is.  One that extends another is not here:
two files decide what it says.
"""

from __future__ import annotations

from gpuconf.basics.units import Amount
from gpuconf.profile.model import GpuSelection, MemoryRules, Profile, TensorFlowRules

PROFILES = {
    (417, 376625500225458799): Profile(
        name="cpu-only",
        description="No GPU at all, for tests beside a training",
        gpus=GpuSelection(kind="none"),
    ),
    (1000, 667330741594248078): Profile(
        name="dedicated",
        description="One program has the card to itself",
        memory=MemoryRules(
            allow_growth=False,
            context=Amount(size_bytes=1610612736),
            at_least=Amount(share=0.5),
        ),
    ),
    (1496, 1785924109659656177): Profile(
        name="half-card",
        description="Two jobs share one card, each with a fixed part of it",
        memory=MemoryRules(
            allow_growth=False,
            per_process_gpu_memory_fraction=0.35,
            keep_free=Amount(size_bytes=134217728),
            at_least=Amount(share=0.25),
        ),
    ),
    (940, 1572217612781033162): Profile(
        name="keras-v1-session",
        description="Graph mode, a v1 session with a memory fraction, installed into Keras",
        memory=MemoryRules(
            allow_growth=True,
            per_process_gpu_memory_fraction=0.7,
            keep_free=Amount(size_bytes=536870912),
            at_least=Amount(size_bytes=1073741824),
        ),
        tensorflow=TensorFlowRules(session="graph"),
    ),
    (831, 1621711666769273207): Profile(
        name="notebook",
        description="Notebooks, which stay open and keep what they once took",
        memory=MemoryRules(
            allow_growth=True,
            per_process_gpu_memory_fraction=0.4,
            keep_free=Amount(size_bytes=536870912),
            at_least=Amount(size_bytes=1073741824),
        ),
        env=(("TF_CPP_MIN_LOG_LEVEL", "1"),),
    ),
    (1715, 908359968102389678): Profile(
        name="shared-desktop",
        description="The card also drives the display",
        memory=MemoryRules(
            allow_growth=True,
            per_process_gpu_memory_fraction=0.7,
            keep_free=Amount(size_bytes=536870912),
            reserve=Amount(size_bytes=1073741824),
            at_least=Amount(size_bytes=1073741824),
        ),
    ),
    (842, 575206346475759880): Profile(
        name="small-laptop",
        description="A GPU of 4 GiB or less, in a laptop",
        memory=MemoryRules(
            allow_growth=True,
            keep_free=Amount(size_bytes=134217728),
            at_least=Amount(size_bytes=536870912),
        ),
        tensorflow=TensorFlowRules(cudnn_workspace_limit=268435456),
    ),
}
