"""What is told of a live search; the machines themselves are those of `test_reclaim`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import optuna
import pytest
from tests.store.views import job_view

from swell.api.client import Client
from swell.api.submission import parse
from swell.model.errors import InvalidInput
from swell.model.job import JobSpec, Phase
from swell.model.view import MetricHistory, MetricSeries
from swell_papers import reclaim_player
from swell_papers.experiment import Context
from swell_papers.live_search import NUM_TRIALS, SEARCH, LiveSearch, found_by
from swell_papers.reclaim_record import NodeSeen, Reclaimed, SearchEnded, SearchRun


def trial(number: int, code: str, **fields: object) -> object:
    plain = {
        "name": f"lr-{number}",
        "id": f"lr-{number}-aa",
        "phase": Phase.SUCCEEDED,
        "reason_code": code,
        "tags": (f"lr=0.{number}",),
        "metrics": {"accuracy": number / 10},
        "steps": 30 * number,
        "total_steps": 90,
        "finished_s": 100.0 + number,
    }
    return job_view(**{**plain, **fields})


def run_of(*views: object) -> SearchRun:
    seen = (NodeSeen(node="a", at_s=0.0, has_joined=True), NodeSeen(node="a", at_s=9.0, has_joined=False))
    return SearchRun(
        source="made up",
        ended=SearchEnded(views=views, begun_s=50.0, seen=seen, pruned={"lr-1-aa": 3}),  # type: ignore[arg-type]
        reclaimed=(Reclaimed(node="a", sent_s=8.9, gone_s=8.95),),
        seed=0,
        version="0",
    )


def test_a_search_is_told_trial_by_trial_and_can_be_told_again(tmp_path: Path) -> None:
    run = run_of(trial(1, "cancelled", phase=Phase.CANCELLED, steps=0), trial(3, "succeeded"))
    told = found_by("hpo", run)
    assert not told.missed
    rows = told.tables[0].rows
    assert rows[0][:4] == ("lr-1", "0.1", "stopped early", "3.0")
    assert rows[1][-1] == 53.0
    assert "1 of 2 trials were stopped early" in told.notes[0] and "The best one is lr-3" in told.notes[0]
    assert "joined 1 times and were lost 1 times" in told.notes[1]
    (tmp_path / "hpo-run.json").write_bytes(msgspec.json.encode(run))
    assert LiveSearch().run(Context(data=tmp_path, played=tmp_path)) == told
    with pytest.raises(InvalidInput, match="run it live first"):
        LiveSearch().run(Context(data=tmp_path, played=tmp_path / "none"))


def test_trials_that_fail_or_do_not_end_are_missed_targets() -> None:
    run = run_of(
        trial(1, "failed", phase=Phase.FAILED), trial(2, "running", phase=Phase.RUNNING, finished_s=None)
    )
    assert len(found_by("hpo", run).missed) == 2


def accuracies(values: list[float]) -> MetricSeries:
    """The history of an accuracy that was reported once an epoch."""
    steps = list(range(1, len(values) + 1))
    columns: dict[str, Any] = {
        name: values if name in ("at_s", "mean", "min", "max", "last") else steps
        for name in MetricSeries.__struct_fields__
    }
    return MetricSeries(**{**columns, "name": "accuracy", "reduction": "rank0"})


class FakeTrials:
    """A platform whose jobs each report an accuracy that is worse than those of the jobs before."""

    def __init__(self) -> None:
        self.specs: list[JobSpec] = []

    def submit(self, **fields: object) -> str:
        self.specs.append(parse(fields).to_spec(0.0, Path("/")))
        return self.specs[-1].name

    def metrics(self, job_id: str, names: Sequence[str]) -> MetricHistory:
        number = int(job_id.removeprefix("lr-"))
        return MetricHistory(series=[accuracies([1.0 / number])])


def test_trials_are_jobs_and_those_that_are_worse_at_a_rung_are_to_end() -> None:
    platform = FakeTrials()
    client = cast(Client, platform)
    study = optuna.create_study(direction="maximize", pruner=reclaim_player.PRUNER)
    trials = dict(reclaim_player.submitted(client, SEARCH, study))
    assert len(trials) == NUM_TRIALS
    assert all(spec.metric_rises and spec.batch_per_worker == 48 for spec in platform.specs)
    worse = [job_id for job_id, trial in trials.items() if reclaim_player.worse_after(client, job_id, trial)]
    assert worse == [f"lr-{number}" for number in range(2, NUM_TRIALS + 1)]
