"""What the benchmark on Ray nodes makes of what was measured: waits, medians, bars and the page."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import pytest
from benchmarks.ray.changes import GROWTH, LOSS, NOTICE, Cost, longest_wait_s
from benchmarks.ray.hand_over import HandOver
from benchmarks.ray.host_log import STAGES, last_reached, times_reached
from benchmarks.ray.page import page_of, table_of
from benchmarks.ray.rows import OURS, RIVAL, Row, bars_of, row_of
from benchmarks.training.pauses import Pause, Stretch
from hypothesis import given
from hypothesis import strategies as st
from tests.machines.namespaces import Machine

seconds = st.integers(1, 10_000).map(lambda number: number / 1000)


def stretch(num_workers: int, begun_s: float, steps_s: Sequence[float], first_step: int = 0) -> Stretch:
    ends_s = [begun_s + sum(steps_s[: number + 1]) for number in range(len(steps_s))]
    return Stretch("group", num_workers, dict(enumerate(ends_s, first_step)))


def cost(pause_s: float, next_s: float = 1.0, known_s: float | None = None) -> Cost:
    return Cost(Pause(pause_s, 0.5, next_s, 3), pause_s + 0.5, known_s, {"torch is imported": 2 * pause_s})


@dataclass
class FilesOnly:
    """A machine, as far as its files are read."""

    folder: Path

    def outside(self, path: str) -> Path:
        return self.folder / path.lstrip("/")


@given(st.lists(seconds, min_size=2, max_size=9), seconds, st.lists(seconds, min_size=2, max_size=9))
def test_the_longest_wait_is_looked_for_from_the_change_to_the_first_step_after_it(
    before_s: list[float], gap_s: float, after_s: list[float]
) -> None:
    old = stretch(2, 0.0, [20.0, *before_s])
    new = stretch(4, old.last_s + gap_s, after_s, first_step=len(before_s) + 1)
    longest_s = longest_wait_s([old, new], begun_s=20.0)
    assert longest_s == pytest.approx(max(*before_s, gap_s + after_s[0]), abs=1e-6)
    assert longest_wait_s([old, new], begun_s=old.last_s) == pytest.approx(gap_s + after_s[0], abs=1e-6)


def rows() -> list[Row]:
    return [
        row_of(
            GROWTH, {RIVAL: [cost(18.0), cost(30.0), cost(20.0)], OURS: [cost(0.4), cost(0.1), cost(0.2)]}
        ),
        row_of(LOSS, {RIVAL: [cost(29.0, 30.0, 1.5)], OURS: [cost(1.0, 5.0, 1.5)]}),
        row_of(NOTICE, {OURS: [cost(0.0)]}),
    ]


def test_a_row_has_medians_and_what_was_known_of_kills_alone() -> None:
    growth, loss, _ = rows()
    assert growth.pause_s == {RIVAL: 20.0, OURS: 0.2}
    assert growth.known_s == growth.beyond_s == {}
    assert loss.beyond_s == {RIVAL: 28.5, OURS: 3.5}


def test_bars_are_of_what_was_run() -> None:
    found = [(bar.measured, bar.is_reached) for bar in bars_of(rows())]
    assert found == [(pytest.approx(100.0), True), (0.2, True), (1.0, True), (6.0, False), (3.5, False)]
    assert not bars_of(rows()[2:])


def test_no_pause_is_all_times_less() -> None:
    row = row_of(GROWTH, {RIVAL: [cost(18.0)], OURS: [cost(-0.01)]})
    assert bars_of([row])[0].measured == math.inf


def test_the_page_is_made_of_the_json() -> None:
    hand_overs = [HandOver(0.2, 0.9), HandOver(0.4, 0.7), HandOver(0.3, 0.8)]
    told = {
        "conditions": {"cores": 2, "commit": "abc", "rounds": 3, "seed": 0},
        "settings": {
            "nodes": 4,
            "health_checks": {"health_check_period_ms": 500},
            "ray_train_environment": {"RAY_TRAIN_X": "5"},
            "elastic_resize_monitor_interval_s": 2.0,
            "max_failures": 20,
            "ray_train_checkpoint_steps": 20,
            "swell_checkpoint_interval_s": 10.0,
            "notice_s": 10.0,
        },
        "rows": [asdict(row) for row in rows()],
        "hand_overs": [asdict(each) for each in hand_overs],
        "bars": [asdict(bar) for bar in bars_of(rows(), hand_overs)],
    }
    found = json.loads(json.dumps(told))
    page = page_of(found)
    assert table_of(found) in page
    lines = page.splitlines()
    growth = next(line for line in lines if line.startswith("| 2 to 4"))
    assert growth.split(" | ")[1:3] == ["20.00", "0.20"] and " 100 |" in growth
    notice = next(line for line in lines if line.startswith("| 3 to 2"))
    assert notice.split("|")[2].strip() == "", "that side was not run"
    assert sum(line.endswith("| missed |") for line in lines) == 2
    assert "| torch is imported | 0.40 |\n| the first step has ended | 1.00 |\n\nAfter a shrink" in page
    assert "0.30 s after the first step" in page and "0.80 s after the command" in page
    assert "seed 0" in page and "`RAY_TRAIN_X=5`" in page and "\n\n\n" not in page


def test_a_host_says_in_its_log_when_it_has_reached_what() -> None:
    lines = [
        "2026-11-26 20:11:29,322 host n1 has 1 device (cpu)",
        "2026-11-26 20:11:29,822 joined the head at 10.9.0.10:4000 as n1",
        "2026-11-26 20:11:29,900 this host has a lease: workers can be started",
    ]
    times_s = times_reached(lines)
    assert list(times_s) == list(STAGES)[:2], "it imports torch"
    imported_s, joined_s = times_s.values()
    assert joined_s - imported_s == pytest.approx(0.5)
    lines.append("2026-11-26 20:11:33,822 modules are imported: the devices of this host are offered")
    assert times_reached(lines)["torch is imported"] - imported_s == pytest.approx(4.5)


def test_what_two_hosts_have_reached_the_later_one_has(tmp_path: Path) -> None:
    lines = [
        "2026-11-26 20:11:29,000 host n has 1 device (cpu)",
        "2026-11-26 20:11:3{},000 joined the head at 10.9.0.10:4000 as n",
    ]
    for number in (1, 3):
        folder = tmp_path / str(number) / "tmp" / "swell-ray-0"
        folder.mkdir(parents=True)
        (folder / "host.log").write_text("\n".join(lines).format(number))
    found = last_reached([cast(Machine, FilesOnly(tmp_path / number)) for number in "13"])
    assert list(found) == list(STAGES)[:2]
    first_s, second_s = found.values()
    assert second_s - first_s == pytest.approx(4.0)
    assert last_reached([]) == {}
