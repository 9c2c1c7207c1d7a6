"""`gpuconf doctor --script train.py`: finds mistakes in the source.

The script is read but never run.  A line that ends in ``# gpuconf: ignore`` is skipped, and ``#
gpuconf: ignore[source.env_late]`` silences only that check there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence

from gpuconf.commands.doctor.finding import Finding, SourcePlace, crash
from gpuconf.commands.doctor.source import (
    batches,
    crowding,
    environment,
    growth,
    images,
    invalid_values,
    order,
    version_1,
)
from gpuconf.commands.doctor.source.run_unmodified import (
    OLD_STACK,
    PYTHON_2,
    in_one_line,
    is_of_python_2,
    unedited,
    why_not_edited,
)
from gpuconf.commands.doctor.source.script import Script, ScriptProblem
from gpuconf.commands.doctor.source.text import (
    SourceText,
    UnreadableSourceError,
    parse,
    read_text,
    source_of,
)

SOURCE_CHECKS: dict[str, str] = {
    "source.syntax": "the script is Python that can be read",
    "source.auto_missing": "whether a profile applies to the script",
    "source.auto_late": "`import gpuconf.auto` is before keras and every framework",
    "source.env_late": "environment variables are set before they are read",
    "source.refused_value": "the frameworks accept the values that the script sets for them",
    "source.growth_one_gpu": "memory growth is set for every GPU that is visible",
    "source.devices_early": "no device is created before its settings",
    "source.v1": "no TensorFlow 1 code that TensorFlow 2 and Keras 3 no longer have",
    "source.unedited": "whether the script is better left unchanged and started with `gpuconf run`",
    "source.crowded": "no part of the script takes the GPU from another part",
    "source.whole_set": "no whole data set goes to the GPU at once",
    "source.images_in_list": "the images are not all read into one list",
    "source.clean": "none of the patterns above was found in the script",
}
_CHECKS: dict[str, Callable[[Script], Iterator[ScriptProblem]]] = {
    "source.auto_missing": order.missing_auto,
    "source.auto_late": order.late_auto,
    "source.env_late": environment.late_variables,
    "source.refused_value": invalid_values.refused_values,
    "source.growth_one_gpu": growth.one_gpu_only,
    "source.devices_early": order.early_devices,
    "source.v1": version_1.version_1,
    "source.crowded": crowding.crowded,
    "source.whole_set": batches.whole_set_at_once,
    "source.images_in_list": images.images_in_a_list,
}
# Not counted: the check that reports that no profile applies, which is not a mistake.
_PATTERNS = len(_CHECKS) - 1
_IGNORE = re.compile(r"#\s*gpuconf:\s*ignore(?:\[(?P<ids>[^\]]*)\])?")
_MOST_PLACES = 8


def check_script(path: str) -> tuple[Finding, ...]:
    """The findings in the script or notebook at ``path``.

    Raises UsageError if the file does not exist or cannot be read.
    """
    try:
        text = read_text(path)
    except UnreadableSourceError as error:
        return (_unreadable(path, str(error)),)
    return findings_in(text, path, not_edited=why_not_edited(path))


def findings_in(text: str, filename: str, *, not_edited: str | None = None) -> tuple[Finding, ...]:
    """The findings in ``text``, in line order; ``filename`` is for display.

    If the name ends in ``.ipynb``, ``text`` is a notebook's JSON.  ``not_edited`` is the reason why
    the script should not be edited, or None.
    """
    try:
        source = source_of(text, filename)
        script = Script(source, parse(source.text))
    except SyntaxError as error:
        hint = [unedited(filename, PYTHON_2)] if is_of_python_2(error) else []
        return (_syntax_error(SourceText(filename, text), error), *hint)
    except UnreadableSourceError as error:
        return (_unreadable(filename, str(error)),)
    except (ValueError, RecursionError, MemoryError) as error:
        return (_unreadable(filename, f"{type(error).__name__}: {error}"),)
    found = [_examine(check_id, script) for check_id in _CHECKS]
    problems = [each for problems, _ in found for each in problems]
    crashes = [crash for _, crash in found if crash is not None]
    return (
        *_of_cells(source),
        *_of_ipython(source),
        *_findings_of(script, problems),
        *_unedited(script, problems, not_edited),
        *crashes,
    )


def _unedited(
    script: Script, problems: list[ScriptProblem], not_edited: str | None
) -> Iterator[Finding]:
    """The finding for a script on an old framework stack, or one the user should not edit."""
    heard = [each for each in problems if not _is_ignored(script.source, each)]
    is_old = any((each.id, each.status) == ("source.v1", "fail") for each in heard)
    why = not_edited or (OLD_STACK if is_old else None)
    if why is not None and any(each.id in ("source.auto_missing", "source.v1") for each in heard):
        yield unedited(script.source.filename, why)


def _examine(check_id: str, script: Script) -> tuple[list[ScriptProblem], Finding | None]:
    """The problems that one check finds; a crash becomes a finding and does not end the doctor."""
    try:
        return list(_CHECKS[check_id](script)), None
    except Exception as error:
        return [], crash(check_id, error)


def _findings_of(script: Script, problems: list[ScriptProblem]) -> Iterator[Finding]:
    """The problems as findings: identical ones once, silenced ones not at all."""
    heard = [each for each in problems if not _is_ignored(script.source, each)]
    places: dict[tuple[str, str], list[ScriptProblem]] = {}
    for each in sorted(heard, key=lambda each: getattr(each.node, "lineno", 0)):
        places.setdefault((each.id, each.what), []).append(each)
    for same in places.values():
        yield _finding(script, same)
    if all(each.status == "ok" for each in heard) and not script.source.errors:
        silenced = len(problems) - len(heard)
        note = (f"{silenced} silenced by `# gpuconf: ignore`",) if silenced else ()
        none = f"none of the {_PATTERNS} patterns looked for was found"
        what = f"{script.source.filename}: read; {none}"
        yield Finding("source.clean", "ok", what, note)


def _finding(script: Script, same: list[ScriptProblem]) -> Finding:
    first = same[0]
    where = list(dict.fromkeys(script.place(each.node) for each in same))
    number = getattr(first.node, "lineno", 1)
    detail = [*_quoted(script.source.text_lines[number - 1 : number]), *first.why]
    if len(where) > 1:
        rest = where[1:_MOST_PLACES]
        more = f" and {len(where) - _MOST_PLACES} more" if len(where) > _MOST_PLACES else ""
        detail.append(f"also at {', '.join(rest)}{more}")
    places = dict.fromkeys(_place(script.source, each.node) for each in same)
    what = f"{where[0]}: {first.what}"
    return Finding(first.id, first.status, what, tuple(detail), first.fix, tuple(places))


def _place(source: SourceText, node: ast.AST) -> SourcePlace:
    """The place of a node; only the first line of a function, a loop or a handler."""
    first: int = getattr(node, "lineno", 1)
    is_block = hasattr(node, "body") and not isinstance(node, ast.expr)
    return source.source_place(first, first if is_block else getattr(node, "end_lineno", None))


def _quoted(lines: list[str]) -> list[str]:
    """Source lines for display: indented, without control characters."""
    shown = ("".join(char if char.isprintable() else " " for char in line) for line in lines)
    return [f"    {line.strip()}" for line in shown if line.strip()]


def _is_ignored(source: SourceText, problem: ScriptProblem) -> bool:
    first = getattr(problem.node, "lineno", 1)
    last = getattr(problem.node, "end_lineno", None) or first
    if isinstance(problem.node, ast.ExceptHandler):
        last = first
    for line in source.text_lines[first - 1 : last]:
        if found := _IGNORE.search(line):
            ids = found["ids"]
            if ids is None or problem.id in _spelled(ids):
                return True
    return False


def _spelled(ids: str) -> set[str]:
    """The ids in brackets; a dash counts as an underscore, as on the command line."""
    return {each.strip().replace("-", "_") for each in ids.split(",")}


def _syntax_error(source: SourceText, error: SyntaxError) -> Finding:
    place = source.place(error.lineno or 1, error.offset or 1)
    fix = "# correct this line; the other cells were read"
    if not source.cell_starts:
        fix = "# correct this line; to see it as Python does:\n"
        fix += f"# python -m py_compile {source.filename}"
    if is_of_python_2(error):
        fix += f"\n# or unedited, with its Python 2: {in_one_line(source.filename)}"
    return Finding(
        "source.syntax",
        "fail",
        f"{place}: {error.msg}",
        tuple(_quoted([error.text or ""])),
        fix,
        (source.source_place(max(error.lineno or 1, 1)),),
    )


def _of_cells(source: SourceText) -> Iterator[Finding]:
    """The unreadable cells of a notebook, as one finding."""
    if not source.errors:
        return
    first, *others = source.errors
    found = _syntax_error(source, first)
    more = [source.place(each.lineno or 1) for each in others[:_MOST_PLACES]]
    detail = (*found.detail, f"also at {', '.join(more)}") if more else found.detail
    yield found._replace(detail=detail)
    if is_of_python_2(first):
        yield unedited(source.filename, PYTHON_2)


def _of_ipython(source: SourceText) -> Iterator[Finding]:
    """A script without cells that has a line only IPython can read: python stops there."""
    if source.ipython_line is None:
        return
    (quoted,) = _quoted([source.ipython_text])
    yield Finding(
        "source.syntax",
        "warn",
        f"{source.place(source.ipython_line)}: only IPython can read this line, python cannot",
        (quoted, "the rest was read without such lines"),
        f"# {quoted.strip()}\n# as a comment; run what it does in a terminal",
        (source.source_place(source.ipython_line),),
    )


def _unreadable(filename: str, why: str) -> Finding:
    fix = f"# name a script or notebook; to see what this is:\n# file {filename}"
    what = f"{filename}: it cannot be read as Python"
    return Finding("source.syntax", "fail", what, (why,), fix, (SourcePlace(filename, 1, 1),))


def in_one(findings: Sequence[Finding], files: int) -> list[Finding]:
    """The findings in several files; the last one reports how many files have none."""
    if files == 1:
        return list(findings)
    clean = [each for each in findings if each.id == "source.clean"]
    found = files - len(clean) or "none"
    what = f"{files} files read for {_PATTERNS} patterns, {found} with findings"
    return [*(each for each in findings if each not in clean), Finding("source.clean", "ok", what)]
