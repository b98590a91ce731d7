"""A daemon with thousands of open jobs that is killed while users submit: what was answered is there again.

`make test-chaos` kills it five times; CHAOS_SEED chooses other moments. How long `swell up` takes is printed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from random import Random

import pytest
from benchmarks.crowded_state import write_crowded_state
from tests.platform.program import Program, kill

from swell.api.client import connect
from swell.live.head_thread import FOLD_AFTER, FOLD_AGAIN_AFTER

DEVICES, NUM_OPEN, NUM_KILLS, NUM_CLIENTS = "paced:8@640", 5_000, 5, 4
#: Jobs that are answered between two kills: more than are kept without a fold at one time, now and then.
ANSWERED = (1, 300)
SCRIPT = "raise SystemExit('it never runs')\n"


class Submitters:
    """Users who submit one job after the other until nobody answers, and note what was answered."""

    def __init__(self, state: Path, script: Path) -> None:
        self._state, self._script = state, script
        self.answered: list[str] = []
        self.is_reached = threading.Event()

    def work_until(self, num: int) -> list[threading.Thread]:
        """`is_reached` is set when so many more jobs were answered; the threads go on."""
        self.is_reached.clear()
        end = len(self.answered) + num
        threads = [threading.Thread(target=self._work, args=(end,)) for _ in range(NUM_CLIENTS)]
        for thread in threads:
            thread.start()
        return threads

    def _work(self, end: int) -> None:
        try:
            with connect(self._state) as client:
                while True:
                    name = client.submit(
                        script=self._script, global_batch=16, steps=10**6, workdir=self._script.parent
                    )
                    self.answered.append(name)
                    if len(self.answered) >= end:
                        self.is_reached.set()
        except (RuntimeError, OSError):
            pass  # it was killed


@pytest.mark.soak
@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_a_killed_daemon_with_thousands_of_open_jobs_has_all_that_it_answered(tmp_path: Path) -> None:
    chance = Random(int(os.environ.get("CHAOS_SEED", "1")))
    state, script = tmp_path / "state", tmp_path / "script.py"
    script.write_text(SCRIPT)
    write_crowded_state(state, script, DEVICES, 0, NUM_OPEN)
    swell = Program(state)
    swell.ok("up", "--devices", DEVICES)
    with connect(state) as client:
        known = {view.id for view in client.jobs()}
    assert len(known) == NUM_OPEN
    submitters = Submitters(state, script)
    try:
        for _ in range(NUM_KILLS):
            threads = submitters.work_until(chance.randint(*ANSWERED))
            assert submitters.is_reached.wait(300.0), "nobody answers"
            daemon = swell.daemon_pid
            assert daemon is not None
            kill(daemon)
            for thread in threads:
                thread.join()
            _check(swell, known | set(submitters.answered))
    finally:
        swell("down", "--force")


def _check(swell: Program, answered: set[str]) -> None:
    """The platform is not up."""
    replayed = swell.json("admin", "replay")
    assert replayed["first_difference"] is None
    begun_s = time.monotonic()
    swell.ok("up", "--devices", DEVICES)
    took_s = time.monotonic() - begun_s
    with connect(swell.state) as client:
        there = {view.id for view in client.jobs()}
    assert answered <= there, f"answered and lost: {sorted(answered - there)[:5]}"
    most = max(FOLD_AFTER, len(there)) + FOLD_AGAIN_AFTER
    assert replayed["num_batches"] <= most, (
        f"{replayed['num_batches']} batches are handled again, at most {most}"
    )
    sys.stderr.write(
        f"{len(there)} open jobs, {replayed['num_batches']} batches again: up after {took_s:.1f} s\n"
    )
