"""Reports to make pages of: one with everything in it, one calm, and one that means harm."""

from __future__ import annotations

from gpuconf.basics.units import GIB, MIB
from gpuconf.commands.doctor.finding import Finding
from gpuconf.commands.doctor.probe_results import MeasuredHolder
from gpuconf.commands.doctor.report import CardReport, MemoryBar, ProfileInForce, Report

SCRIPT = "<script>console.error('run');fetch('http://127.0.0.1:9/')</script>"
IMAGE = '"><img src="http://127.0.0.1:9/x.png" onerror="console.error(1)">'

_BUSY = CardReport(
    0,
    uuid="GPU-8f6c9b1e-0000-4000-8000-000000000000",
    name="NVIDIA GeForce RTX 3060",
    total_bytes=12288 * MIB,
    free_bytes=4096 * MIB,
    used_bytes=8192 * MIB,
    compute_capability=(8, 6),
    display_active=True,
    pci_bus_id="00000000:01:00.0",
    is_visible=True,
    limit_bytes=3072 * MIB,
    arithmetic=(
        "fraction 0.7 × 12288 MiB total = 8601 MiB",
        "4096 MiB free - 1024 MiB keep_free = 3072 MiB",
        "limit = min(8601 MiB, 3072 MiB) = 3072 MiB",
    ),
    bar=MemoryBar(6144 * MIB, 2048 * MIB, 3072 * MIB, 1024 * MIB),
    holders=(
        MeasuredHolder(
            4242, "python3", "<user>", 6000 * MIB, "2026-11-20T22:15:03+01:00", "compute"
        ),
        MeasuredHolder(911, "Xorg", "root", 144 * MIB, None, "graphics"),
    ),
    remarks=("drives the display",),
)
_MIG = CardReport(
    1,
    uuid="GPU-1",
    name="NVIDIA H100 80GB HBM3",
    total_bytes=80 * GIB,
    is_visible=False,
    instances=(
        CardReport(0, name="MIG 1g.10gb", total_bytes=10 * GIB, bar=MemoryBar(0, 0, 9 * GIB, GIB)),
    ),
)

FULL = Report(
    findings=(
        Finding("driver.present", "ok", "driver 570.86.15, CUDA 12.8", ("from NVML",)),
        Finding(
            "source.refused_value",
            "warn",
            "train.py:3: TF_FORCE_GPU_ALLOW_GROWTH is set to '1', which TensorFlow ignores",
            ('    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "1"', "it takes true and false"),
            'os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"',
        ),
        Finding(
            "cards.leftover",
            "fail",
            "pid 4242 (python3) uses 6000 MiB on GPU 0 and has been stopped for 11 hours",
            ("state T, parent 1",),
            "kill 4242\n# or, if it does not end:\nkill -9 4242",
        ),
        Finding("host.shm", "crash", "internal error", ("OSError: /dev/shm",)),
        Finding("packages.torch", "skip", "torch is not installed"),
    ),
    cards=(_BUSY, _MIG),
    made_at="2026-11-21T09:14:00+01:00",
    command="gpuconf doctor --script train.py",
    versions=(("gpuconf", "0.3"), ("Python", "3.12.4"), ("tensorflow", "2.21.0")),
    environment=(("CUDA_VISIBLE_DEVICES", "0"), ("LD_LIBRARY_PATH", "/usr/local/cuda/lib64:" * 12)),
    profile=ProfileInForce("shared-desktop", "~/site-packages/shared-desktop.yaml", "the default"),
)

CALM = Report(
    findings=(Finding("driver.present", "skip", "this machine has no NVIDIA GPU"),),
    made_at="2026-11-21T09:14:00+01:00",
)

HARMFUL = Report(
    findings=(
        Finding(f"id{SCRIPT}", "fail", SCRIPT, (SCRIPT, f"    {SCRIPT}", "\x1b[2J\u202e"), SCRIPT),
    ),
    cards=(
        _BUSY._replace(
            name=IMAGE,
            remarks=(SCRIPT,),
            arithmetic=(SCRIPT,),
            holders=(
                MeasuredHolder(1, SCRIPT, IMAGE, None, SCRIPT, SCRIPT),
                MeasuredHolder(2, "a\udcffb"),
            ),
        ),
    ),
    made_at=SCRIPT,
    command=f"gpuconf doctor '{SCRIPT}'",
    versions=((SCRIPT, IMAGE),),
    environment=((IMAGE, SCRIPT),),
    profile=ProfileInForce(IMAGE, SCRIPT, SCRIPT),
)
