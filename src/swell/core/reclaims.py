"""How long borrowed nodes stay: counted, for policies that plan with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import msgspec

from swell.model.cluster import Cluster
from swell.model.view import BorrowedNodes


class Reclaims(msgspec.Struct, kw_only=True):
    """Time that nodes were lent, and how many of them were taken back."""

    num_lent: int = 0  #: now
    num_reclaimed: int = 0
    lent_node_s: float = 0.0  #: at `as_of_s`, of all nodes that were ever lent
    as_of_s: float = 0.0

    @classmethod
    def together(cls, every: Iterable[Reclaims], now_s: float) -> Self:
        """Return the counts of several groups of nodes as one, at this moment."""
        whole = cls(as_of_s=now_s)
        for one in every:
            whole.num_lent += one.num_lent
            whole.num_reclaimed += one.num_reclaimed
            whole.lent_node_s += one.node_s(now_s)
        return whole

    def note(self, before: Cluster, after: Cluster, now_s: float) -> None:
        """The nodes are other ones from now on."""
        self.lent_node_s += self.num_lent * max(0.0, now_s - self.as_of_s)
        self.as_of_s = max(now_s, self.as_of_s)
        lent, kept = before.borrowed, after.borrowed
        self.num_reclaimed += len(lent - kept)
        self.num_lent = len(kept)

    def per_node_s(self, now_s: float) -> float:
        """Reclaims for each second that a node is lent; 0 before the first."""
        lent_node_s = self.node_s(now_s)
        return self.num_reclaimed / lent_node_s if lent_node_s > 0.0 else 0.0

    def node_s(self, now_s: float) -> float:
        """Time that nodes were lent until now, in seconds of a node."""
        return self.lent_node_s + self.num_lent * max(0.0, now_s - self.as_of_s)

    def view(self, now_s: float) -> BorrowedNodes | None:
        """Return what users are shown of it; None: there never was a borrowed node."""
        if not self.num_lent and not self.num_reclaimed:
            return None
        return BorrowedNodes(
            num_there=self.num_lent, num_given_back=self.num_reclaimed, lent_s=self.node_s(now_s)
        )
