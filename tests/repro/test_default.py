"""What the policy `unified` is to reach: beside each paper's policy, and on the mixed queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.model.job import JobClass, Phase
from swell.sim.outcome import JobOutcome
from swell.sim.profiles.built_in import PowerCurves
from swell.sim.traces.entry import Trace, TraceJob
from swell_papers import mixed_queue
from swell_papers.mixed_queue import REFUSED_END, UNIFIED


def outcome(job_class: JobClass, end_s: float, deadline_s: float | None, promised: bool) -> JobOutcome:
    return JobOutcome(
        id="a",
        model="m",
        tenant="",
        requested_devices=2,
        job_class=job_class,
        submit_s=0.0,
        deadline_s=deadline_s,
        phase=Phase.SUCCEEDED,
        is_promised=promised,
        counter_offer_s=None,
        start_s=0.0,
        end_s=end_s,
        is_kept=None if deadline_s is None else end_s <= deadline_s,
        is_buggy=False,
        num_resizes=0,
        device_s=end_s,
        single_device_s=end_s,
        sizes=(),
        why="",
    )


@pytest.fixture
def few_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of half an hour on up to 16 devices, whose speed is a law, stand for Pollux's workloads."""

    def some(file: Path) -> Trace:
        jobs = (
            TraceJob(id=f"{at}", submit_s=0.0, num_devices=1 + at % 16, duration_s=1_800.0, model="law")
            for at in range(24)
        )
        return Trace(jobs=tuple(jobs), format="csv", source=str(file))

    monkeypatch.setattr(mixed_queue, "NUM_JOBS", 24)
    monkeypatch.setattr(mixed_queue, "read", some)
    monkeypatch.setattr(mixed_queue, "pollux_profiles", lambda _: PowerCurves(0.8))


@pytest.mark.slow
@pytest.mark.usefixtures("few_models")
def test_a_mixed_queue_runs_with_all_promises_kept(tmp_path: Path) -> None:
    counts = mixed_queue.run_queue(tmp_path, UNIFIED, 5.0, 3)
    assert counts.strict_promised > 0 == counts.late
    assert counts.strict_kept >= counts.strict_promised
    ended = mixed_queue.run_queue(tmp_path, f"{UNIFIED}{REFUSED_END}", 5.0, 3)
    assert ended.strict_kept == ended.strict_promised
