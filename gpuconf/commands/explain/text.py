"""A Diagnosis as readable lines: the cause, the figures, the changes, and then the evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from gpuconf.basics.terminal import for_ipython, is_in_ipython
from gpuconf.basics.units import sized
from gpuconf.commands.explain.diagnosis import Diagnosis
from gpuconf.support.failures.causes import CAUSES, NOT_GPU, PAGE_OF_CAUSE, SEVERITIES
from gpuconf.support.failures.facts.allocations import Allocations
from gpuconf.support.failures.facts.dump import Dump
from gpuconf.support.failures.facts.tensor import MemoryRequest
from gpuconf.support.failures.outcome import speaks_of_gpus
from gpuconf.support.failures.reading import Evidence, LogFacts
from gpuconf.support.reporting.lines import Line
from gpuconf.support.reporting.text import text_of

STYLES = {"failure": "bold red", "silent-cpu-fallback": "bold yellow", "warning-only": "yellow"}
_LABEL = 21
# The timestamp and source location before a line of TensorFlow's log.
_PREFIX = re.compile(
    r"^\W{0,4}(?:\d{4}-\d\d-\d\d [\d:.]{1,40}: )?[IWEF](?:\d{4} [\d:.]{1,40}\s{1,9}\d{1,9})?"
    r"\s\S{0,300}\.(?:cc|h|cpp):\d{1,9}\] "
)
# Control characters, with which a log could move the cursor, change colors or overwrite text.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MOST_LAYERS, _MOST_NODES = 3, 4
_MOST_PROPOSALS = 3
_MOST_EVIDENCE = 2
_OF_THE_HOST = ("host-oom", "disk-full")
_ALWAYS_SHOWN = ("missing_libraries", "full_folder", "unwritten")
_LONGEST_TEXT = 160


@text_of.register
def _text(diagnosis: Diagnosis) -> str:
    return "\n".join(lines_of(diagnosis))


def lines_of(diagnosis: Diagnosis, *, verbose: bool = False, source: str | None = "") -> list[str]:
    """The report without styles."""
    return [line.text for line in styled_lines(diagnosis, verbose=verbose, source=source)]


def styled_lines(
    diagnosis: Diagnosis, *, verbose: bool = False, source: str | None = ""
) -> Iterator[Line]:
    """The report, line by line.

    ``source`` is the log's name, printed before its line numbers; None omits the numbers, as for an
    exception.
    """
    for line in _report(diagnosis, source, verbose=verbose):
        yield line._replace(text=_CONTROLS.sub(" ", line.text))


def _report(diagnosis: Diagnosis, source: str | None, *, verbose: bool) -> Iterator[Line]:
    yield Line(headline(diagnosis), STYLES.get(diagnosis.severity, "bold green"))
    for label, text in fact_rows(diagnosis):
        yield _labeled(label, text)
    yield from _proposals(diagnosis, verbose=verbose)
    yield from _under(
        "evidence",
        *evidence_lines(diagnosis.evidence, source, verbose=verbose),
        *_others(diagnosis, source, verbose=verbose),
        *_notes(diagnosis.notes, verbose=verbose),
    )
    yield from _page(diagnosis)


def _under(heading: str, *lines: Line) -> Iterator[Line]:
    """The lines, after an empty line and a heading; nothing if there are none."""
    if lines:
        yield Line("")
        yield Line(heading, "bold")
        yield from lines


def _labeled(label: str, text: str, style: str = "") -> Line:
    return Line(f"  {label:{_LABEL}}{text}", style, 2 + _LABEL)


def headline(diagnosis: Diagnosis) -> str:
    """The cause, and how the run ended."""
    ending = SEVERITIES[diagnosis.severity]
    if diagnosis.severity == "warning-only" and diagnosis.evidence:  # less severe than the title
        return f"{_specific_evidence(diagnosis.evidence)[0].means} ({diagnosis.cause}): {ending}"
    if diagnosis.cause != NOT_GPU:
        return f"{diagnosis.title} ({diagnosis.cause}): {ending}"
    ended = diagnosis.facts.exception or diagnosis.facts.cut_off
    if ended is not None and speaks_of_gpus(ended):
        return f"nothing known ({NOT_GPU}), although it mentions a GPU: the run ended with {ended}"
    if ended is not None:
        return f"{diagnosis.title} ({NOT_GPU}): the run ended with {ended}"
    if diagnosis.line_count == 0:
        return f"{diagnosis.title} ({NOT_GPU}): the log is empty"
    lines = "1 line" if diagnosis.line_count == 1 else f"{diagnosis.line_count} lines"
    return f"{diagnosis.title} ({NOT_GPU}) in {lines}"


def evidence_lines(
    found: Iterable[Evidence], source: str | None, *, verbose: bool
) -> Iterator[Line]:
    """The lines of the log that serve as evidence, each with its meaning."""
    found = list(found)
    shown = found if verbose else _specific_evidence(found)
    if not verbose:  # show a line that matches two rules once
        shown = list({each.line: each for each in reversed(shown)}.values())[::-1]
    for each in shown if verbose else shown[:_MOST_EVIDENCE]:
        text = _short(each.text, verbose=verbose)
        yield Line(f"  {_place(each, source)}{text}", "dim", 4)
        yield Line(f"      {each.means}", hang=6)


def _specific_evidence(found: Sequence[Evidence]) -> Sequence[Evidence]:
    """The specific lines, if there are any; otherwise all of them."""
    return [each for each in found if not each.generic] or found


def _place(evidence: Evidence, source: str | None) -> str:
    if source is None:
        return ""
    place = f"{source}:{evidence.line}" if source else f"line {evidence.line}"
    return f"{place} ({evidence.lines} times)  " if evidence.lines > 1 else f"{place}  "


def _short(text: str, *, verbose: bool) -> str:
    if verbose:
        return text
    text = _PREFIX.sub("", text)
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 2]} …"


def fact_rows(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """Facts in the log other than the cause: a label ("" continues the one above) and a text."""
    facts = diagnosis.facts
    code = facts.user_code
    if code is not None and diagnosis.severity in ("failure", "not-gpu"):
        place = code.file if code.line is None else f"{code.file}:{code.line}"
        yield "your code", f"{place}  {code.code or ''}".rstrip()
    if diagnosis.cause != NOT_GPU:
        on_card = diagnosis.cause not in _OF_THE_HOST
        if diagnosis.cause != "disk-full":
            yield from _asked(facts.request, on_card=on_card, said=_said(diagnosis))
        if on_card:
            yield from _card(facts)
        if facts.dump is not None and diagnosis.is_about_memory:
            yield from _dump(facts.dump)
        if facts.allocations is not None:
            yield from _layers(facts.allocations)
    said = " ".join(each.text for each in diagnosis.evidence)
    for name, value in facts.details.items() if diagnosis.cause != NOT_GPU else ():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        if shown not in said or name in _ALWAYS_SHOWN:  # otherwise the line above has it
            yield name.replace("_", " "), shown


def _said(diagnosis: Diagnosis) -> str:
    """The log lines about the failure, joined into one text."""
    lines = (*diagnosis.evidence, *diagnosis.consequences)
    return " ".join([diagnosis.facts.exception or "", *(each.text for each in lines)])


def _asked(request: MemoryRequest, *, on_card: bool, said: str) -> Iterator[tuple[str, str]]:
    tensor = request.tensor
    if tensor is not None:
        dtype = tensor.dtype or "float32 (the message names no type)"
        yield "the tensor", f"{list(tensor.shape)} {dtype} = {sized(tensor.size_bytes)}"
        yield "", tensor.arithmetic
        if request.likely_batch is not None and on_card:
            yield "", f"the first dimension looks like the batch: {request.likely_batch}"
    elif request.size_bytes is not None:
        is_exact = str(request.size_bytes) in said.replace(",", "")  # not from a rounded figure
        exact = f" ({request.size_bytes} B)" if is_exact else ""
        yield "requested", f"{sized(request.size_bytes)}{exact}"
    if request.node is not None:
        yield "by", request.node


def _card(facts: LogFacts) -> Iterator[tuple[str, str]]:
    card = facts.card
    if card is None:
        return
    sizes = (
        ("", card.total_bytes),
        ("free ", card.free_bytes),
        ("TensorFlow's limit ", card.limit_bytes),
    )
    parts = [card.name or "", *(f"{name}{sized(size)}" for name, size in sizes if size is not None)]
    if card.compute_capability is not None:
        parts.append(f"compute capability {card.compute_capability}")
    if any(parts):
        yield "the GPU", ", ".join(part for part in parts if part)
    for holder in card.holders:
        who = f"process {holder.pid}{f' ({holder.name})' if holder.name else ''}"
        yield "used by", f"{who}: {sized(holder.size_bytes)}"


def _dump(dump: Dump) -> Iterator[tuple[str, str]]:
    if dump.in_use_bytes is not None and dump.limit_bytes is not None:
        peak = f", at most {sized(dump.peak_bytes)}" if dump.peak_bytes is not None else ""
        yield "in use", f"{sized(dump.in_use_bytes)} of {sized(dump.limit_bytes)}{peak}"
    free, largest, asked = dump.free_bytes, dump.largest_free_bytes, dump.requested_bytes
    if free is None:
        return
    if dump.is_fragmented and asked is not None:
        shown = (
            "every free chunk" if largest is None else f"the largest free chunk, {sized(largest)}"
        )
        yield "fragmented", f"{sized(free)} free ≥ {sized(asked)} requested > {shown}"
    elif largest is not None:
        yield "free", f"{sized(free)}, the largest chunk {sized(largest)}"
    else:
        yield "free", sized(free)
    if dump.unclaimed_bytes:
        was_asked = asked is None or asked <= dump.unclaimed_bytes
        why = "which the GPU did not give" if was_asked else "less than the request"
        yield "not claimed", f"{sized(dump.unclaimed_bytes)} of the limit, {why}"


def _layers(table: Allocations) -> Iterator[tuple[str, str]]:
    """The layers with the most memory, and the memory of each of their nodes."""
    for number, layer in enumerate(table.layers[:_MOST_LAYERS]):
        nodes = [
            f"{node.node.rpartition('/')[2]} {sized(node.size_bytes)}"
            for node in layer.nodes[:_MOST_NODES]
        ]
        of_nodes = f" ({', '.join(nodes)})" if len(layer.nodes) > 1 else ""
        yield "" if number else "layers", f"{layer.name} {sized(layer.size_bytes)}{of_nodes}"


def _others(diagnosis: Diagnosis, source: str | None, *, verbose: bool) -> Iterator[Line]:
    if not diagnosis.consequences:
        return
    if not verbose:
        titles = dict.fromkeys(
            CAUSES[each.cause].title for each in diagnosis.consequences if each.cause
        )
        yield _labeled("also seen", f"{'; '.join(titles)} (-v shows the lines)")
        return
    yield Line("  follow-up and unrelated errors:")
    yield from evidence_lines(diagnosis.consequences, source, verbose=True)


def _notes(notes: Iterable[Evidence], *, verbose: bool) -> Iterator[Line]:
    notes = list(notes)
    if not notes:
        return
    if not verbose:
        count = sum(note.lines for note in notes)
        hidden = "1 warning hidden (-v shows it)"
        if count > 1:
            hidden = f"{count} warnings hidden (-v shows them)"
        yield _labeled("harmless", hidden, "dim")
        return
    yield Line("  harmless:")
    for note in notes:
        yield Line(f"    line {note.line}, {note.lines} in total: {note.means}", "dim", 6)


def _proposals(diagnosis: Diagnosis, *, verbose: bool) -> Iterator[Line]:
    shown = diagnosis.proposals if verbose else diagnosis.proposals[:_MOST_PROPOSALS]
    lines: list[Line] = []
    in_cell = is_in_ipython()
    for number, proposal in enumerate(shown, 1):
        paste = for_ipython(proposal.paste) if in_cell else proposal.paste
        given = [each.reason for each in shown[: number - 1]]
        lines += [
            Line(f"  {number}. {proposal.title}", hang=5),
            *([] if proposal.reason in given else [Line(f"     {proposal.reason}", "dim", 5)]),
            *(Line(f"         {text}", "cyan", None) for text in paste.splitlines()),
        ]
    hidden = len(diagnosis.proposals) - len(shown)
    if hidden:
        lines.append(Line(f"  … and {hidden} more (-v)", "dim"))
    yield from _under("what to change", *lines)


def _page(diagnosis: Diagnosis) -> Iterator[Line]:
    if diagnosis.cause == NOT_GPU and diagnosis.line_count == 0:
        return  # an empty log
    yield Line("")
    yield Line(f"about this cause: {PAGE_OF_CAUSE}{diagnosis.cause}", "dim")
