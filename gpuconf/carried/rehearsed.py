"""In a program of `gpuconf rehearse`: start its agent.  A failure leaves the program alone."""

import json
import os
import sys
import traceback

_site = sys.modules["_gpuconf_carried_site"]


def start(folder):
    """Start the agent that is named in the orders in ``folder``.

    Without them this was started by hand, or the process has outlived its rehearsal.
    """
    try:
        if os.path.isdir(folder):
            _start(folder)
    except Exception:
        # The program must not fail for our sake; the rehearsal sees that no agent reported.
        sys.stderr.write("gpuconf rehearse: the agent could not start:\n")
        traceback.print_exc()


def _start(folder):
    with open(os.path.join(folder, "orders.json"), "rb") as file:
        orders = json.loads(file.read().decode("utf-8"))
    sys.meta_path.insert(0, _site.load("package").OurPackage(orders["package"]))
    import importlib

    importlib.import_module(orders["agent"]).start(folder, orders)
