"""Where and what a platform is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from swell.live.pruning import Retention
from swell.model.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where and what the platform is."""

    jobs_dir: Path
    policy: str
    nodes: Sequence[Node]  #: of the platform's own machine
    retention: Retention = field(default_factory=Retention)
    hosts_may_join: bool = False  #: from other machines
    engine: str = ""  #: see `ClusterView`
    no_nodes: str = ""  #: likewise
