"""What an operator is to be warned of while a platform is up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from swell.core.platform_core import PlatformCore
from swell.live.ports import Executor
from swell.live.quota_watch import ABOUT_QUOTAS, QuotaWatch
from swell.live.retrying_journal import RetryingJournal
from swell.live.site import Site
from swell.model.share_mode import ABOUT_PROMISES, ABOUT_SHARES
from swell.model.sizes import format_bytes
from swell.model.view import NodeView
from swell.store.journal import SqlJournal


class PlatformWarnings:
    """Each has what it is about. Calls come from any thread."""

    def __init__(
        self,
        site: Site,
        core: PlatformCore,
        store: SqlJournal,
        journal: RetryingJournal,
        executor: Executor,
        quotas: QuotaWatch,
        remarks: Mapping[str, str],
    ) -> None:
        """`remarks`: of what works beside the platform."""
        self._remarks = remarks
        self._site, self._core, self._store = site, core, store
        self._journal, self._executor, self._quotas = journal, executor, quotas

    def now(self, free_bytes: int, nodes: Sequence[NodeView]) -> dict[str, str]:
        """Return the warnings that hold now, by what they are about.

        Args:
            free_bytes: on the disk of the state folder.
        """
        warnings = dict(self._remarks)
        if lacks := [lack for lack in (self._executor.lack, self._lack_of_neighbours(nodes)) if lack]:
            warnings[ABOUT_SHARES] = "; ".join(lacks)
        if self._core.makes_promises and (crowded := [node for node in nodes if _is_crowded(node)]):
            warnings[ABOUT_PROMISES] = _told_of_whole_cores(self._site.policy, crowded)
        num_failed, failed = self._core.failed_plans
        if failed is not None:
            of_kind = f" for kind {failed.kind}" if failed.kind else ""
            warnings["plan"] = (
                f"no plan could be made{of_kind}, {num_failed} times in a row, and the last one is followed: "
                f"{failed.why}; `swell doctor` shows the trace"
            )
        if self._quotas.why:
            warnings[ABOUT_QUOTAS] = self._quotas.why
        if notices := self._store.notices:
            warnings["journal file"] = "; ".join(notices)
        if self._journal.why:
            warnings["journal"] = f"the platform stands still, jobs that run train on: {self._journal.why}"
        if free_bytes < (limit := self._site.retention.min_free_bytes):
            warnings["disk"] = (
                f"only {format_bytes(free_bytes)} are free on the disk of {self._site.jobs_dir.parent}, "
                f"less than min_free_bytes={limit}: make room (`swell admin prune`), or lower the setting"
            )
        return warnings

    def _lack_of_neighbours(self, nodes: Sequence[NodeView]) -> str:
        """Why a policy that divides cores divides none; empty: it does, or is no such policy."""
        if any(map(_is_crowded, nodes)) or not nodes or not self._core.domain.shares_cores:
            return ""
        return (
            f"policy {self._site.policy} divides the cores that jobs of a node share, and here each device "
            "has a core of its own: shares change nothing while a worker uses one core; give `swell up` more "
            "devices than cores, as --devices cpu:4 --cores 2"
        )


def _is_crowded(node: NodeView) -> bool:
    return node.cores is not None and node.cores < len(node.devices)


def _told_of_whole_cores(policy: str, crowded: Sequence[NodeView]) -> str:
    """What becomes of slots beyond the cores where deadlines are promised."""
    num_slots = sum(len(node.devices) for node in crowded)
    num_whole = sum(max(1, math.floor(node.cores or 0.0)) for node in crowded)
    return (
        f"policy {policy} promises deadlines, and {num_slots} devices share fewer cores: while a deadline is "
        f"promised, {num_whole} of them are used, so that each worker has a core; else all are"
    )
