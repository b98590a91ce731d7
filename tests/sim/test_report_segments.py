"""The curve of devices in use has the device-seconds that there were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.sim.outcome import Usage
from swell.sim.report_data import mean_devices

END_S = 1000.0


@given(st.lists(st.tuples(st.floats(0.0, END_S), st.integers(0, 8)), min_size=1, max_size=8))
def test_means_keep_the_device_seconds(steps: list[tuple[float, int]]) -> None:
    times, sizes = zip(*sorted(steps), strict=True)
    usage = Usage(np.array(times), np.array(sizes, dtype=float), np.zeros(len(sizes)))
    means = mean_devices(usage, END_S, END_S, number=7)
    lengths = np.diff([*times, END_S])
    assert sum(mean or 0.0 for mean in means) * END_S / 7 == pytest.approx(float(lengths @ sizes), abs=1e-6)


def test_after_the_end_no_device_is_in_use_once_and_then_there_is_no_figure() -> None:
    usage = Usage(at_s=np.array([0.0, 350.0]), used_devices=np.array([8.0, 0.0]), efficiency=np.zeros(2))
    assert mean_devices(usage, END_S, 350.0, number=10) == [8.0, 8.0, 8.0, 4.0, 0.0, *[None] * 5]
