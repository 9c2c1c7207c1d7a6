"""Starts the agent of `gpuconf rehearse` in a program.  A failure does not affect the program."""

import json
import os
import sys
import traceback

_site = sys.modules["_gpuconf_injected_site"]


def start(folder):
    """Start the agent described by the orders in ``folder``.

    Does nothing without orders: the program was started by hand, or has outlived its rehearsal.
    """
    try:
        if os.path.isdir(folder):
            _start(folder)
    except Exception:
        # The program must not fail because of this; the rehearsal notices that no agent reported.
        sys.stderr.write("gpuconf rehearse: the agent could not start:\n")
        traceback.print_exc()


def _start(folder):
    with open(os.path.join(folder, "orders.json"), "rb") as file:
        orders = json.loads(file.read().decode("utf-8"))
    sys.meta_path.insert(0, _site.load("package").OurPackage(orders["package"]))
    import importlib

    importlib.import_module(orders["agent"]).start(folder, orders)
