"""What a Python of a run does at its start, and at a framework's import: on every Python found."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import gpuconf
from gpuconf.basics.units import GIB
from gpuconf.simcard import Card
from tests.injected.injected_runs import (
    PACKAGE,
    SITE,
    UUID,
    card,
    pythons,
    run_environment,
    run_in,
    variable,
)
from tests.programs.card_clients import STORY
from tests.programs.processes import run_with, write_package
from tests.programs.stand_ins import write_torch

pytestmark = pytest.mark.slow  # starts and waits for many programs

PYTHONS = pythons()
every_python = pytest.mark.parametrize("version", PYTHONS)

MODULES = """
import sys
print(sorted(sys.modules))
"""
HELD = """
import torch
torch.cuda._lazy_init()
print(torch.cuda.fractions)
"""


def test_several_pythons_are_tried() -> None:
    """The one that runs the tests is among them, whatever else is on the machine."""
    assert "{}.{}".format(*sys.version_info) in PYTHONS


@every_python
def test_a_start_loads_nothing(version: str, tmp_path: Path) -> None:
    """Without a framework a start adds one module, our own.

    Where Python has its own sitecustomize, as on Debian, running that needs importlib.util too.
    """
    (tmp_path / "empty").mkdir()
    (tmp_path / "none").mkdir()

    def loaded(text: str | None, folder: Path) -> set[str]:
        environ = {**run_environment(text), "PYTHONPATH": str(folder)}
        return set(eval(run_in(PYTHONS[version], MODULES, environ, tmp_path).stdout))

    hides_another = "sitecustomize" in loaded(None, tmp_path / "none")
    (tmp_path / "empty" / "sitecustomize.py").write_text(
        "import importlib.util" if hides_another else "", encoding="utf-8"
    )
    empty = loaded(None, tmp_path / "empty")
    old = {"imp"} if version == "2.7" else set()
    assert loaded(None, SITE) <= empty | old | {"_gpuconf_injected_site"}
    assert loaded(variable(), SITE) <= empty | old | {"_gpuconf_injected_site"}


@every_python
def test_a_framework_is_held(version: str, tmp_path: Path) -> None:
    """Its limit is set when it starts CUDA, and its own loader is back before its code runs."""
    program = """
    import sys
    here = list(sys.meta_path)
    import torch
    assert "_gpuconf_injected_places" not in sys.modules, "places before CUDA's start"
    torch.cuda._lazy_init()
    assert torch.cuda.fractions == {0: 0.25}, torch.cuda.fractions
    torch.cuda.set_per_process_memory_fraction(0.125, 0)
    assert torch.cuda.fractions == {0: 0.125}, torch.cuda.fractions
    torch.cuda.set_per_process_memory_fraction(0.5, 0)
    assert torch.cuda.fractions == {0: 0.25}, torch.cuda.fractions
    assert torch.loader_while_running in ("SourceFileLoader", "NoneType")
    assert type(here[0]).__module__ in ("sitecustomize", "_gpuconf_injected_site"), here
    assert "gpuconf.session.configure" not in sys.modules
    import torch.cuda
    if sys.version_info[0] > 2:
        from importlib import reload
    reload(torch)
    print(sys.path[0:1] + ["done"])
    """
    environ = run_environment(variable(), write_torch(tmp_path))
    done = run_in(PYTHONS[version], program, environ, tmp_path)
    assert (done.returncode, done.stdout) == (0, "['', 'done']\n"), done.stderr
    held = (
        "set_per_process_memory_fraction of cuda:0: requested 0.5, got 0.25: the run allows no more"
    )
    assert done.stderr == f"gpuconf: {held}\n"


@every_python
def test_no_finder_gets_past(version: str, tmp_path: Path) -> None:
    """Another finder in front of ours, which answers for the framework itself, changes nothing."""
    program = """
    import sys
    class InFront(object):
        def find_spec(self, name, path=None, target=None):
            if name == "torch":
                from importlib.machinery import PathFinder
                return PathFinder.find_spec(name, path)
        def find_module(self, name, path=None):
            return None
    sys.meta_path.insert(0, InFront())
    if sys.version_info < (3, 8):
        import colorsys  # any import will do; from 3.8 on not even that is needed
    import torch.cuda
    torch.cuda._lazy_init()
    print(torch.cuda.fractions)
    """
    environ = run_environment(variable(), write_torch(tmp_path))
    done = run_in(PYTHONS[version], program, environ, tmp_path)
    assert (done.stdout, done.stderr) == ("{0: 0.25}\n", "")


@every_python
def test_threads_import_at_once(version: str, tmp_path: Path) -> None:
    """Each of eight threads gets the one module, held; none waits for ever."""
    program = """
    import threading
    seen = []
    def work():
        import torch.cuda
        torch.cuda._lazy_init()
        seen.append(id(torch))
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join(60)
    import torch
    print([len(seen), set(seen) == {id(torch)}, torch.cuda.fractions])
    """
    environ = run_environment(variable(), write_torch(tmp_path))
    done = run_in(PYTHONS[version], program, environ, tmp_path)
    assert (done.stdout, done.stderr) == ("[8, True, {0: 0.25}]\n", "")


@every_python
def test_workers_are_held(version: str, tmp_path: Path) -> None:
    """Forked and spawned workers, and a bash script's two Pythons, are held like the program."""
    write_torch(tmp_path)
    (tmp_path / "held.py").write_text(HELD, encoding="utf-8")
    work = """
    import multiprocessing, sys
    def work(_):
        import torch
        torch.cuda._lazy_init()
        return torch.cuda.fractions[0]
    if __name__ == "__main__":
        kinds = [multiprocessing]
        if sys.version_info[0] > 2:
            kinds = [multiprocessing.get_context(kind) for kind in ("fork", "spawn")]
        for kind in kinds:
            pool = kind.Pool(1)
            print(pool.map(work, [0]))
            pool.close()
            pool.join()
    """
    (tmp_path / "work.py").write_text(dedent(work), encoding="utf-8")
    script = tmp_path / "train.sh"
    python = PYTHONS[version]
    script.write_text(f"{python} held.py\n(cd /; {python} {tmp_path}/work.py)\n", encoding="utf-8")
    environ = run_environment(variable(), tmp_path)
    done = run_with(["bash", str(script)], environ, tmp_path, timeout_s=120)
    pools = 1 if version == "2.7" else 2
    assert (done.stdout, done.stderr) == ("{0: 0.25}\n" + pools * "[0.25]\n", "")


@every_python
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("not JSON", "GPUCONF_RUN cannot be read"),
        ('{"format": 2}', "GPUCONF_RUN has the format 2, but this version of gpuconf reads 1"),
        ('{"format": 1, "plan": {}}', "GPUCONF_RUN cannot be read: KeyError"),
        ("[]", "GPUCONF_RUN has the format"),
    ],
)
def test_an_unreadable_plan_ends_the_process(
    version: str, text: str, reason: str, tmp_path: Path
) -> None:
    """With one message, when a framework is imported and not before, whatever is caught."""
    program = """
    import sys
    print("started")
    try:
        import torch
    except BaseException:
        pass
    print("has gone on")
    """
    environ = run_environment(text, write_torch(tmp_path))
    done = run_in(PYTHONS[version], program, environ, tmp_path)
    assert (done.returncode, done.stdout) == (1, "started\n")
    first, second, third = done.stderr.splitlines()
    assert first.startswith(f"gpuconf run: {reason}")
    assert second == "  the program was stopped: its GPU memory could not be limited"
    assert third.startswith("  hint: ")


@every_python
def test_a_broken_start_ends_the_process(version: str, tmp_path: Path) -> None:
    """Where `site` would print an error and run the program without limits."""
    shutil.copytree(PACKAGE / "injected", tmp_path / "injected")
    file = tmp_path / "injected" / "site" / "sitecustomize.py"
    source = file.read_text(encoding="utf-8")
    broken = source.replace("def _start():\n", "def _start():\n    raise OSError('broken')\n")
    assert broken != source
    file.write_text(broken, encoding="utf-8")
    environ = {**run_environment(variable()), "PYTHONPATH": str(file.parent)}
    done = run_in(PYTHONS[version], "print('has run')", environ, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("gpuconf run: ")
    assert "broken\n  the program was stopped: " in done.stderr

    file.write_text(source, encoding="utf-8")
    (tmp_path / "injected" / "imports.py").unlink()
    environ["PYTHONPATH"] += f":{write_torch(tmp_path)}"
    done = run_in(PYTHONS[version], "import torch; print('has run')", environ, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "imports.py" in done.stderr.splitlines()[0]


@every_python
def test_the_users_own_sitecustomize_runs(version: str, tmp_path: Path) -> None:
    """Under its own name; what it raises is Python's to report, and its imports are held."""
    write_torch(tmp_path / "lib")
    own = "import torch\ntorch.cuda._lazy_init()\nmark = __name__, __file__\n"
    write_package(tmp_path, {"own/sitecustomize.py": own})
    program = (
        "import sitecustomize, torch; print(sitecustomize.mark[0]); print(torch.cuda.fractions)"
    )
    environ = run_environment(variable(), tmp_path / "own", tmp_path / "lib")
    done = run_in(PYTHONS[version], program, environ, tmp_path)
    assert (done.stdout, done.stderr) == ("sitecustomize\n{0: 0.25}\n", "")

    write_package(tmp_path, {"own/sitecustomize.py": "raise ValueError('of the user')\n"})
    environ = run_environment(variable(), tmp_path / "own", tmp_path / "lib")
    done = run_in(PYTHONS[version], HELD, environ, tmp_path)
    alone = run_in(PYTHONS[version], "", {**environ, "PYTHONPATH": str(tmp_path / "own")}, tmp_path)
    assert done.stdout == "{0: 0.25}\n"
    assert done.stderr == alone.stderr
    assert "sitecustomize" in done.stderr


@every_python
def test_folders_that_run_each_other(version: str, tmp_path: Path) -> None:
    """A folder whose sitecustomize runs the first one that it finds elsewhere, as `gpuconf
    rehearse` does, works before and behind ours, and the user's own runs once."""
    if version == "2.7":
        chain = """
        import imp
        found = imp.find_module("sitecustomize", others)
        imp.load_module("sitecustomize", *found)
        """
    else:
        chain = """
        import importlib.machinery, importlib.util
        spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)
        """
    other = """
    import os, sys
    print("other")
    here = os.path.dirname(os.path.abspath(__file__))
    others = [path for path in sys.path if os.path.abspath(path) != here]
    """
    files = {
        "other/sitecustomize.py": dedent(other) + dedent(chain),
        "own/sitecustomize.py": "print('own')\n",
    }
    write_package(tmp_path, files)
    lib = write_torch(tmp_path / "lib")
    for first, second in ((SITE, tmp_path / "other"), (tmp_path / "other", SITE)):
        environ = run_environment(variable())
        environ["PYTHONPATH"] = f"{first}:{second}:{tmp_path / 'own'}:{lib}"
        done = run_in(PYTHONS[version], HELD, environ, tmp_path)
        assert (done.stdout, done.stderr) == ("other\nown\n{0: 0.25}\n", "")


@every_python
def test_places_are_counted_where_cuda_starts(version: str, tmp_path: Path) -> None:
    """The second process of one place gets the error in the program, which can go on later."""
    program = """
    import os, torch
    ready_end, ready = os.pipe()
    go_end, go = os.pipe()
    if os.fork() == 0:
        torch.cuda._lazy_init()
        os.write(ready, b"x")
        os.read(go_end, 1)
        os._exit(0)
    os.read(ready_end, 1)
    try:
        torch.cuda._lazy_init()
    except RuntimeError as error:
        print(type(error).__name__ + " " + str(error).splitlines()[1])
    os.write(go, b"x")
    os.wait()
    torch.cuda._lazy_init()
    print(torch.cuda.fractions)
    """
    (tmp_path / "lease").touch()
    text = variable(leases={UUID.format(0): str(tmp_path / "lease")})
    environ = run_environment(text, write_torch(tmp_path))
    done = run_in(PYTHONS[version], program, environ, tmp_path)
    error, held = done.stdout.splitlines()
    assert error.startswith("NoPlaceError   hint: `gpuconf run --processes 2 -- ...`")
    assert (held, done.stderr) == ("{0: 0.25}", "")


@every_python
def test_gpuconf_takes_over_where_it_can(version: str, tmp_path: Path) -> None:
    """In Python 3.10 or newer, which need not have what gpuconf depends on; else our code holds."""
    program = """
    import sys, torch
    loaded = sys.modules.get("gpuconf.session.configure")
    full = loaded and loaded.activation()
    ours = [f for f in sys.meta_path if type(f).__name__ == "Finder" and hasattr(f, "stay_first")]
    print("full" if full else "own", len(ours))
    torch.cuda._lazy_init()
    """
    environ = run_environment(variable(version=gpuconf.__version__), write_torch(tmp_path))
    done = run_in(PYTHONS[version], program, environ, tmp_path)
    is_new = tuple(map(int, version.split("."))) >= (3, 10)
    expected = "full 0" if is_new else "('own', 1)" if version == "2.7" else "own 1"
    assert (done.stdout.strip(), done.returncode) == (expected, 0), done.stderr


def test_what_gpuconf_refuses_the_import_raises(tmp_path: Path) -> None:
    """On every try, and nothing is imported without limits."""
    program = """
    import sys
    for _ in range(2):
        try:
            import torch
        except Exception as error:
            print(type(error).__name__, "torch" in sys.modules)
    """
    more = {"GPUCONF_DISABLE": "perhaps"}  # which is an error of the user's
    environ = run_environment(
        variable(version=gpuconf.__version__), write_torch(tmp_path), more=more
    )
    done = run_in(sys.executable, program, environ, tmp_path)
    assert done.stdout == 2 * "UsageError False\n", done.stderr


def test_an_error_of_ours_ends_the_process(tmp_path: Path) -> None:
    """A bug of gpuconf's is no reason to go on without a limit."""
    program = """
    import gpuconf.session.configure as session
    def configure():
        raise RuntimeError("broken")
    session.configure = configure
    import torch
    print("not ended")
    """
    environ = run_environment(variable(version=gpuconf.__version__), write_torch(tmp_path))
    done = run_in(sys.executable, program, environ, tmp_path)
    assert (done.stdout, done.returncode) == ("", 1)
    assert "RuntimeError: broken\n  the program was stopped: " in done.stderr


@every_python
def test_the_smallest_gpu_of_the_driver(version: str, tmp_path: Path, two_cards: Card) -> None:
    """None where there is no driver; for a plan that was made without figures."""
    program = """
    import sys
    site = sys.modules["_gpuconf_injected_site"]
    print(site.load("driver").smallest_total_bytes())
    """
    bare = run_environment(variable())
    environs = bare, two_cards.environment(bare)
    said = [run_in(PYTHONS[version], program, each, tmp_path).stdout for each in environs]
    assert said == ["None\n", f"{STORY.total_bytes}\n"]


@every_python
def test_a_narrowed_choice_of_gpus(version: str, tmp_path: Path) -> None:
    """Of unequal GPUs the part of the one that is left; a GPU outside the run is not given."""
    cards = card(1, 2 * GIB), card(2, 1 * GIB)
    program = """
    import os
    os.environ["CUDA_VISIBLE_DEVICES"] = {!r}
    import torch
    torch.cuda._lazy_init()
    print(torch.cuda.fractions)
    print(os.environ["CUDA_VISIBLE_DEVICES"])
    """
    lib = write_torch(tmp_path)
    environ = run_environment(variable(*cards, cuda_visible_devices="1,2"), lib)
    for asked, share, given in (
        ("1", 0.25, "1"),
        ("2", 0.125, "2"),
        (UUID.format(2), 0.125, UUID.format(2)),
        ("1,2", 0.125, "1,2"),  # one device is all that this torch has
        ("0", 0.25, UUID.format(1)),
        ("0,2", 0.125, UUID.format(2)),
    ):
        done = run_in(PYTHONS[version], dedent(program.format(asked)), environ, tmp_path)
        assert done.stdout.splitlines() == [f"{{0: {share}}}", given], done.stderr
        said = "the program sets" in done.stderr
        assert said == (asked.startswith("0"))
