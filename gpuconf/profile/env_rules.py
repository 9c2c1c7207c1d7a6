"""The ``env`` key: variables as literal text, and those that only gpuconf or a shell may set."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping as Environment

from gpuconf.profile.nodes import Mapping, Node, Scalar
from gpuconf.profile.problems import problem, quoted
from gpuconf.profile.rules import STEERING_CHARACTER, JsonSchema, Rule, refuse, scalar

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_VALUE = 8192
# They act on a program before it starts, or on what code it and its children run: even a profile
# that somebody named is no place for them.  What a found one may set, `powers` says.
SHELL_VARIABLES = re.compile(r"LD_.*|PYTHON.*|PATH|HOME")


def env(owned: Environment[str, str]) -> Rule:
    """Environment variables, each value the literal text that was written.

    ``owned`` are those that gpuconf sets itself, each with the key that decides it.
    """
    schema: JsonSchema = {
        "type": "object",
        "propertyNames": {
            "pattern": f"^{_NAME.pattern}$",
            "not": {
                "anyOf": [
                    {"enum": list(owned)},
                    {"pattern": "^GPUCONF_"},
                    {"pattern": f"^({SHELL_VARIABLES.pattern})$"},
                ]
            },
        },
        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    }
    return Rule(functools.partial(_read_env, owned), schema, "a mapping of variables to text")


def _read_env(owned: Environment[str, str], node: Node, key: str) -> tuple[tuple[str, str], ...]:
    if isinstance(node, Scalar) and node.is_empty:
        return ()
    if not isinstance(node, Mapping):
        hint = 'write `env: {TF_CPP_MIN_LOG_LEVEL: "1"}`'
        raise refuse(node, key, "a mapping of variables to text", hint)
    variables = []
    for name, entry in node.entries.items():
        path = f"{key}.{name}"
        if refusal := _refused_name(name, owned):
            raise problem(refusal[0], mark=entry.key_mark, key=path, hint=refusal[1])
        if isinstance(entry.value, Scalar) and entry.value.is_null:
            continue
        variables.append((name, _variable_value(entry.value, path)))
    return tuple(variables)


def _refused_name(name: str, owned: Environment[str, str]) -> tuple[str, str] | None:
    """Message and hint where ``name`` may not be set by a profile."""
    if not _NAME.fullmatch(name):
        rule = "letters, digits and _ only, no digit first"
        return f"{quoted(name)} is no name of a variable; the rule: {rule}", "correct the name"
    if name.startswith("GPUCONF_"):
        return "gpuconf reads this before any profile", f"set it in the shell: export {name}=…"
    if SHELL_VARIABLES.fullmatch(name):
        message = (
            f"{name} acts before the program starts, or on what code it runs; "
            "the rule: no LD_…, PYTHON…, PATH or HOME in a profile"
        )
        return message, f"set it in the shell: export {name}=…"
    owner = owned.get(name)
    if owner is None:
        return None
    message = "gpuconf computes and sets this variable itself"
    if name.startswith("PYTORCH_"):
        return message, f"write the key `{owner}`; other options in the shell are merged"
    return message, f"write the key `{owner}` instead"


def _variable_value(node: Node, key: str) -> str:
    if isinstance(node, Scalar) and node.is_empty:
        hint = 'write "" for an empty text, or null to remove an inherited variable'
        raise refuse(node, key, "one text", hint)
    text = scalar(node, key, "one text", '"1"').text
    if len(text) > _LONGEST_VALUE or "\x00" in text or not _can_be_encoded(text):
        rule = f"at most {_LONGEST_VALUE} characters, no NUL, no half of a surrogate pair"
        raise refuse(node, key, rule, "write plain text")
    if STEERING_CHARACTER.search(text):
        raise refuse(node, key, "no control characters but tab and line feed", "delete it")
    return text


def _can_be_encoded(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
