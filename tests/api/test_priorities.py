"""Another priority of a job, through the API of a platform."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.stage import on_stage
from tests.live.test_platform import until

from swell.api.client import ApiError, InvalidJob
from swell.model.job import Phase


def test_a_job_gets_another_priority_until_it_has_ended(tmp_path: Path, script: Path) -> None:
    with on_stage(tmp_path / "state") as stage:
        job_id = stage.run(script, priority=2)
        assert stage.client.job(job_id).priority == 2
        assert stage.client.change_priority(job_id, -5).priority == -5
        assert "priority" in [told.code for told in stage.client.stories(job_id)]
        assert stage.client.change_priority(job_id, weight=2.5).weight == 2.5
        assert stage.client.job(job_id).priority == -5
        with pytest.raises(InvalidJob, match=r"weight: 0\.0 is not between 0.000001 and 1,000,000"):
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
