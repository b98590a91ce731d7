"""Ranks within a machine and ranks of machines, as torchrun numbers them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LocalRank:
    """Where one rank of a group stands among those of its host."""

    local_rank: int = 0
    local_world_size: int = 1
    group_rank: int = 0  #: of its host, counted by first appearance


def local_ranks(hosts: Sequence[str]) -> list[LocalRank]:
    """
    Args:
        hosts: by rank.
    """
    sizes, seen = Counter(hosts), Counter[str]()
    order = {host: number for number, host in enumerate(dict.fromkeys(hosts))}
    ranks = []
    for host in hosts:
        ranks.append(LocalRank(seen[host], sizes[host], order[host]))
        seen[host] += 1
    return ranks
