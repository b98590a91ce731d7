"""What a policy is told of the service that jobs have had."""

from __future__ import annotations

import pytest
from tests.sim.worlds import job, run

from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell_papers.policies.tiresias import Tiresias


def test_waiting_is_no_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs of one node: the second waits for the first to end, and then counts from its launch."""
    seen: list[tuple[float, str, int, float]] = []
    decide = Tiresias.decide

    def listening(self: Tiresias, snapshot: Snapshot) -> Allocation:
        columns = (snapshot.job_ids, snapshot.held_workers.tolist(), snapshot.attained_device_s.tolist())
        seen.extend((snapshot.now_s, *row) for row in zip(*columns, strict=True))
        return decide(self, snapshot)

    monkeypatch.setattr(Tiresias, "decide", listening)
    only = {8: 1.0}
    outcome = run(
        [job("a", 0.0, 100, rates=only), job("b", 10.0, 100, rates=only), job("c", 150.0, 10)], "tiresias"
    )
    first, second, _ = outcome.jobs
    assert first.end_s == 100.0 and second.start_s == 100.0
    served = {now_s: attained for now_s, job_id, held, attained in seen if job_id == "b" and held}
    assert served
    assert all(attained == pytest.approx(8 * (now_s - 100.0)) for now_s, attained in served.items())
