"""How often training that is not saved is lost: what is assumed, corrected by what was seen on this platform.

A gang goes on while one worker is left, for each has the whole state. So a gang on one node loses its
training with that node, and one on several only if all are lost together.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from swell.model.cluster import Cluster
from swell.model.view import BorrowedNodes

#: Assumed of owned nodes, with the weight of one loss: a machine fails, or is started again, once a month.
#: In published records of large clusters a node fails once in months or years; single machines are in
#: less careful hands.
OWNED_NODE_S = 30 * 86_400.0
#: Assumed of borrowed nodes, likewise: an idle node is taken back after half an hour.
BORROWED_NODE_S = 1_800.0


class NodeLossCounts(msgspec.Struct, kw_only=True):
    """Time that nodes were there, and how many of them were lost, or taken back."""

    num_there: int = 0  #: now
    num_lost: int = 0
    node_s: float = 0.0  #: at `as_of_s`, of all nodes that there ever were
    as_of_s: float = 0.0

    @classmethod
    def together(cls, every: Iterable[NodeLossCounts], now_s: float) -> NodeLossCounts:
        """Return the counts of several groups of nodes as one, at this moment."""
        whole = cls(as_of_s=now_s)
        for one in every:
            whole.num_there += one.num_there
            whole.num_lost += one.num_lost
            whole.node_s += one.total_s(now_s)
        return whole

    def note(self, num_there: int, now_s: float) -> None:
        """So many nodes are there from now on."""
        self.node_s = self.total_s(now_s)
        self.as_of_s = max(now_s, self.as_of_s)
        self.num_there = num_there

    def total_s(self, now_s: float) -> float:
        """Time that nodes were there until now, in seconds of a node."""
        return self.node_s + self.num_there * max(0.0, now_s - self.as_of_s)

    def per_node_s(self, now_s: float, assumed_s: float = 0.0) -> float:
        """Losses for each second that a node is there; 0 before there was a node.

        Args:
            assumed_s: time with one loss that counts as if it had been seen.
        """
        seen_s = assumed_s + self.total_s(now_s)
        num_lost = self.num_lost + (1 if assumed_s else 0)
        return num_lost / seen_s if seen_s > 0.0 else 0.0

    def view(self, now_s: float) -> BorrowedNodes | None:
        """Return what users are shown of borrowed nodes; None: there never was one."""
        if not self.num_there and not self.num_lost:
            return None
        return BorrowedNodes(
            num_there=self.num_there, num_given_back=self.num_lost, lent_s=self.total_s(now_s)
        )


class LossRates(msgspec.Struct, kw_only=True):
    """Losses of nodes, and of gangs on several nodes."""

    #: Those were not told to leave before; gangs on owned nodes that lost workers alone count too.
    owned: NodeLossCounts = msgspec.field(default_factory=NodeLossCounts)
    borrowed: NodeLossCounts = msgspec.field(default_factory=NodeLossCounts)
    num_struck: int = 0  #: gangs on several nodes that have lost workers
    num_whole: int = 0  #: of them, those that have lost all

    def note_nodes(self, before: Cluster, after: Cluster, now_s: float) -> None:
        """The nodes are other ones from now on."""
        self.owned.note(len(after.nodes) - len(after.borrowed), now_s)
        self.borrowed.note(len(after.borrowed), now_s)
        self.borrowed.num_lost += len(before.borrowed - after.borrowed)

    def note_gang(self, num_nodes: int, is_whole: bool) -> None:
        """A gang on so many nodes has lost workers, all or some."""
        if num_nodes > 1:
            self.num_struck += 1
            self.num_whole += is_whole

    def mean_time_to_loss_s(self, cluster: Cluster, devices: tuple[str, ...], now_s: float) -> float:
        """Expected time until a gang on these devices loses training that is not saved.

        A gang on n nodes meets a loss n times as often as one on a single node.
        """
        nodes = set(map(cluster.node_of.get, devices)) - {None}
        num_borrowed = len(nodes & cluster.borrowed)
        per_s = num_borrowed * self.borrowed.per_node_s(now_s, BORROWED_NODE_S)
        per_s += (len(nodes) - num_borrowed) * self.owned.per_node_s(now_s, OWNED_NODE_S)
        if len(nodes) > 1:  # share of losses that take all; 1 before the first
            per_s *= (1 + self.num_whole) / (1 + self.num_struck)
        return 1.0 / per_s if per_s > 0.0 else OWNED_NODE_S
