"""A lab's policy: what one user's programs may use together, of each GPU and of how many.

It is cooperative: programs under gpuconf keep to it, and nothing enforces it.  The file belongs to
root, because users could change another one::

    everyone: {memory: 40%, gpus: 1}
    groups: {students: {memory: 4GiB}}
    users: {anna: {memory: 80%}}
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection
from typing import NamedTuple, cast

from gpuconf.basics.processes import user_name, user_of
from gpuconf.basics.units import Amount
from gpuconf.errors import ProfileError
from gpuconf.machine.cards.inventory import Cap, Gpu, GpuQuota, Inventory
from gpuconf.profile.files import LARGEST_FILE_BYTES
from gpuconf.profile.nodes import Mapping, Node
from gpuconf.profile.problems import problem, quoted

PATH = "/etc/gpuconf/policy.yaml"
_MOST_GPUS = 1024
_TOP = ("everyone", "groups", "users")


class Rule(NamedTuple):
    """What a user's programs may use together: memory of each GPU, and a number of GPUs."""

    memory: Amount | None = None
    gpus: int | None = None


class User(NamedTuple):
    """A user: the account, its number, and the names of its groups."""

    name: str
    uid: int
    groups: tuple[str, ...] = ()


class Policy(NamedTuple):
    """The rules in the file ``path``; none if ``problem`` says why the file is ignored."""

    path: str
    everyone: Rule = Rule()
    groups: tuple[tuple[str, Rule], ...] = ()
    users: tuple[tuple[str, Rule], ...] = ()
    problem: str | None = None

    def largest(self, user: User, value: Callable[[Rule], int | None]) -> int | None:
        """Return ``value`` of the user's own entry, or the largest of the groups', or everyone's.

        None if no rule that applies has one.
        """
        own = [rule for name, rule in self.users if name == user.name]
        of_groups = [rule for name, rule in self.groups if name in user.groups]
        for rules in (own, of_groups, [self.everyone]):
            found = [each for each in map(value, rules) if each is not None]
            if found:
                return max(found)
        return None


def current_user() -> User:
    """Return the user of this process."""
    import grp  # not on Windows

    def name_of(number: int) -> str:
        try:
            return grp.getgrgid(number).gr_name
        except KeyError:
            return str(number)

    groups = tuple(map(name_of, {os.getgid(), *os.getgroups()}))
    return User(user_name(os.getuid()), os.getuid(), groups)


def read_policy(path: str = PATH, *, owner: int = 0) -> Policy | None:
    """Return the policy of this machine; None without a file.

    A file that another user than ``owner`` may write, or with a mistake in it, is ignored: the
    ``problem`` is one line.
    """
    try:
        with open(path, "rb") as file:
            status, data = os.fstat(file.fileno()), file.read(LARGEST_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Policy(path, problem=f"{path} is ignored: {error.strerror}")
    if status.st_uid != owner or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return Policy(path, problem=f"{path} is ignored: only root may own it and write to it")
    try:
        return _parsed(data, path)
    except ProfileError as error:
        where = f"{path}:{error.line}" if error.line else path
        return Policy(path, problem=f"{where} is ignored: {error.message}")


def _parsed(data: bytes, path: str) -> Policy:
    from gpuconf.profile import document, rules  # with PyYAML

    memory = rules.amount(of="of each GPU", example="40%")
    gpus = rules.whole(at_least=1, at_most=_MOST_GPUS, example="1")

    def entries(node: Node | None, key: str, known: Collection[str] = ()) -> dict[str, Node]:
        if node is None:
            return {}
        if not isinstance(node, Mapping):
            raise rules.refuse(node, key, "a mapping", "see docs/howto/lab-policy.md")
        for name, entry in node.entries.items():
            if known and name not in known:
                says = f"unknown key {quoted(name)}; the keys here: {', '.join(known)}"
                raise problem(says, mark=entry.key_mark, key=key)
        return {name: entry.value for name, entry in node.entries.items()}

    def rule(node: Node | None, key: str) -> Rule:
        found = entries(node, key, Rule._fields)
        size, count = (
            each.read(found[name], f"{key}.{name}") if name in found else None
            for name, each in (("memory", memory), ("gpus", gpus))
        )
        return Rule(cast("Amount | None", size), cast("int | None", count))

    def named(key: str) -> tuple[tuple[str, Rule], ...]:
        found = entries(top.get(key), key)
        return tuple((name, rule(node, f"{key}.{name}")) for name, node in found.items())

    if len(data) > LARGEST_FILE_BYTES:
        raise ProfileError("the file is larger than 256 KiB")
    top = entries(document.parse(document.decode(data, path), path), "", _TOP)
    everyone = rule(top.get("everyone"), "everyone")
    return Policy(path, everyone, named("groups"), named("users"))


def with_policy(inventory: Inventory, *, path: str = PATH, owner: int = 0) -> Inventory:
    """Add to ``inventory`` what this user may use; what an earlier call has added stays.

    The memory that the user's other programs use or may use counts, whether they run under gpuconf
    or not.  ``own_bytes`` of the GPUs is known already.
    """
    if inventory.quota is not None or not os.path.lexists(path):
        return inventory
    policy, user = read_policy(path, owner=owner), current_user()
    if policy is None:
        return inventory
    if policy.problem is not None:
        return inventory._replace(quota=GpuQuota(path), notes=(*inventory.notes, policy.problem))
    gpus = [each for gpu in inventory.gpus for each in (gpu, *gpu.mig_instances)]
    used = tuple(gpu.uuid for gpu in gpus if gpu.uuid and _others_bytes(gpu, user) is not None)
    name = f"{path} ({user.name})"
    quota = GpuQuota(name, policy.largest(user, lambda rule: rule.gpus), used)

    def capped(gpu: Gpu) -> Gpu:
        size = policy.largest(user, lambda rule: rule.memory and rule.memory.of(gpu.total_bytes))
        if size is None:
            return gpu
        used_bytes = (_others_bytes(gpu, user) or 0) + gpu.own_bytes
        return gpu._replace(caps=(*gpu.caps, Cap(name, size, used_bytes, is_policy=True)))

    return inventory._replace(quota=quota).mapped(capped)


def _others_bytes(gpu: Gpu, user: User) -> int | None:
    """Return what the user's other programs use, or may use; None if there is no such program."""
    sizes = [
        max(lease.most_bytes or lease.lease_bytes, lease.used_bytes or 0)
        for lease in gpu.leases
        if lease.is_ours
    ]
    sizes += [
        each.used_bytes or 0
        for each in gpu.unleased
        if each.pid != os.getpid() and each.kind == "compute" and user_of(each.pid) == user.uid
    ]
    return sum(sizes) if sizes else None
