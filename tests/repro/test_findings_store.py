from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from tests.repro import tiny

from swell.model.errors import InvalidInput
from swell.repro import findings_store
from swell.repro.elasticflow import PAPER
from swell.repro.experiment import Context, Paper
from swell.repro.findings import Chart, Panel, Series
from swell.repro.pictures import figure_of


@pytest.fixture
def paper() -> Paper:
    one = tiny.experiment(tiny.COMPARED, tiny.line("fifo"), num_cases=2)
    other = tiny.experiment(tiny.line("elasticflow"), name="2", picture="time")
    return replace(
        PAPER, name="tiny", title="A tiny paper", introduction="Read this.", experiments=(one, other)
    )


def test_what_is_written_is_read_again_and_the_same_bytes_come_twice(paper: Paper, tmp_path: Path) -> None:
    context = Context(data=tiny.write(tmp_path))
    found = [experiment.run(context) for experiment in paper.experiments]
    files = [file for findings in found for file in findings_store.write(findings, tmp_path / "a")]
    for findings in found:
        findings_store.write(findings, tmp_path / "b")
    assert findings_store.read(paper, tmp_path / "a") == found
    for file in files:
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()
    assert {"1a.json", "1a.csv", "1a.png", "1a-sizes.csv", "1a-bars.csv", "2.png"} <= {
        file.name for file in files
    }


def test_a_csv_has_all_digits_and_the_truth(paper: Paper, tmp_path: Path) -> None:
    findings_store.write(paper.experiments[0].run(Context(data=tiny.write(tmp_path))), tmp_path)
    row = next(csv.DictReader((tmp_path / "1a.csv").read_text().splitlines()))
    assert float(row["changed"]) == 2 / 3
    assert row["truth"].startswith("resize cost changed, and everyone")


def test_the_page_has_each_table_picture_and_note(paper: Paper, tmp_path: Path) -> None:
    context = Context(data=tiny.write(tmp_path))
    found = [experiment.run(context) for experiment in paper.experiments]
    files = findings_store.write_page(paper, found, tmp_path / "docs")
    text = (tmp_path / "docs/results/tiny.md").read_text()
    assert text.startswith("# A tiny paper\n")
    assert text.count("## Figure 1(a): three jobs") == 2
    assert "| 1x4 | elasticflow | 0.500 | 0.667 | 0.333 |" in text
    assert "* Three jobs are few." in text and "Truth: resize cost changed" in text
    for file in files[1:]:
        assert f"](../images/tiny/{file.name})" in text and file.exists()


def test_a_page_begins_with_one_screen_and_gives_each_reason_once(paper: Paper, tmp_path: Path) -> None:
    context = Context(data=tiny.write(tmp_path))
    compared = tiny.experiment(tiny.COMPARED, tiny.line("fifo", run=tiny.RUN))
    found = [replace(compared, name=name).run(context) for name in ("1a", "1b")]
    files = findings_store.write_page(paper, found, tmp_path / "docs")
    text = (tmp_path / "docs/results/tiny.md").read_text()
    places = [text.index(words) for words in ("| 1a | 1x4 |", "summary.png)", "Read this.", "## Figure 1(a)")]
    assert places == sorted(places)
    assert text.count("It knows no deadlines.") == 1
    assert text.index("## Why figures differ") > text.rindex("Truth: ")
    assert (tmp_path / "docs/images/tiny/summary.png") in files


def test_findings_of_another_version_are_named(paper: Paper, tmp_path: Path) -> None:
    (tmp_path / "1a.json").write_text('{"name": "1a"}')
    with pytest.raises(InvalidInput, match=r"1a\.json cannot be read .*; run 1a again"):
        findings_store.read(paper, tmp_path)


def test_all_panels_show_all_of_their_values(tmp_path: Path) -> None:
    """They share an axis: the first one's values must not be its end."""
    low, high = (Series("a", (value, value)) for value in (1.0, 3.0))
    chart = Chart(
        name="c",
        title="",
        kind="lines",
        x=("1", "2"),
        x_label="",
        y_label="",
        panels=(Panel("low", (low,)), Panel("high", (high,))),
    )
    axes = figure_of(chart).axes
    assert all(panel.get_ylim()[0] == 0.0 and panel.get_ylim()[1] >= 3.0 for panel in axes)


def _chart(kind: Literal["bars", "lines", "steps"], *series: Series, may_be_log: bool = False) -> Chart:
    return Chart(
        name="c",
        title="",
        kind=kind,
        x=tuple(float(at) for at in range(len(series[0].values))),
        x_label="hours",
        y_label="",
        panels=(Panel("", series),),
        may_be_log=may_be_log,
    )


@pytest.mark.parametrize("kind", ["lines", "steps"])
def test_lines_of_the_same_values_are_drawn_apart_and_named_together(kind: Literal["lines", "steps"]) -> None:
    same = (1.0, 2.0, 1.5)
    (axes,) = figure_of(_chart(kind, Series("a", same), Series("b", same))).axes
    first, second = axes.lines
    assert first.get_linewidth() > second.get_linewidth()
    assert first.is_dashed() != second.is_dashed()
    assert "a = b" in [text.get_text() for text in axes.texts]


def test_a_log_axis_is_used_only_where_bars_would_vanish() -> None:
    near, far = Series("a", (2.0, 3.0)), Series("b", (0.1, 0.05))
    scales = [
        figure_of(_chart("bars", *series, may_be_log=may_be_log)).axes[0].get_yscale()
        for series, may_be_log in (((near,), True), ((near, far), True), ((near, far), False))
    ]
    assert scales == ["linear", "log", "linear"]


def test_one_line_that_goes_on_for_long_does_not_squeeze_the_others() -> None:
    long, short = Series("long", (1.0,) * 100), Series("short", (*(2.0,) * 10, *(None,) * 90))
    (axes,) = figure_of(_chart("steps", long, short)).axes
    assert axes.get_xlim()[1] < 12
    assert "long until 99 →" in [text.get_text() for text in axes.texts]


def test_panels_stand_in_rows() -> None:
    series = Series("a", (1.0, 2.0))
    chart = replace_panels(_chart("lines", series), [Panel(str(at), (series,)) for at in range(6)])
    width, height = figure_of(chart).get_size_inches()
    assert width < 20 and height > 6


def replace_panels(chart: Chart, panels: list[Panel]) -> Chart:
    return msgspec.structs.replace(chart, panels=tuple(panels))
