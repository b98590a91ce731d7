"""Why nodes are to be left, and when. Several may say so of one node: the earliest of their ends holds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from swell.core.state import HeadState
from swell.core.whole_cores import UsableDevices
from swell.model.event import NodeCleared, NodeWarned
from swell.model.snapshot import NO_ENDS, NodeEnds


def warn(state: HeadState, event: NodeWarned) -> None:
    """What the same one said before is replaced."""
    others = [cause for cause in state.warned.get(event.name, ()) if cause.why != event.why]
    state.warned[event.name] = [*others, event]


def clear(state: HeadState, event: NodeCleared) -> bool:
    """Whether nothing stands any more."""
    rest = [cause for cause in state.warned.pop(event.name, ()) if event.why and cause.why != event.why]
    if rest:
        state.warned[event.name] = rest
    return not rest


def known_ends(state: HeadState, usable: UsableDevices) -> NodeEnds:
    """When usable devices will be gone, as far as is known."""
    if not state.ends_s:
        return NO_ENDS
    ending = [(state.ends_s[node.name], node) for node in usable.cluster.nodes if node.name in state.ends_s]
    owned = ((end_s, usable.num_of(node)) for end_s, node in ending if not node.is_borrowed)
    return NodeEnds(min((end_s for end_s, _ in ending), default=math.inf), tuple(sorted(owned)))


def together(causes: Sequence[NodeWarned]) -> NodeWarned:
    """Merge the warnings about one node into one, with the earliest end and every reason."""
    ends = [cause.until_s for cause in causes if cause.until_s is not None]
    return msgspec.structs.replace(
        causes[0],
        until_s=min(ends, default=None),
        why="; ".join(cause.why for cause in causes if cause.why),
    )
