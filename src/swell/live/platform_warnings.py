"""What an operator is warned of: warnings by what they are about."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from swell.core.platform_core import PlatformCore
from swell.live.watches import Space
from swell.model.quantities import format_bytes
from swell.model.target import ABOUT_PROMISES, ABOUT_SHARES
from swell.model.view import NodeView


def policy_warnings(core: PlatformCore, policy: str, nodes: Sequence[NodeView]) -> Iterator[tuple[str, str]]:
    """What the policy cannot do on these nodes, and why no plan could be made."""
    crowded = [node for node in nodes if node.cores is not None and node.cores < len(node.devices)]
    if core.domain.shares_cores and nodes and not crowded:
        yield (
            ABOUT_SHARES,
            f"policy {policy} divides the cores that jobs of a node share, and here each device has a core "
            "of its own: shares change nothing while a worker uses one core; give `swell up` more devices "
            "than cores, as --devices cpu:4 --cores 2",
        )
    if core.makes_promises and crowded:
        num_slots = sum(len(node.devices) for node in crowded)
        num_whole = sum(max(1, math.floor(node.cores or 0.0)) for node in crowded)
        yield (
            ABOUT_PROMISES,
            f"policy {policy} promises deadlines, and {num_slots} devices share fewer cores: while a "
            f"deadline is promised, {num_whole} of them are used, so that each worker has a core; else all "
            "are",
        )
    num_failed, failed = core.failed_plans
    if failed is not None:
        of_kind = f" for kind {failed.kind}" if failed.kind else ""
        yield (
            "plan",
            f"no plan could be made{of_kind}, {num_failed} times in a row, and the last one is followed: "
            f"{failed.why}; `swell doctor` shows the trace",
        )


def disk_warning(path: Path, space: Space | None, min_free_bytes: int) -> str:
    """What is wrong with the disk of the jobs' files; empty: nothing.

    Args:
        space: None: the disk does not answer.
    """
    if space is None:
        return (
            f"{path} does not answer: jobs train on, and their checkpoints, logs and starts wait for it; "
            "look after its file server"
        )
    if space.free < min_free_bytes:
        return (
            f"only {format_bytes(space.free)} are free on the disk of {path}, less than "
            f"min_free_bytes={min_free_bytes}: make room (`swell admin prune`), or lower the setting"
        )
    return ""
