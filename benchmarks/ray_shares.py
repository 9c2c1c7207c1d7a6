"""Whether every share of a Ray cluster holds: the expected and the actual values.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpuconf.basics.units import MIB
from gpuconf.simcard import CardSpec

# The deductions in the formula of docs/clusters.md: used by the desktop, kept free, a context.
USED_MIB, KEEP_FREE_MIB, CONTEXT_MIB = 1024, 512, 640


class Layout(NamedTuple):
    """``actors`` on ``nodes``; on each, as many as fill its GPU."""

    nodes: int
    actors: int

    @property
    def share(self) -> float:
        """The fraction of a GPU that each actor requests; Ray counts in ten-thousandths."""
        return 10_000 * self.nodes // self.actors / 10_000

    def spec(self, node: int) -> CardSpec:
        """The GPU of a node: no two are alike, so that a limit identifies its GPU."""
        total_bytes = (16384 + 256 * node) * MIB
        return CardSpec(total_bytes, USED_MIB * MIB, name=f"GPU {node}", context_bytes=450 * MIB)

    def limit_mib(self, node: int) -> int:
        """The limit of an actor on a node by the formula of docs/clusters.md."""
        rest_mib = self.spec(node).total_bytes // MIB - USED_MIB - KEEP_FREE_MIB
        return int(self.share * rest_mib - CONTEXT_MIB)


class Found(NamedTuple):
    """The result of filling the cluster; ``cards`` by node, as NVML shows them at the end."""

    actors: Sequence[Mapping[str, Any]]
    cards: Mapping[int, Mapping[str, Any]]


class Check(NamedTuple):
    """A row of the first table."""

    what: str
    expected: int
    found: int


def checks_of(layout: Layout, found: Found) -> list[Check]:
    """Whether every limit, sum and place is right."""
    actors, cards = found.actors, found.cards
    right = [each for each in actors if each["limits_mib"] == [layout.limit_mib(each["node"])]]
    within = [
        node
        for node, card in cards.items()
        if card["total_bytes"] == layout.spec(node).total_bytes
        and card["used_bytes"] <= card["total_bytes"] - KEEP_FREE_MIB * MIB
    ]
    held = {(node, pid): size for node in cards for pid, size in cards[node]["held_bytes"].items()}
    above = [
        each
        for each in actors
        if held.get((each["node"], each["pid"]), 0)
        > (layout.limit_mib(each["node"]) + CONTEXT_MIB) * MIB
    ]
    misplaced = held.keys() ^ {(each["node"], each["pid"]) for each in actors}
    return [
        Check("actors with the limit of the formula", layout.actors, len(right)),
        Check("actors that allocated 90 % of it", layout.actors, _filled(actors)),
        Check("GPUs whose sum leaves keep_free (NVML)", layout.nodes, len(within)),
        Check("processes above limit + context (NVML)", 0, len(above)),
        Check("processes on a card, and no actor of its node", 0, len(misplaced)),
    ]


def _filled(actors: Sequence[Mapping[str, Any]]) -> int:
    return sum(each["is_filled"] for each in actors)
