"""Changes to the environment: decided as values, applied over a dict, known to children.

And settings: their fate, in one word and in one line.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuconf.basics.environment import (
    Change,
    before_gpuconf,
    patch_for,
    set_by_gpuconf,
    settle,
    switched_off,
)
from gpuconf.basics.setting import Setting
from gpuconf.basics.state_note import (
    STATE_VARIABLE,
    StateNote,
    Writer,
    encode,
    read_note,
    this_process,
)
from gpuconf.errors import UsageError

GROWTH = Change("TF_FORCE_GPU_ALLOW_GROWTH", "true", "memory.allow_growth", ("true", "false"))
DEVICES = Change("CUDA_VISIBLE_DEVICES", "GPU-1", "gpus", overrules=True)
NOTE = StateNote(this_process())


def apply(changes: dict[str, str], environ: dict[str, str]) -> None:
    """Make ``environ`` the user's plus ``changes``, with a note for children."""
    patch_for(changes, NOTE, environ).apply(environ)


PREALLOCATE = Change("XLA_PYTHON_CLIENT_PREALLOCATE", "false", "jax.preallocate")


@pytest.mark.parametrize(
    ("wish", "theirs", "written", "effective"),
    [
        (PREALLOCATE, None, True, "false"),
        (PREALLOCATE, "false", True, "false"),
        (PREALLOCATE, "true", False, "true"),
        (PREALLOCATE, "", False, ""),
        (GROWTH, None, True, "true"),
        (GROWTH, "false", False, "false"),
        (GROWTH, "1", True, "true"),  # TensorFlow ignores it, so it was not a choice
        (GROWTH, "True", True, "true"),
        (DEVICES, None, True, "GPU-1"),
        (DEVICES, "0,1", True, "GPU-1"),
    ],
)
def test_what_the_user_set_stays(
    wish: Change, theirs: str | None, written: bool, effective: str
) -> None:
    """A value of the user's wins, unless it is void or ours was made by narrowing it."""
    baseline = {} if theirs is None else {wish.name: theirs}
    changes, fates = settle([wish], baseline)
    assert changes == ({wish.name: wish.value} if written else {})
    (fate,) = fates
    assert (fate.name, fate.requested, fate.effective) == (wish.name, wish.value, effective)
    assert (fate.why_not is None) == (effective == wish.value)


def test_a_kept_value_is_told_with_the_way_to_change_it() -> None:
    """The message names the value, the profile's key, and the command."""
    _, (fate,) = settle([PREALLOCATE], {PREALLOCATE.name: "true"})
    assert fate.status == "differs"
    assert str(fate) == (
        "XLA_PYTHON_CLIENT_PREALLOCATE: requested false, got true: keeping "
        "XLA_PYTHON_CLIENT_PREALLOCATE=true from your environment, which overrides the profile's "
        "jax.preallocate; `unset XLA_PYTHON_CLIENT_PREALLOCATE` to use the profile's value"
    )


NAMES = st.sampled_from(["A", "B", "PATH", "CUDA_VISIBLE_DEVICES"])
# Any text without NUL; bytes that are not UTF-8 come as lone surrogates.
TEXTS = st.text(st.characters(exclude_characters="\0"), max_size=8) | st.sampled_from(
    ["", ",", ";", "%", "%2C", "%252C", "a,b;c%", "\x1d", "\x1e\x1f", "\n", "\udcff"]
)
ENVIRONMENTS = st.dictionaries(NAMES, TEXTS, max_size=4)


@settings(deadline=None)
@given(before=ENVIRONMENTS, changes=ENVIRONMENTS)
@example(before={"A": "1"}, changes={"A": "1"})
def test_the_users_environment_can_be_read_back(
    before: dict[str, str], changes: dict[str, str]
) -> None:
    """Whatever stood in the variables, a child sees what the user made, and what is ours.

    The environment becomes what was there plus the changes, and a note of them.
    """
    environ = dict(before)
    apply(changes, environ)
    child = dict(environ)
    assert before_gpuconf(child) == before
    assert set_by_gpuconf(child) == changes
    del environ[STATE_VARIABLE]
    assert environ == {**before, **changes}


@settings(deadline=None)
@given(before=ENVIRONMENTS, first=ENVIRONMENTS, second=ENVIRONMENTS)
def test_applying_other_changes_restores_the_first(
    before: dict[str, str], first: dict[str, str], second: dict[str, str]
) -> None:
    """Twice is as if only the second had been applied; a child's own apply is the same."""
    environ = dict(before)
    apply(first, environ)
    apply(second, environ)
    once = dict(before)
    apply(second, once)
    assert environ == once


@settings(deadline=None)
@given(before=ENVIRONMENTS, changes=ENVIRONMENTS, name=NAMES, theirs=st.none() | TEXTS)
def test_a_variable_changed_since_is_the_users(
    before: dict[str, str], changes: dict[str, str], name: str, theirs: str | None
) -> None:
    """Set or unset between two runs of ours, the newer value counts and survives the second."""
    environ = dict(before)
    apply(changes, environ)
    if theirs == changes.get(name):
        return  # nobody can tell that apart
    environ.pop(name, None)
    if theirs is not None:
        environ[name] = theirs
    expected = {key: value for key, value in before.items() if key != name}
    if theirs is not None:
        expected[name] = theirs
    assert before_gpuconf(environ) == expected
    apply({}, environ)
    del environ[STATE_VARIABLE]
    assert environ == expected


def test_a_child_that_plans_the_same_complains_of_nothing() -> None:
    """A child inherits our values; to settle they are not the user's, so nothing was kept."""
    environ = {"CUDA_VISIBLE_DEVICES": "0,1"}
    wishes = [GROWTH, DEVICES, PREALLOCATE]
    changes, _ = settle(wishes, before_gpuconf(environ))
    apply(changes, environ)
    child = dict(environ)
    again, fates = settle(wishes, before_gpuconf(child))
    assert again == changes
    assert [fate.why_not for fate in fates] == [None] * 3
    apply(again, child)
    assert child == environ


@settings(deadline=None)
@given(note=TEXTS | st.text(alphabet=",;%A1"))
def test_any_note_can_be_read(note: str) -> None:
    """A note that somebody wrote or cut is no reason to fail, nor to invent variables."""
    environ = {STATE_VARIABLE: note, "A": "1"}
    assert before_gpuconf(environ).keys() <= {"A"}
    assert set_by_gpuconf(environ).items() <= {"A": "1"}.items()


@settings(deadline=None)
@given(before=ENVIRONMENTS, first=ENVIRONMENTS, second=ENVIRONMENTS, cut=st.integers(0, 6))
def test_undo(
    before: dict[str, str], first: dict[str, str], second: dict[str, str], cut: int
) -> None:
    """Also after a change that was interrupted half-way, everything is as it was."""
    environ = dict(before)
    apply(first, environ)
    earlier = dict(environ)
    patch = patch_for(second, NOTE, environ)
    part = type(patch)(dict(list(patch.values.items())[:cut]))
    part.apply(environ)
    patch.undo(environ)
    assert environ == earlier


def test_undo_leaves_what_others_have_set() -> None:
    """Another thread's variables, and its newer value of one of ours, are not wiped."""
    environ = {"A": "0"}
    patch = patch_for({"A": "1", "B": "1"}, NOTE, environ)
    patch.apply(environ)
    environ |= {"B": "theirs", "C": "new"}
    patch.undo(environ)
    assert environ == {"A": "0", "B": "theirs", "C": "new"}


@settings(deadline=None)
@given(
    texts=st.tuples(TEXTS, TEXTS, TEXTS, TEXTS, TEXTS),
    gpus=st.lists(TEXTS.filter(bool), max_size=3),
    pid=st.integers(1, 2**22),
)
def test_a_note_says_who_wrote_it_and_why(
    texts: tuple[str, str, str, str, str], gpus: list[str], pid: int
) -> None:
    """Writer, profile, origin, GPUCONF_PROFILE and GPUs come back, whatever is in them."""
    host, boot, profile, origin, asked = texts
    note = StateNote(Writer(host, boot, pid), (), profile, origin, asked, tuple(gpus))
    environ = {STATE_VARIABLE: encode(note)}
    assert read_note(environ, Writer(host, boot, 1)) == note


@pytest.mark.parametrize(
    "reader",
    [Writer("elsewhere", "boot", 1), Writer("host", "another boot", 1)],
    ids=["another machine", "another boot"],
)
def test_a_note_that_travelled_is_not_believed(reader: Writer) -> None:
    """What it calls gpuconf's may be a scheduler's own value here."""
    note = StateNote(Writer("host", "boot", 1))
    environ = {STATE_VARIABLE: encode(note)}
    assert read_note(environ, Writer("host", "boot", 2)) == note
    assert read_note(environ, reader) is None


def test_a_login_nodes_note_beside_a_schedulers_value() -> None:
    """The scheduler's own 0 stays, though the login node's note says that 0 was ours."""
    theirs = StateNote(Writer("login", "its boot", 4242))
    login: dict[str, str] = {}
    patch_for({"CUDA_VISIBLE_DEVICES": "0"}, theirs, login).apply(login)
    assert before_gpuconf(login) == {"CUDA_VISIBLE_DEVICES": "0"}
    assert set_by_gpuconf(login) == {}


def test_a_note_of_an_older_gpuconf_is_none() -> None:
    """Its format has no identity, so nothing in it can be believed."""
    environ = {STATE_VARIABLE: "CUDA_VISIBLE_DEVICES,0", "CUDA_VISIBLE_DEVICES": "0"}
    assert read_note(environ) is None
    assert before_gpuconf(environ) == {"CUDA_VISIBLE_DEVICES": "0"}


@pytest.mark.parametrize("value", [None, "", "0", "false", "False", " no ", "off"])
def test_left_on(value: str | None) -> None:
    """Nothing, and every word for no."""
    assert switched_off({} if value is None else {"GPUCONF_DISABLE": value}) is None


@pytest.mark.parametrize("value", ["1", "true", "YES", "on"])
def test_switched_off(value: str) -> None:
    """By every word for yes, said as the user wrote it."""
    assert switched_off({"GPUCONF_DISABLE": value}) == f"GPUCONF_DISABLE={value}"


@pytest.mark.parametrize("value", ["2", "disable", "flase"])
def test_a_switch_that_says_neither(value: str) -> None:
    """A slip of the keyboard is one clear error, not a program without limits."""
    with pytest.raises(UsageError, match="invalid value GPUCONF_DISABLE") as refusal:
        switched_off({"GPUCONF_DISABLE": value})
    assert "GPUCONF_DISABLE=1" in str(refusal.value.hint)


@pytest.mark.parametrize(
    ("setting", "status", "line"),
    [
        (Setting("limit", "7 MiB", "7 MiB"), "ok", "limit: 7 MiB"),
        (Setting("limit", "7 MiB"), "pending", "limit: requested 7 MiB, not yet in effect"),
        (
            Setting("limit", "7 MiB", "6 MiB", "too late"),
            "differs",
            "limit: requested 7 MiB, got 6 MiB: too late",
        ),
        (
            Setting("limit", "7 MiB", None, "no CUDA"),
            "differs",
            "limit: requested 7 MiB, got nothing: no CUDA",
        ),
    ],
)
def test_the_fate_of_a_setting(setting: Setting, status: str, line: str) -> None:
    """What was asked, what is so, and why not."""
    assert setting.status == status
    assert str(setting) == line
    assert setting.as_dict() == {**setting._asdict(), "status": status}
