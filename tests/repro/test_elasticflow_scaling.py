from __future__ import annotations

from pathlib import Path

import pytest

from swell.model.errors import InvalidInput
from swell_papers.elasticflow_scaling import PLACEMENTS, scaling_curves
from swell_papers.experiment import Context
from swell_papers.findings import Table

EXPERIMENT = scaling_curves(
    name="2",
    title="Figure 2",
    tables="tables",
    measurements="measured",
    linear_shares={("net", 64, 4): 0.76},
    placed={"net": 64},
)
#: Seconds a step on each placement; half of that with half of the samples.
STEP_S = {"4": 1.0, "22": 2.0, "112": 4.0, "1111": 5.0, "44": 0.5, "224": 0.25, "2222": 1.0}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "net.csv").write_text(
        "global_batch_size,1,2,4,8\n32,1,1,1,1\n64,2.0,3.8,6.0,5.0\n"
    )
    write(tmp_path, STEP_S)
    return tmp_path


def write(folder: Path, step_s: dict[str, float]) -> None:
    (folder / "measured" / "net").mkdir(parents=True, exist_ok=True)
    rows = [
        f"{placement},{samples},{time_s * samples / (64 / sum(map(int, placement)))},0.1"
        for placement, time_s in step_s.items()
        for samples in (4, 40)
    ]
    text = "placement,local_bsz,step_time,sync_time\n" + "\n".join(rows) + "\n"
    (folder / "measured" / "net" / "placements.csv").write_text(text)


def tables(data: Path) -> dict[str, Table]:
    return {table.name: table for table in EXPERIMENT.run(Context(data=data)).tables}


def test_throughput_is_told_over_that_of_one_device_at_the_largest_batch(data: Path) -> None:
    found = tables(data)
    names, sizes, values = zip(*found["2"].rows, strict=True)
    assert set(names) == {"net 64"} and sizes == (1, 2, 4, 8)
    assert values == pytest.approx([1.0, 1.9, 3.0, 2.5])
    ((text, *figures),) = found["2-claims"].rows
    assert str(text).startswith("net, batch 64, 4 devices") and figures[:2] == [0.76, 0.75]


def test_each_placement_is_told_with_its_speed(data: Path) -> None:
    rows = tables(data)["2-placements"].rows
    assert [row[3] for row in rows] == [one for some in PLACEMENTS.values() for one in some]
    assert [row[-1] for row in rows] == pytest.approx([1.0 / STEP_S[str(row[3])] for row in rows])
    assert [row[4] for row in rows] == [1, 2, 3, 4, 2, 3, 4]


def test_each_chart_has_a_value_for_each_place(data: Path) -> None:
    for chart in EXPERIMENT.run(Context(data=data)).charts:
        assert all(len(series.values) == len(chart.x) for panel in chart.panels for series in panel.series)


def test_a_placement_that_was_not_measured_is_named(data: Path) -> None:
    write(data, {placement: time_s for placement, time_s in STEP_S.items() if placement != "224"})
    with pytest.raises(InvalidInput, match="the measurements of net have no placement 224"):
        EXPERIMENT.run(Context(data=data))
