"""Programs that request leases on a machine of NVML's stand-in, and wait in the queue for them."""

from __future__ import annotations

from gpuconf.basics.units import GIB
from tests.machine.cards import standin

CARD = standin.Card(standin.uuid(0), total=8 * GIB, reserved=0)
ONE_CARD = standin.Machine((CARD,))
TWO_CARDS = standin.Machine((CARD, CARD._replace(uuid=standin.uuid(1))))

# What every program begins with: ``asks`` is what a forked child does, which then says what it got.
START = """
import fcntl, os, signal, sys, time
from contextlib import ExitStack
from pathlib import Path
from gpuconf.errors import ShortageError
from gpuconf.session.plans import plan_within
from gpuconf.session.leasing import OwnLeases
from gpuconf.profile import load_profile
from tests.machine.leases.processes import child, descriptors

LEDGER = Path(os.environ["GPUCONF_LEASES"])

def profile(mib, wait="fail", gpus="all"):
    path = Path(f"p{mib}-{gpus}-{wait}.yaml".translate({ord(c): "_" for c in " {}:"}))
    path.write_text(f"gpus: {gpus}\\nmemory: {{memory_limit: {mib}MiB, at_least: {mib}MiB, "
                    f"context: 0MiB, on_shortage: {wait}}}\\n")
    return load_profile(f"./{path}")

def plan(own, chosen):
    return own.plan(lambda read: plan_within(chosen, {}, read=read), profile="p")

def sizes(made):
    return [gpu.lease_bytes and gpu.lease_bytes >> 20 for gpu in made.gpus]

def asks(mib, wait="fail", gpus="all"):
    chosen = profile(mib, wait, gpus)
    def act(self):
        try:
            made = plan(OwnLeases(), chosen)
        except (ShortageError, KeyboardInterrupt) as error:
            self.say(getattr(error, "message", "interrupted").partition("\\n")[0])
        else:
            self.say(f"got {sizes(made)[0]} of {made.gpus[0].gpu.index}")
        self.wait()
    return act

WAITS = "{wait: 1h}"

def files(state=""):
    return sorted(path.name for path in LEDGER.glob(f"*/{state}*"))

def until(condition):
    deadline = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < deadline, files()
        time.sleep(0.01)

def mutex_is_free():
    with open(LEDGER / "mutex") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True

def waiting(count):
    until(lambda: len(files("waits")) == count)
"""
