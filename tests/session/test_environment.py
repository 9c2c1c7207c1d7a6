"""What this process has written into its environment, and what is taken back."""

from __future__ import annotations

from gpuconf.profile import ParentChoice
from gpuconf.session.environment import OwnEnvironment

CHOICE = ParentChoice("shared-desktop", "shipped")


def test_what_was_written_since_is_taken_back() -> None:
    """Down to the mark and no further; then the rest."""
    environ = {"A": "theirs"}
    own = OwnEnvironment(environ)
    own.write({"A": "1"}, CHOICE, None)
    mark = own.written()
    own.write({"A": "2", "B": "2"}, CHOICE, None)
    own.take_back_to(mark)
    assert (environ["A"], "B" in environ) == ("1", False)
    assert own.written() == mark
    own.take_back_to(own.written()._replace(patches=()))
    assert environ == {"A": "theirs"}
