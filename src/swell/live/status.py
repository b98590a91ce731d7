"""How a platform is: its nodes, warnings and measures, after the last scheduling cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from swell import __version__
from swell.live.board import ViewBoard
from swell.live.clock import HeadClock
from swell.live.clock_watch import ClockWatch, followed, suspected
from swell.live.disk import space_of
from swell.live.measures import Measures, usage_of
from swell.live.operator_tally import OperatorTally
from swell.live.platform_warnings import PlatformWarnings
from swell.live.ports import Store
from swell.live.site import Site
from swell.live.site_nodes import SiteNodes
from swell.live.tenant_devices import TenantDevices, devices_of_tenants
from swell.live.webhooks.counts import WebhookCounts
from swell.model.deadline_state import deadline_state
from swell.model.quota import Quotas
from swell.model.usage import total_usage
from swell.model.view import ClusterView


class PlatformStatus:
    """State of the platform for users, in calendar time. Calls come from any thread."""

    def __init__(
        self,
        site: Site,
        store: Store,
        board: ViewBoard,
        clock: HeadClock,
        watch: ClockWatch,
        nodes: SiteNodes,
        warnings: PlatformWarnings,
        tally: OperatorTally,
        webhook_counts: Callable[[], WebhookCounts],
        quotas: Callable[[], Quotas],
        started_s: Callable[[], float],
    ) -> None:
        """Args:
        quotas: that hold now.
        started_s: when the platform has begun, in head time.
        """
        self._site, self._store, self._board, self._nodes = site, store, board, nodes
        self._clock, self._watch, self._warnings, self._tally = clock, watch, warnings, tally
        self._webhook_counts, self._quotas, self._started_s = webhook_counts, quotas, started_s

    def now_s(self) -> float:
        """Return the platform's calendar time."""
        return self._board.calendar.time_of(self._clock.now_s())

    def cluster(self) -> ClusterView:
        """Nodes, holders of devices, disk space and warnings, after the last scheduling cycle."""
        nodes = self._nodes.views()
        owners = [owner for node in nodes for owner in node.devices.values()]
        free = [
            device for node in nodes if not node.leaving for device in node.devices.values() if not device
        ]
        space = space_of(self._site.jobs_dir)
        return ClusterView(
            version=__version__,
            policy=self._site.policy,
            now_s=self.now_s(),
            started_s=self._board.calendar.time_of(self._started_s()),
            nodes=nodes,
            num_devices=len(owners),
            num_free=len(free),
            num_stale_reports=self._board.num_stale,
            journal_bytes=self._store.bytes_on_disk,
            clock_note=self._clock_note(),
            disk_free_bytes=space.free,
            disk_bytes=space.total,
            warnings=self._warnings.now(space.free, nodes),
            lost_nodes=self._nodes.lost(),
            borrowed=self._board.reclaims.view(self._clock.now_s()),
            hosts_may_join=self._site.hosts_may_join,
            engine=self._site.engine,
            no_nodes=self._site.no_nodes,
        )

    def tenant_devices(self) -> Mapping[tuple[str, str], TenantDevices]:
        """Devices held and allowed, by tenant with a quota and kind of device. Cheap if no tenant has one."""
        quotas = self._quotas()
        if not quotas:
            return {}
        _, open_jobs = self._board.open_jobs()
        return devices_of_tenants(quotas, self._nodes.views(), (view for view, _ in open_jobs))

    def measures(self) -> Measures:
        """What operators measure, after the last scheduling cycle."""
        posted_s, open_jobs = self._board.open_jobs()
        promised = [(view, expected_s) for view, expected_s in open_jobs if view.is_promised]
        now_s = max(posted_s, self._clock.now_s())
        return Measures(
            cluster=self.cluster(),
            jobs=Counter((view.phase, view.job_class) for view, _ in open_jobs),
            promises=Counter(deadline_state(view, now_s, expected_s) for view, expected_s in promised),
            num_workers=sum(view.workers for view, _ in open_jobs),
            num_batches=self._store.last_seq,
            counts=self._tally.counts(),
            webhooks=self._webhook_counts(),
            tenants=devices_of_tenants(self._quotas(), self._nodes.views(), (view for view, _ in open_jobs)),
            used=total_usage(usage_of(view) for view, _ in open_jobs),
        )

    def _clock_note(self) -> str:
        """A step of the machine's clock, while a job is open whose deadline has moved by it or may yet."""
        if ahead_s := self._watch.ahead_s:
            return suspected(ahead_s)
        calendar = self._board.calendar
        stepped_s = calendar.stepped_s
        if stepped_s is None or not self._board.has_deadline_from_before(stepped_s):
            return ""
        return followed(calendar.step_s, self._clock.now_s() - stepped_s)
