"""One agent for several tests, each of which has an executor and a job of its own.

To start it takes most of the time of such a test, and to start its hosts takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tests.eventually import PATIENCE_S, eventually
from tests.executors.contract import ExecutorWorld, MakeJob
from tests.executors.listening import Listener

from swell.executors.local.launch import find_agent, stop_agent
from swell.executors.local.link import LocalExecutor
from swell.model.command import StopGang
from swell.model.event import AnyEvent, GangEnded, NodeJoined

#: Later than all that a test has.
LAST_GENERATION = 1000


class SharedPlatform:
    """Of one state folder."""

    def __init__(
        self,
        state_dir: Path,
        new_executor: Callable[[], LocalExecutor],
        devices: tuple[str, ...],
        bring_hosts: Callable[[], None] | None = None,
        within_s: float = PATIENCE_S,
    ) -> None:
        """
        Args:
            devices: that the agent's machine offers, or all hosts together.
            bring_hosts: called when there is an agent, and has no effect if its hosts are there.
                None: it has none.
            within_s: for hosts to join.
        """
        self.state_dir, self._devices = state_dir, devices
        self._new_executor, self._bring_hosts, self._within_s = new_executor, bring_hosts, within_s
        self._names = (f"job-{number}" for number in count())

    @contextmanager
    def world(self, make_job: MakeJob) -> Iterator[ExecutorWorld]:
        """With a job that there was not before, which is stopped afterwards."""
        executor, listener, job_id = self._new_executor(), Listener(), next(self._names)

        def hear(event: AnyEvent) -> None:
            """What other tests have not acknowledged is told again. Neighbours are called after the job."""
            if f"{getattr(event, 'job_id', job_id)}-".startswith(f"{job_id}-"):
                listener.put(event)

        try:
            running = executor.start(hear)
            if self._bring_hosts is not None:
                self._bring_hosts()
                self._await_devices({device for node in running.nodes for device in node.devices}, listener)
            yield ExecutorWorld(executor, listener, make_job, self._devices, job_id)
            if find_agent(self.state_dir) is not None:
                executor.perform(StopGang(job_id=job_id, generation=LAST_GENERATION))
                listener.wait(GangEnded, LAST_GENERATION)
        finally:
            executor.close()

    def _await_devices(self, there: set[str], listener: Listener) -> None:
        """Until hosts that joined have brought what was not there."""

        def are_there() -> bool:
            joined = [event.node for event in listener.events if isinstance(event, NodeJoined)]
            return set(self._devices) <= there.union(*(node.devices for node in joined))

        eventually(are_there, patience_s=self._within_s)

    def close(self) -> None:
        stop_agent(self.state_dir)


class SlicesPlatform(SharedPlatform):
    """On hosts that an engine brings, whose names are known when `num_devices` devices have joined."""

    def __init__(
        self, state_dir: Path, new_executor: Callable[[], LocalExecutor], num_devices: int, within_s: float
    ) -> None:
        super().__init__(state_dir, new_executor, (), lambda: None, within_s)
        self._num_devices = num_devices

    def _await_devices(self, there: set[str], listener: Listener) -> None:
        def found() -> set[str]:
            nodes = [event.node for event in listener.events if isinstance(event, NodeJoined)]
            return there.union(*(node.devices for node in nodes))

        eventually(lambda: len(found()) == self._num_devices, patience_s=self._within_s)
        self._devices = tuple(sorted(found(), key=lambda device: device.rpartition("/")[::-1]))
