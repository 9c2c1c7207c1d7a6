"""``gpuconf profiles``: list, show and check profiles, and print their JSON Schema for editors."""

from __future__ import annotations

import argparse
import os
import shlex

import yaml

from gpuconf.basics.terminal import printable
from gpuconf.commands.cli.documents import (
    CheckedProfile,
    ListedProfile,
    ProfilesDocument,
    ShownProfile,
)
from gpuconf.commands.cli.output import Output
from gpuconf.errors import ProfileError, ProfileNotFoundError
from gpuconf.profile import (
    ProfileEntry,
    check_profile,
    chosen_profile,
    find_profile,
    list_profiles,
    load_profile,
    refused_if_found,
)
from gpuconf.profile.files import read_bytes, shipped_folder
from gpuconf.profile.search import is_path
from gpuconf.profile.shown import to_plain
from gpuconf.support.reporting.lines import Table
from gpuconf.support.reporting.problems import problem_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set this command's description and add its arguments."""
    parser.description = (
        "A profile is a small YAML file that states which GPUs a program sees and how much "
        "memory of each it may use. These commands list, show and check profiles; the default is "
        "list."
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=run_list)
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    listing = actions.add_parser(
        "list",
        help="list every profile that can be found",
        description="List every profile that can be found: the project's, yours, and those that "
        "gpuconf ships; and which one applies here.",
    )
    listing.add_argument("--json", action="store_true", help="print one JSON document")
    listing.set_defaults(command=run_list)
    show = actions.add_parser(
        "show",
        help="print a profile with everything it inherits",
        description="Print a profile as it applies, with all that it inherits. The output is "
        "itself a profile.",
    )
    show.add_argument("name", metavar="NAME", help="a profile's name, or a path to one")
    show.add_argument("--json", action="store_true", help="print one JSON document")
    show.set_defaults(command=run_show)
    check = actions.add_parser(
        "check",
        help="check a profile file; exits 2 if it is invalid",
        description="Check a profile and report everything that is wrong with it, by line and "
        "column. Exits 0 if it is valid, 2 if not.",
    )
    check.add_argument("file", metavar="FILE", help="the file, or a profile's name")
    check.add_argument("--json", action="store_true", help="print one JSON document")
    check.set_defaults(command=run_check)
    schema = actions.add_parser(
        "schema",
        help="print the JSON Schema, for editors",
        description="Print the JSON Schema for profiles, which editors use for completion and "
        "validation.",
    )
    schema.set_defaults(command=run_schema)


def run_list(options: argparse.Namespace, output: Output) -> int:
    """Print every profile, in order of precedence."""
    del options
    entries = list_profiles()
    if output.as_json:
        output.document(ProfilesDocument(tuple(map(_listed, entries))))
        return 0
    rows = []
    for entry in entries:
        remark = entry.description or ""
        if entry.is_shadowed:
            remark = f"(hidden by a closer one) {remark}"
        if entry.error is not None:
            remark = f"broken: {entry.error.message}"
        rows.append((printable(entry.name), entry.origin, " ".join(remark.split())))
    output.table(Table(("NAME", "FROM", "WHAT FOR"), rows))
    choice = chosen_profile()
    missing = "" if _can_be_found() else ", but that profile does not exist"
    output.note(f"active here: {choice.profile}, because {choice.because}{missing}")
    return 0


def _can_be_found() -> bool:
    """Whether the active profile exists."""
    try:
        location = find_profile()
        return location.origin == "shipped" or os.path.exists(location.path)
    except ProfileNotFoundError:
        return False


def _listed(entry: ProfileEntry) -> ListedProfile:
    error = None if entry.error is None else problem_of(entry.error)
    return ListedProfile(*entry[:-1], error=error)


def run_show(options: argparse.Namespace, output: Output) -> int:
    """Print a profile with all inherited keys."""
    profile = load_profile(options.name)
    if output.as_json:
        output.document(ShownProfile(profile.name, profile.source, to_plain(profile)))
        return 0
    output.line(f"# {profile.source}", "dim")
    output.line(yaml.safe_dump(to_plain(profile), sort_keys=False, width=90).rstrip())
    return 0


def run_check(options: argparse.Namespace, output: Output) -> int:
    """Check a file: print its errors to stderr and exit with code 2, or print that it is ok."""
    errors = check_profile(options.file)
    # A valid profile given by name was already checked with the rights of a found file.
    refused = [] if errors or not is_path(options.file) else refused_if_found(options.file)
    if output.as_json:
        output.document(
            CheckedProfile(
                file=options.file,
                ok=not errors,
                errors=tuple(map(problem_of, errors)),
                refused_if_found=tuple(map(problem_of, refused)),
            )
        )
    elif not errors:
        output.line(f"{options.file}: ok")
    for error in () if output.as_json else errors:
        output.error(error)
    if refused and not output.as_json:
        output.note(_unless_named(refused))
    return 2 if errors else 0


def _unless_named(refused: list[ProfileError]) -> str:
    """Return the note for a file that is valid if named explicitly, but refused if found."""
    file = refused[0].file or ""
    keys = ", ".join(f"{error.key} in line {error.line}" for error in refused)
    return (
        f"note: ok if it is given by its path. If gpuconf finds it in a project, it refuses {keys} "
        f"until: gpuconf trust {printable(shlex.quote(os.path.abspath(file)))}"
    )


def run_schema(options: argparse.Namespace, output: Output) -> int:
    """Print the JSON Schema for profiles."""
    del options
    file = os.path.join(shipped_folder(), "profile.schema.json")
    output.line(read_bytes(file).decode().rstrip("\n"))
    return 0
