"""`gpuconf doctor --hosts`: each machine a row, also one that is down, slow, or not itself.

The transport is ssh's own; here a program of its name runs the remote command, as sshd does,
through a shell.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import CompletedProcess

import jsonschema
import pytest

from gpuconf.errors import UsageError
from gpuconf.nodes.document import NodeReport, NodesReport, node_report
from gpuconf.nodes.over_ssh import Host, hosts_in
from gpuconf.nodes.text import findings_lines, table_of
from tests.cli.commands import gpuconf, schema
from tests.programs.processes import run

pytestmark = pytest.mark.slow  # starts many programs

_SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
host=$2; shift 2
case $host in
  down) echo "ssh: connect to host down port 22: No route to host" >&2; exit 255;;
  slow) exec sleep 60;;
  stuck) sleep 600 & echo $! > stuck.pid; wait;;
  flood) exec yes;;
  escape) printf '{"findings": [{"id": "a", "status": "warn", "summary": "\\\\u001b[2J"}]}'; exit;;
  odd) echo "Welcome to odd"; exit 0;;
esac
exec sh -c "$*"
"""


def prepared(folder: Path, hosts: str, *words: str) -> tuple[list[str], dict[str, str]]:
    """``gpuconf doctor --hosts`` for these lines, and the variables it needs."""
    (folder / "bin").mkdir(exist_ok=True)
    ssh = folder / "bin" / "ssh"
    ssh.write_text(_SSH)
    ssh.chmod(0o755)
    (folder / "hosts.txt").write_text(hosts)
    command = gpuconf("doctor", "--hosts", "hosts.txt", *words)
    return command, {"PATH": f"{folder}/bin:/usr/bin:/bin"}


def doctor(folder: Path, hosts: str, *words: str) -> CompletedProcess[str]:
    """Run it to its end."""
    command, environ = prepared(folder, hosts, *words)
    return run(command, folder, environ=environ)


def test_every_machine_is_a_row(tmp_path: Path) -> None:
    """One that answers, and four ways not to; the order is the file's."""
    ours = shlex.join(gpuconf())
    hosts = f"good {ours}  # this one\n\ndown\nslow\nodd\nbare\n"
    done = doctor(tmp_path, hosts, "driver.present", "--json", "--timeout", "20")
    document = json.loads(done.stdout)
    jsonschema.validate(document, schema("doctor"))
    nodes = {each["node"]: each for each in document["nodes"]}
    assert list(nodes) == ["good", "down", "slow", "odd", "bare"]
    assert [each["id"] for each in nodes["good"]["report"]["findings"]] == ["driver.present"]
    assert nodes["down"]["problem"] == "ssh: connect to host down port 22: No route to host"
    assert nodes["slow"]["problem"] == "no answer within 20 s"
    assert nodes["odd"]["problem"] == "exit code 0: Welcome to odd"
    assert "gpuconf: not found" in nodes["bare"]["problem"]
    assert (document["silent_count"], done.returncode) == (4, 1)
    assert "5 of 5: " in done.stderr


def test_an_answer_without_end_and_one_with_escapes(tmp_path: Path) -> None:
    """Neither fills the memory here, nor reaches the terminal."""
    done = doctor(tmp_path, "flood\nescape\n")
    assert "no report: its answer is longer than 16 MiB" in done.stdout
    assert "warn  a: \\x1b[2J" in done.stdout


def test_no_ssh_stays_when_it_is_ended(tmp_path: Path) -> None:
    """The signal goes to gpuconf alone, as `kill` sends it; ssh's own children end too.

    Other signals: children/test_families.
    """
    command, environ = prepared(tmp_path, "stuck\nslow\n")
    process = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, **environ})
    pid_file = tmp_path / "stuck.pid"
    while not (pid_file.exists() and pid_file.read_text().strip()):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 128 + signal.SIGTERM
    assert not Path("/proc", pid_file.read_text().strip()).exists()


def test_a_machine_without_ssh(tmp_path: Path) -> None:
    """An error that says how to install it, before any row."""
    (tmp_path / "hosts.txt").write_text("a\nb\n")
    command = gpuconf("doctor", "--hosts", "hosts.txt")
    done = run(command, tmp_path, environ={"PATH": str(tmp_path)})
    assert "gpuconf: error: ssh cannot be started here: No such file" in done.stderr
    assert "hint: apt install openssh-client" in done.stderr
    assert (done.stdout, done.returncode) == ("", 4)


def test_a_refusal_there_is_said_here(tmp_path: Path) -> None:
    """A profile that the other machine lacks, whose name holds a blank."""
    done = doctor(tmp_path, f"good {shlex.join(gpuconf())}\n", "--profile", "no such")
    assert 'no report: there is no profile named "no such"' in done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no machine"),
        ("a\nb\na\n", "the file lists a 2 times"),
        ("-oProxyCommand=reboot\n", "is an option"),
        ("anna@-oProxyCommand=reboot\n", "is an option"),
        ("ssh://-oProxyCommand=reboot\n", "is an option"),
        ("''\n", "not a name of a machine"),
        ("a\x1b[2J\n", "not a name of a machine"),
        ("a \0\n", "not a name of a machine"),
        ("a 'b\n", "No closing quotation"),
        (None, "No such file"),
    ],
)
def test_a_bad_file_is_refused_before_anybody_is_asked(
    tmp_path: Path, text: str | None, words: str
) -> None:
    path = tmp_path / "hosts.txt"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=words):
        hosts_in(str(path))


def test_lines_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "hosts.txt"
    path.write_text(
        "\ufeff# the lab\n\n  \r\nanna@node1\r\nnode2 '/opt/my venv/bin/gpuconf'  # ours\n"
    )
    assert hosts_in(str(path)) == (Host("anna@node1"), Host("node2", ("/opt/my venv/bin/gpuconf",)))


def test_options_about_one_machine_are_refused(tmp_path: Path) -> None:
    for words in (["--probe"], ["--script", "hosts.txt"], ["--python", sys.executable]):
        done = doctor(tmp_path, "down\n", *words)
        assert done.returncode == 2
        assert f"{words[0]} is about one machine" in done.stderr


def report_of(node: str, tensorflow: str, *findings: tuple[str, str]) -> NodeReport:
    """A machine with one card and these findings, as (status, summary)."""
    return NodeReport(
        node,
        report={
            "findings": [
                {"id": "driver.cuda", "status": status, "summary": summary, "fix": "apt upgrade"}
                for status, summary in findings
            ],
            "gpus": [{"name": "NVIDIA T4"}],
            "versions": {"gpuconf": "0.1.0", "driver": "550.54", "tensorflow": tensorflow},
        },
    )


def test_what_is_wrong_stands_once_with_all_its_machines() -> None:
    """And versions that differ are named, which no doctor of one machine can see."""
    report = NodesReport(
        (
            report_of("a", "2.21.0", ("fail", "too old")),
            report_of("b", "2.19.0", ("fail", "too old"), ("warn", "slow")),
            report_of("c", "2.21.0", ("ok", "fine")),
            NodeReport("d", "no answer within 60 s"),
        )
    )
    table = table_of(report)
    assert table.columns == ("NODE", "GPUS", "GPUCONF", "DRIVER", "TENSORFLOW", "RESULT")
    assert table.rows == [
        ("a", "1 × T4", "0.1.0", "550.54", "2.21.0", "1 failed"),
        ("b", "1 × T4", "0.1.0", "550.54", "2.19.0", "1 failed, 1 warned"),
        ("c", "1 × T4", "0.1.0", "550.54", "2.21.0", "fine"),
        ("d", "-", "-", "-", "-", "no report: no answer within 60 s"),
    ]
    assert [line.text for line in findings_lines(report)] == [
        "",
        "fail  driver.cuda: too old",
        "      on a, b",
        "      apt upgrade",
        "",
        "warn  driver.cuda: slow",
        "      on b",
        "      apt upgrade",
        "",
        "tensorflow differs: 2.21.0 on a, c; 2.19.0 on b",
    ]
    assert report.exit_code() == 1
    assert NodesReport((report_of("b", "2", ("warn", "slow")),)).exit_code() == 0
    assert NodesReport((report_of("b", "2", ("warn", "slow")),)).exit_code(strict=True) == 1
    assert NodesReport((report_of("b", "2", ("crash", "bug")),)).exit_code() == 3


@pytest.mark.parametrize(
    "stdout",
    [
        "[]",
        "[" * 100_000,
        '{"findings": 1}',
        '{"findings": [{"id": "a", "status": "ok"}]}',
        '{"findings": [{"id": "a", "status": "ok", "summary": "s", "fix": 1}]}',
        '{"error": "x"}',
        '{"findings": [], "x": NaN}',
        '{"findings": [], "x": [1e999]}',
        '{"findings": [], "x": ' + "[" * 200 + "]" * 200 + "}",
    ],
)
def test_another_machines_words_may_be_anything(stdout: str) -> None:
    assert node_report("a", stdout, "", 7).report is None
