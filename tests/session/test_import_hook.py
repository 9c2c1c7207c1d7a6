"""The import hook, each time in a fresh process with small packages made for the occasion."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.processes import run_python, write_package

PACKAGE = {
    "x/__init__.py": """
        import builtins
        builtins.runs = getattr(builtins, "runs", 0) + 1
        from x import sub
        value = 1
        def function():
            return 2
        """,
    "x/sub.py": "y = 3\n",
    "x/late.py": "z = 4\n",
    "x/data.txt": "some data\n",
}

# What every program begins with: x hooked, the calls of the hook counted.
HEAD = """
import importlib.machinery, sys
from gpuconf.session.import_hook import on_import, hooks
forget = hooks.drop
def is_running(name): return name in hooks.running

calls = []
"""
START = f"""{HEAD}
on_import("x", calls.append)
assert "x" not in sys.modules
"""
# The same with a hook that always raises.
START_REFUSED = f"""{HEAD}
def refuse(module):
    calls.append(module)
    raise RuntimeError("no limits, no import")
on_import("x", refuse)
def refused(statement):
    try:
        exec(statement, {{}})
    except RuntimeError as error:
        assert str(error) == "no limits, no import"
        assert "x" not in sys.modules
        return True
    return False
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the package ``x`` in it."""
    write_package(tmp_path, PACKAGE)
    return tmp_path


STATEMENTS = (
    "import x",
    "import x as other",
    "from x import value",
    "import x.sub",
    "from x.sub import y",
    "from x.late import z",
    "from x import *",
    "import importlib; importlib.import_module('x')",
    "import importlib; importlib.import_module('.late', 'x')",
    "__import__('x.late')",
    "import uses_x",
    "import lazy; lazy.x.value",
    "import pkgutil; pkgutil.resolve_name('x.late:z')",
)


def test_every_way_of_importing_calls_the_hook_once(folder: Path) -> None:
    """Whatever statement brings the module in, the hook gets it, run to its end, once."""
    lazy = "import importlib\ndef __getattr__(name):\n    return importlib.import_module(name)\n"
    write_package(folder, {"uses_x.py": "from x.sub import y\n", "lazy.py": lazy})
    program = f"""
import os
def check(statement):
    exec(statement, {{}})
    assert calls == [sys.modules["x"]], calls
    assert calls[0].value == 1
    exec(statement, {{}})
    import x, x.late
    assert len(calls) == 1
    assert runs == 1
    assert x.late.z == 4
for statement in {STATEMENTS}:
    child = os.fork()  # nothing of x is imported here, so each child is as good as new
    if not child:
        check(statement)
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0, statement
"""
    run_python(START + program, folder)


def test_the_module_is_as_if_nobody_had_hooked_it(folder: Path) -> None:
    """Its own loader is back: data files, source, pickling, reload and find_spec work."""
    program = """
import importlib.machinery, importlib.resources, importlib.util, inspect, pickle, pkgutil
spec = importlib.util.find_spec("x")
assert spec.origin.endswith("__init__.py")
assert spec.submodule_search_locations
assert spec.loader.is_package("x")
assert "builtins.runs" in spec.loader.get_source("x")
assert "x" not in sys.modules and not calls
import x
Real = importlib.machinery.SourceFileLoader
assert type(x.__loader__) is Real
assert type(x.__spec__.loader) is Real
assert x.__spec__.name == "x" and x.__spec__.parent == "x"
assert importlib.util.find_spec("x") is x.__spec__
assert importlib.resources.files("x").joinpath("data.txt").read_text() == "some data\\n"
assert pkgutil.get_data("x", "data.txt") == b"some data\\n"
assert "return 2" in inspect.getsource(x.function)
assert "builtins.runs" in inspect.getsource(x)
assert pickle.loads(pickle.dumps(x.function)) is x.function
assert importlib.reload(x) is x
assert type(x.__loader__) is Real
assert (runs, len(calls)) == (2, 2)
assert {m.name for m in pkgutil.iter_modules(x.__path__)} == {"sub", "late"}
"""
    run_python(START + program, folder)


def test_a_hook_that_raises_fails_every_import(folder: Path) -> None:
    """Every later import of the module calls the hook again, and never runs the module's code.

    A submodule that was loaded on the way is in ``sys.modules``, and Python looks no further.
    """
    program = """
for statement in ("import x", "import x", "import x.sub", "from x import sub",
                  "from x.late import z", "import importlib; importlib.import_module('x.late')"):
    before = len(calls)
    assert refused(statement), statement
    assert len(calls) == before + 1, statement
assert not refused("from x.sub import y") and "x" not in sys.modules
assert runs == 1
"""
    run_python(START_REFUSED + program, folder)


def test_after_a_better_hook_the_import_works(folder: Path) -> None:
    """The module that was refused comes back as it was: code is not run again."""
    program = """
assert refused("from x.late import z")
assert refused("import x")
on_import("x", calls.append)
assert len(calls) == 2
import x
import x.late
assert calls[1:] == [calls[0], x]
assert calls[0] is x
assert runs == 1
assert x.sub is sys.modules["x.sub"]
assert (x.sub.y, x.late.z) == (3, 4)
assert type(x.__loader__) is type(x.__spec__.loader) is importlib.machinery.SourceFileLoader
"""
    run_python(START_REFUSED + program, folder)


def test_forgetting_a_hook_that_refused(folder: Path) -> None:
    """With no hook any more the import goes through, and does not run the code again."""
    program = """
assert refused("import x")
forget("x")
import x.sub
assert (runs, len(calls), x.sub.y) == (1, 1, 3)
"""
    run_python(START_REFUSED + program, folder)


def test_a_module_whose_own_code_raises_is_run_again(folder: Path) -> None:
    """A failure of the module itself stays its own: the hook is not called, a retry runs it."""
    write_package(folder, {"x/__init__.py": "import builtins\nbuiltins.tries\nvalue = 1\n"})
    program = """
import builtins
try:
    import x
except AttributeError:
    pass
assert not calls and not is_running("x") and "x" not in sys.modules
builtins.tries = 1
import x
assert calls == [x]
"""
    run_python(START + program, folder)


def test_a_module_that_is_imported_already(folder: Path) -> None:
    """The hook is called at once, in on_import itself; what it raises comes out there."""
    program = """
import x
on_import("x", calls.append)
assert calls == [x]
import x
assert calls == [x]
def refuse(module):
    raise RuntimeError("too late")
try:
    on_import("x", refuse)
except RuntimeError:
    assert sys.modules["x"] is x
else:
    raise AssertionError
"""
    run_python(HEAD + program, folder)


def test_imports_from_within_the_hook(folder: Path) -> None:
    """A hook may import its own module, a submodule, and another hooked module."""
    write_package(folder, {"other.py": "value = 5\n"})
    program = """
order = []
def hook(module):
    order.append("x begins")
    assert not is_running("x")
    import x, x.late, other
    assert x is module and x.late.z == 4
    order.append("x ends")
on_import("x", hook)
on_import("other", lambda module: order.append(f"other {module.value}"))
import x
assert order == ["x begins", "other 5", "x ends"], order
"""
    run_python(HEAD + program, folder)


def test_hooking_a_module_while_its_code_runs(folder: Path) -> None:
    """on_import from within the module's own import waits for its end."""
    source = """
        from gpuconf.session.import_hook import hooks, on_import
        def is_running(name): return name in hooks.running
        import late_hook
        assert is_running("x")
        on_import("x", late_hook.calls.append)
        assert not late_hook.calls
        value = 1
        """
    write_package(folder, {"x/__init__.py": source, "late_hook.py": "calls = []\n"})
    program = "import x, late_hook\nassert late_hook.calls == [x] and not calls\n"
    run_python(START + program, folder)


def test_threads_that_import_at_once(folder: Path) -> None:
    """No deadlock, and one call; each thread gets the module after its hook is done."""
    source = "import time\ntime.sleep(0.05)\nfrom x import sub\nvalue = 1\n"
    write_package(folder, {"x/__init__.py": source})
    program = """
import sys, threading, time
from gpuconf.session.import_hook import on_import
calls, seen = [], []
def hook(module):
    time.sleep(0.05)
    thread = threading.Thread(target=lambda: __import__("json.tool"))  # a lock held would stop it
    thread.start()
    thread.join()
    calls.append(module)
on_import("x", hook)
def work(name):
    module = __import__(name, fromlist=["*"])
    seen.append((module.__name__, len(calls)))
threads = [threading.Thread(target=work, args=("x",)) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert seen == [("x", 1)] * 8, seen
"""
    run_python(program, folder, timeout_s=20)


def test_threads_that_are_refused(folder: Path) -> None:
    """No deadlock and no second run; whoever imports once a refusal is over is refused too.

    (A thread that waits for the very import that is refused gets the module from CPython, which
    does not look again after the wait; so only the first of them is asserted on.)
    """
    program = """
import threading
outcomes = []
def work():
    try:
        import x
    except RuntimeError:
        outcomes.append("refused")
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert "refused" in outcomes
assert refused("import x") and refused("from x.late import z")
assert runs == 1
"""
    run_python(START_REFUSED + program, folder, timeout_s=20)


FINDER = """
import importlib.machinery, importlib.util
class Loader:
    def __init__(self, loader):
        self.loader = loader
    def create_module(self, spec):
        return self.loader.create_module(spec)
    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        notified.append(module.__name__)
class Finder:  # as wrapt's: asks everybody by importlib.util.find_spec, which comes back to it
    busy = False
    def find_spec(self, name, path, target=None):
        if self.busy or name not in ("x", "other"):
            return None
        self.busy = True
        try:
            importlib.util.find_spec("other")  # a finder may look for something else meanwhile
            spec = importlib.util.find_spec(name)
        finally:
            self.busy = False
        spec.loader = Loader(spec.loader)
        return spec
notified = []
"""


@pytest.mark.parametrize("place", ["0", "1", "len(sys.meta_path)"])
def test_another_finder_that_wraps_loaders(place: str, folder: Path) -> None:
    """Before us, behind us, or last: both hooks are called once, the real loader is back."""
    write_package(folder, {"other.py": "value = 5\n"})
    program = f"""
on_import("other", calls.append)
sys.meta_path.insert({place}, Finder())
import x
assert calls == [x], calls
assert notified == (["x"] if {place} < 2 else []), notified
assert type(x.__loader__) is importlib.machinery.SourceFileLoader
import other
assert calls == [x, other]
"""
    run_python(START + FINDER + program, folder)


def test_a_lazy_loader(folder: Path) -> None:
    """importlib's LazyLoader puts the code off to the first attribute: so is the hook."""
    program = """
import importlib.util
spec = importlib.util.find_spec("x")
spec.loader = importlib.util.LazyLoader(spec.loader)
x = importlib.util.module_from_spec(spec)
sys.modules["x"] = x
spec.loader.exec_module(x)
assert not calls
assert x.value == 1
assert calls == [x] and runs == 1
assert type(x.__loader__) is importlib.machinery.SourceFileLoader
"""
    run_python(START + program, folder)


def test_what_cannot_be_hooked_can_still_be_imported(folder: Path) -> None:
    """A namespace package has no code and no hook; what is missing stays a plain error."""
    write_package(folder, {"plain/inner.py": "value = 6\n"})
    program = """
import importlib.util
for name in ("plain", "missing", "sys", "math"):
    on_import(name, calls.append)
assert [module.__name__ for module in calls] == ["sys", "math"]
import plain.inner
assert plain.inner.value == 6
assert importlib.util.find_spec("missing") is None
try:
    import missing.sub
except ModuleNotFoundError as error:
    assert error.name == "missing"
else:
    raise AssertionError
"""
    run_python("import math\n" + START + program, folder)


def test_a_module_that_puts_another_object_in_its_place(folder: Path) -> None:
    """The hook gets what the importer gets, and after a refusal the same object comes back."""
    source = """
        import sys, types
        value = 1
        other = types.ModuleType("x")
        other.value = 7
        sys.modules["x"] = other
        """
    write_package(folder, {"x/__init__.py": source})
    program = """
assert refused("import x")
on_import("x", calls.append)
import x
assert x.value == 7
assert calls == [x, x]
"""
    run_python(START_REFUSED + program, folder)


def test_an_extension_module(folder: Path) -> None:
    """Modules of the C library's loader are hooked too."""
    program = """
import importlib, sys
from gpuconf.session.import_hook import on_import
calls = []
name = next(n for n in ("_lsprof", "_elementtree", "_ssl") if n not in sys.modules)
on_import(name, calls.append)
module = importlib.import_module(name)
assert calls == [module]
"""
    run_python(program, folder)


def test_what_comes_before_a_modules_code(folder: Path) -> None:
    """Called before the code runs; what it raises, every import raises, and no code has run."""
    program = """
import builtins
from gpuconf.session.import_hook import on_import
order = []
def before():
    assert not hasattr(builtins, "runs")
    order.append("before")
    if len(order) < 3:
        raise RuntimeError("no plan, no import")
on_import("x", lambda module: order.append(module.value), before=before)
for _ in range(2):
    try:
        import x
    except RuntimeError:
        assert "x" not in sys.modules
    else:
        raise AssertionError
import x
assert order == ["before", "before", "before", 1]
"""
    run_python("import sys\n" + program, folder)
