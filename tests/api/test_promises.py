"""What becomes of requests for a promise or another priority, through the API of a platform."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.stage import Stage, on_stage
from tests.live.test_platform import until

from swell.api.client import ApiError, InvalidJob
from swell.api.verbs import SubmittedJob
from swell.model.job import JobClass, Phase


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with on_stage(tmp_path_factory.mktemp("site") / "state") as found:
        yield found


def codes(stage: Stage, job_id: str) -> list[str]:
    return [told.code for told in stage.client.stories(job_id)]


def test_a_refused_job_runs_as_a_soft_one(stage: Stage, script: Path) -> None:
    """Two devices would take five seconds."""
    job_id = stage.run(script, deadline="now+1s")
    view = stage.client.wait_for_verdict(job_id)
    assert (view.job_class, view.is_promised, view.is_unpromised) == (JobClass.SOFT, False, True)
    assert view.refusal.startswith("its deadline in 1 s cannot be kept")
    assert view.deadline_s is not None and view.counter_offer_s is not None
    assert view.counter_offer_s > view.deadline_s
    assert "unpromised" in codes(stage, job_id) and "promised" not in codes(stage, job_id)
    offer = SubmittedJob(job_id, stage.client.wait_for_verdict).offer
    assert stage.client.promise(job_id, deadline=offer).is_promised
    stage.client.cancel(job_id)


def test_a_refused_job_ends_if_it_is_to_run_with_a_promise_or_not_at_all(stage: Stage, script: Path) -> None:
    job_id = stage.client.submit(script=script, global_batch=8, steps=100, deadline="now+1s", or_nothing=True)
    assert stage.client.wait_for_verdict(job_id).phase is Phase.REJECTED
    assert not job_id.promised and job_id.offer


def test_a_counter_offer_is_taken_if_it_is_early_enough(stage: Stage, script: Path) -> None:
    job_id = stage.run(script, deadline="now+1s", accept_until="now+1h")
    view = stage.client.wait_for_verdict(job_id)
    assert view.is_promised and view.deadline_s == view.counter_offer_s
    assert view.refusal and view.asked_deadline_s is None
    assert codes(stage, job_id).index("offer_taken") < codes(stage, job_id).index("promised")
    stage.client.cancel(job_id)


def test_a_job_that_runs_has_another_deadline_or_keeps_what_it_has(stage: Stage, script: Path) -> None:
    job_id = stage.run(script)
    refused = stage.client.promise(job_id, deadline="now+1s")
    assert refused.refusal and refused.counter_offer_s is not None and not refused.is_promised
    assert (refused.deadline_s, refused.job_class) == (None, JobClass.BEST_EFFORT)
    promised = stage.client.promise(job_id, deadline="now+1h")
    assert promised.is_promised and promised.deadline_s is not None
    assert (promised.job_class, promised.refusal) == (JobClass.STRICT, "")
    kept = stage.client.promise(job_id, deadline="now+1s")
    assert kept.is_promised and kept.deadline_s == promised.deadline_s and kept.refusal
    taken = stage.client.promise(job_id, deadline="now+1s", accept_until="now+30m")
    assert taken.is_promised and taken.deadline_s == pytest.approx(taken.counter_offer_s)
    assert stage.client.job(job_id).pids == refused.pids, "it trains on"
    assert codes(stage, job_id).count("deadline_asked") == 4
    with pytest.raises(InvalidJob, match="deadline: 'soon' is not a time"):
        stage.client.promise(job_id, deadline="soon")
    nothing: Any = None
    with pytest.raises(InvalidJob, match="deadline: it has no value; give it one"):
        stage.client.promise(job_id, deadline=nothing)
    stage.client.cancel(job_id)
    until(lambda: stage.client.job(job_id).phase.is_end)
    with pytest.raises(ApiError, match=r"is cancelled, and has no other deadline; .*swell retry"):
        stage.client.promise(job_id, deadline="now+1h")


def test_nothing_can_be_promised_to_a_restart_job_without_steps(stage: Stage, script: Path) -> None:
    job_id = stage.client.submit(script=script, elasticity="restart", workers=1)
    with pytest.raises(InvalidJob, match=r"cannot be strict: .* submit it with --steps"):
        stage.client.promise(job_id, deadline="now+1h")
    stage.client.cancel(job_id)


def test_a_job_gets_another_priority_until_it_has_ended(tmp_path: Path, script: Path) -> None:
    with on_stage(tmp_path / "state") as stage:
        job_id = stage.run(script, priority=2)
        assert stage.client.job(job_id).priority == 2
        assert stage.client.change_priority(job_id, -5).priority == -5
        assert "priority" in [told.code for told in stage.client.stories(job_id)]
        assert stage.client.change_priority(job_id, weight=2.5).weight == 2.5
        assert stage.client.job(job_id).priority == -5
        with pytest.raises(InvalidJob, match=r"weight: 0 is not above 0 and at most 1,000,000"):
            stage.client.change_priority(job_id, weight=0)
        with pytest.raises(InvalidJob, match="neither a priority nor a weight is given"):
            stage.client.change_priority(job_id)
        with pytest.raises(InvalidJob, match="priority: -1001 is not between -1,000 and 1,000"):
            stage.client.change_priority(job_id, -1001)
        stage.client.cancel(job_id)
        until(lambda: stage.client.job(job_id).phase is Phase.CANCELLED)
        with pytest.raises(ApiError, match="has no other priority"):
            stage.client.change_priority(job_id, 1)
        assert stage.client.job(job_id).priority == -5
