"""Whatever is done to the machine's clock: head time runs on, and deadlines end up where the calendar is."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.core.fakes import core_of, node, strict
from tests.examples import share_of_examples

from swell.live.clock import LASTS_S, TOLERANCE_S, HeadClock, LocalClock, shown_job
from swell.live.head_queue import LOOK_EVERY_S
from swell.model.event import AnyEvent, JobSubmitted, NodeJoined, Opened

DAY_S = 86_400.0
AHEAD = st.sampled_from([0.0, 0.05, 0.5, 1.5, -3.0, 600.0, -3600.0, DAY_S, -DAY_S, -1e9])
#: Head time is a float of about 2e9 seconds.
EXACT_S = 1e-5


@dataclass
class Machine:
    """`true_s` is what a good clock shows; the machine's own is ahead of it."""

    true_s: float = 1_750_000_000.0
    boot_s: float = 1000.0
    ahead_s: float = 0.0
    num_boots: int = 1

    @property
    def wall_s(self) -> float:
        return self.true_s + self.ahead_s

    def clocks(self) -> LocalClock:
        return LocalClock(
            boot_s=lambda: self.boot_s, wall_s=lambda: self.wall_s, boot_id=f"boot-{self.num_boots}"
        )

    def elapse(self, passed_s: float) -> None:
        self.boot_s += passed_s
        self.true_s += passed_s

    def reboot(self, down_s: float) -> None:
        self.num_boots += 1
        self.boot_s, self.true_s = 7.0, self.true_s + down_s


class ClockedWorld(RuleBasedStateMachine):
    """A head with its journal, and a machine that is set, restarted and booted."""

    @initialize(ahead_s=AHEAD)
    def open(self, ahead_s: float) -> None:
        self.machine = Machine(ahead_s=ahead_s)
        self.core, self.journal = core_of(), list[list[AnyEvent]]()
        self.num_jobs, self.steady_s, self.last_s = 0, math.inf, 0.0
        self._up()
        self._hear(NodeJoined(at_s=self.clock.now_s(), node=node("n0")))

    def _up(self) -> None:
        self.clock = HeadClock(self.machine.clocks())
        self.clock.continue_from(self.core.state.calendar, self.core.state.now_s)
        self.steady_s = 0.0
        self._hear(
            Opened(
                at_s=self.clock.now_s(),
                boot_id=self.clock.boot_id,
                boot_offset_s=self.clock.boot_offset_s,
                calendar_offset_s=self.clock.calendar_offset_s,
            )
        )

    def _hear(self, event: AnyEvent) -> None:
        self.journal.append([event])
        self.core.handle([event])

    def _look(self) -> None:
        if (stepped := self.clock.find_step()) is not None:
            self._hear(stepped)

    # ------------------------------------------------------------ what happens
    @rule(passed_s=st.floats(0.0, 30.0))
    def elapse(self, passed_s: float) -> None:
        """Exactly so much, by the clock and by the stamps of an agent; the head looks now and then."""
        before_s, boot_s = self.clock.now_s(), self.machine.boot_s
        left_s = passed_s
        while left_s > 0.0:
            self.machine.elapse(min(LOOK_EVERY_S, left_s))
            left_s -= LOOK_EVERY_S
            self._look()
        assert self.clock.now_s() - before_s == pytest.approx(passed_s, abs=EXACT_S)
        assert self.clock.of_boot_s(boot_s) == before_s
        self.steady_s += passed_s

    @rule(ahead_s=AHEAD)
    def set_the_clock(self, ahead_s: float) -> None:
        before_s = self.clock.now_s()
        self.machine.ahead_s = ahead_s
        self._look()
        assert self.clock.now_s() == before_s
        self.steady_s = 0.0

    @rule(after_s=st.floats(1.0, 1e5))
    def submit(self, after_s: float) -> None:
        self.num_jobs += 1
        deadline_s = self._calendar_s + after_s
        event = JobSubmitted(
            at_s=self.clock.now_s(), job_id=f"j{self.num_jobs}", spec=strict(deadline_s=deadline_s)
        )
        self._hear(event)
        record = next(view for view in self.core.views() if view.id == event.job_id)
        assert record.deadline_s is not None
        assert record.deadline_s - self.core.state.now_s == pytest.approx(after_s, abs=EXACT_S)

    @rule(down_s=st.floats(0.0, 5.0))
    def restart(self, down_s: float) -> None:
        """On the same boot head time goes on as if the daemon had not been away."""
        before_s = self.clock.now_s()
        self.machine.elapse(down_s)
        self._recover()
        assert self.clock.now_s() - before_s == pytest.approx(down_s, abs=EXACT_S)

    @rule(down_s=st.floats(0.0, 1e6), ahead_s=AHEAD)
    def reboot(self, down_s: float, ahead_s: float) -> None:
        self.machine.reboot(down_s)
        self.machine.ahead_s = ahead_s
        self._recover()

    def _recover(self) -> None:
        """By replay; a fold comes to the same."""
        before = self.core.save()
        self.core = core_of()
        for batch in self.journal:
            self.core.handle(batch)
        assert self.core.save() == before
        self.core = core_of()
        self.core.load(before)
        assert self.core.save() == before
        self._up()

    # ------------------------------------------------------------ laws
    @property
    def _calendar_s(self) -> float:
        """As people are told it is."""
        return self.core.state.calendar.time_of(self.clock.now_s())

    @invariant()
    def time_never_goes_back(self) -> None:
        if not hasattr(self, "core"):
            return
        assert self.clock.now_s() >= self.core.state.now_s >= self.last_s
        self.last_s = self.core.state.now_s

    @invariant()
    def a_clock_that_is_left_alone_is_right(self) -> None:
        if not hasattr(self, "core") or self.steady_s < LASTS_S + 2.0 * LOOK_EVERY_S:
            return
        wall_s = self.machine.wall_s
        assert self._calendar_s == pytest.approx(wall_s, abs=TOLERANCE_S + 0.01)
        for view in self.core.views():
            shown = shown_job(view, self.core.state.calendar)
            assert view.deadline_s is not None and shown.deadline_s is not None
            left_s = view.deadline_s - self.clock.now_s()
            assert left_s == pytest.approx(shown.deadline_s - wall_s, abs=TOLERANCE_S + 0.01)

    @invariant()
    def few_offsets_are_remembered(self) -> None:
        if hasattr(self, "core"):
            assert len(self.core.state.calendar.offsets) <= self.machine.num_boots


TestClockedWorld = ClockedWorld.TestCase
TestClockedWorld.settings = settings(
    max_examples=share_of_examples(0.4), stateful_step_count=25, deadline=None
)


def test_a_reading_that_was_interrupted_says_nothing() -> None:
    machine, stopped_s = Machine(), 0.0

    def wall_s() -> float:
        machine.elapse(stopped_s)
        return machine.wall_s

    clock = HeadClock(dataclasses.replace(machine.clocks(), wall_s=wall_s))
    assert clock.wall_offset_s() == pytest.approx(0.0, abs=0.01)
    stopped_s = 5.0
    assert clock.wall_offset_s() is None
