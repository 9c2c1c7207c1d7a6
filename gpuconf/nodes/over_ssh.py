"""Run the doctor on each machine in a file over ssh, which handles keys, users and ports."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from gpuconf.children.family import ProcessFamily
from gpuconf.children.run import memory_file, whole_text_of
from gpuconf.errors import MissingDependencyError, UsageError
from gpuconf.nodes.document import NodeReport, NodesReport, Progress, node_report, quoted
from gpuconf.units import sized

_AT_ONCE = 16
# ssh's own exit code if it cannot connect; programs rarely use it.
_NOT_REACHED = 255
_PATIENCE_S = 10
_POLL_S = 0.05
# A report has about 100 KB.
_MOST_BYTES = 16 * 1024 * 1024
_HINT = "a line is `HOST`, or `HOST COMMAND` where gpuconf is not on that machine's PATH"


class Host(NamedTuple):
    """A line of hosts.txt."""

    destination: str
    """In ssh's form: a name in ~/.ssh/config, user@host, ssh://user@host:port."""
    command: tuple[str, ...] = ("gpuconf",)
    """The command that starts gpuconf there."""


def hosts_in(path: str) -> tuple[Host, ...]:
    """Return the machines in a file, one per line; # starts a comment.

    Raises UsageError for a file that cannot be read, is empty, or lists a machine twice, and for a
    name that ssh or its ProxyCommand would parse as an option.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = [shlex.split(line, comments=True) for line in file]
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path}: {reason}", hint=_HINT) from None
    hosts = [Host(words[0], tuple(words[1:]) or ("gpuconf",)) for words in lines if words]
    counts = Counter(host.destination for host in hosts)
    for host in hosts:
        _check(path, host, counts[host.destination])
    if not hosts:
        raise UsageError(f"{path} names no machine", hint=_HINT)
    return tuple(hosts)


def _check(path: str, host: Host, count: int) -> None:
    """Reject text that is not a machine name, and names that ssh might misinterpret."""
    name = host.destination
    if not name or not name.isprintable() or "\0" in "".join(host.command):
        raise UsageError(f"{path}: {name!r} is not a name of a machine", hint=_HINT)
    if any(part.startswith("-") for part in re.split("@|://", name)):
        raise UsageError(f"{path}: {name!r} is an option, and not a machine", hint=_HINT)
    if count > 1:
        raise UsageError(f"{path}: the file lists {name} {count} times", hint=_HINT)


def ask_hosts(
    hosts: Sequence[Host], words: Sequence[str], timeout_s: float, progress: Progress
) -> NodesReport:
    """Run ``doctor --json WORDS`` on each, sixteen at a time; one without an answer still gets a
    row.

    No ssh process is left behind, however this ends.  Raises MissingDependencyError if ssh cannot
    be started.
    """
    reports: dict[str, NodeReport] = {}
    waiting, asked = list(hosts), list[_Asked]()
    with ExitStack() as files, ProcessFamily() as family:
        while waiting or asked:
            while waiting and len(asked) < _AT_ONCE:
                asked.append(_ask(waiting.pop(0), words, timeout_s, family, files))
            for each in tuple(asked):
                report = _answer(each)
                if report is not None:
                    asked.remove(each)
                    each.files.close()
                    reports[report.node] = report
                    answer = "has answered" if report.problem is None else "gave no report"
                    progress(f"{len(reports)} of {len(hosts)}: {report.node} {answer}")
            time.sleep(_POLL_S)
    return NodesReport(tuple(reports[host.destination] for host in hosts))


class _Asked(NamedTuple):
    """A running ssh.

    It writes to files, with ``stdout`` and ``stderr`` as descriptors, because a connection kept for
    the next ssh (ControlPersist) would hold pipes open.
    """

    node: str
    child: subprocess.Popen[bytes]
    stdout: int
    stderr: int
    files: ExitStack
    timeout_s: float
    end_s: float
    """In the monotonic clock's time."""


def _ask(
    host: Host, words: Sequence[str], timeout_s: float, family: ProcessFamily, files: ExitStack
) -> _Asked:
    remote = shlex.join([*host.command, "doctor", "--json", *words])
    options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={_PATIENCE_S}"]
    own = files.enter_context(ExitStack())
    stdout, stderr = (own.enter_context(memory_file(name)) for name in ("stdout", "stderr"))
    try:
        child = family.start(
            ["ssh", *options, "--", host.destination, remote],
            os.environ,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
    except OSError as error:
        raise MissingDependencyError(
            f"ssh cannot be started here: {error.strerror}", hint="apt install openssh-client"
        ) from None
    end_s = time.monotonic() + timeout_s
    return _Asked(host.destination, child, stdout, stderr, own, timeout_s, end_s)


def _answer(asked: _Asked) -> NodeReport | None:
    """Return the report, or the reason for its absence; None while it may still come."""
    code = asked.child.poll()
    if os.fstat(asked.stdout).st_size + os.fstat(asked.stderr).st_size > _MOST_BYTES:
        asked.child.kill()
        return NodeReport(asked.node, f"its answer is longer than {sized(_MOST_BYTES)}")
    if code is None:
        if time.monotonic() < asked.end_s:
            return None
        asked.child.kill()
        return NodeReport(asked.node, f"no answer within {asked.timeout_s:g} s")
    stdout, stderr = whole_text_of(asked.stdout), whole_text_of(asked.stderr)
    if code == _NOT_REACHED and not stdout:
        return NodeReport(asked.node, quoted(stderr) or "ssh could not reach it")
    return node_report(asked.node, stdout, stderr, code)
