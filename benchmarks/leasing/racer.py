"""One tiny program on the GPU: a plan with its lease, a context, memory in steps, the end.

There is no framework: it calls the driver as a framework would.  Events are written to a
descriptor, one JSON document per line.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.leasing.sudden_death import Death, arm
from gpuconf.basics.units import MIB
from gpuconf.machine.cards import Inventory
from gpuconf.planner import GpuPlan, Plan
from gpuconf.profile import Profile, load_profile
from gpuconf.session.leasing import OwnLeases
from gpuconf.session.plans import plan_within
from gpuconf.session.waiting import wait_for_plan

CONTEXT_MIB = 300
WANTED_MIB = (500, 700, 1000, 2000)
_FIRST_STEP_BYTES = 32 * MIB
_PROFILE = """
memory:
  allow_growth: true
  memory_limit: {limit}MiB
  keep_free: 256MiB
  context: {context}MiB
  at_least: 400MiB
  on_shortage: {{wait: forever}}
  lease: {lease}
"""
_write, _open = os.write, os.open  # saved before a death is armed


class Task(NamedTuple):
    """The task of one racer; ``with_lease`` is False to do the same without the ledger."""

    seed: int
    with_lease: bool
    death: Death


def profiles(folder: Path, *, with_lease: bool) -> list[Profile]:
    """Profiles of programs with larger and smaller limits, from files made in ``folder``."""
    made = []
    for limit in WANTED_MIB:
        file = folder / f"race{limit}.yaml"
        lease = str(with_lease).lower()
        text = _PROFILE.format(limit=limit, context=CONTEXT_MIB, lease=lease)
        file.write_text(text, encoding="utf-8")
        made.append(load_profile(str(file)))
    return made


class Racer:
    """A racer in its own process, once the gate is open."""

    def __init__(self, task: Task, profile: Profile, log: int) -> None:
        self._task = task
        self._profile = profile
        self._log = log
        self._chance = random.Random(task.seed)
        self._mutex_waits_s: list[float] = []
        self._leases = OwnLeases()

    def run(self) -> None:
        """Plan, take the memory in steps, work, end; log each event."""
        arm(self._task.death)
        began, began_cpu = time.perf_counter(), time.process_time()
        card = self._plan().gpus[0]
        self._say(
            "granted",
            size_bytes=(card.limit_bytes or 0) + CONTEXT_MIB * MIB,
            others_bytes=sum(each.lease_bytes for each in card.gpu.leases),
            mutex_waits_s=self._mutex_waits_s,
            wall_s=time.perf_counter() - began,
            cpu_s=time.process_time() - began_cpu,
        )
        time.sleep(self._chance.uniform(0, 0.3))  # loading data before using the GPU
        self._say("end", refused=not self._grow(card))
        if not self._task.death.is_natural:
            time.sleep(5)

    def _plan(self) -> Plan:
        def make(read: Callable[[], Inventory] | None = None) -> Plan:
            ledger = self._leases._ledger
            if ledger is not None:
                self._mutex_waits_s.append(ledger.mutex.waited_s)
            return plan_within(self._profile, {}, read=read)

        if not self._task.with_lease:
            return wait_for_plan(make, sleep=lambda _: time.sleep(0.05))
        plan = self._leases.plan(make, profile="race")
        if plan.gpus[0].lease_bytes is None or any("leased" in note for note in plan.notes):
            self._say("unleased", notes=plan.notes)
        return plan

    def _grow(self, card: GpuPlan) -> bool:
        """Take a context and then the whole limit, step by step; False if one is refused."""
        driver = ctypes.CDLL("libcuda.so.1")
        device, context, place = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
        if (
            driver.cuInit(0)
            or driver.cuDeviceGet(ctypes.byref(device), 0)
            or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
            or driver.cuCtxSetCurrent(context)
        ):
            return False
        left, step = card.limit_bytes or 0, _FIRST_STEP_BYTES
        while left > 0:
            part = min(step, left)
            if driver.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(part)):
                return False
            left, step = left - part, step * 2
            time.sleep(self._chance.uniform(0, 0.03))
        time.sleep(self._chance.uniform(0, 0.2))
        return True

    def _say(self, event: str, **facts: Any) -> None:
        line = {"event": event, "pid": os.getpid(), "at_s": time.monotonic(), **facts}
        _write(self._log, (json.dumps(line) + "\n").encode())
