"""The end of a lease, as a host shows it and its workers see it."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.wire.lease_end import LEASE_FILE, LeaseWatch, ShownEnd

TIMES = st.floats(-10.0, 10.0)


@given(st.lists(st.tuples(TIMES | st.sampled_from([math.inf, -math.inf]), TIMES), max_size=8), TIMES)
def test_a_worker_may_train_before_the_end_that_was_shown_last(
    told: list[tuple[float, float]], begin_s: float
) -> None:
    """Whatever its host does then, or does no longer: only that, and the worker's own clock, count."""
    now_s, end_s = begin_s, -math.inf
    with TemporaryDirectory() as folder:
        path = Path(folder) / LEASE_FILE
        shown, watch = ShownEnd(path), LeaseWatch(str(path), lambda: now_s)
        assert watch.is_over
        for end_s, later_s in told:
            shown.show(end_s)
            assert watch.is_over == (end_s == math.inf or now_s >= end_s)
            now_s = later_s
            assert watch.is_over == (end_s == math.inf or now_s >= end_s)


def test_a_host_process_that_begins_lets_no_worker_train(tmp_path: Path) -> None:
    path = tmp_path / LEASE_FILE
    ShownEnd(path).show(1e9)
    ShownEnd(path)
    assert LeaseWatch(str(path), lambda: 0.0).is_over


def test_a_worker_without_the_file_does_not_train(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LeaseWatch(str(tmp_path / LEASE_FILE))
