"""Time in which the agent was stopped is no silence of its workers."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.agent.process import WorkerSupervisor
from swell.wire.lease_clocks import LONGEST_GAP_S, AwakeClock

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
