"""The machine's clock is set while a job runs: deadlines follow once that has lasted, and users are told."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from swell.live import clock, head_queue
from swell.live.clock import LocalClock
from swell.live.recovery import compare, replay
from swell.model.event import ClockStepped
from swell.model.job import JobClass

from .parts import Hands, new_core, new_platform
from .test_platform import at_work, run_job, until

STEP_S = 600.0


def test_a_deadline_follows_a_clock_that_stays_as_it_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_queue, "LOOK_EVERY_S", 0.01)
    ahead_s = 0.0
    clocks = LocalClock(wall_s=lambda: time.time() + ahead_s)
    platform, journal = new_platform(tmp_path, Hands(), clocks=clocks)
    with at_work(platform, journal):
        asked_s = time.time() + 700.0
        job_id = run_job(platform, job_class=JobClass.SOFT, deadline_s=asked_s)
        ahead_s = STEP_S
        until(lambda: "clock is 10 min ahead of the platform's" in platform.cluster().clock_note)
        assert not [story for story in platform.stories(job_id) if story.code == "clock"]
        ahead_s = 0.0
        until(lambda: platform.cluster().clock_note == "")
        monkeypatch.setattr(clock, "LASTS_S", 0.1)
        ahead_s = STEP_S
        until(lambda: "clock was set forward by 10 min" in platform.cluster().clock_note)
        (told,) = [story.text for story in platform.stories(job_id) if story.code == "clock"]
        assert "set forward by 10 min: the deadline is now in 1 min" in told
        assert platform.job(job_id).deadline_s == asked_s
        entries = list(journal.history().entries)
        assert sum(isinstance(event, ClockStepped) for entry in entries for event in entry.batch) == 1
        assert compare(replay(new_core(), entries)).is_equal
