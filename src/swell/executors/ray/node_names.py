"""Names of nodes: those of Ray, in the form that hosts have, and one for each node."""

from __future__ import annotations

import re
from collections.abc import Iterable

from swell.executors.ray.ray_port import SeenNode
from swell.executors.remote.host_door import RESERVED

_STRANGE = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_CHARACTERS = 40
_SUFFIX_CHARACTERS = 6


class NodeNames:
    """A node keeps its name while it lives."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  #: by id

    def of(self, nodes: Iterable[SeenNode]) -> dict[str, str]:
        """Name of each node, by its id.

        Several nodes that Ray calls the same have the beginning of their ids behind it, all but the first.
        """
        nodes = sorted(nodes, key=lambda node: node.id)
        self._names = {node.id: self._names[node.id] for node in nodes if node.id in self._names}
        for node in nodes:
            if node.id not in self._names:
                self._names[node.id] = self._new(node)
        return dict(self._names)

    def _new(self, node: SeenNode) -> str:
        name = _STRANGE.sub("-", node.name).strip("-")[:_MAX_CHARACTERS] or "node"
        if RESERVED.fullmatch(name):
            name = f"ray-{name}"
        if name not in self._names.values():
            return name
        return f"{name[: _MAX_CHARACTERS - _SUFFIX_CHARACTERS - 1]}-{node.id[:_SUFFIX_CHARACTERS]}"
