"""What a growth brought, of gangs that report nothing but their pauses."""

from __future__ import annotations

import pytest
from tests.sim.worlds import head, job

from swell.model.resize import Verdict
from swell.sim.change_cost import change_cost
from swell.sim.recorder import EventLog
from swell.sim.simulate import Scenario, cluster, simulate

RATES = {1: 1.0, 2: 1.9, 4: 3.6, 8: 6.4}
PAUSE_S = 8.0


@pytest.mark.parametrize("steps", [2000, 20_000])
def test_a_growth_is_credited_with_all_that_was_done_at_its_size(steps: int) -> None:
    core, diary = head("equal_share"), EventLog()
    jobs = [job("long", steps=steps, rates=RATES), job("short", steps=360, rates=RATES)]
    scenario = Scenario(nodes=cluster(1, 8, "gpu"), jobs=jobs, cost=change_cost(str(PAUSE_S), 8))
    simulate(core, scenario, listen=diary.listen)
    (grown,) = next(view for view in diary.jobs(core) if view.id == "long").resize_history
    assert (grown.before, grown.after, grown.verdict) == (4, 8, Verdict.PAID)
    steps_left = steps - 360  # both had made as many at four workers
    assert grown.gain_s == pytest.approx(steps_left / 3.6 - (PAUSE_S + steps_left / 6.4), abs=0.5)
