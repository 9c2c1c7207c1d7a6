"""``gpuconf ps``: show which processes use memory on each GPU, and which are waiting."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING

from gpuconf.basics.units import parse_duration
from gpuconf.commands.cli.output import Output
from gpuconf.support.command_line import seconds_argument

if TYPE_CHECKING:
    from gpuconf.commands.ps.document import Holdings

_INTERVAL_S = 2.0
_SHORTEST_INTERVAL_S = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set this command's description and add its arguments."""
    parser.description = (
        "Show each GPU as a bar, and who uses its memory: your processes, with what they use and "
        "have reserved, a total for each other user, and the programs that are waiting. BUSY is "
        "the fraction of the last seconds during which they were computing, where "
        "the driver reports it. Never waits. gpuconf never ends a program that it did not start."
    )
    add = parser.add_argument
    add(
        "-a",
        "--all-users",
        action="store_true",
        help="show each process of every user, as far as the driver and /proc allow",
    )
    once = parser.add_mutually_exclusive_group()
    once.add_argument(
        "--watch",
        nargs="?",
        const=_INTERVAL_S,
        type=_interval,
        metavar="SECONDS",
        help=f"redraw every SECONDS (default: {_INTERVAL_S:g}) until Ctrl-C",
    )
    once.add_argument(
        "--record",
        action="store_true",
        help="print nothing, and append which processes are busy to a file in the lease folder; "
        "for use with a timer",
    )
    once.add_argument(
        "--idle",
        type=_duration,
        metavar="TIME",
        help="show only processes, of all users, that the record shows idle for TIME (30min, 2h)",
    )
    add("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=run)


def _interval(text: str) -> float:
    seconds = seconds_argument(text)
    if not _SHORTEST_INTERVAL_S <= seconds <= 24 * 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0.1 seconds and a day")
    return seconds


def _duration(text: str) -> float:
    try:
        if parse_duration(text) > 0:
            return parse_duration(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 30min or 2h")


def run(options: argparse.Namespace, output: Output) -> int:
    """Print once, or redraw until Ctrl-C and then exit with code 0."""
    # Imported here so that other commands do not pay for it.
    from gpuconf.commands.ps.text import lines_of
    from gpuconf.support.reporting.lines import Line
    from gpuconf.support.reporting.memory_bars import GLYPHS, BarLayout

    if options.record:
        from gpuconf.commands.ps.gathering import read_holdings
        from gpuconf.commands.ps.record import write_record

        write_record(read_holdings())
        return 0

    is_ascii = not output.can_write(GLYPHS)
    if options.watch is None:
        if output.as_json:
            output.document(holdings_for(options))
        else:
            nobody = None if options.idle is None else "the record shows no process as idle so long"
            layout = BarLayout(output.width, is_ascii)
            output.lines(lines_of(holdings_for(options), layout, nobody))
        return 0

    from gpuconf.commands.cli.live import check_terminal, watch

    words = ["gpuconf", "ps", *(["--all-users"] if options.all_users else [])]
    check_terminal(output, shlex.join([*words, *(["--json"] if output.as_json else [])]))

    def picture(width: int) -> list[Line]:
        found = holdings_for(options)
        head = f"gpuconf ps, every {options.watch:g} s: {found.made_at[11:19]}  (Ctrl-C ends it)"
        return [Line(head, "dim"), Line(), *lines_of(found, BarLayout(width, is_ascii))]

    watch(picture, output, options.watch)
    return 0


def holdings_for(options: argparse.Namespace) -> Holdings:
    """Return the current holders of memory, as far as requested."""
    from gpuconf.commands.ps.gathering import read_holdings, summed_up

    everybody = read_holdings()
    if options.idle is not None:
        from gpuconf.commands.ps.record import only_idle

        return only_idle(everybody, options.idle)
    return everybody if options.all_users else summed_up(everybody)
