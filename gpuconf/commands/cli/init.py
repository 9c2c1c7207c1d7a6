"""``gpuconf init``: write a commented ``gpuconf.yaml`` that fits this machine."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from gpuconf.basics.units import GIB, MIB, exact_size, sized
from gpuconf.commands.cli.output import Output
from gpuconf.errors import GpuconfError, UsageError
from gpuconf.machine.cards import Gpu, Inventory
from gpuconf.machine.cards.system_memory import IDLE_BYTES
from gpuconf.machine.leases.reading import read_with_leases
from gpuconf.profile import find_profile, load_profile
from gpuconf.profile.chain import read_links
from gpuconf.profile.search import places

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./-]*")
_SMALL_CARD_BYTES = 4 * GIB + 256 * MIB  # a "4 GB" GPU reports a little more or less than 4 GiB


class ProfileProposal(NamedTuple):
    """The shipped profile that fits, and the reason."""

    extends: str
    because: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set this command's description and add its arguments."""
    parser.description = "Look at this machine's GPUs and write a commented gpuconf.yaml for them."
    parser.add_argument(
        "--extends", metavar="PROFILE", help="the profile to build on (default: the one that fits)"
    )
    parser.add_argument(
        "--output", metavar="FILE", default="gpuconf.yaml", help="default: gpuconf.yaml"
    )
    parser.add_argument("--force", action="store_true", help="overwrite the file if it exists")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Write the file.  Never overwrite a file, and never leave an incomplete or invalid one."""
    _check_name(options.output)
    inventory = read_with_leases()
    proposal = propose(inventory)
    if options.extends is not None:
        parent = _as_seen_from(options.output, options.extends)
        proposal = ProfileProposal(parent, "--extends was given")
    text = render(proposal, inventory)
    _write(options.output, text, overwrite=options.force)
    output.prose(f"wrote {options.output}: extends {proposal.extends}, because {proposal.because}")
    output.prose("next: `gpuconf plan` shows what it does here")
    named = os.environ.get("GPUCONF_PROFILE")
    if named:
        output.note(
            f"note: GPUCONF_PROFILE={named} is set, and applies instead; `unset GPUCONF_PROFILE`"
        )
    if inventory.problem is not None:
        output.note(f"note: {inventory.problem}")
    return 0


def _check_name(file: str) -> None:
    """Refuse a file name that commands and GPUCONF_PROFILE would not take as a profile path."""
    if not file.endswith((".yaml", ".yml")):
        raise UsageError(
            f"--output {file}: a profile's file name must end in .yaml or .yml",
            hint=f"gpuconf init --output {shlex.quote(file.rstrip('/') + '.yaml')}",
        )


def _as_seen_from(file: str, profile: str) -> str:
    """Check ``profile`` and make a path relative to the folder of ``file``, as extends requires.

    Refuses a profile that is, or extends, the file to be written, which would then extend itself.
    """
    load_profile(profile)
    location = find_profile(profile)
    links, _ = read_links(location, places(os.environ, None), os.environ)
    if os.path.realpath(file) in {os.path.realpath(link.path) for link in links}:
        raise UsageError(
            f"--extends {profile} builds on {file} itself, which would be overwritten",
            hint="name another parent (`gpuconf profiles list` shows them), or write elsewhere "
            "with --output FILE",
        )
    if location.origin != "path":
        return profile
    relative = os.path.relpath(location.path, os.path.dirname(os.path.abspath(file)))
    return relative if "/" in relative else f"./{relative}"


def propose(inventory: Inventory) -> ProfileProposal:
    """Return the shipped profile that fits ``inventory``."""
    gpus = inventory.gpus
    if inventory.problem is not None:
        return ProfileProposal("shared-desktop", "nothing is known about the GPUs")
    if not gpus:
        return ProfileProposal("cpu-only", "the driver finds no GPU")
    totals = [gpu.total_bytes for gpu in gpus if gpu.total_bytes is not None]
    if totals and max(totals) <= _SMALL_CARD_BYTES:
        return ProfileProposal("small-laptop", f"the GPU has {sized(max(totals))}")
    if any(gpu.display_active or _drawing(gpu) for gpu in gpus):
        return ProfileProposal("shared-desktop", "a GPU drives a display")
    return _by_use(gpus)


def _by_use(gpus: Sequence[Gpu]) -> ProfileProposal:
    """Choose for larger GPUs without a display, by how much memory other processes hold."""
    if any(gpu.processes or gpu.leases for gpu in gpus):
        return ProfileProposal("half-card", "other programs use memory on a GPU now")
    held = max((gpu.used_bytes or 0 for gpu in gpus if gpu.processes is None), default=0)
    if held > IDLE_BYTES:  # WSL2, or a container that hides its neighbors
        return ProfileProposal(
            "shared-desktop",
            f"{sized(held)} are in use, but the driver lists no program",
        )
    if all(gpu.total_bytes is None for gpu in gpus):
        return ProfileProposal("shared-desktop", "the driver reports no memory figures")
    return ProfileProposal("dedicated", "no display and no other program uses the GPUs")


def _drawing(gpu: Gpu) -> bool:
    return any(process.kind == "graphics" for process in gpu.processes or ())


def render(proposal: ProfileProposal, inventory: Inventory) -> str:
    """Return the file's text: the GPUs, the profile, the reason, and keys that a user may want."""
    extends = proposal.extends
    if not _PLAIN.fullmatch(extends):
        extends = json.dumps(extends, ensure_ascii=False)  # valid YAML too
    first = inventory.gpus[0] if inventory.gpus else None
    total = first.total_bytes if first is not None else None
    half = exact_size(total // 2 // MIB * MIB) if total is not None else "4GiB"
    return "\n".join(
        [
            "# Read by `import gpuconf.auto` for scripts in this folder, and below it within a git",
            "# repository or your home folder, unless GPUCONF_PROFILE names another profile.",
            "# `gpuconf plan` shows what it does on this machine.",
            "#",
            *_seen(inventory),
            "",
            "description: For this machine",
            f"extends: {extends}    # because {proposal.because}",
            "",
            "# Your own rules; uncomment those you want. `gpuconf profiles show",
            "# project` lists all that are active, `gpuconf profiles check gpuconf.yaml` checks.",
            '# gpus: {pick: most-free, count: 1}    # or all, none, [0], ["GPU-8f6c"]',
            "memory:",
            f"  # memory_limit: {half}    # never more than this on a GPU",
            "  # keep_free: 1GiB    # left free, for the display's next window",
            "  # context: 700MiB    # used outside the limit: the CUDA context, cuDNN, cuBLAS",
            "  # lease: false    # reserve nothing, and use what others have reserved",
            "  # on_shortage: {wait: 10min}    # in the queue, if too little is left; or fail, cpu",
            "",
        ]
    )


def _seen(inventory: Inventory) -> list[str]:
    if inventory.problem is not None:
        return textwrap.wrap(
            f"# Seen here: {inventory.problem}",
            80,
            subsequent_indent="#   ",
            break_on_hyphens=False,
        )
    if not inventory.gpus:
        return ["# Seen here: no GPU"]
    return ["# Seen here:", *(f"#   {_describe(gpu)}" for gpu in inventory.gpus)]


def _describe(gpu: Gpu) -> str:
    total = sized(gpu.total_bytes) if gpu.total_bytes is not None else "memory unknown"
    parts = [f"GPU {gpu.index}: {gpu.name or 'unnamed'}", total]
    if gpu.used_bytes is not None:
        parts.append(f"{sized(gpu.used_bytes)} in use")
    if gpu.promised_bytes:
        parts.append(f"{sized(gpu.promised_bytes)} more leased")
    if gpu.display_active:
        parts.append("drives a display")
    return ", ".join(parts)


def _write(path: str, text: str, *, overwrite: bool) -> None:
    """Write to a temporary file next to ``path``, check it as a profile, then rename it."""
    temporary = f"{path}.{os.getpid()}.tmp.yaml"
    if os.path.lexists(path) and not overwrite:
        raise GpuconfError(
            f"{path} already exists and was not overwritten",
            hint="`gpuconf init --force` overwrites it; `--output FILE` writes elsewhere",
        )
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        load_profile(os.path.abspath(temporary))
        os.replace(temporary, path)
    except OSError as error:
        folder = os.path.dirname(path)
        is_missing = bool(folder) and not os.path.lexists(folder)
        elsewhere = "`gpuconf init --output FILE` writes elsewhere"
        raise GpuconfError(
            f"{path} cannot be written: {error.strerror}",
            hint=f"mkdir -p {shlex.quote(folder)}" if is_missing else elsewhere,
        ) from error
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
