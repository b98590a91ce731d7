"""What becomes of a request for a promise, through the API of a platform."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.api.stage import Stage, on_stage

from swell.model.job import JobClass, Phase


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with on_stage(tmp_path_factory.mktemp("site") / "state") as found:
        yield found


def codes(stage: Stage, job_id: str) -> list[str]:
    return [told.code for told in stage.client.stories(job_id)]


def test_a_refused_job_runs_as_a_soft_one_if_its_owner_wants_that(stage: Stage, script: Path) -> None:
    """Two devices would take five seconds."""
    job_id = stage.run(script, deadline="now+1s", or_soft=True)
    view = stage.client.wait_for_verdict(job_id)
    assert (view.job_class, view.is_promised, view.is_unpromised) == (JobClass.SOFT, False, True)
    assert view.refusal.startswith("its deadline in 1 s cannot be kept")
    assert view.deadline_s is not None and view.counter_offer_s is not None
    assert view.counter_offer_s > view.deadline_s
    assert "unpromised" in codes(stage, job_id) and "promised" not in codes(stage, job_id)
    stage.client.cancel(job_id)


def test_a_counter_offer_is_taken_if_it_is_early_enough(stage: Stage, script: Path) -> None:
    job_id = stage.run(script, deadline="now+1s", accept_until="now+1h")
    view = stage.client.wait_for_verdict(job_id)
    assert view.is_promised and view.deadline_s == view.counter_offer_s
    assert view.refusal and view.asked_deadline_s is None
    assert codes(stage, job_id).index("offer_taken") < codes(stage, job_id).index("promised")
    stage.client.cancel(job_id)


def test_a_counter_offer_that_is_too_late_is_not_taken(stage: Stage, script: Path) -> None:
    job_id = stage.client.submit(
        script=script, global_batch=8, steps=100, deadline="now+1s", accept_until="now+2s"
    )
    view = stage.client.wait_for_verdict(job_id)
    assert view.phase is Phase.REJECTED and view.counter_offer_s is not None
