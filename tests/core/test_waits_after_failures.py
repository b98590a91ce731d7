"""A job that is held back after a failure says so, why, and until when."""

from __future__ import annotations

from tests.core.bench import Bench

from swell.core.setbacks import FIRST_BACK_OFF_S
from swell.live.board import TurnResult
from swell.model.event import GangEnded, Outcome

CAUSE = "worker 0 was killed by SIGKILL"


def lose(bench: Bench, generation: int) -> float:
    """The gang is lost; when that was."""
    at_s = bench.now_s
    end = GangEnded(
        at_s=at_s,
        job_id="a",
        generation=generation,
        outcome=Outcome.LOST,
        steps=0,
        message=f"{CAUSE}\nand a log",
    )
    bench.say(end)
    return at_s


def test_it_tells_the_back_off_its_cause_and_when_it_is_over() -> None:
    bench = Bench()
    lost_s = lose(bench, bench.run("a"))
    news = TurnResult.of(bench.core)
    waits = bench.job()
    assert waits.reason_code == "backoff" and waits.retry_s == lost_s + FIRST_BACK_OFF_S
    assert waits.reason == f"waits 1 s after a failure before it is tried again: {CAUSE}"
    told = [story for job, story in news.stories if (job, story.code) == ("a", "backoff")]
    assert [story.text for story in told] == [waits.reason]
