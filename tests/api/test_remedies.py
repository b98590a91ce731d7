"""What refused requests advise is something that is not refused in its turn."""

from __future__ import annotations

from typing import Any

import pytest
from tests.store.views import job_view

from swell.api.resubmission import Resubmission, submitted_again
from swell.live.job_checks import has_ended_error
from swell.model.errors import WrongPhase
from swell.model.job import Elasticity, Phase
from swell.model.view import JobView


class Known:
    """A platform that knows one job."""

    def __init__(self, view: JobView) -> None:
        self.view = view

    def job(self, job_id: str) -> JobView:
        return self.view


def advice(view: JobView, **wish: Any) -> str:
    known: Any = Known(view)
    for is_continued in (False, True):
        with pytest.raises(WrongPhase) as error:
            submitted_again(known, view.id, Resubmission(**wish), "", is_continued=is_continued)
    return str(error.value)


def test_an_open_job_with_another_deadline_is_sent_to_promise_which_takes_it() -> None:
    running = job_view(id="a", phase=Phase.RUNNING)
    assert "`swell promise a --deadline now+1h` asks for that deadline" in advice(running, deadline="now+1h")
    assert advice(running).endswith("wait for its end (`swell wait a`), or `swell cancel a` first")
    restart = job_view(id="a", phase=Phase.RUNNING, elasticity=Elasticity.RESTART)
    assert "promise" not in advice(restart, deadline="now+1h"), "which cannot be promised one"


def test_a_job_that_is_being_cancelled_is_waited_for_by_both() -> None:
    stopping = job_view(id="a", phase=Phase.STOPPING)
    assert advice(stopping).endswith("wait for its end (`swell wait a`)")
    told = str(has_ended_error(stopping, "has no other deadline", " --deadline TIME"))
    assert "is being cancelled" in told and "`swell wait a`" in told


def test_a_job_that_succeeded_is_submitted_by_both() -> None:
    done = job_view(id="a", phase=Phase.SUCCEEDED)
    told = str(has_ended_error(done, "has no other deadline", " --deadline TIME"))
    for text in (told, advice(done), advice(done, deadline="now+1h")):
        assert "has succeeded" in text and text.endswith("submit it with `swell submit` to run it again")
        assert "swell retry" not in text and "swell promise" not in text


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.CANCELLED, Phase.REJECTED])
def test_any_other_ended_job_is_sent_to_retry_which_takes_it(phase: Phase) -> None:
    told = str(has_ended_error(job_view(id="a", phase=phase), "has no other deadline", " --deadline TIME"))
    assert told.endswith("submit it again with `swell retry a --deadline TIME`")
