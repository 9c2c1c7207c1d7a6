"""Convert a Profile to plain data that loads as the same profile."""

from __future__ import annotations

from typing import Any

from gpuconf.basics.units import Amount, exact_size, short_duration
from gpuconf.profile.model import GpuRules, GpuSelection, MemoryRules, OnShortage, Profile


def to_plain(profile: Profile) -> dict[str, Any]:
    """Return the keys and values of ``profile`` as in YAML; unset rules are omitted."""
    tensorflow = _with_size(profile.tensorflow._asdict(), "cudnn_workspace_limit")
    whole = {
        "description": profile.description,
        "gpus": _gpus(profile.gpus),
        "memory": _memory(profile.memory),
        "virtual_devices": [str(device) for device in profile.virtual_devices],
        "per_gpu": {gpu: _own_rules(rules, profile) for gpu, rules in profile.per_gpu},
        "tensorflow": _set(tensorflow),
        "jax": _set(profile.jax._asdict()),
        "torch": _set(_with_size(profile.torch._asdict(), "max_split_size")),
        "slurm": _set(profile.slurm._asdict()),
        "env": dict(profile.env),
    }
    return {key: value for key, value in whole.items() if value not in (None, {}, [])}


def _set(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _with_size(values: dict[str, Any], name: str) -> dict[str, Any]:
    size_bytes = values[name]
    return values if size_bytes is None else {**values, name: exact_size(size_bytes)}


def _gpus(chosen: GpuSelection) -> str | list[int | str] | dict[str, str | int]:
    if chosen.kind == "list":
        return list(chosen.members)
    if chosen.kind == "pick":
        return {"pick": chosen.pick, "count": chosen.count}
    return chosen.kind


def _memory(rules: MemoryRules) -> dict[str, Any]:
    values = rules._asdict()
    for name, value in values.items():
        if isinstance(value, Amount):
            values[name] = str(value)
    values["on_shortage"] = _on_shortage(rules.on_shortage)
    return _set(values)


def _on_shortage(rule: OnShortage) -> str | dict[str, str]:
    return rule.action if rule.wait_s is None else {"wait": short_duration(rule.wait_s)}


def _own_rules(rules: GpuRules, profile: Profile) -> dict[str, Any]:
    """Return all rules for one GPU; None marks a profile rule that this GPU drops."""
    shared = _memory(profile.memory)
    memory = {**dict.fromkeys(shared), **_memory(rules.memory)}
    devices = [str(device) for device in rules.virtual_devices]
    whole: dict[str, Any] = {"memory": memory}
    if devices or profile.virtual_devices:
        whole["virtual_devices"] = devices or None
    return whole
