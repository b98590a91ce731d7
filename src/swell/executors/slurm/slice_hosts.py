"""Between the door for hosts and the controller: which hosts Slurm has started, and which are in use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection

from swell.executors.hosts.messages import CloseRun, FromHost, NodeHost, OpenRun, RunKept, RunRefused, ToHost
from swell.executors.remote.host_door import HostsOwner
from swell.executors.slurm.slice_pool import SlicePool


class SliceHosts:
    """See `HostsOwner`. The controller hears and says all that it would without this object."""

    def __init__(self, owner: HostsOwner, is_by_slurm: Callable[[str], bool]) -> None:
        """`is_by_slurm`: whether Slurm has started the host of this name."""
        self._owner, self._is_by_slurm = owner, is_by_slurm
        self._runs: defaultdict[str, set[str]] = defaultdict(set)  #: open ones, by host
        self._own: set[str] = set()
        self.pool: SlicePool | None = None

    def is_used(self, host: str) -> bool:
        """Whether a run is open there, or is being opened."""
        return bool(self._runs.get(host))

    def await_hosts(self, names: Collection[str]) -> None:
        self._owner.await_hosts(names)

    def join_host(self, name: str, host: NodeHost, machine: str) -> None:
        if self._is_by_slurm(name):
            self._own.add(name)
            if self.pool is not None:
                self.pool.host_joined(name)
        self._runs.pop(name, None)
        self._owner.join_host(name, _WatchedHost(host, self._runs[name]), machine)

    def lose_host(self, name: str, why: str) -> None:
        self._owner.lose_host(name, why)
        self._runs.pop(name, None)
        if name in self._own and self.pool is not None:
            self.pool.host_lost(name)
        self._own.discard(name)

    def hear(self, host: str, message: FromHost) -> None:
        if isinstance(message, RunKept) and host in self._runs:
            self._runs[host].add(message.order.run)
        elif isinstance(message, RunRefused) and host in self._runs:
            self._runs[host].discard(message.run)
        self._owner.hear(host, message)


class _WatchedHost:
    """See `NodeHost`."""

    def __init__(self, far: NodeHost, runs: set[str]) -> None:
        self._far, self._runs = far, runs

    @property
    def is_reached(self) -> bool:
        return self._far.is_reached

    def tell(self, message: ToHost) -> None:
        if isinstance(message, OpenRun):
            self._runs.add(message.run)
        elif isinstance(message, CloseRun):
            self._runs.discard(message.run)
        self._far.tell(message)
