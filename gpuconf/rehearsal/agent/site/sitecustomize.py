"""Python runs this before the rehearsed program: start the agent, then the user's own file.

It is found because ``gpuconf rehearse`` puts this folder first on PYTHONPATH.  The folder stays
there, so that Python processes which the program starts are rehearsed too.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import sys
import traceback

_FOLDER = os.path.dirname(os.path.abspath(__file__))


class _OurPackage:
    """Finds ``gpuconf`` where ``gpuconf rehearse`` runs from, and nothing else there.

    The program's Python may have none, or another version; a whole site-packages folder of
    another Python must not come in with it.
    """

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self, name: str, _path: object = None, _target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "gpuconf":
            return None
        return importlib.util.spec_from_file_location(
            name,
            os.path.join(self._package, "__init__.py"),
            submodule_search_locations=[self._package],
        )


def _start() -> None:
    folder = os.environ.get("GPUCONF_REHEARSAL")
    if not folder or not os.path.isdir(folder):
        return  # started by hand, or a process that outlived its rehearsal
    with open(os.path.join(folder, "orders.json"), encoding="utf-8") as file:
        orders = json.load(file)
    sys.meta_path.insert(0, _OurPackage(orders["package"]))
    from gpuconf.rehearsal.agent.start import start

    start(folder, orders)


def _run_the_users_own() -> None:
    """Run the ``sitecustomize`` that this one hides; without one, nothing."""
    others = [path for path in sys.path if os.path.abspath(path or ".") != _FOLDER]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    _start()
except Exception:
    # The program must not fail for our sake; the rehearsal sees that no agent reported.
    print("gpuconf rehearse: the agent could not start:", file=sys.stderr)
    traceback.print_exc()
_run_the_users_own()
