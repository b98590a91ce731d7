"""Learnt margins beside fixed ones: what is run, and what is said of it."""

from __future__ import annotations

import pytest

from swell_papers.experiment import Key, Results
from swell_papers.margins import FIXED_MARGINS, LEARNT, TRUTHS, MarginOutcome, claims_of


def outcome(met: int = 90, promised: int = 100, broken: int = 0) -> MarginOutcome:
    return MarginOutcome(num_jobs=120, met=met, promised=promised, broken=broken)


@pytest.mark.parametrize(
    ("learnt", "fixed", "come_out"),
    [
        (outcome(), outcome(), [True, True]),
        (outcome(broken=3), outcome(), [False, True]),
        (outcome(met=80), outcome(), [True, False]),
        (outcome(met=80), outcome(broken=9), [True, True]),
    ],
)
def test_what_breaks_too_many_promises_or_meets_fewer_deadlines_comes_out(
    learnt: MarginOutcome, fixed: MarginOutcome, come_out: list[bool]
) -> None:
    """A fixed margin under which too many promises are broken is no rival."""
    truth = next(truth for truth in TRUTHS if truth.most_share)
    bad = outcome(met=100, broken=9)
    others: dict[Key, MarginOutcome] = {(truth.name, f"{margin}"): bad for margin in FIXED_MARGINS}
    found = Results({(truth.name, LEARNT): learnt, **others, (truth.name, "0.1"): fixed}, 2)
    judged = [claim.judged(found) for claim in claims_of(truth)]
    assert [one is not None and one[-1] for one in judged] == come_out
