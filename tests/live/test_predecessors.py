"""What a job hears that follows others, once these have ended."""

from __future__ import annotations

from typing import Any

import pytest
from tests.store.views import job_view

from swell.live.job_checks import with_predecessors
from swell.live.watches import AfterWatch
from swell.model.errors import InvalidJob
from swell.model.event import CancelRequested, PredecessorsSucceeded
from swell.model.job import JobSpec, Phase
from swell.model.view import JobView

ENDED = {"good": Phase.SUCCEEDED, "bad": Phase.FAILED, "off": Phase.CANCELLED}


class Jobs:
    """Jobs by id, as a board and an archive have them."""

    def __init__(self) -> None:
        self.views = {name: job_view(id=name, name=name, phase=phase) for name, phase in ENDED.items()}
        self.views["runs"] = job_view(id="runs", name="runs", phase=Phase.RUNNING)
        self.told: list[Any] = []
        self.watch = AfterWatch(self.views.get)

    def candidates(self, word: str) -> list[JobView]:
        return [view for name, view in self.views.items() if name.startswith(word)]

    def follow(self, *awaited: str) -> None:
        self.note([job_view(id="f", phase=Phase.QUEUED, awaits=awaited)], [])

    def note(self, changed: list[JobView], ended: list[JobView]) -> None:
        self.told += self.watch.find_events(changed, ended, 7.0)


def test_a_follower_may_start_once_all_have_succeeded() -> None:
    jobs = Jobs()
    jobs.follow("good", "runs")
    assert jobs.told == []
    jobs.views["runs"] = done = job_view(id="runs", phase=Phase.SUCCEEDED)
    jobs.note([], [done])
    assert jobs.told == [PredecessorsSucceeded(at_s=7.0, job_id="f")]
    jobs.note([job_view(id="f", phase=Phase.QUEUED)], [])
    jobs.note([], [done])
    assert len(jobs.told) == 1, "it follows none any more"


def test_one_whose_predecessor_had_ended_when_it_was_submitted_hears_at_once() -> None:
    jobs = Jobs()
    jobs.follow("good")
    assert jobs.told == [PredecessorsSucceeded(at_s=7.0, job_id="f")]


@pytest.mark.parametrize(
    ("awaited", "why"),
    [
        (("good", "bad"), "bad, which it was to follow, has failed"),
        (("runs", "off"), "off, which it was to follow, was cancelled"),
        (("gone",), "gone, which it was to follow, was pruned"),
    ],
)
def test_one_that_can_never_start_is_cancelled(awaited: tuple[str, ...], why: str) -> None:
    jobs = Jobs()
    jobs.follow(*awaited)
    assert jobs.told == [CancelRequested(at_s=7.0, job_id="f", why=f"was cancelled: {why}")]


def test_followers_of_a_follower_are_cancelled_with_it() -> None:
    jobs = Jobs()
    first = job_view(id="f", phase=Phase.QUEUED, awaits=("bad",))
    second = job_view(id="g", phase=Phase.QUEUED, awaits=("f",))
    jobs.views |= {"f": first, "g": second}
    jobs.note([first, second], [])
    assert [event.job_id for event in jobs.told] == ["f"]
    jobs.views["f"] = job_view(id="f", phase=Phase.CANCELLED)
    jobs.note([], [jobs.views["f"]])
    assert [event.job_id for event in jobs.told] == ["f", "g"]


def plain(*after: str) -> JobSpec:
    return JobSpec(name="f", entry="/f.py", workdir="/", global_batch=1, after=after)


@pytest.mark.parametrize(
    ("word", "part"),
    [("none", "is no job"), ("b", "after: job 'bad' is failed"), ("", "could be any of")],
)
def test_a_request_names_jobs_that_can_be_followed(word: str, part: str) -> None:
    jobs: Any = Jobs()
    assert with_predecessors(plain("goo", "runs", "good"), jobs.candidates).after == ("good", "runs")
    with pytest.raises(InvalidJob, match=part):
        with_predecessors(plain(word), jobs.candidates)
