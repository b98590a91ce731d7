"""Why a promise is broken: what has befallen its job, the platform, or other jobs since it was made."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.core.bench import Bench
from tests.core.fakes import node, spec

from swell.core.setbacks import LatestSetback, Setbacks
from swell.model.event import NodeJoined, NodeLost, NodeWarned, Opened, Outcome, QuotasSet, Woke
from swell.model.job import JobClass

DEADLINE_S = 250.0
JOB = spec(1000, job_class=JobClass.STRICT, deadline_s=DEADLINE_S)
Strike = Callable[[Bench], object]


def late(*strikes: Strike, is_folded: bool = False) -> str:
    """What is said of the end of a job that is promised `DEADLINE_S`, after these."""
    bench = Bench()
    bench.run("a", 1, JOB)
    assert bench.job().is_promised
    for strike in strikes:
        strike(bench)
    if is_folded:
        bench.core = bench.reborn()
    bench.now_s = DEADLINE_S + 12.0
    bench.gone(bench.job().generation, Outcome.SUCCEEDED, steps=1000)
    assert bench.job().kept is False
    return bench.job().reason


def fail_to_resize(bench: Bench) -> None:
    bench.want(a=2)
    bench.say(Woke(at_s=bench.now_s))
    bench.resize_failed(2)


def lose_workers(bench: Bench) -> None:
    generation = bench.job().generation
    bench.gone(generation)
    bench.now_s += 30.0
    bench.say(Woke(at_s=bench.now_s))
    bench.started(generation + 1)


def warn_of_a_node(bench: Bench) -> None:
    bench.say(NodeJoined(at_s=bench.now_s, node=node("n9")))
    bench.say(NodeWarned(at_s=bench.now_s, name="n9"))


CAUSES: dict[str, Strike] = {
    "it could not be resized": fail_to_resize,
    "it lost workers": lose_workers,
    "node n9 was lost": lambda bench: bench.say(NodeLost(at_s=bench.now_s, name="n9")),
    "node n9 was to be left": warn_of_a_node,
    "quotas were set": lambda bench: bench.say(QuotasSet(at_s=bench.now_s, quotas={})),
    "the platform was down": lambda bench: bench.say(Opened(at_s=bench.now_s)),
}


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("is_folded", [False, True])
def test_the_end_tells_how_late_it_is_and_the_cause(cause: str, is_folded: bool) -> None:
    text = late(CAUSES[cause], is_folded=is_folded)
    assert text == f"met its end condition, 12 s after its promised deadline: {cause}"


def test_where_nothing_is_known_the_time_of_changes_is_told() -> None:
    assert late().endswith("deadline: its starts and resizes took 1 s since the promise")


def test_setbacks_of_others_are_told_by_their_names() -> None:
    setbacks = Setbacks(
        of_jobs={
            "slow": LatestSetback(5.0, "b"),
            "lost": LatestSetback(3.0, "c"),
            "launch": LatestSetback(9.0, "a"),
        }
    )
    assert setbacks.told_of_others("a", since_s=4.0) == ["job b is slower than was believed"]


def test_a_job_that_is_in_time_needs_no_cause() -> None:
    bench = Bench()
    generation = bench.run("a", 1, JOB)
    bench.gone(generation, Outcome.SUCCEEDED, steps=1000)
    assert bench.job().reason == "met its end condition"
