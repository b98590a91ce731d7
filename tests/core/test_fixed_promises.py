"""Fixed jobs and deadlines: windows that are promised, and promises that no fixed job may break."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.bench import Bench, only
from tests.core.fakes import PowerBelief, core_of, node, profile, spec
from tests.core.test_fixed_jobs import entries_of, fixed

from swell.core.platform_core import PlatformCore
from swell.model.command import LaunchGang, ProfileJob, Reconfigure, StopGang, SuspendGang
from swell.model.event import (
    DeadlineChangeAsked,
    JobProfiled,
    JobSubmitted,
    NodeJoined,
    NodeLost,
    Outcome,
    QuotasSet,
    Woke,
)
from swell.model.job import AfterRefusal, JobClass, JobSpec, Phase
from swell.model.quota import Quota
from swell.placement.best_fit import BestFitPlacer
from swell.policies.registry import POLICIES


class Promising(Bench):
    """A platform whose policy promises deadlines; w workers make 10 w**0.8 steps a second."""

    def _new_core(self) -> PlatformCore:
        return PlatformCore(lambda: core_of(POLICIES["elasticflow"](), BestFitPlacer(), PowerBelief))

    def enter(self, job_id: str, job: JobSpec) -> list[Any]:
        """An elastic job whose speed is known, in the turn in which it is planned."""
        self.say(JobSubmitted(at_s=self.now_s, job_id=job_id, spec=job), after_s=0.0)
        return self.say(JobProfiled(at_s=self.now_s, job_id=job_id, profile=profile()))

    def tick(self, after_s: float) -> list[Any]:
        """So many seconds pass."""
        self.now_s += after_s - 1.0
        return self.say(Woke(at_s=self.now_s))

    def begin(self, job_id: str, job: JobSpec) -> int:
        """A job that runs; its generation."""
        submit = self.submit if job.fixed is not None else self.enter
        launch = next(one for one in submit(job_id, job) if isinstance(one, LaunchGang))
        self.started(launch.generation, job_id)
        return launch.generation


def strict(steps: int, deadline_s: float, **fields: Any) -> JobSpec:
    return spec(steps, job_class=JobClass.STRICT, deadline_s=deadline_s, **fields)


def strict_fixed(num: int, time_s: float, deadline_s: float, **fields: Any) -> JobSpec:
    fields = {"grace_s": 0.0, **fields}
    return fixed(num, time_s=time_s, job_class=JobClass.STRICT, deadline_s=deadline_s, **fields)


@pytest.mark.parametrize("is_session", [False, True])
def test_none_starts_that_would_break_a_promise(is_session: bool) -> None:
    b = Promising(4)
    generation = b.begin("a", strict(3000, b.now_s + 130.0))  # 99 s on all four devices
    assert b.job("a").is_promised and b.num_held("a") == 4
    assert b.submit("f", fixed(2, is_session=is_session)) == []
    assert "it would break the promise of a" in b.job("f").reason
    assert b.tick(60.0) == []
    only(b.gone(generation, Outcome.SUCCEEDED, "a", steps=3000), LaunchGang)


def test_one_starts_where_promises_are_kept_on_what_is_left() -> None:
    b = Promising(4)
    b.begin("a", strict(500, b.now_s + 1000.0))
    assert b.num_held("a") == 4  # it is ahead of its plan
    commands = b.submit("f", fixed(3, is_session=True))
    assert [type(command).__name__ for command in commands] == ["Reconfigure"]


def test_a_session_starts_where_all_is_in_use_by_jobs_without_a_promise_and_others_do_not() -> None:
    b = Promising(2)
    for job_id in ("a", "b"):
        b.begin(job_id, spec(100_000 if job_id == "a" else 200_000, max_workers=1))
    assert b.num_held("a") == b.num_held("b") == 1
    assert b.submit("f", fixed(1)) == []
    waiting = b.job("f")
    assert "jobs before it have the 1 device that it needs: " in waiting.reason
    ends_s = [b.job(name).estimated_finish_s or 0.0 for name in ("a", "b")]
    assert waiting.estimated_finish_s == pytest.approx(min(ends_s) + 3600.0)
    b.submit("wide", fixed(2))
    assert "the 2 devices that it needs: a, b; expected to start in 5 h" in b.job("wide").reason
    assert b.job("wide").estimated_finish_s == pytest.approx(max(ends_s) + 3600.0)
    suspend = only(b.submit("s", fixed(1, is_session=True)), SuspendGang)
    launch = only(b.suspended(suspend.generation, suspend.job_id), LaunchGang)
    assert launch.job_id == "s"


def test_jobs_behind_it_shrink_for_it() -> None:
    b = Promising(4)
    b.begin("late", spec(100_000, job_class=JobClass.BEST_EFFORT))
    assert b.num_held("late") == 4
    shrink = only(b.submit("f", fixed(3, priority=1)), Reconfigure)
    assert (shrink.job_id, len(shrink.target.devices)) == ("late", 1)


def test_a_deadline_is_promised_by_a_window_that_others_leave_in_time() -> None:
    b = Promising(4)
    generation = b.begin("g", fixed(4, time_s=100.0, grace_s=0.0))
    ends_s = b.job("g").estimated_finish_s
    assert ends_s is not None
    b.submit("f", strict_fixed(4, 50.0, b.now_s + 200.0))
    assert b.job("f").is_promised and b.phase("f") is Phase.QUEUED
    [entry] = [entry for entry in entries_of(b.core) if entry.owner == "f"]
    assert entry.from_s == pytest.approx(ends_s) and entry.num_devices == 4
    assert "expected to start in" in b.job("f").reason
    b.submit("h", fixed(4, time_s=20.0))  # behind the promise
    b.tick(90.0)
    launch = only(b.gone(generation, Outcome.TIMED_OUT, "g"), LaunchGang)
    assert launch.job_id == "f"
    b.started(launch.generation, "f")
    assert only(b.gone(launch.generation, Outcome.SUCCEEDED, "f"), LaunchGang).job_id == "h"


def test_the_earliest_deadline_that_could_be_promised_is_offered_and_is_promised_when_asked_for() -> None:
    b = Promising(4)
    b.begin("g", fixed(4, time_s=1000.0, grace_s=0.0))
    b.submit("f", strict_fixed(2, 50.0, b.now_s + 200.0))
    assert b.phase("f") is Phase.REJECTED
    offer_s = b.job("f").counter_offer_s
    assert offer_s is not None and b.now_s + 1000.0 < offer_s < b.now_s + 1100.0
    b.submit("early", strict_fixed(2, 50.0, offer_s - 2.0))
    assert b.phase("early") is Phase.REJECTED
    b.submit("again", strict_fixed(2, 50.0, offer_s))
    assert b.job("again").is_promised
    b.submit("takes", strict_fixed(2, 50.0, b.now_s + 200.0, accept_until_s=b.now_s + 5000.0))
    assert b.job("takes").is_promised and (b.job("takes").deadline_s or 0.0) > b.now_s + 1000.0
    b.submit("short", strict_fixed(2, 50.0, b.now_s + 20.0))
    short = b.job("short")
    assert b.phase("short") is Phase.REJECTED and (short.counter_offer_s or 0.0) > b.now_s + 1000.0
    b.submit("soft", strict_fixed(2, 50.0, b.now_s + 200.0, after_refusal=AfterRefusal.SOFT))
    assert b.job("soft").is_unpromised and b.job("soft").job_class is JobClass.SOFT


def test_no_promise_of_an_elastic_job_breaks_by_a_promised_window() -> None:
    b = Promising(4)
    b.begin("a", strict(3000, b.now_s + 130.0))  # it needs all four for 99 s, and its margin
    b.submit("f", strict_fixed(2, 50.0, b.now_s + 100.0))
    assert b.phase("f") is Phase.REJECTED
    b.submit("later", strict_fixed(2, 50.0, b.now_s + 300.0))
    assert b.job("later").is_promised
    [entry] = entries_of(b.core)
    assert entry.from_s > b.now_s + 90.0


def test_elastic_deadlines_count_on_devices_that_come_back_at_a_limit() -> None:
    b = Promising(5)
    b.begin("g", fixed(4, time_s=100.0, grace_s=0.0))
    b.enter("a", strict(3000, b.now_s + 260.0, min_workers=1))  # 300 s on one, 99 s on four
    assert b.job("a").is_promised
    b.enter("never", strict(3000, b.now_s + 130.0))
    assert b.phase("never") is Phase.REJECTED


def test_elastic_deadlines_do_not_count_on_devices_that_a_window_has() -> None:
    b = Promising(4)
    b.begin("g", fixed(1, time_s=2000.0, grace_s=0.0))
    b.submit("f", strict_fixed(4, 500.0, b.now_s + 2600.0))
    assert b.job("f").is_promised
    b.enter("fits", strict(30_000, b.now_s + 1950.0))  # 19 steps a second on two: it is done before
    assert b.job("fits").is_promised
    b.enter("long", strict(30_000, b.now_s + 2500.0))
    assert b.phase("long") is Phase.REJECTED
    offer_s = b.job("long").counter_offer_s
    assert offer_s is not None and offer_s > b.now_s + 2500.0


def test_a_suspendable_job_makes_room_and_starts_again_as_often_as_it_may() -> None:
    b = Promising(4)
    generation = b.begin("low", fixed(4, may_suspend=True, retries=1))
    suspend = only(b.submit("s", fixed(2, is_session=True)), SuspendGang)
    assert suspend.job_id == "low" and suspend.generation > generation
    launch = only(b.suspended(suspend.generation, "low"), LaunchGang)
    b.started(launch.generation, "s")
    assert b.phase("low") is Phase.QUEUED
    again = only(b.gone(launch.generation, Outcome.SUCCEEDED, "s"), LaunchGang)
    b.started(again.generation, "low")
    assert b.submit("t", fixed(2, is_session=True)) == []  # it has started as often as it may
    assert "the session" not in b.job("t").reason and "job low has" in b.job("t").reason


def test_small_jobs_fill_gaps_and_do_not_delay_the_window_of_one_before_them() -> None:
    b = Promising(4)
    b.begin("g", fixed(3, time_s=100.0, grace_s=0.0))
    b.submit("wide", fixed(4, time_s=100.0))
    assert b.submit("long", fixed(1, time_s=500.0)) == []
    assert only(b.submit("short", fixed(1, time_s=30.0, grace_s=0.0)), LaunchGang).job_id == "short"


def test_a_running_job_is_promised_a_deadline_that_its_limit_keeps_and_no_other() -> None:
    b = Promising(4)
    b.begin("f", fixed(2, time_s=100.0, grace_s=10.0))
    b.say(DeadlineChangeAsked(at_s=b.now_s, job_id="f", deadline_s=b.now_s + 50.0))
    assert not b.job("f").is_promised and b.phase("f") is Phase.RUNNING
    b.say(DeadlineChangeAsked(at_s=b.now_s, job_id="f", deadline_s=b.now_s + 150.0))
    assert b.job("f").is_promised


def test_a_promised_job_whose_node_is_lost_gets_another_window() -> None:
    b = Promising(4)
    b.say(NodeJoined(at_s=b.now_s, node=node("n1", 4)))
    generation = b.begin("f", strict_fixed(4, 100.0, b.now_s + 1000.0, retries=1))
    assert b.job("f").is_promised
    launch = only(b.gone(generation, Outcome.LOST, "f"), LaunchGang)
    b.started(launch.generation, "f")
    assert b.job("f").is_promised and b.phase("f") is Phase.RUNNING
    stop = only(b.cancel("f"), StopGang)
    b.gone(stop.generation, Outcome.STOPPED, "f")
    assert entries_of(b.core) == []


def test_a_promised_job_that_is_lost_too_late_for_its_deadline_is_told_late_with_the_cause() -> None:
    b = Promising(4)
    generation = b.begin("f", strict_fixed(4, 100.0, b.now_s + 130.0, retries=3))
    b.now_s += 60.0
    b.say(NodeLost(at_s=b.now_s, name="n0"))
    assert b.gone(generation, Outcome.LOST, "f") == []
    assert b.job("f").is_promised and b.job("f").reason_code == "at_risk"
    assert "cannot be kept any more: it lost workers, node n0 was lost" in b.job("f").reason
    launch = only(b.say(NodeJoined(at_s=b.now_s, node=node("n0", 4))), LaunchGang)
    b.started(launch.generation, "f")
    b.now_s += 100.0
    b.gone(launch.generation, Outcome.TIMED_OUT, "f")
    assert b.phase("f") is Phase.TIMED_OUT and "after its promised deadline" in b.job("f").reason


def test_quotas_count_what_fixed_jobs_have() -> None:
    b = Promising(4)
    b.say(QuotasSet(at_s=b.now_s, quotas={"t": Quota(devices=3)}))
    b.begin("f", fixed(2, tenant="t"))
    assert b.submit("g", fixed(2, tenant="t", is_session=True)) == []
    assert "its tenant's quota is 3 devices" in b.job("g").reason
    b.begin("a", spec(100_000, tenant="t"))
    assert b.num_held("a") == 2, "one of these is lent"
    assert "beyond its tenant's quota, until other jobs need the devices" in b.job("a").reason


def test_an_elastic_job_that_is_only_starting_on_reserved_devices_is_stopped() -> None:
    b = Promising(4)
    only(b.enter("a", spec(3000)), LaunchGang)
    (stop,) = b.submit("f", fixed(4, is_session=True))
    assert isinstance(stop, StopGang) and stop.job_id == "a"
    assert only(b.gone(stop.generation, Outcome.STOPPED, "a"), LaunchGang).job_id == "f"
    assert b.job("a").phase is Phase.QUEUED


@pytest.mark.parametrize("is_fixed", [True, False])
def test_a_fixed_job_that_has_what_a_tenant_leaves_gives_it_back_in_the_turn_in_which_that_is_wanted(
    is_fixed: bool,
) -> None:
    b = Promising(4)
    b.say(QuotasSet(at_s=b.now_s, quotas={"t": Quota(devices=2), "u": Quota(devices=2)}))
    b.begin("own", fixed(2, tenant="t", may_suspend=True, retries=3))
    assert b.submit("kept", fixed(2, tenant="t")) == [], "one that cannot be suspended is lent nothing"
    b.begin("lent", fixed(2, tenant="t", may_suspend=True, retries=3))
    wanted = fixed(2, tenant="u") if is_fixed else spec(1000, tenant="u", min_workers=2, max_workers=2)
    suspend = only(b.submit("w", wanted), SuspendGang)
    assert suspend.job_id == "lent"
    given = b.suspended(suspend.generation, "lent")
    if not is_fixed:
        assert only(given, ProfileJob).job_id == "w", "its trial run does not wait, nor is it lent again"
        given = b.profiled("w")
    assert only(given, LaunchGang).job_id == "w" and b.phase("lent") is Phase.QUEUED
    assert b.phase("own") is Phase.RUNNING
