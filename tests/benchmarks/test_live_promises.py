"""What `make bench-promises` tells of what it found."""

from __future__ import annotations

import io

import pytest
from benchmarks.live_promises import EPOCH_S, Fate, epochs_of, show_fates, show_offers
from rich.console import Console


def fate(job_id: str, late_s: float | None, *, is_promised: bool = True, phase: str = "succeeded") -> Fate:
    return Fate(
        id=job_id,
        epochs=4,
        evaluation_s=0.4,
        deadline_s=12.0,
        answered_s=0.1,
        is_promised=is_promised,
        offer_s=None,
        late_s=late_s,
        waited_s=1.5,
        start_s=2.5,
        resizes=1,
        phase=phase,
    )


@pytest.mark.parametrize(("length_s", "epochs"), [(0.1, 1), (EPOCH_S + 0.4, 1), (10 * (EPOCH_S + 0.4), 10)])
def test_a_job_has_epochs_for_about_its_length(length_s: float, epochs: int) -> None:
    assert epochs_of(length_s, 0.4) == epochs


def test_late_jobs_are_told_of_and_those_that_never_ran() -> None:
    told, refused = io.StringIO(), fate("no", None, is_promised=False, phase="rejected")
    fates = [fate("good", -3.0), fate("late", 0.25), fate("lost", None, phase="failed"), refused]
    show_fates(Console(file=told, width=120), fates)
    lines = told.getvalue().splitlines()
    assert lines[0] == "4 strict jobs: 3 promised, 2 of them late; 1 refused"
    rows = [line.split() for line in lines if line.split()[:1] in (["late"], ["lost"])]
    assert [(row[0], " ".join(row[-2:])) for row in rows] == [("late", "0.25 s"), ("lost", "not run")]
    assert lines[-1] == "spare time of promised jobs: least -0.25 s, median 1.38 s"


def test_offers_are_compared() -> None:
    told = io.StringIO()
    show_offers(Console(file=told, width=120), [4.0, 10.0], [5.0, 9.0])
    assert told.getvalue() == "offers: fresh 4.0 s, 10.0 s; worn 5.0 s, 9.0 s; ratios 1.25, 0.90\n"
