"""Ask the doctor of each machine in a file over ssh, which has the keys, users and ports."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

from gpuconf.errors import MissingDependencyError, UsageError
from gpuconf.nodes.document import NodeReport, NodesReport, Progress, node_report

_AT_ONCE = 16
# ssh itself ends with this where it reaches nobody; programs seldom do.
_NOT_REACHED = 255
_PATIENCE_S = 10
_HINT = "a line is `HOST`, or `HOST COMMAND` where gpuconf is not on that machine's PATH"


class Host(NamedTuple):
    """A line of hosts.txt."""

    destination: str
    """As ssh takes it: a name of ~/.ssh/config, user@host, ssh://user@host:port."""
    command: tuple[str, ...] = ("gpuconf",)
    """What starts gpuconf there."""


def hosts_in(path: str) -> tuple[Host, ...]:
    """The machines of a file, one a line; # begins a comment.

    Raises UsageError for a file that cannot be read, is empty, or names a machine twice.
    """
    try:
        with open(path, encoding="utf-8") as file:
            lines = [shlex.split(line, comments=True) for line in file]
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path}: {reason}", hint=_HINT) from None
    hosts = [Host(words[0], tuple(words[1:]) or ("gpuconf",)) for words in lines if words]
    names = [host.destination for host in hosts]
    for name in names:
        if name.startswith("-"):
            raise UsageError(f"{path}: {name!r} is an option, and not a machine", hint=_HINT)
        if names.count(name) > 1:
            raise UsageError(f"{path}: {name} stands in it {names.count(name)} times", hint=_HINT)
    if not hosts:
        raise UsageError(f"{path} names no machine", hint=_HINT)
    return tuple(hosts)


def ask_hosts(
    hosts: Sequence[Host], words: Sequence[str], timeout_s: float, progress: Progress
) -> NodesReport:
    """Run ``doctor --json WORDS`` on each, sixteen at a time; one that is silent is a row.

    Raises MissingDependencyError where this machine has no ssh.
    """
    reports = {}
    for count, report in enumerate(_answers(hosts, words, timeout_s), start=1):
        reports[report.node] = report
        answer = "has answered" if report.problem is None else "gave no report"
        progress(f"{count} of {len(hosts)}: {report.node} {answer}")
    return NodesReport(tuple(reports[host.destination] for host in hosts))


def _answers(hosts: Sequence[Host], words: Sequence[str], timeout_s: float) -> Iterator[NodeReport]:
    """In the order in which they come."""
    pool = ThreadPoolExecutor(min(_AT_ONCE, len(hosts)))
    try:
        asked = [pool.submit(_ask, host, words, timeout_s) for host in hosts]
        for each in as_completed(asked):
            yield each.result()
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C reaches each ssh, and nobody else is asked


def _ask(host: Host, words: Sequence[str], timeout_s: float) -> NodeReport:
    remote = shlex.join([*host.command, "doctor", "--json", *words])
    options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={_PATIENCE_S}"]
    try:
        done = subprocess.run(
            ["ssh", *options, "--", host.destination, remote],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return NodeReport(host.destination, f"no answer within {timeout_s:g} s")
    except FileNotFoundError:
        raise MissingDependencyError(
            "ssh is not installed here", hint="apt install openssh-client"
        ) from None
    if done.returncode == _NOT_REACHED and not done.stdout:
        said = " ".join(done.stderr.split()) or "ssh could not reach it"
        return NodeReport(host.destination, said)
    return node_report(host.destination, done.stdout, done.stderr, done.returncode)
