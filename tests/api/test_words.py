"""What is said of a job, by commands and by the page alike."""

from __future__ import annotations

import pytest
from tests.store.views import job_view

from swell.api.page.rows import job_row
from swell.api.words import facts, moments, promise_moments, promise_words, refusal_of_change
from swell.cli.clock import Times
from swell.cli.jobs import facts_in_order, row
from swell.model.job import Phase

NOW_S = 1_800_000_100.0


def test_a_next_try_is_told_while_it_lies_ahead() -> None:
    assert moments(job_view(retry_s=NOW_S + 5), NOW_S)["next try"] == NOW_S + 5
    assert "next try" not in moments(job_view(retry_s=NOW_S - 5), NOW_S)
    ended = job_view(retry_s=NOW_S + 5, phase=Phase.CANCELLED, finished_s=NOW_S)
    assert "next try" not in moments(ended, NOW_S)


def test_an_offer_that_was_taken_is_neither_a_refusal_nor_an_offer() -> None:
    refused = {"refusal": "8 are busy", "counter_offer_s": NOW_S + 60}
    asked = job_view(**refused, deadline_s=NOW_S + 10)
    assert refusal_of_change(asked) == "8 are busy"
    assert promise_moments(asked) == {"deadline": NOW_S + 10, "could be promised": NOW_S + 60}
    taken = job_view(**refused, deadline_s=NOW_S + 60)
    assert refusal_of_change(taken) == ""
    assert promise_moments(taken) == {"deadline": NOW_S + 60}


def test_a_job_that_failed_before_its_deadline_has_missed_none() -> None:
    ended = {"phase": Phase.FAILED, "finished_s": NOW_S, "kept": False, "is_promised": True}
    early = job_view(**ended, deadline_s=NOW_S + 300)
    assert promise_words(early, "elasticflow", "failed") == [
        "The promise was not kept: it failed 5 min before the deadline."
    ]
    assert job_row(early, NOW_S).standing == "failed"
    assert row(early, NOW_S)["FINISH"].endswith(" failed")
    late = job_view(**ended, deadline_s=NOW_S - 300)
    assert job_row(late, NOW_S).standing == "missed" and row(late, NOW_S)["FINISH"].endswith(" missed")


def test_the_deadline_of_an_ended_job_is_no_longer_ahead() -> None:
    times, deadline_s = Times(NOW_S), NOW_S + 540
    running = dict(facts_in_order(job_view(deadline_s=deadline_s), times))
    assert running["deadline"] == f"{times.clock(deadline_s)} (in 9 min)"
    ended = job_view(phase=Phase.FAILED, finished_s=NOW_S, kept=False, deadline_s=deadline_s)
    assert dict(facts_in_order(ended, times))["deadline"] == f"{times.clock(deadline_s)}, failed"


@pytest.mark.parametrize(
    ("noise_scale", "batch", "told"),
    [
        (None, 128, None),
        (1834.4, 64, "noise scale of the gradients 1,834 samples"),
        (64.0, 128, "noise scale of the gradients 64 samples; a sample in 128 is worth 0.67 of one in 64"),
        (0.0, 128, "noise scale of the gradients 0 samples; a sample in 128 is worth 0.50 of one in 64"),
        (1e12, 128, "the gradients are all noise; a sample in 128 is worth 1.00 of one in 64"),
    ],
)
def test_what_noise_says_of_a_batch_is_told(noise_scale: float | None, batch: int, told: str | None) -> None:
    view = job_view(batch=batch, min_batch=32, max_batch=512, global_batch=64, noise_scale=noise_scale)
    assert dict(facts(view)).get("noise") == told


def test_a_range_of_batches_is_told_with_the_batch_of_its_learning_rate() -> None:
    told = dict(facts(job_view(batch=128, min_batch=32, max_batch=512, global_batch=64)))
    assert told["batch"] == "128 samples a step, 32 to 512 wanted, learning rate of 64"
    assert not any(text == "" for text in told.values())
