"""`python -m tests.acceptance.containers`: leases between real containers and this machine.

Runs the files of docs/examples/containers with Podman or Docker, TensorFlow in each container, and
a simulated GPU for the GPU.  Exits with 2 where there is neither, and with 1 where a fact is not
as docs/sharing.md says.  It uses /run/gpuconf, as the files do, which it makes where there is none
and removes again.  It is not part of `make test`.

The simulated GPU knows processes by their numbers, so it forgets the memory of a program in
another pid namespace.  Where a container has its own, the desktop's memory stands for what its
program has taken.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gpuconf.basics.units import MIB
from gpuconf.machine.leases.folder import DEFAULTS, fault_of, make_sticky
from gpuconf.machine.leases.lease import folder_of
from tests.acceptance.container_engine import (
    CARD,
    IMAGE,
    SPECS,
    Engine,
    EngineError,
    Program,
    find_engine,
    output_of,
    running_engine,
)

FOLDER = DEFAULTS[0]
SHARED_PIDS, GPUS = "--pid=host ", "--gpus all "
MOUNT = f"--mount type=bind,source={FOLDER},target={FOLDER} "
NOTE = "leases are shared only within this container"
NAMES = ("gpuconf-first", "gpuconf-second")
WHOLE_NOTEBOOK = str(Path(__file__).with_name("whole_notebook.yaml"))
HALF_CARD, NOTEBOOK = "2867 MiB", "3276 MiB"  # limits where nobody else is there
_ENDS_WITHIN_S = 15.0


class Proof:
    """One engine, and what was found with it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.failed = 0

    def check(self, words: str, is_so: bool, seen: object) -> None:
        """Print a fact, whether it holds, and what was seen."""
        self.failed += not is_so
        print(f"  {'ok  ' if is_so else 'FAIL'} {words}: {seen}", flush=True)

    def start(self, name: str, *options: str, without: Sequence[str] = ()) -> Program:
        """Start docker-run.sh, less the words of ``without``, as the container ``name``."""
        words = [*without, *(() if self.engine.takes_gpus else (GPUS,))]
        script = SPECS / "docker-run.sh"
        text = script.read_text()
        for word in words:
            assert word in text
            text = text.replace(word, "")
        if words:
            script = self.engine.work / "docker-run.sh"
            script.write_text(text)
        folder = self.engine.work / "bin"  # in which `docker` is this engine
        folder.mkdir(exist_ok=True)
        if not (folder / "docker").exists():
            (folder / "docker").symlink_to(str(shutil.which(self.engine.name)))
        environ = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        given = ["--name", name, *options, *self.engine.mount_options()]
        command = ["sh", str(script), *given, IMAGE, "python", "train.py"]
        return Program(command, environ=environ, folder=self.engine.work)

    def holders(self) -> list[dict[str, Any]]:
        """Who has a lease, by `gpuconf ps` on the host."""
        command = [sys.executable, "-m", "gpuconf", "ps", "--json", "--all-users"]
        card = json.loads(output_of(command, self.engine.host_environ()))["gpus"][0]
        return [each for each in card["processes"] if each["lease_bytes"] is not None]

    def check_sum(self, count: int) -> None:
        """So many leases, and with the desktop they fit on the GPU."""
        leases = [each["lease_bytes"] for each in self.holders()]
        total = sum(leases) + CARD.used_bytes
        words = f"{' + '.join(str(each // MIB) for each in leases)} MiB"
        seen = f"{words}, with the desktop {total // MIB} of {CARD.total_bytes // MIB} MiB"
        fits = len(leases) == count and total <= CARD.total_bytes
        self.check(f"{count} leases fit on the GPU", fits, seen)

    def check_freed(self, left: int) -> None:
        """So many leases are left, soon."""
        end = time.monotonic() + _ENDS_WITHIN_S
        while len(self.holders()) > left and time.monotonic() < end:
            time.sleep(0.2)
        seen = [each["program"] for each in self.holders()]
        self.check("its lease is gone", len(seen) == left, f"{len(seen)} left")

    @contextlib.contextmanager
    def cleaning(self, *programs: Program) -> Iterator[list[Program]]:
        """End the programs and containers of a stage, those that are added to the list too."""
        running = list(programs)
        try:
            yield running
        finally:
            for name in NAMES:
                self.engine.remove(name)
            for each in running:
                each.end()
            self.engine.card.set_desktop_bytes(CARD.used_bytes)


def host_and_container(proof: Proof) -> None:
    """A program on the host, then one in a container, which is killed, then one on the host."""
    with proof.cleaning(proof.engine.start(WHOLE_NOTEBOOK)) as running:
        limit = limit_of(running[0])
        proof.check("on the host", limit == NOTEBOOK, limit)
        running.append(proof.start(NAMES[0]))
        limit = limit_of(running[1])
        proof.check("in a container, less", limit == "2484 MiB", limit)
        proof.check_sum(2)
        stars = [each["pid"] for each in proof.holders() if each["is_elsewhere"]]
        proof.check("no pid has a star", not stars, stars)
        proof.engine.output("kill", NAMES[0])
        proof.check_freed(1)
        running.append(proof.engine.start("half-card"))
        limit = limit_of(running[2])
        proof.check("the next one gets as much", limit == "2484 MiB", limit)


def two_containers(proof: Proof) -> None:
    """Two containers; the first's program is killed by its number on the host."""
    with proof.cleaning(proof.start(NAMES[0])) as running:
        first = running[0].answer()
        proof.check("in a container", first.get("limit") == HALF_CARD, first)
        running.append(proof.start(NAMES[1], "--env", f"GPUCONF_PROFILE={WHOLE_NOTEBOOK}"))
        limit = limit_of(running[1])
        proof.check("in a second one, less", limit == "2509 MiB", limit)
        proof.check_sum(2)
        os.kill(first["pid"], signal.SIGKILL)
        proof.check_freed(1)


def own_process_numbers(proof: Proof) -> None:
    """Two containers that share only the folder: all of the first's lease counts."""
    notebook = ("--env", f"GPUCONF_PROFILE={WHOLE_NOTEBOOK}")
    with proof.cleaning(proof.start(NAMES[0], *notebook, without=[SHARED_PIDS])) as running:
        first = running[0].answer()
        proof.check("a container of its own pids", first.get("limit") == NOTEBOOK, first)
        proof.engine.card.set_desktop_bytes(CARD.used_bytes + 300 * MIB)
        running.append(proof.start(NAMES[1], without=[SHARED_PIDS]))
        got = limit_of(running[1])
        proof.check("a second one, 300 MiB less than it could", got == "2184 MiB", got)
        proof.check_sum(2)
        shown = proof.engine.output("exec", NAMES[1], "python", "-m", "gpuconf", "ps")
        starred = [line for line in shown.splitlines() if "*" in line]
        proof.check("gpuconf ps in it shows a star", len(starred) == 2, starred)
        running.append(proof.engine.start("half-card"))
        got = running[2].answer().get("shortage", "")
        proof.check("a third program is refused on the host", "not enough GPU memory" in got, got)
        proof.engine.output("kill", NAMES[0])
        proof.check_freed(1)


def without_the_folder(proof: Proof) -> None:
    """The one line on stderr, with the host's process numbers and without."""
    for without in ([MOUNT], [MOUNT, SHARED_PIDS]):
        with proof.cleaning(proof.start(NAMES[0], without=without)) as running:
            running[0].answer()
            lines = [each.strip() for each in running[0].errors if NOTE in each]
            proof.check(f"without {' and '.join(without)}", len(lines) == 1, lines)


def compose(proof: Proof) -> None:
    """compose.yaml, with a second file that adds what only this test needs."""
    command = compose_command(proof.engine.name)
    if command is None:
        print("  skipped: no `docker compose` or podman-compose here")
        return
    override = proof.engine.work / "override.yaml"
    override.write_text(override_text(proof.engine))
    files = ["-p", "gpuconf", "-f", str(SPECS / "compose.yaml"), "-f", str(override)]
    up = Program(
        [*command, *files, "up", "--no-color"], environ=os.environ, folder=proof.engine.work
    )
    try:
        limits = sorted([limit_of(up), limit_of(up)])
        proof.check("of two services one gets less", limits[0] < HALF_CARD, limits)
        proof.check_sum(2)
    finally:
        output_of([*command, *files, "down", "--timeout", "0"])
        up.end()
    proof.check_freed(0)


def compose_command(engine: str) -> list[str] | None:
    """What runs compose.yaml with that engine, or None."""
    if engine == "podman":
        return ["podman-compose"] if shutil.which("podman-compose") else None
    found = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    return ["docker", "compose"] if found.returncode == 0 else None


def override_text(engine: Engine) -> str:
    """The mounts for both services, no GPU where the engine has none, a profile for the second."""
    common = [f"      - {mount}" for mount in engine.mounts()]
    deploy = [] if engine.takes_gpus and engine.name == "docker" else ["    deploy: !reset null"]
    profile = ["    environment:", f"      GPUCONF_PROFILE: {WHOLE_NOTEBOOK}"]
    first = ["  first:", *deploy, "    volumes:", *common]
    return "\n".join(
        ["services:", *first, "  second:", *deploy, *profile, *first[-len(common) - 1 :]]
    )


def pod(proof: Proof) -> None:
    """pod.yaml in `podman kube play`, with the mounts that only this test needs."""
    if proof.engine.name != "podman":
        print("  skipped: only Podman runs a pod without a cluster")
        return
    path = proof.engine.work / "pod.yaml"
    path.write_text(pod_text(proof.engine))
    with proof.cleaning(proof.engine.start(WHOLE_NOTEBOOK)) as running:
        running[0].answer()
        try:
            proof.engine.output("kube", "play", str(path))
            logs = ["podman", "logs", "--follow", "train-train"]
            running.append(Program(logs, environ=os.environ, folder=proof.engine.work))
            got = limit_of(running[1])
            proof.check("a pod next to a program on the host", got == "2484 MiB", got)
            proof.check_sum(2)
            proof.engine.output("kill", "train-train")
            proof.check_freed(1)
        finally:
            proof.engine.output("kube", "down", str(path))


def pod_text(engine: Engine) -> str:
    """pod.yaml with further mounts."""
    import yaml

    document = yaml.safe_load((SPECS / "pod.yaml").read_text())
    spec = document["spec"]
    for number, mount in enumerate(engine.mounts()):
        path = mount.split(":")[0]
        name, read_only = f"test-{number}", mount.endswith(":ro")
        spec["volumes"].append({"name": name, "hostPath": {"path": path}})
        given = {"name": name, "mountPath": path, "readOnly": read_only}
        spec["containers"][0]["volumeMounts"].append(given)
    return str(yaml.safe_dump(document))


def limit_of(program: Program) -> str:
    """The limit that a program got; what it says instead, where it got none."""
    answer = program.answer()
    return str(answer.get("limit", answer))


@contextlib.contextmanager
def ledger_folder() -> Iterator[None]:
    """The machine's folder of leases, made where there is none, and removed again then."""
    made = not os.path.lexists(FOLDER)
    if made:
        try:
            make_sticky(FOLDER)
        except OSError as error:
            raise EngineError(f"{FOLDER}: {error.strerror}; docs/sharing.md makes it") from error
    fault = fault_of(FOLDER)
    if fault is not None:
        raise EngineError(fault.sentence)
    try:
        yield
    finally:
        if made:
            remove_unused(Path(FOLDER))


def remove_unused(folder: Path) -> None:
    """Remove the folder, unless programs other than ours have used it in the meantime."""
    ours = {"mutex", *(path.name for path in folder.glob(folder_of("GPU-0051ca4d") + "*"))}
    if all(each.name in ours for each in folder.iterdir()):
        shutil.rmtree(folder)


STAGES: tuple[Callable[[Proof], None], ...] = (
    host_and_container,
    two_containers,
    own_process_numbers,
    without_the_folder,
    compose,
    pod,
)


def main() -> int:
    """Run the stages that were named, or all; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.acceptance.containers")
    parser.add_argument("--engine", choices=("podman", "docker"), help="else the first that works")
    names = [each.__name__ for each in STAGES]
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join(names))
    options = parser.parse_args()
    if unknown := set(options.stages) - set(names):
        parser.error(f"no stage is called {', '.join(sorted(unknown))}")
    try:
        with tempfile.TemporaryDirectory(prefix="gpuconf-containers-") as work:
            name = find_engine(options.engine)
            with ledger_folder(), running_engine(name, Path(work)) as engine:
                return run(engine, options.stages or names)
    except EngineError as error:
        print(f"containers: cannot be tried here: {error}", file=sys.stderr)
        return 2


def run(engine: Engine, names: Sequence[str]) -> int:
    """Run these stages and print what came out."""
    print(output_of([engine.name, "--version"]).strip())
    if not engine.takes_gpus:
        print(f"changed in docker-run.sh: no {shlex.quote(GPUS.strip())}, for there is no GPU")
    proof = Proof(engine)
    for stage in STAGES:
        if stage.__name__ in names:
            print(f"{stage.__name__}: {(stage.__doc__ or '').strip().splitlines()[0]}", flush=True)
            try:
                stage(proof)
            except EngineError as error:
                proof.check("the stage runs to its end", False, error)
    print(f"{proof.failed} facts are not as the page says" if proof.failed else "all as it says")
    return 1 if proof.failed else 0


if __name__ == "__main__":
    sys.exit(main())
