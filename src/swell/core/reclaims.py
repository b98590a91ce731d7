"""How long borrowed nodes stay: counted, for policies that plan with them."""

from __future__ import annotations

import msgspec

from swell.model.cluster import Cluster


class Reclaims(msgspec.Struct, kw_only=True):
    """Time that nodes were lent, and how many of them were taken back."""

    num_lent: int = 0  #: now
    num_reclaimed: int = 0
    lent_node_s: float = 0.0  #: at `as_of_s`, of all nodes that were ever lent
    as_of_s: float = 0.0

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
