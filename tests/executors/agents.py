"""The agent that an executor of the tests starts: what its workers run, and its zygote."""

from __future__ import annotations

from pathlib import Path

import psutil

from swell.executors.local.agent.address import read_address

CALL = "tests.executors.fake_worker:run_entry"


def zygote_of(state_dir: Path) -> psutil.Process:
    address = read_address(state_dir)
    assert address is not None
    (zygote,) = psutil.Process(address.pid).children()
    return zygote
