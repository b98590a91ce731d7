"""How long launches wait until others have left their devices, and who is charged with that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.bench import Bench
from tests.core.fakes import Fixed

from swell.core.costs import NUM_WAITS, CostTable
from swell.model.command import AnyCommand, LaunchGang
from swell.model.event import Opened
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot


class Watched(Fixed):
    """Keeps what it was shown."""

    views: list[Snapshot] = []

    def decide(self, snapshot: Snapshot) -> Allocation:
        self.views.append(snapshot)
        return super().decide(snapshot)

    def start_s(self, job_id: str) -> float:
        """Upper cost of a launch of this job with one worker, as last shown."""
        view = self.views[-1]
        return float(view.option_start_s[view.options.starts[view.row_of[job_id]]])


@pytest.fixture
def policy() -> Watched:
    return Watched()


@pytest.fixture
def bench(policy: Watched) -> Bench:
    """All eight devices are those of `a`."""
    bench = Bench(policy=policy)
    bench.run("a", 8)
    return bench


def ask(bench: Bench, job_id: str) -> list[AnyCommand]:
    """A job that is to have four of the devices; `a` is to leave them."""
    bench.want(a=4, **{job_id: 4})
    return decide(bench, job_id)


def decide(bench: Bench, newcomer: str) -> list[AnyCommand]:
    """Something happens that makes the policy decide again."""
    bench.submit(newcomer)
    return bench.profiled(newcomer)


def has_launch(commands: list[AnyCommand]) -> bool:
    return any(isinstance(command, LaunchGang) for command in commands)


@given(waits=st.lists(st.floats(0.0, 100.0), max_size=3 * NUM_WAITS))
def test_the_longest_of_the_latest_waits_counts(waits: list[float]) -> None:
    table = CostTable()
    for wait_s in waits:
        table.learn_wait(wait_s)
    assert table.most_wait_s == max(waits[-NUM_WAITS:], default=0.0)


def test_a_wait_lasts_until_others_have_left_and_launches_pay_for_it(bench: Bench, policy: Watched) -> None:
    decide(bench, "other")
    free_s = policy.start_s("a")
    planned_s = bench.now_s + 1.0  # the second thing that is said of it
    assert not has_launch(ask(bench, "b"))
    bench.now_s += 6.0
    waited_s = bench.now_s - planned_s
    assert has_launch(bench.resized(generation=2))
    decide(bench, "c")
    assert policy.start_s("a") == pytest.approx(free_s + waited_s)


def test_a_wait_begins_anew_when_the_platform_is_up_again_after_a_crash(
    bench: Bench, policy: Watched
) -> None:
    decide(bench, "other")
    before_s = policy.start_s("a")
    assert not has_launch(ask(bench, "b"))
    bench.now_s += 3600.0
    opened_s = bench.now_s
    assert not has_launch(bench.say(Opened(at_s=bench.now_s)))
    bench.now_s += 6.0
    waited_s = bench.now_s - opened_s
    assert has_launch(bench.resized(generation=2))
    decide(bench, "c")
    assert policy.start_s("a") == pytest.approx(before_s + waited_s)
