"""A platform that attaches to machines with another journal than theirs: an older copy, or a new one."""

from __future__ import annotations

from pathlib import Path

from swell.model.command import LaunchGang, StopGang
from swell.model.job import Phase

from .parts import Hands, spec
from .test_platform import as_if_killed, run_job, running, until


def first_index(hands: Hands, kind: type[LaunchGang | StopGang], job_id: str) -> int:
    return next(i for i, c in enumerate(hands.performed) if isinstance(c, kind) and c.job_id == job_id)


def test_with_an_empty_journal_what_runs_is_ended_before_others_get_its_devices(tmp_path: Path) -> None:
    hands = Hands()
    with running(tmp_path, hands) as first:
        lost = [first.submit(spec(name)).id for name in "ab"]
        until(lambda: len(hands.gangs) == 2)
        survivors = hands.survivors()
    empty = tmp_path / "empty"
    empty.mkdir()
    survivors.trials = ("gone",)
    with running(empty, survivors) as second:
        job = run_job(second, "c")
        assert not survivors.gangs.keys() & set(lost)
        assert StopGang(job_id="gone", generation=0) in survivors.performed
        launched = first_index(survivors, LaunchGang, job)
        assert min(first_index(survivors, StopGang, job_id) for job_id in lost) < launched


def test_with_an_older_journal_jobs_go_on_under_a_newer_generation(tmp_path: Path) -> None:
    hands = Hands()
    with running(tmp_path, hands) as first:
        job = run_job(first)
        older, _ = as_if_killed(tmp_path, hands, "older")
    with running(tmp_path, hands) as again:
        until(lambda: again.job(job).phase is Phase.RUNNING)
        assert hands.gangs == {job: 3}
        survivors = hands.survivors()
    with running(older, survivors) as second:
        until(lambda: second.job(job).phase is Phase.RUNNING and second.job(job).generation > 4)
        assert "found" in [story.code for story in second.stories(job)]
        assert [type(command) for command in survivors.performed] == [StopGang, LaunchGang]
