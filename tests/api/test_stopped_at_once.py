"""A daemon that is told to end before its platform has begun."""

from __future__ import annotations

import os
import signal

import pytest

from swell.api.daemon import _stopped_at_once


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_platform_that_waits_to_begin_at_once(number: int) -> None:
    """It may wait for hosts of a former agent as long as a lease."""
    before = signal.getsignal(number)
    read, write = os.pipe()
    with pytest.raises(SystemExit, match="what runs goes on: `swell down` ends it"), _stopped_at_once():
        os.kill(os.getpid(), number)
        os.read(read, 1)  # nothing comes
    assert signal.getsignal(number) == before
    os.close(read)
    os.close(write)
