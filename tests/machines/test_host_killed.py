"""Two machines with real workers and a model of 25M parameters: one of them is killed, one joins.

`pytest -m soak -s tests/machines/test_host_killed.py` prints what was measured. The times are to be kept by
a machine that is not busy otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.training.pauses import stretches
from benchmarks.training.sides import Case, lines_of, wait_for_group
from benchmarks.training.two_hosts import SwellAcross
from tests.machines.namespaces import why_not

from swell.model.event import GangResized, NodeLost

pytestmark = pytest.mark.soak

#: From the kill of a host to the end of the next step of a job that spanned it.
KILL_BAR_S = 3.0
#: From the command that gives a job the devices of a warm host to the group that has workers there.
JOIN_BAR_S = 2.0
LIMIT_S = 180.0
NUM_STEPS = 5


@pytest.fixture
def side(tmp_path: Path) -> Iterator[SwellAcross]:
    if why_not():
        pytest.skip(f"machines cannot be had here: {why_not()}")
    side = SwellAcross(Case("25M", "sgd"), tmp_path / "run")
    try:
        yield side
    finally:
        side.close()


def test_a_job_that_spanned_a_host_goes_on_at_once_when_it_is_killed(side: SwellAcross) -> None:
    side.start(4)
    history = wait_for_group(side, 0, 4, NUM_STEPS, LIMIT_S)
    killed_s = time.monotonic()
    side.kill_host(1)
    side.await_line(lambda line: NodeLost.__name__ in line)
    told_s = time.monotonic() - killed_s
    after = wait_for_group(side, len(history), 2, NUM_STEPS, LIMIT_S)[-1]
    next_s = min(after.ends_s.values()) - killed_s
    print(f"\nhost killed: the node is lost after {told_s:.2f} s, next step after {next_s:.2f} s")
    assert min(after.ends_s) <= max(history[-1].ends_s) + 1, "no step is repeated but the one under way"
    assert next_s <= KILL_BAR_S


def test_a_host_that_joins_is_used_at_once(side: SwellAcross) -> None:
    side.start_head()
    side.join(0)
    side.await_offer(0)
    side.launch(2)
    before = wait_for_group(side, 0, 2, NUM_STEPS, LIMIT_S)
    side.join(1)
    side.await_offer(1)
    side.resize(4)  # its zygote imports torch meanwhile, and the job trains on
    wait_for_group(side, len(before), 4, NUM_STEPS, LIMIT_S)
    side.resize(2)
    wait_for_group(side, len(before) + 1, 2, NUM_STEPS, LIMIT_S)
    asked_s = time.monotonic()
    side.resize(4)  # now it is warm
    side.await_line(lambda line: GangResized.__name__ in line and '"generation":4' in line)
    used_s = time.monotonic() - asked_s
    after = wait_for_group(side, len(before) + 2, 4, NUM_STEPS, LIMIT_S)[-1]
    step_s = min(after.ends_s.values()) - asked_s
    print(f"\nhost that is warm: used after {used_s:.2f} s, first step done after {step_s:.2f} s")
    assert len(stretches(lines_of(side))) == len(before) + 3
    assert used_s <= JOIN_BAR_S
