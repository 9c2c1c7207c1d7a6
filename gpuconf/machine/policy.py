"""A lab's policy: how much of each GPU, and how many GPUs, one user's programs may use together.

It is cooperative: programs that run under gpuconf keep to it, and nothing enforces it. The file
must belong to root, because users could change any other file::

    everyone: {memory: 40%, gpus: 1}
    groups: {students: {memory: 4GiB}}
    users: {anna: {memory: 80%}}
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuconf.basics.processes import own_user, user_name, user_of
from gpuconf.basics.units import Amount
from gpuconf.errors import ProfileError
from gpuconf.machine.cards.inventory import Cap, Gpu, GpuQuota, Inventory

if TYPE_CHECKING:  # only a machine with the file reads YAML for it
    from gpuconf.profile.nodes import Node

POLICY_PATH = "/etc/gpuconf/policy.yaml"


class Rule(NamedTuple):
    """What a user's programs may use together: memory on each GPU, and a number of GPUs."""

    memory: Amount | None = None
    gpus: int | None = None


class User(NamedTuple):
    """An account, and the names of its groups."""

    name: str
    groups: tuple[str, ...] = ()


class Policy(NamedTuple):
    """The rules in the file ``path`` for a user: the user's own, the groups' and everyone's.

    ``problem`` says why the file is ignored; in that case, there are no rules.
    """

    path: str
    rules: tuple[tuple[Rule, ...], ...] = ()
    problem: str | None = None

    def largest(self, value: Callable[[Rule], int | None]) -> int | None:
        """Return the largest ``value`` of the first kind of rules that has one; None if there is
        none."""
        for rules in self.rules:
            found = [each for each in map(value, rules) if each is not None]
            if found:
                return max(found)
        return None


def current_user() -> User:
    """Return the user of this process."""
    if sys.platform == "win32":  # no policy is read there
        return User("", ())
    import grp

    def name_of(number: int) -> str:
        try:
            return grp.getgrgid(number).gr_name
        except KeyError:
            return str(number)

    groups = tuple(map(name_of, {os.getgid(), *os.getgroups()}))
    return User(user_name(own_user()), groups)


def read_policy(user: User, path: str = POLICY_PATH, *, owner: int = 0) -> Policy | None:
    """Return the policy of this machine for ``user``; None if there is no file.

    A file that users other than ``owner`` may write to, or that contains a mistake, is ignored.
    """
    try:
        with open(path, "rb") as file:
            from gpuconf.profile.files import LARGEST_FILE_BYTES

            status, data = os.fstat(file.fileno()), file.read(LARGEST_FILE_BYTES + 1)
        if status.st_uid != owner or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ProfileError("it must be owned by root and writable only by root")
        return Policy(path, _rules_for(user, data, path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Policy(path, problem=f"{path} is ignored: {error.strerror}")
    except ProfileError as error:
        where = f"{path}:{error.line}" if error.line else path
        return Policy(path, problem=f"{where} is ignored: {error.message}")


def _rules_for(user: User, data: bytes, path: str) -> tuple[tuple[Rule, ...], ...]:
    from gpuconf.profile import document, rules
    from gpuconf.profile.files import LARGEST_FILE_BYTES
    from gpuconf.profile.nodes import Mapping
    from gpuconf.profile.problems import problem, quoted

    keys = {
        "memory": rules.amount(of="of each GPU", example="40%"),
        "gpus": rules.whole(at_least=1, at_most=1024, example="1"),
    }

    def entries(node: Node | None, key: str, known: Collection[str] = ()) -> dict[str, Node]:
        if node is None:
            return {}
        if not isinstance(node, Mapping):
            raise rules.refuse(node, key, "a mapping", "see docs/howto/lab-policy.md")
        for name, entry in node.entries.items():
            if known and name not in known:
                says = f"unknown key {quoted(name)}; valid keys here: {', '.join(known)}"
                raise problem(says, mark=entry.key_mark, key=key)
        return {name: entry.value for name, entry in node.entries.items()}

    def rule(node: Node, key: str) -> Rule:
        found = entries(node, key, keys)
        values: Any = {name: keys[name].read(each, f"{key}.{name}") for name, each in found.items()}
        return Rule(**values)

    def named(key: str, names: Collection[str]) -> tuple[Rule, ...]:
        found = entries(top.get(key), key)
        checked = {name: rule(node, f"{key}.{name}") for name, node in found.items()}
        return tuple(each for name, each in checked.items() if name in names)

    if len(data) > LARGEST_FILE_BYTES:
        raise ProfileError("the file is larger than 256 KiB")
    root = document.parse(document.decode(data, path), path)
    top = entries(root, "", ("everyone", "groups", "users"))
    everyone = tuple(rule(top[key], key) for key in ("everyone",) if key in top)
    return named("users", [user.name]), named("groups", user.groups), everyone


def with_policy(inventory: Inventory, *, path: str = POLICY_PATH, owner: int = 0) -> Inventory:
    """Add to ``inventory`` what this user may use; what an earlier call added is kept.

    The memory that the user's other programs use or may use counts, whether they run under gpuconf
    or not.  ``own_bytes`` of the GPUs is known already.
    """
    if inventory.quota is not None or not os.path.lexists(path):
        return inventory
    user = current_user()
    policy = read_policy(user, path, owner=owner) or Policy(path)
    gpus = [each for gpu in inventory.gpus for each in gpu.mig_instances or (gpu,)]
    used = tuple(gpu.uuid for gpu in gpus if gpu.uuid and _others_bytes(gpu) is not None)
    name = f"{path} ({user.name})"

    def capped(gpu: Gpu) -> Gpu:
        size = policy.largest(lambda rule: rule.memory and rule.memory.of(gpu.total_bytes))
        used_bytes = (_others_bytes(gpu) or 0) + gpu.own_bytes
        caps = [] if size is None else [Cap(name, size, used_bytes, is_policy=True)]
        return gpu._replace(caps=(*gpu.caps, *caps))

    return inventory.mapped(capped)._replace(
        quota=GpuQuota(name, policy.largest(lambda rule: rule.gpus), used),
        notes=(*inventory.notes, *filter(None, [policy.problem])),
    )


def _others_bytes(gpu: Gpu) -> int | None:
    """Return what this user's other programs use or may use; None if there is no such program."""
    sizes = [
        max(each.most_bytes or each.lease_bytes, each.used_bytes or 0)
        for each in gpu.leases
        if each.is_ours
    ]
    sizes += [
        each.used_bytes or 0
        for each in gpu.unleased
        if each.pid != os.getpid() and each.kind == "compute" and user_of(each.pid) == own_user()
    ]
    return sum(sizes) if sizes else None
