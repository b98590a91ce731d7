"""What the head cannot handle is set aside, and all else goes on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.bench import Bench
from tests.core.driven_world import ALL_FAULTS, DrivenWorld
from tests.core.fakes import core_of, node, profile, spec
from tests.core.guarded_head import NONE_RAISE, GuardedHead, Moments, Raised, RaisingPolicy, raising_core
from tests.examples import Shown, pick, share_of_examples
from tests.store.fresh_journal import fresh_journal

from swell.core.core import Core
from swell.core.platform_core import PlatformCore
from swell.live.recovery import BatchGuard
from swell.model.command import AnyCommand, LaunchGang, StopGang
from swell.model.event import (
    AnyEvent,
    JobProfiled,
    JobSubmitted,
    PlanFailed,
    StepsReported,
)
from swell.model.job import Elasticity, Phase
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot

SPECS = [
    spec(60),
    spec(120, min_workers=2, max_workers=4),
    spec(60, devices_per_worker=2),
    spec(None, elasticity=Elasticity.RESTART, estimate_s=5.0),
]
shown = Shown("learn_profile", "learn_rate", "rates_per_s", "decide", "ended", "planless", "went on")


@shown.wholly
@settings(max_examples=share_of_examples(0.5))
@given(
    seed=st.integers(0, 10_000),
    share=pick(0.02, 0.1, 0.3),
    jobs=st.lists(st.sampled_from(SPECS), min_size=1, max_size=5),
    fates=st.lists(
        pick("turn", "turn", "turn", "fold", "die", "turn and die", "die unamended"), min_size=10, max_size=30
    ),
)
def test_a_policy_and_a_belief_that_raise_end_no_other_job_and_leave_nothing_half_done(
    seed: int, share: float, jobs: list[Any], fates: list[str]
) -> None:
    moments = Moments(seed, share)
    world = DrivenWorld(seed, ALL_FAULTS)
    head = GuardedHead(lambda: raising_core(moments), world)
    world.join(node("n0", 4))
    for number, job in enumerate(jobs):
        head.submit(f"j{number}", job)
    for fate in fates:
        if fate == "die unamended":
            head.die_before_it_is_amended()
        else:
            head.undergo(fate)
    for _ in range(60):
        head.turn()
    moments.is_over = True
    world.calm_down()
    head.run()
    head.die()
    failed = {event.job_id for event in head.core.set_aside} - {""}
    assert {job_id for job_id, view in head.ended.items() if view.phase is Phase.FAILED} == failed
    assert len(head.ended) == len(jobs), head.story()
    assert head.core.is_idle and not head.port.occupied
    kinds = {type(event) for entry in head.journal.history().entries for event in entry.batch}
    shown.note(moments.raised)
    shown.note(["ended"] if failed else [])
    shown.note(["planless"] if PlanFailed in kinds else [])
    shown.note(["went on"] if moments.raised and len(failed) < len(jobs) else [])


@settings(max_examples=share_of_examples(0.2))
@given(
    seed=st.integers(0, 10_000),
    share=pick(0.02, 0.1),
    jobs=st.lists(st.sampled_from(SPECS), min_size=1, max_size=5),
)
def test_errors_that_come_and_go_end_no_other_job_either(seed: int, share: float, jobs: list[Any]) -> None:
    """The batches before may raise errors, too, when they are handled again."""
    moments, world = Moments(seed, share, itertools.count()), DrivenWorld(seed, ALL_FAULTS)
    head = GuardedHead(lambda: raising_core(moments), world, is_repeatable=False)
    world.join(node("n0", 4))
    for number, job in enumerate(jobs):
        head.submit(f"j{number}", job)
    for _ in range(100):
        head.turn()
    moments.is_over = True
    world.calm_down()
    head.run()
    failed = {event.job_id for event in head.core.set_aside} - {""}
    assert {job_id for job_id, view in head.ended.items() if view.phase is Phase.FAILED} == failed
    assert len(head.ended) == len(jobs), head.story()
    assert head.core.is_idle and not head.port.occupied


class Guarded(Bench):
    """A bench whose core is guarded, on a journal."""

    def __init__(self, make: Callable[[], Core], num_devices: int = 4) -> None:
        self._make, self.journal = make, fresh_journal()
        super().__init__(num_devices)

    def _new_core(self) -> PlatformCore:
        core = PlatformCore(self._make)
        self.guard = BatchGuard(core, self.journal, self.journal.amend)
        return core

    def _handle(self, batch: Sequence[AnyEvent]) -> list[AnyCommand]:
        self.journal.append(batch)
        try:
            return self.core.handle(batch)
        except Exception as error:  # noqa: BLE001 - whatever a drawn error is
            return self.guard.mend(self.journal.last_seq, batch, error)

    def enter(self, *job_ids: str, **fields: Any) -> list[AnyCommand]:
        """Submit jobs together, whose trial runs are over at once."""
        job = spec(1000, **fields)
        self.say(*(JobSubmitted(at_s=self.now_s, job_id=job_id, spec=job) for job_id in job_ids))
        known = (JobProfiled(at_s=self.now_s, job_id=job_id, profile=profile()) for job_id in job_ids)
        return self.say(*known)

    def phases(self) -> dict[str, Phase]:
        return {view.id: view.phase for view in [*self.core.views(), *self.ended.values()]}

    @property
    def events(self) -> list[AnyEvent]:
        return [event for entry in self.journal.history().entries for event in entry.batch]


def guarded(moments: Moments = NONE_RAISE, num_devices: int = 4) -> Guarded:
    return Guarded(lambda: raising_core(moments), num_devices)


class Chosen(Moments):
    """Raises on what a test names, for as long as it is named."""

    def __init__(self, *named: str) -> None:
        super().__init__()
        self.named = set(named)

    def pass_by(self, what: str, *about: object) -> None:
        if not self.named.isdisjoint({what, *(f"{what} {one}" for one in about)}):
            raise Raised(f"{what} of {about}")


def test_the_job_of_an_event_fails_with_the_reason_and_its_gang_is_gone_before_its_devices_are_free() -> None:
    moments = Chosen()
    head = guarded(moments, num_devices=1)
    [launch] = head.enter("a", max_workers=1)
    head.started(1)
    assert head.enter("b", max_workers=1) == []
    head.reported(1, 5, step_s=0.1)
    moments.named.add("learn_rate 0.2")
    assert head.reported(1, 10, step_s=0.2) == [StopGang(job_id="a", generation=2)]
    [view] = head.core.ended_views()
    assert view.phase is Phase.FAILED and "Raised: learn_rate of ('a'" in view.message
    assert "StepsReported" in view.reason and "swell doctor" in view.reason
    assert head.core.unknown_owner == {"n0.0": "a"}
    [launch] = head.gone(2)
    assert isinstance(launch, LaunchGang) and launch.job_id == "b"
    [aside] = head.core.set_aside
    assert (
        isinstance(aside.event, StepsReported) and "Traceback" in aside.trace and "learn_rate" in aside.trace
    )


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_an_error_that_is_about_no_batch_ends_the_process(error: type[BaseException]) -> None:
    class Starving(RaisingPolicy):
        def decide(self, snapshot: Snapshot) -> Allocation:
            if snapshot.num_jobs:
                raise error
            return super().decide(snapshot)

    head = Guarded(lambda: core_of(Starving()))
    with pytest.raises(error):
        head.enter("a")
    assert not head.core.set_aside
