"""Whose code runs, and where the script lies, in fresh processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuconf.basics.callsite import is_installed
from tests.programs.processes import finding, run, run_python, write_package


@pytest.mark.parametrize("name", ["None", "7", "''"])
def test_code_without_a_name(name: str, tmp_path: Path) -> None:
    """exec() with globals of one's own may name no module, or no text: still a call site."""
    program = f"""
from gpuconf.basics.callsite import user_call_site
found = {{}}
exec(compile("found['site'] = user_call_site()", "made-up.py", "exec"),
     {{"__name__": {name}, "found": found, "user_call_site": user_call_site}})
assert str(found["site"]) == "made-up.py:1", found
"""
    run_python(program, tmp_path)


def test_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies in Python's folder; a folder whose name only begins alike is a project's."""
    monkeypatch.setattr(sys, "base_prefix", "/home/me/conda")
    assert is_installed("/home/me/conda/lib/python3.11/ast.py")
    assert is_installed("/else/site-packages/numpy/core.py")
    assert not is_installed("/home/me/conda-projects/train.py")


SHOW = "from gpuconf.basics.callsite import main_script_folder\nprint(main_script_folder())\n"


def test_the_main_scripts_folder(tmp_path: Path) -> None:
    """A script, by whatever path, a package's __main__, a spawned child; none for -c and stdin."""
    spawns = """
        import multiprocessing
        from gpuconf.basics.callsite import main_script_folder
        def show():
            print(main_script_folder())
        if __name__ == "__main__":
            process = multiprocessing.get_context("spawn").Process(target=show)
            process.start()
            process.join()
        """
    files = {"sub/train.py": SHOW, "package/__main__.py": SHOW, "sub/spawns.py": spawns}
    write_package(tmp_path, files)
    expected = {
        ("sub/train.py",): str(tmp_path / "sub"),
        ("-m", "package"): str(tmp_path / "package"),
        ("sub/spawns.py",): str(tmp_path / "sub"),
        ("-c", SHOW): "None",
    }
    for arguments, folder in expected.items():
        done = run([sys.executable, *arguments], tmp_path)
        assert done.stdout.strip() == folder, (arguments, done.stderr)


def test_an_installed_command_has_no_project(tmp_path: Path) -> None:
    """A console script lies next to Python itself: no folder of the user's."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").write_text(SHOW)
    program = f"""
import runpy, sys
sys.prefix = {str(tmp_path)!r}
runpy.run_path({str(tmp_path / "bin" / "tool")!r}, run_name="__main__")
"""
    done = run([sys.executable, "-c", program], tmp_path)
    assert done.stdout.strip() == "None", done.stderr


@pytest.mark.parametrize(
    "folder", ["project/.venv/lib/python3/site-packages", "lib/python3/dist-packages"]
)
def test_an_installed_package_has_no_project(folder: str, tmp_path: Path) -> None:
    """`python -m tool`: the project is where the user is, not where the environment lies."""
    write_package(tmp_path, {f"{folder}/tool/__main__.py": SHOW})
    environ = finding(tmp_path / folder)
    done = run([sys.executable, "-m", "tool"], tmp_path, environ=environ)
    assert done.stdout.strip() == "None", done.stderr
