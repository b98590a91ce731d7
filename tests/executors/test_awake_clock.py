"""Time in which the agent was stopped is no silence of its workers."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.contract import launch
from tests.executors.listening import Listener, eventually
from tests.executors.puppets import devices, make_spec

from swell.executors.awake_clock import LONGEST_GAP_S, AwakeClock
from swell.executors.gang.gang_settings import GangSettings
from swell.executors.gang.timeouts import Timeouts
from swell.executors.local.agent.address import read_address
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.agent.process import WorkerSupervisor
from swell.executors.local.devices import parse_devices
from swell.executors.local.link import LocalExecutor
from swell.model.event import GangStarted, WorkersLost

STALL_S = 3600.0


class FakeTime:
    def __init__(self) -> None:
        self.time_s = 100.0
        self.clock = AwakeClock(lambda: self.time_s)


@given(st.lists(st.floats(0.0, 10.0)))
def test_it_never_goes_back_and_counts_no_gap(gaps_s: list[float]) -> None:
    fake = FakeTime()
    before_s = fake.clock.now_s()
    for gap_s in gaps_s:
        fake.time_s += gap_s
        now_s = fake.clock.now_s()
        passed_s = gap_s if gap_s <= LONGEST_GAP_S else 0.0
        assert abs(now_s - before_s - passed_s) < 1e-6
        before_s = now_s


def test_the_agent_lives_by_this_clock(tmp_path: Path) -> None:
    async def check() -> None:
        supervisor = WorkerSupervisor(AgentOptions(state_dir=tmp_path, preload=(), call=""), -1)
        fake = FakeTime()
        controller = supervisor._controller
        controller._clock = fake.clock
        before_s = controller.now_s()
        fake.time_s += STALL_S
        assert controller.now_s() == before_s

    asyncio.run(check())


@pytest.mark.slow
def test_workers_of_a_stopped_agent_are_alive_when_it_goes_on(tmp_path: Path) -> None:
    timeouts = Timeouts(silence_s=1.0, standstill_s=0.8)
    executor = LocalExecutor(
        AgentOptions(
            state_dir=tmp_path / "state",
            gang_settings=GangSettings(timeouts=timeouts),
            preload=("msgspec",),
            call="tests.executors.fake_worker:run_entry",
        ),
        parse_devices("paced:8@400"),
    )
    listener = Listener()
    executor.start(listener.put)
    try:
        executor.perform(launch(lambda: make_spec(workdir=str(tmp_path)), devices(0, 1)))
        pids = listener.wait(GangStarted).pids
        address = read_address(tmp_path / "state")
        assert address is not None
        for pid in (*pids, address.pid):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(1.6 * timeouts.silence_s)  # what is tried is time
        for pid in (address.pid, *pids):
            os.kill(pid, signal.SIGCONT)
        before = len(listener.events)
        eventually(lambda: len(listener.events) > before + 3)
        assert not any(isinstance(event, WorkersLost) for event in listener.events)
    finally:
        executor.shut_down()
