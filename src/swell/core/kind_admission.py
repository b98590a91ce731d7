"""Which kinds of device a platform takes: a node of another one waits aside, and counts for nothing.

Otherwise one host of a kind of its own would make a platform of several kinds out of one, and jobs that name
none would be refused.
"""

from __future__ import annotations

import msgspec

from swell.model.event import NodeJoined, NodeLost
from swell.model.node import Node


class KindAdmission(msgspec.Struct):
    """A part of a head's state."""

    is_asked: bool = False  #: in simulations nobody asks: any kind is taken
    allowed: list[str] = []  #: by the operator, or as the kinds of the platform's own devices
    aside: dict[str, Node] = {}  #: nodes by name

    def begin(self, own: tuple[str, ...]) -> None:
        """The platform is up, with devices of these kinds. Hosts tell again of their nodes."""
        self.is_asked = True
        self.allow(*own)
        self.aside.clear()

    def allow(self, *kinds: str) -> list[Node]:
        """Nodes that may be taken now."""
        self.allowed += [kind for kind in kinds if kind not in self.allowed]
        taken = [node for node in self.aside.values() if node.kind in kinds]
        for node in taken:
            del self.aside[node.name]
        return taken

    def takes(self, kind: str) -> bool:
        """Whether a kind that no node has had is taken."""
        return not self.is_asked or kind in self.allowed

    def put_aside(self, event: NodeJoined) -> NodeLost:
        """What is told of a node that is not taken."""
        node = self.aside[event.node.name] = event.node
        cause = (
            f"it waits aside: its devices are of kind {node.kind!r}, which is new here; "
            f"`swell nodes allow-kind '{node.kind}'` lets jobs have them"
        )
        return NodeLost(at_s=event.at_s, name=node.name, cause=cause)
