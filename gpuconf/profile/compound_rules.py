"""Values with a shape of their own: ``on_shortage`` and ``virtual_devices``."""

from __future__ import annotations

import re

from gpuconf.profile.model import OnShortage
from gpuconf.profile.nodes import Mapping, Node, Scalar, Sequence
from gpuconf.profile.problems import nearest, problem
from gpuconf.profile.rules import JsonSchema, Rule, amount, refuse, scalar
from gpuconf.units import Amount, parse_duration

MOST_VIRTUAL_DEVICES = 64
_SHORTAGE_SAYS = "fail, cpu, or {wait: 10min}"
_WAIT = re.compile(r"wait:?\s+(\S.*)")
_DURATION_PATTERN = r"(?=[^1-9]*[1-9])([0-9]+(\.[0-9]+)?|\.[0-9]+)\s*(s|sec|min|m|h)"


def on_shortage() -> Rule:
    """What to do when too little is left: a word, or ``{wait: 10min}``, or ``wait 10min``."""
    wait: JsonSchema = {
        "type": "object",
        "additionalProperties": False,
        "required": ["wait"],
        "properties": {"wait": {"type": "string", "pattern": f"^{_DURATION_PATTERN}$"}},
    }
    said: JsonSchema = {"type": "string", "pattern": rf"^wait:?\s+{_DURATION_PATTERN}$"}
    schema: JsonSchema = {"anyOf": [{"enum": ["fail", "cpu"]}, wait, said]}
    return Rule(_read_shortage, schema, _SHORTAGE_SAYS)


def _read_shortage(node: Node, key: str) -> OnShortage:
    if isinstance(node, Mapping):
        for name, entry in node.entries.items():
            if name != "wait":
                message = f"unknown key; the rule: {_SHORTAGE_SAYS}"
                hint = "write `on_shortage: {wait: 10min}`"
                raise problem(message, mark=entry.key_mark, key=f"{key}.{name}", hint=hint)
            value = scalar(entry.value, f"{key}.wait", "a duration such as 10min", "10min")
            return _wait(value, value.text, f"{key}.wait")
    node = scalar(node, key, _SHORTAGE_SAYS, "fail")
    if match := _WAIT.fullmatch(node.text):
        return _wait(node, match[1], key)
    if node.text not in ("fail", "cpu"):
        hint = "say how long: `on_shortage: {wait: 10min}`"
        if node.text != "wait":
            hint = f"write `on_shortage: {nearest(node.text, ('fail', 'cpu')) or 'fail'}`"
        raise refuse(node, key, _SHORTAGE_SAYS, hint)
    return OnShortage(node.text)


def _wait(node: Scalar, duration: str, key: str) -> OnShortage:
    try:
        seconds = parse_duration(duration)
    except ValueError as error:
        unit = f"write {duration}s or {duration}min" if duration.isdigit() else "write 10min"
        raise refuse(node, key, str(error), unit[:80]) from None
    if not seconds:
        raise refuse(node, key, "longer than nothing", "write `on_shortage: fail`")
    return OnShortage("wait", seconds)


def virtual_devices() -> Rule:
    """The logical devices that each visible GPU is cut into."""
    item = amount(of="of the GPU's limit", example="50%")
    says = f"a list of sizes or percentages, such as [2GiB, 2GiB], at most {MOST_VIRTUAL_DEVICES}"

    def read(node: Node, key: str) -> tuple[Amount, ...]:
        if not isinstance(node, Sequence):
            raise refuse(node, key, says, _virtual_hint(node))
        if len(node.items) > MOST_VIRTUAL_DEVICES:
            raise refuse(node, key, says, "write fewer")
        values = [item.read(entry, f"{key}[{i}]") for i, entry in enumerate(node.items)]
        return tuple(value for value in values if isinstance(value, Amount))

    schema: JsonSchema = {"type": "array", "maxItems": MOST_VIRTUAL_DEVICES, "items": item.schema}
    return Rule(read, schema, says)


def _virtual_hint(node: Node) -> str:
    text = node.text if isinstance(node, Scalar) else ""
    if text in ("2", "3", "4"):
        shares = ", ".join([f"{100 // int(text)}%"] * int(text))
        return f"write `virtual_devices: [{shares}]`"
    return "write `virtual_devices: [50%, 50%]`, or null for none"
