from __future__ import annotations

from typing import Any

import pytest
from tests.demo.views import make_view

from swell.demo.jobs import CNN, HEADINGS, DemoJob, changes, path, rows, verdict
from swell.model.job import JobClass, MetricTarget, Phase

PART = DemoJob(
    at_s=0,
    name="cnn",
    script=CNN,
    epochs=1,
    bar=MetricTarget(name="accuracy", value=0.9),
    deadline_after_s=40,
)
MAY_BE_REFUSED = DemoJob(
    at_s=0,
    name="cnn",
    script=CNN,
    epochs=1,
    bar=PART.bar,
    deadline_after_s=1,
    second_try="again",
)
KEPT: dict[str, Any] = {"job_class": JobClass.STRICT, "deadline_s": 1040.0, "kept": True}
REJECTED: dict[str, Any] = {
    "job_class": JobClass.STRICT,
    "phase": Phase.REJECTED,
    "deadline_s": 1001.0,
    "metrics": {},
}


def test_a_kept_promise_and_a_model_that_learned_are_no_failure() -> None:
    assert verdict({"cnn": PART}, [make_view(**KEPT)]) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"kept": False, "finished_s": 1043.5}, "3.5 s after the promised deadline"),
        ({"metrics": {"accuracy": 0.5}}, "accuracy=0.5, must reach accuracy>=0.9"),
        ({"metrics": {}}, "reported no accuracy"),
        ({"phase": Phase.FAILED, "message": "ZeroDivisionError"}, "ZeroDivisionError"),
        ({"phase": Phase.REJECTED, "reason": "no room"}, "rejected instead of succeeded: no room"),
        ({"name": "other"}, "does not know it"),
    ],
)
def test_whatever_went_wrong_is_said(changes: dict[str, Any], says: str) -> None:
    (failure,) = verdict({"cnn": PART}, [make_view(**(KEPT | changes))])
    assert failure.startswith("cnn: ")
    assert says in failure


def test_a_soft_deadline_is_no_promise() -> None:
    late = make_view(**(KEPT | {"job_class": JobClass.SOFT, "kept": False}))
    assert verdict({"cnn": PART}, [late]) == []


def test_a_refusal_needs_a_counter_offer() -> None:
    offered = make_view(**REJECTED, counter_offer_s=1060.0)
    assert verdict({"cnn": MAY_BE_REFUSED}, [offered]) == []
    (failure,) = verdict({"cnn": MAY_BE_REFUSED}, [make_view(**REJECTED)])
    assert "without a counter-offer" in failure


def test_the_path_of_sizes_leaves_out_pauses_and_repetitions() -> None:
    assert path([(0.0, 8), (1.0, 4), (2.0, 4), (3.0, 0), (4.0, 4), (5.0, 8), (6.0, 0)]) == "8→4→8"
    assert path([]) == ""


def test_the_table_tells_each_job_s_story() -> None:
    views = [make_view(**KEPT), make_view("rush", **REJECTED, counter_offer_s=1060.0)]
    kept, refused = rows({"cnn": PART}, views)
    assert {"40.0 s", "30.0 s", "yes", "4→8", "0.25 s", "97.0% ≥90%"} <= {*kept}
    assert "refused, 60.0 s offered" in refused and len(kept) == len(refused) == len(HEADINGS)


def test_changes_are_told_once() -> None:
    queued = make_view("a", phase=Phase.QUEUED, reason_code="profiling")
    running = make_view("a", phase=Phase.RUNNING, workers=4, steps=75)
    assert changes([], [queued]) == ["a: queued, profiling"]
    assert changes([queued], [running]) == ["a: running on 4 workers, 50% done"]
    assert changes([running], [running]) == []
    assert changes([running], [make_view("a")]) == ["a: succeeded"]
