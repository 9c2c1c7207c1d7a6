"""The card file, seen from Python."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import sys
from pathlib import Path

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.errors import BackendError, UsageError
from gpuconf.simcard import Card, CardSpec, create_card, simulated_card
from gpuconf.simcard.__main__ import main
from tests.programs.processes import Start

pytestmark = pytest.mark.slow  # starts many programs


def test_a_card_says_what_it_was_made_of(libraries: Path, tmp_path: Path) -> None:
    """Every field of the spec comes back from the file, to the byte."""
    spec = CardSpec(
        total_bytes=5 * GIB + 1,
        used_bytes=3,
        count=2,
        name="Simulated card, tested",
        compute_capability="12.0",
        driver_version="535.1",
        cuda_version=(12, 2),
        context_bytes=7 * MIB,
    )
    card = create_card(tmp_path / "card", spec)
    assert card.describe() == spec
    assert card.libraries == libraries
    assert [card.used_bytes(index) for index in range(2)] == [3, 3]
    assert card.free_bytes() == 5 * GIB - 2
    assert card.processes() == ()


def test_the_default_card_is_called_simulated() -> None:
    """Nobody can take its name, in a log or in nvidia-ml-py, for that of a real GPU."""
    assert "simulated" in CardSpec().name.lower()


@pytest.mark.parametrize(
    ("spec", "said", "option"),
    [
        (CardSpec(total_bytes=0), "cannot have 0 bytes of memory", "--total"),
        (CardSpec(total_bytes=GIB, used_bytes=2 * GIB), "used memory is 2048 MiB", "--used"),
        (CardSpec(used_bytes=-1), "used memory", "--used"),
        (CardSpec(count=0), "1 to 16", "--count"),
        (CardSpec(count=17), "1 to 16", "--count"),
        (CardSpec(compute_capability="8"), "compute capability '8'", "--compute-capability"),
        (CardSpec(name=""), "name", "--name"),
        (CardSpec(name="x" * 96), "95 bytes; this one has 96", "--name"),
        (CardSpec(driver_version="1" * 32), "31 bytes; this one has 32", "--driver-version"),
    ],
)
def test_an_impossible_card_is_refused(
    libraries: Path,  # noqa: ARG001  # for its skip
    tmp_path: Path,
    spec: CardSpec,
    said: str,
    option: str,
) -> None:
    """A spec that no GPU could have raises with the rule and a way out, and leaves no file."""
    with pytest.raises(UsageError, match=said) as caught:
        create_card(tmp_path / "card", spec)
    assert list(tmp_path.iterdir()) == []
    # The command is run with another program, since `gpuconf` may not be on the path here.
    words = shlex.split(str(caught.value.hint).partition("for example: ")[2])
    assert option in words
    assert words[:3] == ["python", "-m", "gpuconf.simcard"]
    assert words[-3:] == ["--", "gpuconf", "plan"]
    assert main([*words[3:-2], "true"]) == 0


def test_an_existing_file_is_never_overwritten(card: Card) -> None:
    """Making a GPU where one is says so, and leaves the one that is there alone."""
    before = card.describe()
    with pytest.raises(UsageError, match="already exists"):
        create_card(card.path, CardSpec(total_bytes=GIB))
    assert card.describe() == before
    assert os.listdir(card.path.parent) == ["card"]


def test_another_file_is_no_card(card: Card, tmp_path: Path) -> None:
    """It is refused by name, and never crashes the reader; the right size alone makes no GPU."""
    path = tmp_path / "card"
    for content in (b"", b"x" * 100, bytes(2_000_000), bytes(card.path.stat().st_size)):
        path.write_bytes(content)
        with pytest.raises(BackendError, match="is not a card file"):
            Card(path).used_bytes()


def test_a_missing_file_is_named(libraries: Path, tmp_path: Path) -> None:
    """The error holds the path and the system's reason."""
    with pytest.raises(BackendError, match=r"nowhere.*No such file") as caught:
        Card(tmp_path / "nowhere", libraries=libraries).used_bytes()
    hint = f"python -m gpuconf.simcard env --card {tmp_path / 'nowhere'}"
    assert hint in str(caught.value.hint)


def test_a_missing_folder_is_named(libraries: Path, tmp_path: Path) -> None:  # noqa: ARG001
    """A GPU is not made in a folder that is not there; the hint makes the folder."""
    folder = tmp_path / "no where"
    with pytest.raises(BackendError, match="No such file") as caught:
        create_card(folder / "card", CardSpec())
    assert caught.value.hint == f"mkdir -p '{folder}'"


def test_what_the_system_refuses_is_shown(libraries: Path, tmp_path: Path) -> None:
    """Any other reason of the system's comes with the command that shows the file."""
    (tmp_path / "card").mkdir()
    with pytest.raises(BackendError, match=os.strerror(errno.EISDIR)) as caught:
        Card(tmp_path / "card", libraries=libraries).used_bytes()
    assert caught.value.hint == f"ls -ld {tmp_path} {tmp_path / 'card'}"


def test_the_environment_is_a_changed_copy(card: Card) -> None:
    """Only three variables change, the linker's paths are kept behind, the base is untouched.

    The ledger of leases is the GPU's own: another card file's GPUs have the same UUIDs.
    """
    base = {"A": "1", "LD_LIBRARY_PATH": "/opt/lib"}
    made = card.environment(base)
    assert base == {"A": "1", "LD_LIBRARY_PATH": "/opt/lib"}
    assert made == {
        "A": "1",
        "LD_LIBRARY_PATH": f"{card.libraries}:/opt/lib",
        "GPUCONF_SIMCARD_FILE": str(card.path),
        "GPUCONF_LEASES": f"{card.path}.leases",
    }
    # An empty entry would mean the current folder to the dynamic linker.
    assert card.environment({})["LD_LIBRARY_PATH"] == str(card.libraries)
    assert card.environment({"LD_LIBRARY_PATH": ""})["LD_LIBRARY_PATH"] == str(card.libraries)


def test_a_simulated_card_leaves_nothing_behind(libraries: Path) -> None:  # noqa: ARG001
    """The file and its folder go with the with block, on errors too."""
    with contextlib.suppress(KeyError), simulated_card(CardSpec()) as card:
        assert card.path.exists()
        raise KeyError
    assert not card.path.parent.exists()


def test_the_desktop_can_grow_and_shrink(card: Card) -> None:
    """Another program's use can change under way, on one GPU, within the GPU."""
    card.set_desktop_bytes(11264 * MIB)
    assert card.free_bytes() == 0
    card.set_desktop_bytes(0)
    assert card.used_bytes() == 0
    with pytest.raises(UsageError) as too_much:
        card.set_desktop_bytes(11264 * MIB + 1)
    with pytest.raises(UsageError) as no_such_gpu:
        card.used_bytes(1)
    for caught in (too_much, no_such_gpu):
        assert f"python -m gpuconf.simcard show {card.path}" in str(caught.value.hint)


def test_cards_of_killed_owners_are_swept(libraries: Path, start: Start) -> None:  # noqa: ARG001
    """SIGKILL leaves a card file; the next one removes it, but no living one's and none in use."""
    code = (
        "import os, sys; from gpuconf.simcard import *\n"
        "with simulated_card(CardSpec()) as card:\n"
        "    print(card.path, flush=True); sys.stdin.read()\n"
    )
    owners = [start([sys.executable, "-c", code], os.environ) for _ in range(2)]
    killed, living = owners
    paths = [Path(owner.read_line()) for owner in owners]
    killed.kill()
    killed.wait()
    assert all(path.exists() for path in paths)
    with simulated_card(CardSpec()):
        assert [path.parent.exists() for path in paths] == [False, True]
    living.communicate()
