"""Parse XLA's buffer assignment: the memory that a compiled step will request.

``--xla_dump_to`` writes the text as ``…buffer-assignment.txt`` before any code is generated.  It
lists the allocations, the values in each, and each value's source and live range.  Pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from gpuconf.basics.units import MIB

_ALLOCATION = re.compile(r"allocation \d+: (?:0x[0-9a-f]+, )?size (\d+), (.*)")  # 2.15: an address
_VALUE = re.compile(r" value: <\d+ (\S+) @\d+> \(size=(\d+),offset=(\d+)\)")
_DEFINED = re.compile(r" from instruction: (?:ROOT )?%(\S+) = (.*)")
_LIVES = re.compile(r"    (\S+?)(\{[\d,]*\}):(\d+)-(\d+)$")
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_SHAPE = re.compile(r"\b([a-z]+\d*[a-z0-9]*)\[([\d,]*)\]")
_CALLED = re.compile(r"calls=%([\w.-]+)")
_COMPUTATION = re.compile(r"(?:ENTRY )?%([\w.-]+) \(.*\{$")
_END = "HloLiveRange"
_CONVOLUTION = "__cudnn$conv"
_BITS = re.compile(r"\d+")
# Instructions for which XLA tries several algorithms or tilings if it compiles on a GPU.
_TUNED = ("__triton_gemm", "__triton_nested_gemm", "__cublas$", "__cudnn$")
# Bytes of the guard zones around each buffer of a trial: 8 MiB on both sides (kRedzoneSize in
# redzone_allocator.h).
_GUARD_BYTES = 16 * MIB


class OperationShare(NamedTuple):
    """Bytes in use when the block is fullest, by the operation that they came from."""

    op_name: str
    size_bytes: int


class Assignment(NamedTuple):
    """Memory that one compiled step needs in addition to its arguments.

    ``temp_bytes`` is the size of one block, including ``workspace_bytes`` added for convolutions.
    ``output_bytes`` covers the results that are not written over a variable, and their table.
    ``shares`` lists the contents of the block when it is fullest, and ``fullest`` is the operation
    at that time. ``first_step_bytes`` is the most memory that the first step needs while XLA tries
    algorithms, before the block is allocated.
    """

    temp_bytes: int
    workspace_bytes: int
    output_bytes: tuple[int, ...]
    shares: tuple[OperationShare, ...]
    fullest: str
    first_step_bytes: int
    has_convolutions: bool


def read_assignment(text: str, module: str = "", *, workspace_bytes: int = 0) -> Assignment:
    """Parse a complete text; ``module``, the compiled module's text, adds operation names.

    Each cuDNN convolution gets ``workspace_bytes`` in the block while it runs.  XLA assigns none
    if it does not time algorithms, and timing is meaningless without a GPU.
    """
    temp_bytes, outputs, values = _allocations(text)
    instructions = {found[1]: found[2] for found in map(_DEFINED.match, text.splitlines()) if found}
    convolutions = {name for name, what in instructions.items() if _CONVOLUTION in what}
    block = _Block(values, _lives(text), convolutions, workspace_bytes)
    shares, fullest = block.at_its_fullest(_Names(instructions, module))
    return Assignment(
        temp_bytes=temp_bytes + block.added_bytes,
        workspace_bytes=block.added_bytes,
        output_bytes=tuple(outputs),
        shares=shares,
        fullest=fullest,
        first_step_bytes=max(map(int, _trials(instructions)), default=0),
        has_convolutions=bool(convolutions),
    )


def _allocations(text: str) -> tuple[int, list[int], dict[str, _BlockRange]]:
    """The bytes of the block, the sizes of the results, and each value's place in the block."""
    temp_bytes, outputs = 0, []
    values: dict[str, _BlockRange] = {}
    is_block = False
    for line in text[: text.find("\nUsed values")].splitlines():
        found = _ALLOCATION.match(line)
        if found is not None:
            size, what = int(found[1]), found[2]
            is_block = what.startswith("preallocated-temp")
            temp_bytes += size if is_block else 0
            if _is_output(what):
                outputs.append(size)
            continue
        value = _VALUE.match(line) if is_block else None
        if value is not None:
            values[_full(value[1])] = _BlockRange(int(value[3]), int(value[2]))
    return temp_bytes, outputs, values


def _is_output(what: str) -> bool:
    """Whether this is a separate result or the table of results, not written over an argument."""
    if what.startswith("parameter"):
        return False
    return "output" in what or "maybe-live-out" in what


def _lives(text: str) -> dict[str, tuple[int, int]]:
    """Each value's live range, as positions in the sequence of instructions."""
    lines = text[text.find(_END) :].splitlines()
    found = [match for match in map(_LIVES.match, lines) if match]
    return {each[1] + each[2]: (int(each[3]), int(each[4])) for each in found}


class _BlockRange(NamedTuple):
    """Where a value is in the block."""

    offset: int
    size_bytes: int


def _full(value: str) -> str:
    return value if value.endswith("}") else f"{value}{{}}"


class _Block:
    """The block over time; a time is a position in the sequence of instructions.

    If several values share a place, such as a result written over its operand, the largest counts.
    """

    def __init__(
        self,
        values: Mapping[str, _BlockRange],
        lives: Mapping[str, tuple[int, int]],
        convolutions: Container[str],
        workspace_bytes: int,
    ) -> None:
        self._values, self._lives = values, lives
        self._known = [name for name in values if name in lives]
        begins = {lives[name][0] for name in self._known}
        running = {
            first for name, (first, _) in lives.items() if name.partition("{")[0] in convolutions
        }
        in_use = self._bytes_at(sorted(begins | running))
        needed = {now: size + workspace_bytes * (now in running) for now, size in in_use.items()}
        self._fullest = max(needed, key=lambda now: needed[now], default=0)
        self.added_bytes = max(needed.values(), default=0) - max(in_use.values(), default=0)
        """Bytes that the workspaces add to the block."""

    def at_its_fullest(self, names: _Names) -> tuple[tuple[OperationShare, ...], str]:
        """The live values when the block is fullest, and the operation that starts then.

        Workspaces are not part of any share.
        """
        by_op: dict[str, int] = {}
        live = self._live(self._fullest).values()
        for name in live:
            op = names.of(name)
            by_op[op] = by_op.get(op, 0) + self._values[name].size_bytes
        newest = max(
            live,
            key=lambda name: (self._lives[name][0], self._values[name].size_bytes),
            default="",
        )
        shares = sorted(by_op.items(), key=lambda each: -each[1])
        return tuple(OperationShare(*each) for each in shares), names.of(newest)

    def _live(self, now: int) -> dict[int, str]:
        """The live values, by offset."""
        found: dict[int, str] = {}
        for name in self._known:
            offset, size = self._values[name]
            first, last = self._lives[name]
            if first <= now <= last and (
                offset not in found or size > self._values[found[offset]].size_bytes
            ):
                found[offset] = name
        return found

    def _bytes_at(self, times: Sequence[int]) -> dict[int, int]:
        """The bytes in use at each of these ordered times, computed in one pass.

        A deep network has tens of thousands of values, each with its own start.
        """
        changes = [(self._lives[name][0], name, True) for name in self._known]
        changes += [(self._lives[name][1] + 1, name, False) for name in self._known]
        changes.sort(key=lambda change: change[0], reverse=True)
        sizes: dict[int, list[int]] = defaultdict(list)  # of live values, by offset
        found, in_use = {}, 0
        for now in times:
            while changes and changes[-1][0] <= now:
                _, name, begins = changes.pop()
                offset, size = self._values[name]
                here = sizes[offset]
                in_use -= max(here, default=0)
                (here.append if begins else here.remove)(size)
                in_use += max(here, default=0)
            found[now] = in_use
        return found


class _Names:
    """Names of the TensorFlow operations that XLA's instructions came from.

    A fusion without a name gets the name of its last instruction that has one.
    """

    def __init__(self, instructions: Mapping[str, str], module: str) -> None:
        self._instructions = instructions
        self._fused: dict[str, str] = {}
        computation = ""
        for line in module.splitlines():
            begins = _COMPUTATION.match(line)
            named = _OP_NAME.search(line)
            if begins is not None:
                computation = begins[1]
            elif named is not None and named[1]:
                self._fused[computation] = named[1]

    def of(self, value: str) -> str:
        """The operation's name, or the instruction's name if there is none."""
        name = value.partition("{")[0]
        text = self._instructions.get(name, "")
        found, called = _OP_NAME.search(text), _CALLED.search(text)
        if found is not None and found[1]:
            return found[1]
        return self._fused.get(called[1], name) if called is not None else name


def _trials(instructions: Mapping[str, str]) -> Iterable[int]:
    """The bytes of each trial: operands and results, each with guard zones."""
    for text in instructions.values():
        if not any(sign in text for sign in _TUNED):
            continue
        results, _, rest = text.partition(" fusion(" if " fusion(" in text else " custom-call(")
        operands = rest.partition(")")[0].replace("%", "").split(", ")
        shapes = [results, *(instructions.get(name, "").partition("(")[0] for name in operands)]
        sizes = [size for shape in shapes for size in _sizes(shape)]
        yield sum(sizes) + len(sizes) * _GUARD_BYTES


def _sizes(shapes: str) -> list[int]:
    found = []
    for kind, sides in _SHAPE.findall(shapes):
        bits = _BITS.search(kind)
        count = 1
        for side in filter(None, sides.split(",")):
            count *= int(side)
        if count:
            found.append(count * (int(bits[0]) if bits is not None else 8) // 8)
    return found
