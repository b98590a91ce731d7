"""Workers end with the lease of their machine by themselves: no one tells them to, or kills them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.fake_agent import FakeAgent
from tests.train.test_unmanaged_script import FOR_EVER, FOREIGN, await_training, start

from swell.wire import environ, messages
from swell.wire.lease_end import LEASE_FILE, HostClock, ShownEnd

TELLS_TIME = Path(__file__).parent / "scripts" / "tells_time.py"
NOW = HostClock()


class LeasingAgent:
    def __init__(self, agent: FakeAgent) -> None:
        path = agent.folder / LEASE_FILE
        agent.environ[environ.LEASE] = str(path)
        self.agent, self._shown = agent, ShownEnd(path)
        self.renew(3600.0)

    def renew(self, lease_s: float) -> float:
        """Its end. The agent stands still from then on, for all that a worker sees."""
        end_s = NOW.now_s() + lease_s
        self._shown.show(end_s)
        return end_s

    def await_end(self, worker: int = 0) -> str:
        """The worker's log."""
        assert self.agent.exit_status(worker) == environ.EXIT_STOPPED
        log = self.agent.log(worker).read_text()
        assert "the lease of this machine has ended" in log
        return log


@pytest.fixture
def leasing(start_agent: Callable[..., FakeAgent]) -> LeasingAgent:
    return LeasingAgent(start_agent(total_steps=10**9, heartbeat_s=60.0))


def test_no_worker_begins_a_step_after_the_end_of_the_lease(leasing: LeasingAgent) -> None:
    """It may have looked just before the end, once."""
    agent = leasing.agent
    agent.start_ready([0], TELLS_TIME)
    agent.join([0], source=None)
    agent.wait_steps(0, 10)
    end_s = leasing.renew(0.2)
    log = leasing.await_end()
    begun_s = [float(line) for line in log.splitlines()[:-1]]
    assert len(begun_s) > 10 and sum(each_s >= end_s for each_s in begun_s) <= 1
    said = {type(message) for _, message in agent.said}
    assert not said & {messages.CheckpointSaved, messages.Left, messages.Failed}, "nothing of it counts"


def test_a_worker_that_waits_ends_as_well(leasing: LeasingAgent) -> None:
    leasing.agent.start_ready([0], TELLS_TIME)
    leasing.renew(0.2)
    leasing.await_end()


def test_a_script_that_knows_nothing_of_swell_ends_after_its_step(leasing: LeasingAgent) -> None:
    """It is not asked to save: the job may have gone on elsewhere."""
    agent = leasing.agent
    start(agent, 1, "sgd", "0", FOR_EVER, "handle", script=FOREIGN)
    await_training(agent)
    leasing.renew(0.0)
    assert "saved after" not in leasing.await_end()
