"""The evaluation of Hu et al.: what is measured, and how it stands beside the paper's figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from swell_papers import hu
from swell_papers.experiment import Context
from swell_papers.findings import Findings
from swell_papers.findings_store import write_page
from swell_papers.hu import GREEDY, PAPER, Allocator, AllocatorRun, HuCase

CONTEXT = Context(data=Path())
FIGURE_9, FIGURE_11, FIGURE_16 = PAPER.chosen(["fig9", "fig11", "fig16"])


def run_of(queue_min: float, total_min: float, num_done: int = 200) -> AllocatorRun:
    """Jobs that end one after the other."""
    return AllocatorRun(
        queue_min=queue_min,
        total_min=total_min,
        done_s=np.arange(1.0, num_done + 1.0) * 60.0 * total_min,
        num_resizes=10,
        plan_ms=np.array([1.0, 2.0, 3.0]),
        turn_ms=np.array([0.1, 0.2]),
    )


@pytest.fixture
def half_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs take half as long under all allocators but the greedy one, and wait 40 % less."""

    def of(allocator: Allocator, case: HuCase, seed: int) -> AllocatorRun:
        wait_min = 10.0 + seed
        return run_of(wait_min, 100.0) if allocator.policy == GREEDY else run_of(0.6 * wait_min, 50.0)

    monkeypatch.setattr(hu, "measured", of)


def rows_of(findings: Findings, table: int = 0) -> list[dict[str, object]]:
    found = findings.tables[table]
    return [dict(zip([column.name for column in found.columns], row, strict=True)) for row in found.rows]


@pytest.mark.usefixtures("half_the_time")
def test_changes_are_over_the_greedy_run_of_the_same_seed() -> None:
    findings = FIGURE_9.run(CONTEXT)
    greedy, ours = rows_of(findings)[:2]
    assert (greedy["allocator"], greedy["queueing time, min"]) == (GREEDY, 12.0)
    assert ours["allocator"] == "hu" and ours["queueing time, %"] == pytest.approx(-40.0)
    claims = rows_of(findings, 1)
    assert [(row["figure"], row["comes out"]) for row in claims] == [(-32.0, "yes"), (-32.0, "yes")]


@pytest.mark.usefixtures("half_the_time")
def test_jobs_in_addition_are_counted_by_total_times_and_at_the_hundredth() -> None:
    row = rows_of(FIGURE_11.run(CONTEXT))[1]
    assert row["jobs more per 100"] == pytest.approx(100.0)
    assert row["jobs more at its 100th"] == pytest.approx(100.0)
    assert rows_of(FIGURE_11.run(CONTEXT), 1)[0]["comes out"] == "yes"


@pytest.mark.slow
@pytest.mark.usefixtures("half_the_time")
def test_a_page_of_all_figures_is_written(tmp_path: Path) -> None:
    context = replace(CONTEXT, policies=frozenset({"hu"}))
    found = [one.run(context) for one in PAPER.experiments if one is not FIGURE_16]
    page, *files = write_page(PAPER, found, tmp_path)
    pictures = [file for file in files if file.suffix == ".png"]
    assert len(pictures) == sum(bool(one.charts) for one in found) == len(found) - 2  # all but records
    text = page.read_text()
    assert "* **Figure 9: queueing time** ([picture](../images/hu/fig9.png), [fig9.csv](hu/fig9.csv)" in text
    assert "| fig9 | largest decrease of the queueing time, at 150 nodes, %, hu | -32" in text


def test_decisions_are_timed_beside_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hu, "measured", lambda *_: run_of(1.0, 1.0))
    findings = FIGURE_16.run(CONTEXT)
    decision, turn = rows_of(findings)
    assert decision["median"] == 2.0 and turn["number"] == 2
    claim = rows_of(findings, 1)[1]
    assert (claim["figure"], claim["ours"], claim["comes out"]) == (240.0, 2.0, "yes")
