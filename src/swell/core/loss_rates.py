"""How often training that is not saved is lost: what is assumed, corrected by what was seen on this platform.

A gang goes on while one worker is left, for each has the whole state. So a gang on one node loses its
training with that node, and one on several only if all are lost together. A gang whose state is divided among
its workers, without mirrors, loses it with any of them.
"""

from __future__ import annotations

import msgspec

from swell.core.reclaims import Reclaims
from swell.model.cluster import Cluster

#: Assumed of owned nodes, with the weight of one loss: a machine fails, or is started again, once a month.
#: In published records of large clusters a node fails once in months or years; single machines are in
#: less careful hands.
OWNED_NODE_S = 30 * 86_400.0
#: Assumed of borrowed nodes, likewise: an idle node is taken back after half an hour.
BORROWED_NODE_S = 1_800.0


class LossRates(msgspec.Struct, kw_only=True):
    """Losses of owned nodes, and of gangs on several nodes."""

    num_owned: int = 0  #: nodes that are there now
    #: Owned nodes that were not told to leave before; and gangs on owned nodes that lost workers alone.
    num_lost: int = 0
    owned_node_s: float = 0.0  #: at `as_of_s`, of all owned nodes that there ever were
    as_of_s: float = 0.0
    num_struck: int = 0  #: gangs on several nodes that have lost workers
    num_whole: int = 0  #: of them, those that have lost all

    def note_nodes(self, cluster: Cluster, now_s: float) -> None:
        """These nodes are there from now on."""
        self.owned_node_s += self.num_owned * max(0.0, now_s - self.as_of_s)
        self.as_of_s = max(now_s, self.as_of_s)
        self.num_owned = len(cluster.nodes) - len(cluster.borrowed)

    def note_gang(self, num_nodes: int, is_whole: bool) -> None:
        """A gang on so many nodes has lost workers, all or some."""
        if num_nodes > 1:
            self.num_struck += 1
            self.num_whole += is_whole

    def owned_per_s(self, now_s: float) -> float:
        """Losses for each second that an owned node is there."""
        seen_s = self.owned_node_s + self.num_owned * max(0.0, now_s - self.as_of_s)
        return (1 + self.num_lost) / (OWNED_NODE_S + seen_s)

    @property
    def whole_share(self) -> float:
        """Share of losses of a gang on several nodes that take all of it; 1 as long as none was seen."""
        return (1 + self.num_whole) / (1 + self.num_struck)


def mean_time_to_loss_s(
    losses: LossRates,
    reclaims: Reclaims,
    cluster: Cluster,
    devices: tuple[str, ...],
    now_s: float,
    loses_with_any_worker: bool = False,
) -> float:
    """Expected time until a gang on these devices loses training that is not saved.

    A gang on n nodes meets a loss n times as often as one on a single node.

    Args:
        loses_with_any_worker: its state is divided among its workers, and no part lies at two of them.
    """
    nodes = set(map(cluster.node_of.get, devices)) - {None}
    num_borrowed = len(nodes & cluster.borrowed)
    borrowed_per_s = (1 + reclaims.num_reclaimed) / (BORROWED_NODE_S + reclaims.node_s(now_s))
    per_s = num_borrowed * borrowed_per_s + (len(nodes) - num_borrowed) * losses.owned_per_s(now_s)
    if len(nodes) > 1 and not loses_with_any_worker:
        per_s *= losses.whole_share
    return 1.0 / per_s if per_s > 0.0 else OWNED_NODE_S
