"""Which GPUs: the ``gpus`` key, and the names of GPUs under ``per_gpu``."""

from __future__ import annotations

import re

from gpuconf.profile.model import GpuSelection
from gpuconf.profile.nodes import Mapping, Node, Scalar, Sequence
from gpuconf.profile.problems import nearest, problem
from gpuconf.profile.rules import JsonSchema, Rule, refuse, scalar

HIGHEST_INDEX = 1023
_INDEX = re.compile(r"0|[1-9][0-9]{0,3}")
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z][0-9A-Za-z/-]*")
INDEX_OR_UUID_PATTERN = rf"^(0|[1-9][0-9]{{0,2}}|{_UUID.pattern})$"
_GPUS_SAYS = "all, none, a list such as [0, 2], or {pick: most-free, count: 1}"


def gpu_member(node: Node, key: str) -> int | str:
    """An index (int) or a UUID or the beginning of one (str)."""
    says = "a GPU's number from 0 on, or its UUID such as GPU-8f6c"
    node = scalar(node, key, says, "0")
    if not node.is_quoted and _INDEX.fullmatch(node.text) and int(node.text) <= HIGHEST_INDEX:
        return int(node.text)
    if len(node.text) <= 100 and _UUID.fullmatch(node.text):
        return node.text
    raise refuse(node, key, says, _member_hint(node))


def _member_hint(node: Scalar) -> str:
    if node.text == "-1":
        return "write `gpus: none` for no GPU"
    if node.is_quoted and _INDEX.fullmatch(node.text):
        return f"write {node.text} without quotes"
    if node.text[:4].upper() in ("GPU-", "MIG-"):
        return "copy it from: nvidia-smi -L"
    return "the numbers and UUIDs of this machine: nvidia-smi -L"


def gpus() -> Rule:
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
        "properties": {
            "pick": {"enum": ["most-free"]},
            "count": {"type": "integer", "minimum": 1, "maximum": HIGHEST_INDEX},
        },
    }
    listed: JsonSchema = {"type": "array", "minItems": 1, "uniqueItems": True, "items": member}
    return Rule(_read_gpus, {"anyOf": [{"enum": ["all", "none"]}, listed, pick]}, _GPUS_SAYS)


def _read_gpus(node: Node, key: str) -> GpuSelection:
    if isinstance(node, Mapping):
        return _read_pick(node, key)
    if isinstance(node, Sequence):
        members = tuple(gpu_member(item, f"{key}[{i}]") for i, item in enumerate(node.items))
        if not members:
            raise refuse(node, key, _GPUS_SAYS, "write `gpus: none` for no GPU")
        if len(set(members)) < len(members):
            raise refuse(node, key, "each GPU is named once", "delete the repeated one")
        return GpuSelection("list", members)
    node = scalar(node, key, _GPUS_SAYS, "all")
    if node.text not in ("all", "none"):
        raise refuse(node, key, _GPUS_SAYS, _gpus_hint(node.text))
    return GpuSelection(node.text)


def _gpus_hint(text: str) -> str:
    if _INDEX.fullmatch(text) and text != "0":
        return f"write `[{text}]` for GPU {text}, or `{{pick: most-free, count: {text}}}`"
    if re.fullmatch(r"[0-9]+(\s*,\s*[0-9]+)*", text[:100]):
        return "write `[0]` for GPU 0, or `none`" if text == "0" else f"write `[{text[:100]}]`"
    if _UUID.fullmatch(text[:100]):
        return f'write `["{text[:100]}"]`'
    if text.lower() in ("no", "off", "false", "cpu", "-1", ""):
        return "write `gpus: none` for no GPU"
    return f"write `gpus: {nearest(text, ('all', 'none')) or 'all'}`"


def _read_pick(node: Mapping, key: str) -> GpuSelection:
    """``{pick: most-free, count: 2}``; either may be left out, not both."""
    count = 1
    for name, entry in node.entries.items():
        if name not in ("pick", "count"):
            meant = nearest(name, ("pick", "count")) or "pick: most-free"
            message = f"unknown key; the rule: {_GPUS_SAYS}"
            raise problem(
                message, mark=entry.key_mark, key=f"{key}.{name}", hint=f"write `{meant}`"
            )
        value = scalar(entry.value, f"{key}.{name}", _GPUS_SAYS, "1")
        if name == "pick" and value.text != "most-free":
            raise refuse(value, f"{key}.pick", "most-free", "write `pick: most-free`")
        if name == "count":
            count = _read_count(value, f"{key}.count")
    if not node.entries:
        raise refuse(node, key, _GPUS_SAYS, "write `gpus: all`")
    return GpuSelection("pick", count=count)


def _read_count(node: Scalar, key: str) -> int:
    if node.is_quoted or not _INDEX.fullmatch(node.text) or not 0 < int(node.text) <= 1023:
        raise refuse(node, key, "a whole number from 1 to 1023", "write `count: 1`")
    return int(node.text)
