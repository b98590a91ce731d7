"""A job with a deadline keeps its own batch where a policy asks for rates that last."""

from __future__ import annotations

import pytest
from tests.core.fakes import node, profile, spec
from tests.core.test_fixed_batches import OpenBelief

from swell.core.core import Core
from swell.core.core_settings import CoreSettings
from swell.core.planner import Planner
from swell.model.event import JobProfiled, JobSubmitted, NodeJoined
from swell.model.job import JobClass
from swell.model.options import Domain
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.placement.best_fit import BestFitPlacer
from swell.policies.fifo import Fifo


class FadingBelief(OpenBelief):
    def changes_worth(self, job_id: str) -> bool:
        return job_id == "fading"


class Lasting(Fifo):
    """Keeps what it has seen."""

    name = "lasting"
    domain = Domain(opens_batches=True, lasting_rates=True)

    def decide(self, snapshot: Snapshot) -> Allocation:
        seen.append(snapshot)
        return super().decide(snapshot)


seen: list[Snapshot] = []


@pytest.mark.parametrize(
    ("job_id", "job_class", "batch"),
    [
        ("fading", JobClass.STRICT, 0),
        ("fading", JobClass.SOFT, 0),
        ("fading", JobClass.BEST_EFFORT, 32),
        ("steady", JobClass.STRICT, 32),
    ],
)
def test_who_is_offered_another_batch(job_id: str, job_class: JobClass, batch: int) -> None:
    core = Core(Planner(Lasting(), BestFitPlacer()), FadingBelief(), CoreSettings())
    deadline_s = None if job_class is JobClass.BEST_EFFORT else 1e6
    asked = spec(100, global_batch=16, max_batch=96, job_class=job_class, deadline_s=deadline_s)
    core.handle([NodeJoined(at_s=1.0, node=node("n0", 2))])
    core.handle([JobSubmitted(at_s=2.0, job_id=job_id, spec=asked)])
    core.handle([JobProfiled(at_s=3.0, job_id=job_id, profile=profile())])
    assert seen[-1].options.global_batch.tolist() == [batch, batch]
