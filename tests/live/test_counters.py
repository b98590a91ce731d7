"""What operators are told is counted once, and only what happened since the daemon's start."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import pick
from tests.store.views import job_view

from swell.live.counters import PlatformCounts
from swell.live.platform import Platform
from swell.live.watches import DeviceDemand
from swell.model.calendar import Calendar
from swell.model.event import Outcome, ScriptVerified
from swell.model.job import JobClass, Phase
from swell.model.job_sums import HeldTime
from swell.model.resize import Resize, Verdict
from swell.model.view import JobView
from swell.script_facts import ScriptFinding

from .parts import Hands, spec
from .test_platform import as_if_killed, running, until
from .turns import turn

OVER = [verdict for verdict in Verdict if verdict is not Verdict.UNDER_WAY]


def value(counters: PlatformCounts, name: str, **labels: str) -> float:
    """Of one series, as Prometheus would read it; 0 where there is none."""
    samples = [sample for metric in counters.collect() for sample in metric.samples if sample.name == name]
    return next((sample.value for sample in samples if sample.labels == labels), 0.0)


def values(counters: PlatformCounts, name: str) -> dict[str, float]:
    """Of each series that is not 0, by the value of its only label."""
    samples = [sample for metric in counters.collect() for sample in metric.samples if sample.name == name]
    return {label: sample.value for sample in samples for label in sample.labels.values() if sample.value}


# ---------------------------------------------------------------- device time
@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 4), st.integers(1, 50)), max_size=12),
    st.integers(0, 50),
)
def test_device_time_is_that_which_is_charged(steps: list[tuple[str, int, int]], most_s: int) -> None:
    """Of jobs whose numbers of workers change in turns, and that end at the last turn, or are open then."""
    counters, now_s = PlatformCounts(), 0
    views = {
        name: job_view(id=name, tenant=tenant, devices_per_worker=2, sizes=())
        for name, tenant in (("a", "vision"), ("b", "nlp"), ("c", ""))
    }
    counters.start_from(views.values(), Calendar(), ())
    counters.count_turn(turn(now_s=0.0))
    for name, workers, after_s in steps:
        now_s += after_s
        sizes = (*views[name].sizes, (float(now_s), workers))
        views[name] = msgspec.structs.replace(views[name], sizes=sizes, workers=workers)
        counters.count_turn(turn(views[name], now_s=now_s))
    now_s += most_s
    ended = msgspec.structs.replace(views["a"], finished_s=float(now_s))
    counters.count_turn(turn(ended=[ended], now_s=now_s))
    for view in (ended, views["b"], views["c"]):
        charged_s = HeldTime.of(view).device_s(0.0, now_s)
        assert device_s(counters, view) == pytest.approx(charged_s)
    counters.count_turn(turn(now_s=now_s + 10.0))
    charged_s = HeldTime.of(ended).device_s(0.0, now_s)
    assert device_s(counters, ended) == pytest.approx(charged_s), "an ended job has no devices"


def device_s(counters: PlatformCounts, view: JobView) -> float:
    return value(counters, "swell_tenant_device_seconds_total", tenant=view.tenant, kind=view.kind)


# ---------------------------------------------------------------- resizes
def resize(at_s: float, verdict: Verdict, is_held: bool, gain_s: float | None = None) -> Resize:
    return Resize(
        at_s=at_s,
        before=1,
        after=2,
        verdict=verdict,
        reason_code="boosted",
        reason="",
        expected_cost_s=None,
        expected_gain_s=None,
        wait_s=None,
        cost_s=0.5,
        gain_s=gain_s,
        held_s=1.0,
        is_held=is_held,
        rate_before_per_s=None,
        rate_after_per_s=None,
    )


@given(st.lists(st.sampled_from(OVER), max_size=8), st.data())
def test_a_resize_counts_once_when_its_size_is_given_up(verdicts: list[Verdict], data: st.DataObject) -> None:
    """However often its job is shown meanwhile, and whether its end is shown with the job's or before."""
    counters = PlatformCounts()
    for number in range(len(verdicts)):
        over = [resize(at_s, verdicts[at_s], is_held=False) for at_s in range(number)]
        held = resize(number, verdicts[number], is_held=True)
        view = job_view(resize_history=(*over, held))
        for _ in range(data.draw(st.integers(0, 2))):
            counters.count_turn(turn(view))
    ended = job_view(resize_history=tuple(resize(at_s, one, False) for at_s, one in enumerate(verdicts)))
    counters.count_turn(turn(ended=[ended]))
    assert values(counters, "swell_resizes_total") == Counter(map(str, verdicts))
    assert value(counters, "swell_resize_pause_seconds_count") == len(verdicts)


# ---------------------------------------------------------------- promises
def promised(**changes: object) -> JobView:
    known = {"job_class": JobClass.STRICT, "is_promised": True, "deadline_s": 100.0}
    return msgspec.structs.replace(job_view(), **(known | changes))


def test_a_promise_counts_when_it_is_made_and_when_it_is_another_one() -> None:
    counters = PlatformCounts()
    for view in (promised(), promised(), promised(deadline_s=200.0), promised(id="other")):
        counters.count_turn(turn(view))
    assert value(counters, "swell_promises_made_total") == 3


@pytest.mark.parametrize(
    ("end", "num_kept", "missed"),
    [
        ({"phase": Phase.SUCCEEDED, "kept": True}, 1, {}),
        ({"phase": Phase.SUCCEEDED, "kept": False}, 0, {Phase.SUCCEEDED: 1}),
        ({"phase": Phase.FAILED, "kept": False}, 0, {Phase.FAILED: 1}),
        ({"phase": Phase.CANCELLED, "kept": None}, 0, {}),
        ({"phase": Phase.SUCCEEDED, "kept": False, "is_promised": False}, 0, {}),
        ({"phase": Phase.SUCCEEDED, "kept": False, "is_promised": False, "is_void": True}, 0, {}),
    ],
)
def test_a_promise_is_kept_or_missed_at_the_end(
    end: dict[str, object], num_kept: int, missed: dict[Phase, int]
) -> None:
    counters = PlatformCounts()
    counters.count_turn(turn(ended=[promised(**end)]))
    assert value(counters, "swell_promises_kept_total") == num_kept
    assert values(counters, "swell_promises_missed_total") == missed
    assert value(counters, "swell_promises_void_total") == end.get("is_void", False)


# ---------------------------------------------------------------- expected ends
def test_the_error_is_that_of_the_first_expectation_after_half_of_the_steps() -> None:
    counters = PlatformCounts()
    for now_s, steps, expected_s in ((10.0, 49, 1000.0), (20.0, 50, 90.0), (30.0, 60, 41.0)):
        view = job_view(steps=steps, total_steps=100, workers=1, estimated_finish_s=expected_s)
        counters.count_turn(turn(view, now_s=now_s))
    counters.count_turn(turn(ended=[job_view(phase=Phase.SUCCEEDED, finished_s=40.0)], now_s=41.0))
    assert value(counters, "swell_finish_error_seconds_count") == 1
    assert value(counters, "swell_finish_error_seconds_sum") == 50.0
    assert value(counters, "swell_finish_error_ratio_sum") == 50.0 / 20.0


# ---------------------------------------------------------------- turns
def test_a_platform_that_goes_on_does_not_count_again_what_its_journal_tells(tmp_path: Path) -> None:
    hands = Hands()
    with running(tmp_path, hands) as platform:
        first, second = platform.submit(spec()).id, platform.submit(spec()).id
        until(lambda: platform.job(second).phase is Phase.RUNNING)
        hands.deliver(hands.ended(first, Outcome.SUCCEEDED))
        until(lambda: ended(platform, Phase.SUCCEEDED) == 1)
        folder, left = as_if_killed(tmp_path, hands)
    with running(folder, left) as platform:
        left.deliver(left.ended(second, Outcome.FAILED))
        until(lambda: ended(platform, Phase.FAILED) == 1)
        assert ended(platform, Phase.SUCCEEDED) == 0
        counters = platform.counters
        assert value(counters, "swell_jobs_submitted_total", **{"class": JobClass.BEST_EFFORT}) == 0
        num_turns = value(counters, "swell_turn_duration_seconds_count")
        assert num_turns == value(counters, "swell_journal_write_duration_seconds_count") > 0
        parts = ("journal_write", "decision", "turn")
        journal_s, decision_s, turn_s = (
            value(counters, f"swell_{one}_duration_seconds_sum") for one in parts
        )
        assert 0.0 < journal_s + decision_s < turn_s and min(journal_s, decision_s) > 0.0


def ended(platform: Platform, phase: Phase) -> float:
    """Jobs that were counted as ended so."""
    return value(
        platform.counters, "swell_jobs_ended_total", **{"phase": phase, "class": JobClass.BEST_EFFORT}
    )


def job(
    name: str, largest: int | None, phase: Phase = Phase.QUEUED, *, is_held: bool = False, each: int = 1
) -> JobView:
    return job_view(id=name, phase=phase, max_workers=largest, is_held=is_held, devices_per_worker=each)


@given(
    st.lists(
        st.tuples(pick("a", "b", "c"), st.integers(1, 9), pick(Phase.QUEUED, Phase.RUNNING, Phase.FAILED)),
        max_size=12,
    )
)
def test_it_is_the_sum_over_the_latest_states(changes: list[tuple[str, int, Phase]]) -> None:
    demand, latest = DeviceDemand(), dict[str, int]()
    for name, largest, phase in changes:
        before = demand.num_devices
        views = [job(name, largest, phase)]
        is_news = demand.update([] if phase.is_end else views, views if phase.is_end else [])
        latest[name] = 0 if phase.is_end else largest
        assert demand.num_devices == sum(latest.values())
        assert is_news == (demand.num_devices != before)


def test_steps_that_new_workers_computed_again_count_by_their_result() -> None:
    found = ScriptFinding(name="other-step", text="it differs")
    told = {"same": {"steps": 9}, "another": {"steps": 9, "findings": (found,)}, "not computed": {}}
    counters = PlatformCounts()
    for fields in told.values():
        heard = turn()
        heard.batch = [ScriptVerified(at_s=1.0, job_id="a", **fields)]  # type: ignore[arg-type]
        counters.count_turn(heard)
    assert values(counters, "swell_verifications_total") == dict.fromkeys(told, 1)
