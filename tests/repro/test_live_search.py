"""What is told of a live search; the machines themselves are those of `test_reclaim`."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml
from tests.store.views import job_view

from swell.api.job_file import load
from swell.model.errors import InvalidInput
from swell.model.job import Phase
from swell_papers.experiment import Context
from swell_papers.live_search import NUM_EPOCHS, NUM_TRIALS, SEARCH, LiveSearch, found_by
from swell_papers.reclaim_record import NodeSeen, Reclaimed, SearchEnded, SearchRun


def trial(number: int, code: str, **fields: object) -> object:
    plain = {
        "name": f"lr-{number}",
        "id": f"lr-{number}-aa",
        "phase": Phase.SUCCEEDED,
        "reason_code": code,
        "tags": ("search-seed=0", f"lr=0.{number}"),
        "metrics": {"accuracy": number / 10},
        "steps": 30 * number,
        "total_steps": 90,
        "finished_s": 100.0 + number,
        "rung": number,
        "rung_rank": 1,
        "rung_trials": 3,
    }
    return job_view(**{**plain, **fields})


def run_of(*views: object) -> SearchRun:
    seen = (NodeSeen(node="a", at_s=0.0, has_joined=True), NodeSeen(node="a", at_s=9.0, has_joined=False))
    return SearchRun(
        source="made up",
        ended=SearchEnded(views=views, begun_s=50.0, seen=seen),  # type: ignore[arg-type]
        reclaimed=(Reclaimed(node="a", sent_s=8.9, gone_s=8.95),),
        seed=0,
        version="0",
    )


def test_a_search_is_told_trial_by_trial_and_can_be_told_again(tmp_path: Path) -> None:
    run = run_of(trial(1, "stopped_early"), trial(3, "succeeded"))
    told = found_by("hpo", run)
    assert not told.missed
    rows = told.tables[0].rows
    assert rows[0][:6] == ("lr-1", "0.1", "stopped early", 1, "1 of 3", f"{NUM_EPOCHS / 3:.1f}")
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


def test_the_search_is_a_job_file_of_so_many_trials(tmp_path: Path) -> None:
    file = tmp_path / "search.yaml"
    file.write_text(SEARCH.replace("SEED", "0"))
    specs = [job.to_spec(0.0) for job in load(file)]
    assert len(specs) == NUM_TRIALS == yaml.safe_load(file.read_text())["search"]["draws"]
    assert all(
        spec.halving is not None and spec.metric_rises and spec.batch_per_worker == 48 for spec in specs
    )
