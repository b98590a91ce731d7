"""What an operator asks of a platform from Python: its nodes, its ended jobs, its own state and end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import quote

from swell.api.transport import Transport
from swell.live.retention import PrunedJob, PruneRequest
from swell.model.coding import decoder, encode
from swell.model.device_usage import GroupBy, UsageReport
from swell.model.errors import UnknownJob, UnknownNode
from swell.model.view import ClusterView, NodeView

#: Folders of many gigabytes take long to remove.
PRUNED_WITHIN_S = 3600.0


class OperatorCalls:
    """A part of `client.Client`."""

    _transport: Transport

    def cluster(self) -> ClusterView:
        """Nodes, devices and the platform's own state. Raises NoPlatform."""
        return self._transport.get("/v1/cluster", ClusterView)

    def drain_node(self, name: str) -> NodeView:
        """Place nothing on a node any more, and move its jobs to other nodes.

        Raises UnknownNode, Unavailable.
        """
        return self._about_node(name, "drain")

    def undrain_node(self, name: str) -> NodeView:
        """Let jobs be placed on a node again. Raises UnknownNode, Unavailable."""
        return self._about_node(name, "undrain")

    def allow_kind(self, kind: str) -> ClusterView:
        """Let jobs have devices of a kind that is new to the platform; the cluster after it.

        Raises ApiError, Unavailable.
        """
        content = self._transport.call("POST", "/v1/kinds/allow", query={"kind": kind})
        return decoder(ClusterView).decode(content)

    def remove_node(self, name: str, *, force: bool = False) -> NodeView:
        """Have the host of a node that has joined leave; the node as it was.

        Args:
            force: even if jobs have workers there, which are lost.

        Raises:
            UnknownNode, Unavailable.
            ApiError: jobs have workers there, or it is of the platform's own machine.
        """
        return self._about_node(name, "remove", {"force": "true" if force else "false"})

    def _about_node(self, name: str, verb: str, query: Mapping[str, str] | None = None) -> NodeView:
        path = f"/v1/nodes/{quote(name, safe='')}/{verb}"
        try:
            return decoder(NodeView).decode(self._transport.call("POST", path, query=query))
        except UnknownJob as error:
            raise UnknownNode(*error.args) from error

    def prune(
        self,
        job_ids: Iterable[str] = (),
        ended_before_s: float | None = None,
        keep_bytes: int | None = None,
        is_dry_run: bool = False,
    ) -> list[PrunedJob]:
        """Remove ended jobs with their logs and checkpoints, and tell which.

        Those of `job_ids`, those that ended before a time (seconds since 1970), and of the others the oldest,
        while the folders of all hold more than `keep_bytes`. `is_dry_run`: tell which, and remove none.

        Raises:
            UnknownJob: one of them is not there, or has not ended.
        """
        request = PruneRequest(
            job_ids=tuple(map(str, job_ids)),
            ended_before_s=ended_before_s,
            keep_bytes=keep_bytes,
            is_dry_run=is_dry_run,
        )
        content = self._transport.call("POST", "/v1/prune", content=encode(request), within_s=PRUNED_WITHIN_S)
        return decoder(list[PrunedJob]).decode(content)

    def usage(
        self, by: GroupBy = GroupBy.USER, since_s: float | None = None, until_s: float | None = None
    ) -> UsageReport:
        """Device hours of your own jobs, to an operator of all.

        Args:
            since_s: seconds since 1970; None: 30 days before the end.
            until_s: likewise; None: now.

        Raises:
            InvalidJob: the time begins after its end.
        """
        query = {"by": str(by)}
        query |= {} if since_s is None else {"since": repr(since_s)}
        query |= {} if until_s is None else {"until": repr(until_s)}
        return self._transport.get("/v1/usage", UsageReport, query)

    def head_state(self) -> bytes:
        """All that the head remembers, as JSON; nothing is changed by asking."""
        return self._transport.call("GET", "/v1/head")

    def page(self) -> str:
        """A link that opens the live page in a browser, once and within a minute."""
        return decoder(dict[str, str]).decode(self._transport.call("POST", "/v1/page"))["url"]

    def stop(self) -> None:
        """Suspend every job and end the platform; returns before that is done."""
        self._transport.call("POST", "/v1/stop")
