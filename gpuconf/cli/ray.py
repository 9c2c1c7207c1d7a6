"""``gpuconf ray doctor``: run the doctor on each node of a Ray cluster."""

from __future__ import annotations

import argparse

from gpuconf.cli.output import Output
from gpuconf.command_line import describe, seconds_argument
from gpuconf.nodes import NODE_TIMEOUT_S

_EXAMPLES = """\
examples:
  gpuconf ray doctor                      # the cluster that this machine is in
  gpuconf ray doctor --address head:6379 driver cards

exit codes: 0 fine, or warnings; 1 a check failed (with --strict, or warned),
or a node gave no report; 2 bad usage; 3 a check crashed; 4 Ray is not
installed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set this command's description and add its arguments."""
    parser.description = (
        "Commands for a Ray cluster. `gpuconf docs clusters` explains gpuconf.ray, for programs."
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    doctor = actions.add_parser("doctor", help="run gpuconf doctor on each node, in one table")
    describe(
        doctor,
        "Run gpuconf doctor on each node of a Ray cluster, in a task that takes none of\n"
        "the node's resources, and show one table. A node that does not answer is a row.",
        _EXAMPLES,
    )
    add = doctor.add_argument
    add("checks", nargs="*", metavar="CHECK", help="checks of `gpuconf doctor` (default: all)")
    add("--address", default="auto", metavar="HOST:PORT",
        help="the cluster, as ray.init takes it (default: the one of this machine)")  # fmt: skip
    add("--profile", metavar="PROFILE", help="examine as if this profile applied")
    add("--timeout", type=seconds_argument, default=NODE_TIMEOUT_S, metavar="SECONDS",
        help=f"wait this long for the nodes (default {NODE_TIMEOUT_S:.0f})")  # fmt: skip
    add("--strict", action="store_true", help="exit 1 on warnings too")
    add("--json", action="store_true", help="print one JSON document")
    doctor.set_defaults(command=run_doctor)


def run_doctor(options: argparse.Namespace, output: Output) -> int:
    """Ask every node, print the results, and return the exit code."""
    # Imported here so that other commands do not pay for it.
    from gpuconf.cli.nodes import doctor_words, show_nodes
    from gpuconf.nodes.over_ray import ask_nodes

    words = doctor_words(options.checks, options.profile)
    report = ask_nodes(options.address, words, options.timeout, output.progress)
    return show_nodes(report, output, strict=options.strict)
