"""The clocks of leases: the host's is never behind, and neither goes back."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from swell.wire.lease_end import HostClock, granter_now_s


@pytest.mark.parametrize("now_s", [HostClock().now_s, granter_now_s])
def test_a_clock_goes_on_with_time(now_s: Callable[[], float]) -> None:
    readings = [now_s() for _ in range(1000)]
    assert readings == sorted(readings)
    begin_s = now_s()
    until_s = time.monotonic() + 0.05
    while time.monotonic() < until_s:
        now_s()
    assert 0.04 < now_s() - begin_s < 1.0


def test_sleep_counts_for_the_host_and_not_for_the_granter(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = {time.CLOCK_MONOTONIC: 90.0, time.CLOCK_MONOTONIC_RAW: 100.0, time.CLOCK_BOOTTIME: 90.0}
    monkeypatch.setattr(time, "clock_gettime", clocks.__getitem__)
    clock = HostClock()
    assert (clock.now_s(), granter_now_s()) == (100.0, 100.0)
    clocks[time.CLOCK_BOOTTIME] += 3600.0
    assert (clock.now_s(), granter_now_s()) == (3700.0, 100.0)
    clocks[time.CLOCK_MONOTONIC] += 1.0
    clocks[time.CLOCK_BOOTTIME] += 1.0  # both are slewed: the raw clock has gone further
    clocks[time.CLOCK_MONOTONIC_RAW] += 1.1
    assert clock.now_s() == pytest.approx(3701.1)
    clocks[time.CLOCK_BOOTTIME] -= 1e-5  # read in the wrong moment
    assert clock.now_s() == pytest.approx(3701.1) and clock.now_s() >= 3701.1 - 1e-9


@pytest.mark.parametrize("num_readings", range(8))
def test_a_stop_between_two_readings_is_not_taken_for_sleep(
    monkeypatch: pytest.MonkeyPatch, num_readings: int
) -> None:
    """The process is stopped for a minute before a reading; all clocks go on meanwhile."""
    shown_s, num_read = 100.0, 0

    def read(clock: int) -> float:
        nonlocal shown_s, num_read
        shown_s += 60.0 if num_read == num_readings else 0.0
        num_read += 1
        return shown_s

    monkeypatch.setattr(time, "clock_gettime", read)
    host_clock = HostClock()
    assert host_clock.now_s() <= shown_s and host_clock.now_s() == shown_s
