"""Convert nodes to values according to the schema; collect all problems, not only the first."""

from __future__ import annotations

from typing import Any

from gpuconf.errors import ProfileError
from gpuconf.profile.compound_rules import gpu_member
from gpuconf.profile.model import GpuRules
from gpuconf.profile.nodes import Mapping, Mark, Node, Scalar, merged
from gpuconf.profile.owned_variables import OWNED_VARIABLES
from gpuconf.profile.problems import nearest, problem, quoted
from gpuconf.profile.rules import ValueRule, refuse
from gpuconf.profile.schema import GPU, PROFILE, PerGpu, Section

# More than anyone reads at once, and searching for suggestions takes time for each.
MOST_PROBLEMS = 20
_TOP = frozenset(key.name for key in PROFILE.keys)
_OTHER_NAMES_FOR_GPUS = ("visible_devices", "devices", "device", "gpu_ids")


def read(root: Mapping) -> tuple[dict[str, Any], list[ProfileError]]:
    """Return all values of a profile by key, and up to 20 problems in file order.

    ``per_gpu`` is a list of ``(GPU, its own section as a node)``, which the caller merges over the
    profile's rules.
    """
    problems: list[ProfileError] = []
    return _read_keys(PROFILE, root, "", problems), problems


def read_gpu_rules(root: Mapping, own: Node) -> GpuRules:
    """Return the complete rules for one GPU: ``own`` merged over the rules of the checked
    ``root``."""
    shared = {name: root.entries[name] for name in root.entries if name in GpuRules._fields}
    node = Mapping(shared, root.mark)
    if isinstance(own, Mapping):
        node = merged(node, own)
    rules: GpuRules = _read_section(GPU, node, "", [])
    return rules


def _read_section(section: Section, node: Node, key: str, problems: list[ProfileError]) -> Any:
    if isinstance(node, Scalar) and (node.is_null or node.is_empty):
        node = Mapping({}, node.mark)
    if not isinstance(node, Mapping):
        name = section.keys[0].name
        hint = f"write `{key.rpartition('.')[2]}: {{{name}: {section.keys[0].example}}}`"
        if isinstance(node, Scalar) and ":" in node.text:
            hint = "write `key: value`, with a space after the colon"
        problems.append(refuse(node, key, "a mapping of keys to values", hint))
        return None
    values = _read_keys(section, node, key, problems)
    return section.make(**values) if section.make else values


def _read_keys(
    section: Section, node: Mapping, key: str, problems: list[ProfileError]
) -> dict[str, Any]:
    keys = {known.name: known for known in section.keys}
    values: dict[str, Any] = {}
    for name, entry in node.entries.items():
        if len(problems) >= MOST_PROBLEMS:
            break
        path = f"{key}.{name}" if key else name
        if name not in keys:
            problems.append(_unknown(section, name, path, entry.key_mark))
        elif not (isinstance(entry.value, Scalar) and entry.value.is_null):
            try:
                values[name] = _read_value(keys[name].rule, entry.value, path, problems)
            except ProfileError as error:
                problems.append(error)
    return values


def _read_value(
    rule: ValueRule | Section | PerGpu, node: Node, key: str, problems: list[ProfileError]
) -> object:
    if isinstance(rule, ValueRule):
        return rule.read(node, key)
    if isinstance(rule, Section):
        return _read_section(rule, node, key, problems)
    return _read_per_gpu(rule, node, key, problems)


def _read_per_gpu(
    rule: PerGpu, node: Node, key: str, problems: list[ProfileError]
) -> list[tuple[int | str, Node]]:
    if isinstance(node, Scalar) and node.is_empty:
        return []
    if not isinstance(node, Mapping):
        hint = "write `per_gpu: {0: {memory: {memory_limit: 3GiB}}}`"
        raise refuse(node, key, "a mapping of GPU indices or UUIDs to their rules", hint)
    rules: list[tuple[int | str, Node]] = []
    for name, entry in node.entries.items():
        path = f"{key}.{name}"
        # A key is a name, quoted or not; JSON has only quoted ones.
        gpu = gpu_member(Scalar(name, False, entry.key_mark), path)
        _read_section(rule.section, entry.value, path, problems)
        if not (isinstance(entry.value, Scalar) and entry.value.is_null):
            rules.append((gpu, entry.value))
    return rules


def _unknown(section: Section, name: str, path: str, mark: Mark) -> ProfileError:
    """Return the error for an unknown key, with the key that was most likely meant."""
    parent = path.removesuffix(name).rstrip(".")
    where = f"under {parent}" if parent else "in a profile"
    hint = _hint_for_unknown(section, name)
    return problem(f"unknown key {quoted(name)} {where}", mark=mark, key=path, hint=hint)


def _hint_for_unknown(section: Section, name: str) -> str:
    own = [key.name for key in section.keys]
    elsewhere = {
        inner.name: f"{key.name}: {{{inner.name}: …}}"
        for key in PROFILE.keys
        for inner in (key.rule.keys if isinstance(key.rule, Section) else ())
    }
    elsewhere |= {key.name: f"{key.name}: …" for key in PROFILE.keys}
    named = OWNED_VARIABLES.get(name, "gpus" if name in _OTHER_NAMES_FOR_GPUS else name)
    named = named.rpartition(".")[2]
    if named in elsewhere and named not in own:
        place = " at the top of the profile" if named in _TOP else ""
        return f"write `{elsewhere[named]}`{place}"
    meant = nearest(named, own) if section is not PROFILE else None
    meant = meant or nearest(named, [*own, *elsewhere])
    if meant is None:
        return f"valid keys here: {', '.join(own)}"
    return f"write `{meant}`" if meant in own else f"write `{elsewhere[meant]}`"
