"""The nodes of a platform, and what users may do with them. Any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from swell.live.board import ViewBoard
from swell.live.calendar_times import shown_loss, shown_node
from swell.live.inbox import Inbox
from swell.live.submitter import result_of
from swell.model.errors import InvalidInput, NodeInUse, UnknownNode
from swell.model.event import KindAllowed, NodeCleared, NodeWarned
from swell.model.kind import RULE, is_kind
from swell.model.view import LostNode, NodeView

#: What is shown of a node that is drained, and of one that is removed.
DRAINED = "drained, until `swell nodes drain --undo`"
REMOVED = "being removed"


class SiteNodes:
    """Nodes of the platform, and what users may do with them; times are calendar times."""

    def __init__(
        self,
        own: Iterable[str],
        board: ViewBoard,
        inbox: Inbox,
        now_s: Callable[[], float],
        remove_host: Callable[[str], None],
    ) -> None:
        """
        Args:
            own: names of the nodes of the platform's own machine; all others have joined.
            remove_host: has the host of a joined node leave.
        """
        self._own = frozenset(own)
        self._board, self._inbox, self._now_s = board, inbox, now_s
        self._remove_host = remove_host

    def views(self) -> tuple[NodeView, ...]:
        """Those that are there, after the last scheduling cycle."""
        calendar = self._board.calendar
        shown = (shown_node(node, calendar) for node in self._board.nodes())
        return tuple(msgspec.structs.replace(node, is_joined=node.name not in self._own) for node in shown)

    def lost(self) -> tuple[LostNode, ...]:
        """Those lost lately that have not joined again, the latest last."""
        calendar = self._board.calendar
        return tuple(shown_loss(node, calendar) for node in self._board.lost_nodes)

    def named(self, name: str) -> NodeView:
        """Raises UnknownNode."""
        nodes = {node.name: node for node in self.views()}
        if name not in nodes:
            there = f"these are there: {', '.join(nodes)}" if nodes else "none has joined"
            raise UnknownNode(f"there is no node {name!r}; {there}")
        return nodes[name]

    def drain(self, name: str) -> NodeView:
        """Place nothing on the node any more, and move what is there, until `undrain` or it is lost.

        Raises UnknownNode, Unavailable.
        """
        self.named(name)
        self._tell(NodeWarned(at_s=self._now_s(), name=name, why=DRAINED))
        return self.named(name)

    def undrain(self, name: str) -> NodeView:
        """Jobs may be placed on the node again, whatever had it left.

        Raises UnknownNode, Unavailable.
        """
        if self.named(name).leaving is not None:
            self._tell(NodeCleared(at_s=self._now_s(), name=name))
        return self.named(name)

    def allow_kind(self, kind: str) -> None:
        """Jobs may have devices of this kind, which are there or will be.

        Raises:
            InvalidInput: no kind may be called so.
            Unavailable.
        """
        if not is_kind(kind):
            raise InvalidInput(
                f"{kind[:80]!r} cannot be a kind of device: it has {RULE}; `swell nodes` names it"
            )
        event = KindAllowed(at_s=self._now_s(), kind=kind)
        result_of(self._inbox.request(event), f"kind {kind!r} may or may not be allowed")

    def remove(self, name: str, is_forced: bool = False) -> NodeView:
        """Have the host of a node leave; the node as it was. `NodeLost` comes once its workers are gone.

        Of a node that is lost, the host is told to leave, or its name is forgotten: what is returned has no
        devices.

        Args:
            is_forced: even if jobs have workers there, which these lose.

        Raises:
            UnknownNode, Unavailable.
            NodeInUse: jobs have workers there, or it is of the platform's own machine.
        """
        if name in {lost.name for lost in self._board.lost_nodes}:
            self._remove_host(name)
            return NodeView(name=name, rack="", kind="", is_borrowed=False, devices={}, is_joined=True)
        node = self.named(name)
        if not node.is_joined:
            raise NodeInUse(
                f"node {name!r} is of the platform's own machine; only one that has joined can be removed: "
                "`swell nodes drain` keeps jobs away from this one, and `swell up --devices` changes it"
            )
        if node.jobs and not is_forced:
            raise NodeInUse(
                f"node {name!r} has workers of {', '.join(node.jobs)}: `swell nodes drain {name}` moves them "
                "to other nodes first; with --force they are lost: their jobs go on without them, or from "
                "their last checkpoints"
            )
        self._tell(NodeWarned(at_s=self._now_s(), name=name, why=REMOVED))
        self._remove_host(name)
        return node

    def _tell(self, event: NodeWarned | NodeCleared) -> None:
        """Raises Unavailable."""
        result_of(self._inbox.request(event), f"node {event.name!r} may or may not be left")
