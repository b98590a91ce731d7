"""What a refusal says stands in the way."""

from __future__ import annotations

import numpy as np
import pytest
from tests.policies.snapshots import promised, snapshot, strict

from swell.model.snapshot import Snapshot
from swell.policies.levels import useful_levels
from swell.policies.wording import refusal
from swell_papers.variants import variant_policy

LINEAR = {1: 1.0, 2: 2.0, 4: 4.0}


def text(view: Snapshot, row: int = 0, offer_s: int | None = 99, objection: str = "") -> str:
    rows = np.flatnonzero(view.is_promised)
    return refusal(view, useful_levels(view), row, rows, offer_s, objection).text


def test_a_job_that_is_too_long_by_itself_is_told_its_own_length_and_costs() -> None:
    view = snapshot([strict("a", LINEAR, 40, 9, start_cost=3.5), promised("b", LINEAR, 1, 100)], 4)
    assert text(view) == (
        "its deadline in 9 s cannot be kept: it needs 3.5 s to start and 10 s of training with 4 workers"
    )


@pytest.mark.parametrize(
    ("margin_share", "told"),
    [
        (0.0, ""),
        (0.25, ", and 12 s more in case it is slower"),
        (1.0, ", and as much again until its speed is known"),
    ],
)
def test_a_margin_is_told_apart_from_what_the_job_is_expected_to_take(margin_share: float, told: str) -> None:
    view = snapshot([strict("a", LINEAR, 192, 45)], 4, margin_share=margin_share)
    assert text(view).endswith(f"it needs 48 s of training with 4 workers{told}")


def test_promises_are_named_the_largest_first_with_what_they_need_and_what_a_resize_costs() -> None:
    busy = [promised(f"p{steps}", LINEAR, steps, 10, held=1, resize_cost=0.5) for steps in (6, 8, 3, 7)]
    view = snapshot([strict("a", LINEAR, 20, 10), *busy, promised("later", LINEAR, 40, 30)], 4)
    assert text(view) == (
        "its deadline in 10 s cannot be kept: it needs 5 s of training with 4 workers, and 4 promises "
        "(p8, p7, p6 and 1 more) need 60% of all device time until then; each resize may take 0.5 s"
    )
    alone = snapshot([strict("a", LINEAR, 20, 10), promised("b", LINEAR, 30, 10)], 4)
    assert text(alone).endswith("and 1 promise (b) needs 75% of all device time until then")


def test_a_gate_says_the_same_and_how_it_serves() -> None:
    view = snapshot([strict("a", LINEAR, 20, 10), promised("b", LINEAR, 30, 10)], 4)
    for policy in ("edf_admission", "edf_admission_largest"):
        assert variant_policy(policy).decide(view).refusals[0].text == (
            "its deadline in 10 s cannot be kept when jobs run in order of deadline: it needs 5 s of "
            "training with 4 workers, and 1 promise (b) needs 75% of all device time until then; "
            "this policy names no other deadline"
        )


def test_what_else_a_refusal_may_say() -> None:
    assert text(snapshot([strict("a", LINEAR, 40, -1)], 4)) == "its deadline has passed"
    big = text(snapshot([strict("a", {8: 1.0}, 40, 9)], 4), offer_s=None)
    assert (
        big
        == "none of its allowed sizes fits on the 4 devices of the cluster; allow fewer workers or add nodes"
    )
    assert text(snapshot([strict("a", LINEAR, 4, 9)], 4), objection="too much") == (
        "its deadline in 9 s is not promised: too much"
    )
    roomy = text(snapshot([strict("a", LINEAR, 4, 9)], 4))
    assert roomy.endswith("1 s of training with 4 workers, and what other changes may cost leaves too little")
