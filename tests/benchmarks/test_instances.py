"""Knapsacks from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.solvers.instances import read_instances

from swell.solvers.knapsack import best_options


def test_a_line_is_a_knapsack(tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    file.write_text(
        '{"num_devices": 3, "takers": [{"devices": [1, 2], "value": [1, 4]}, '
        '{"devices": [2], "value": [3]}]}\n'
        '{"num_devices": 0, "takers": [{"devices": [1], "value": [1], "nothing": null}]}\n'
    )
    first, second = read_instances(file)
    assert best_options(*first.arguments).value == 4.0
    assert not best_options(*second.arguments).is_possible
    assert np.array_equal(first.starts, [0, 2, 3])


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("{", "line 1: "),
        ('{"num_devices": 3, "takers": [{"devices": [2, 1], "value": [1, 1]}]}', "positive and ascend"),
        ('{"num_devices": 3, "takers": [{"devices": [1], "value": []}]}', "1 sizes and 0 values"),
    ],
)
def test_a_line_that_is_none_is_refused(tmp_path: Path, line: str, rule: str) -> None:
    (tmp_path / "some.jsonl").write_text(line + "\n")
    with pytest.raises(ValueError, match=rule):
        list(read_instances(tmp_path / "some.jsonl"))
