"""Removes text that identifies the owner of a report before it goes into a bug report.

Home folders become ``~``, the host name ``<host>``, and people's account names ``<user>``. UUIDs of
GPUs stay: they identify the GPU of a finding, not a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

from gpuconf.commands.doctor.finding import Finding
from gpuconf.commands.doctor.report import CardReport, Report

_T = TypeVar("_T")
_OTHERS_HOME = re.compile(r"(?<![\w~])/(home|Users)/[^/\s:,;'\"`)]+")
_SHARED_NAMES = {"root", "gdm", "gdm3", "sddm", "lightdm", "nobody", "localhost", "ubuntu", "user"}
_KEPT_FIELDS = {"id", "status", "uuid"}


class Redactor:
    """Replaces names in text; ``home`` and ``hosts`` may be empty; ``users`` are account names."""

    def __init__(
        self, *, home: str = "", hosts: Iterable[str] = (), users: Iterable[str] = ()
    ) -> None:
        self._home = home.rstrip("/")
        # The full name and the short name of each host.
        names = {part for host in hosts for part in (host, host.split(".")[0])}
        self._hosts = _any_of(names)
        self._users = _any_of(users)

    def text(self, text: str) -> str:
        """``text`` without the names."""
        if self._home:
            text = re.sub(rf"(?<![\w/]){re.escape(self._home)}(?![\w.-])", "~", text)
        text = _OTHERS_HOME.sub(r"/\1/<user>", text)
        if self._hosts:
            text = self._hosts.sub("<host>", text)
        return self._users.sub("<user>", text) if self._users else text

    def report(self, report: Report) -> Report:
        """``report`` with all text redacted."""
        return self._value(report)

    def _value(self, value: _T) -> _T:
        if isinstance(value, str):
            return self.text(value)  # type: ignore[return-value]  # a str for a str
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            fields = zip(value._fields, value, strict=True)
            kept = _KEPT_FIELDS if isinstance(value, Finding | CardReport) else set()
            made = {name: each if name in kept else self._value(each) for name, each in fields}
            return type(value)(**made)
        if isinstance(value, tuple):
            return type(value)(self._value(each) for each in value)
        return value


def redactor_for(
    report: Report, *, home: str, hosts: Iterable[str], account: str | None
) -> Redactor:
    """The redactor for ``report``: for these names, and for all users who hold a GPU or a lease.

    ``account`` is the account that runs this process; its name may also occur in paths outside the
    home folder.
    """
    cards = [part for card in report.cards for part in (card, *card.instances)]
    users = {holder.user for card in cards for holder in card.holders or () if holder.user}
    users |= {account} if account else set()
    return Redactor(home=home, hosts=hosts, users=users)


def _any_of(names: Iterable[str]) -> re.Pattern[str] | None:
    """A pattern for any of ``names`` as a separate word; None if there are none."""
    wanted = {name for name in names if len(name) > 1 and name not in _SHARED_NAMES}
    if not wanted:
        return None
    longest_first = sorted(wanted, key=len, reverse=True)
    names_alone = rf"(?<![\w-])({'|'.join(map(re.escape, longest_first))})(?![\w-])"
    return re.compile(names_alone, re.IGNORECASE)
