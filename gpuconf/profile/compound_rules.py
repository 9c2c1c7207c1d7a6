"""Rules for keys with a special form: gpus, on_shortage, virtual_devices and env."""

from __future__ import annotations

import re
from typing import Any

from gpuconf.basics.units import Amount, parse_duration
from gpuconf.profile.model import GpuSelection, OnShortage
from gpuconf.profile.nodes import Mapping, Node, Scalar, Sequence
from gpuconf.profile.owned_variables import OWNED_VARIABLES
from gpuconf.profile.problems import nearest, problem, quoted
from gpuconf.profile.rules import (
    JsonSchema,
    ValueRule,
    amount,
    choice,
    has_steering,
    refuse,
    rule_of,
    scalar,
    whole,
)

HIGHEST_INDEX = 1023
_INDEX = re.compile("0|[1-9][0-9]{0,3}")
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z][0-9A-Za-z/-]*")
INDEX_OR_UUID_PATTERN = rf"^(0|[1-9][0-9]{{0,2}}|{_UUID.pattern})$"
_PICK = {
    "pick": choice("most-free"),
    "count": whole(at_least=1, at_most=HIGHEST_INDEX, example="1"),
}
_GPUS_SAYS = "all, none, a list such as [0, 2], or {pick: most-free, count: 1}"
MOST_VIRTUAL_DEVICES = 64
_SHORTAGE_SAYS = "fail, cpu, {wait: 10min} or {wait: forever}"
_FOREVER = "forever"
_DURATION_PATTERN = r"(?=[^1-9]*[1-9])([0-9]+(\.[0-9]+)?|\.[0-9]+)\s*(s|sec|min|m|h)"
_NAME_PATTERN = "[A-Za-z_][A-Za-z0-9_]*"
_LONGEST_VALUE = 8192
_HALF = re.compile("[\ud800-\udfff]")
# These affect a program before it starts, or decide which code it and its children run.  Not even a
# named profile may set them.  `powers` lists what a found profile may set.
_SHELL_PATTERN = "LD_.*|PYTHON.*|PATH|HOME"


def gpu_member(node: Node, key: str) -> int | str:
    """Parse a GPU: an index (int), or a UUID or the start of one (str)."""
    says = "a GPU index (0 or higher), or a GPU UUID such as GPU-8f6c"
    node = scalar(node, key, says, "0")
    if not node.is_quoted and _INDEX.fullmatch(node.text) and int(node.text) <= HIGHEST_INDEX:
        return int(node.text)
    if len(node.text) <= 100 and _UUID.fullmatch(node.text):
        return node.text
    raise refuse(node, key, says, "list this machine's indices and UUIDs: nvidia-smi -L")


def gpus() -> ValueRule:
    """Which GPUs the program may see."""
    member: JsonSchema = {
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": HIGHEST_INDEX},
            {"type": "string", "pattern": f"^{_UUID.pattern}$"},
        ]
    }
    pick: JsonSchema = {
        "type": "object",
        "additionalProperties": False,
        "minProperties": 1,
        "properties": {name: rule.schema for name, rule in _PICK.items()},
    }
    listed: JsonSchema = {"type": "array", "minItems": 1, "uniqueItems": True, "items": member}
    return ValueRule(_read_gpus, {"anyOf": [{"enum": ["all", "none"]}, listed, pick]}, _GPUS_SAYS)


def _read_gpus(node: Node, key: str) -> GpuSelection:
    if isinstance(node, Mapping):
        return _read_pick(node, key)
    if isinstance(node, Sequence):
        members = tuple(gpu_member(item, f"{key}[{i}]") for i, item in enumerate(node.items))
        if not members:
            raise refuse(node, key, _GPUS_SAYS, "write `gpus: none` for no GPU")
        if len(set(members)) < len(members):
            raise refuse(node, key, "each GPU to be named only once", "delete the duplicate")
        return GpuSelection("list", members)
    node = scalar(node, key, _GPUS_SAYS, "all")
    if node.text not in ("all", "none"):
        raise refuse(node, key, _GPUS_SAYS, "write `gpus: [0]` for GPU 0, `gpus: none` for no GPU")
    return GpuSelection(node.text)


def _read_pick(node: Mapping, key: str) -> GpuSelection:
    """Parse ``{pick: most-free, count: 2}``; one of the two keys may be omitted."""
    values: dict[str, Any] = {"count": 1}
    for name, entry in node.entries.items():
        path = f"{key}.{name}"
        if name not in _PICK:
            meant = nearest(name, _PICK) or "pick: most-free"
            message, hint = f"unknown key; expected {_GPUS_SAYS}", f"write `{meant}`"
            raise problem(message, mark=entry.key_mark, key=path, hint=hint)
        values[name] = _PICK[name].read(entry.value, path)
    if not node.entries:
        raise refuse(node, key, _GPUS_SAYS, "write `gpus: all`")
    return GpuSelection("pick", count=values["count"])


def on_shortage() -> ValueRule:
    """What to do if too little memory is left: a word, or ``{wait: 10min}``."""
    wait: JsonSchema = {
        "type": "object",
        "additionalProperties": False,
        "required": ["wait"],
        "properties": {
            "wait": {"type": "string", "pattern": f"^({_FOREVER}|{_DURATION_PATTERN})$"}
        },
    }
    schema: JsonSchema = {"anyOf": [{"enum": ["fail", "cpu"]}, wait]}
    return ValueRule(_read_shortage, schema, _SHORTAGE_SAYS)


def _read_shortage(node: Node, key: str) -> OnShortage:
    if isinstance(node, Mapping):
        for name, entry in node.entries.items():
            if name != "wait":
                message = f"unknown key; expected {_SHORTAGE_SAYS}"
                hint = "write `on_shortage: {wait: 10min}`"
                raise problem(message, mark=entry.key_mark, key=f"{key}.{name}", hint=hint)
        if wait := node.entries.get("wait"):
            says = "forever, or a duration such as 10min"
            return _wait(scalar(wait.value, f"{key}.wait", says, "10min"), f"{key}.wait")
    node = scalar(node, key, _SHORTAGE_SAYS, "fail")
    if node.text not in ("fail", "cpu"):
        raise refuse(node, key, _SHORTAGE_SAYS, "write `on_shortage: {wait: 10min}`")
    return OnShortage(node.text)


def _wait(node: Scalar, key: str) -> OnShortage:
    if node.text == _FOREVER:
        return OnShortage("wait", float("inf"))
    try:
        seconds = parse_duration(node.text)
    except ValueError as error:
        raise refuse(node, key, f"{rule_of(error)}, or {_FOREVER}", "write 10min") from None
    if not seconds:
        raise refuse(node, key, "a duration longer than 0", "write `on_shortage: fail`")
    return OnShortage("wait", seconds)


def virtual_devices() -> ValueRule:
    """The logical devices to split each visible GPU into."""
    item = amount(of="of the GPU's limit", example="50%")
    says = f"a list of at most {MOST_VIRTUAL_DEVICES} sizes or percentages, such as [2GiB, 2GiB]"

    def read(node: Node, key: str) -> tuple[Amount, ...]:
        if not isinstance(node, Sequence):
            raise refuse(node, key, says, "write `virtual_devices: [50%, 50%]`, or null for none")
        if len(node.items) > MOST_VIRTUAL_DEVICES:
            raise refuse(node, key, says, "write fewer")
        values = [item.read(entry, f"{key}[{i}]") for i, entry in enumerate(node.items)]
        return tuple(value for value in values if isinstance(value, Amount))

    schema: JsonSchema = {"type": "array", "maxItems": MOST_VIRTUAL_DEVICES, "items": item.schema}
    return ValueRule(read, schema, says)


def env() -> ValueRule:
    """Environment variables, with each value exactly as written."""
    schema: JsonSchema = {
        "type": "object",
        "propertyNames": {
            "pattern": f"^{_NAME_PATTERN}$",
            "not": {
                "anyOf": [
                    {"enum": list(OWNED_VARIABLES)},
                    {"pattern": "^GPUCONF_"},
                    {"pattern": f"^({_SHELL_PATTERN})$"},
                ]
            },
        },
        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    }
    return ValueRule(_read_env, schema, "a mapping of variable names to text")


def _read_env(node: Node, key: str) -> tuple[tuple[str, str], ...]:
    if isinstance(node, Scalar) and node.is_empty:
        return ()
    if not isinstance(node, Mapping):
        hint = 'write `env: {TF_CPP_MIN_LOG_LEVEL: "1"}`'
        raise refuse(node, key, "a mapping of variable names to text", hint)
    variables = []
    for name, entry in node.entries.items():
        path = f"{key}.{name}"
        if refusal := _refused_name(name):
            raise problem(refusal[0], mark=entry.key_mark, key=path, hint=refusal[1])
        if isinstance(entry.value, Scalar) and entry.value.is_null:
            continue
        variables.append((name, _variable_value(entry.value, path)))
    return tuple(variables)


def _refused_name(name: str) -> tuple[str, str] | None:
    """Return a message and hint if a profile may not set ``name``; otherwise None."""
    if not (name.isascii() and name.isidentifier()):
        rule = "only letters, digits, and _, not starting with a digit"
        return f"{quoted(name)} is not a valid variable name; expected {rule}", "correct the name"
    if name.startswith("GPUCONF_"):
        return "gpuconf reads this before any profile", f"set it outside profiles: export {name}=…"
    if re.fullmatch(_SHELL_PATTERN, name):
        message = (
            f"{name} takes effect before the program starts, or changes which code it runs; "
            "a profile cannot set LD_…, PYTHON…, PATH, or HOME"
        )
        return message, f"set it in the shell: export {name}=…"
    owner = OWNED_VARIABLES.get(name)
    if owner is None:
        return None
    message = "gpuconf computes and sets this variable itself"
    if name.startswith("PYTORCH_"):
        return message, f"write the key `{owner}`; other options set in the shell are merged"
    return message, f"write the key `{owner}` instead"


def _variable_value(node: Node, key: str) -> str:
    if isinstance(node, Scalar) and node.is_empty:
        hint = 'write "" for an empty string, or null to remove an inherited variable'
        raise refuse(node, key, "a string", hint)
    text = scalar(node, key, "a string", '"1"').text
    if len(text) > _LONGEST_VALUE or "\x00" in text or _HALF.search(text):
        rule = f"at most {_LONGEST_VALUE} characters, no NUL, and no unpaired surrogate"
        raise refuse(node, key, rule, "write plain text")
    if has_steering(text):
        raise refuse(node, key, "no control characters except tab and line feed", "delete it")
    return text
