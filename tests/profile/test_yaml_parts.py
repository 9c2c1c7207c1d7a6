"""PyYAML's parser alone reads what PyYAML reads: the same events and marks, the same complaints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.profile import yaml_parts
from gpuconf.profile.files import shipped_folder
from tests.programs.processes import run

TEXTS = [
    "",
    "a: 1\nb: [x, 'y']\r\nc: |\n  d\n",
    "a: \x85 b\u2028c",
    "\ufeffa: \ufeffb",
    "a: \U0001f600",
    "a: \xa0",
    "a: \x00",
    "a: \x07",
    "a: \x9f\ud800",
    "a: \ufffe",
    "a: [1",
    "a: 'b",
    "a\tb: %",
    "- &x 1\n- *x",
    "--- a\n--- b",
    "%YAML 1.1\n---\n? a\n: b",
    'a: "\\u00e9\\n"',
    "a: b: c",
]


def place(mark: Any) -> object:
    """A mark's place and the line that it shows."""
    return mark and (mark.index, mark.line, mark.column, mark.get_snippet())


def outcome(loader_of: Any, text: str) -> object:
    """The events of ``text`` with their places, or the complaint."""
    try:
        loader = loader_of(text)
        events = []
        while loader.check_event():
            event = loader.get_event()
            fields = {k: v for k, v in vars(event).items() if not k.endswith("_mark")}
            marks = (place(event.start_mark), place(event.end_mark))
            events.append((type(event).__name__, fields, marks))
        return events
    except (yaml.reader.ReaderError, yaml_parts.UnprintableError) as error:
        return error.position
    except (yaml.MarkedYAMLError, yaml_parts.error.MarkedYAMLError) as error:
        return (error.context, place(error.context_mark), error.problem, place(error.problem_mark))
    except Exception as error:  # what int() and chr() raise for escapes
        return (type(error), str(error))


class Alone(yaml_parts.Reader, yaml_parts.scanner.Scanner, yaml_parts.parser.Parser):
    """The parts put together."""

    def __init__(self, text: str) -> None:
        yaml_parts.Reader.__init__(self, text)
        yaml_parts.scanner.Scanner.__init__(self)
        yaml_parts.parser.Parser.__init__(self)


@pytest.mark.parametrize("text", TEXTS)
def test_odd_texts(text: str) -> None:
    """Each line end, mark, forbidden character and mistake is met as PyYAML meets it."""
    assert outcome(Alone, text) == outcome(yaml.SafeLoader, text)


@pytest.mark.parametrize("file", sorted(Path(shipped_folder()).glob("*.yaml")), ids=str)
def test_the_shipped_profiles(file: Path) -> None:
    """What people begin with."""
    text = file.read_text(encoding="utf-8")
    assert outcome(Alone, text) == outcome(yaml.SafeLoader, text)


@given(
    st.text(st.sampled_from("ab:-# \n\r\t\"'[]{},|>&*!%?\\\x85\u2028\ufeff\x07\xa0é0"), max_size=40)
)
def test_any_text(text: str) -> None:
    """Texts of signs that mean something in YAML."""
    assert outcome(Alone, text) == outcome(yaml.SafeLoader, text)


@given(st.characters())
def test_any_character(character: str) -> None:
    """The same characters are refused."""
    assert outcome(Alone, character) == outcome(yaml.SafeLoader, character)


PROGRAM = """
import sys
{before}
from gpuconf.profile import yaml_parts
print("yaml" in sys.modules, yaml_parts.scanner.__name__)
import yaml
print(yaml.safe_load("[1, 2]"))
"""


def printed(before: str) -> str:
    command = [sys.executable, "-c", PROGRAM.format(before=before)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout


def test_yaml_is_left_to_others() -> None:
    """The parts alone are loaded; the program's own `import yaml` finds PyYAML as ever."""
    assert printed("") == "False gpuconf.profile._yaml.scanner\n[1, 2]\n"


@pytest.mark.parametrize(
    "before",
    [
        "import yaml",
        # As a frozen program's importer: it finds yaml, and nothing of it under another name.
        """
class Frozen:
    @staticmethod
    def find_spec(name, path, target=None):
        if name.startswith("gpuconf.profile._yaml."):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Frozen)
""",
    ],
)
def test_pyyamls_own_modules_otherwise(before: str) -> None:
    """Where PyYAML is loaded already, or its files cannot be read, they serve."""
    assert printed(before) == "True yaml.scanner\n[1, 2]\n"


@pytest.mark.parametrize(
    ("files", "before", "said", "hint"),
    [
        (["yaml.py"], "", "yaml.py hides PyYAML", "rename"),
        (["yaml/__init__.py"], "", "__init__.py hides PyYAML", "rename"),
        ([], "from unittest import mock; sys.modules['yaml'] = mock.Mock()", "a module named", ""),
        ([], "sys.modules['yaml'] = None", "PyYAML is not installed", "pip install pyyaml"),
    ],
    ids=["a file", "a folder", "a mock", "none"],
)
def test_where_pyyaml_is_not_there(
    files: list[str], before: str, said: str, hint: str, tmp_path: Path
) -> None:
    """One clear error, for a script that lies beside a yaml.py of its own too."""
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "own.yaml").write_text("extends: shared-desktop\n", encoding="utf-8")
    (tmp_path / "train.py").write_text(f"import sys; {before}\nimport gpuconf.auto\n")
    environ = {"GPUCONF_PROFILE": "./own.yaml"}
    done = run([sys.executable, "train.py"], tmp_path, environ=environ)
    assert done.returncode == 1
    assert said in done.stderr
    assert hint in done.stderr
    assert "Traceback" not in done.stderr
