"""A restart job keeps its smallest size until its script has shown that it works with other workers."""

from __future__ import annotations

import pytest
from tests.core.driven_world import DrivenWorld
from tests.core.fakes import core_of, node, spec
from tests.core.head import Head

from swell.core.sizes import job_sizes
from swell.model.event import ScriptDistributed
from swell.model.job import Elasticity, JobSpec
from swell.model.options import Sizes


def restart(**fields: object) -> JobSpec:
    return spec(None, elasticity=Elasticity.RESTART, estimate_s=1000.0, **fields)


def on_four_devices(job: JobSpec) -> tuple[Head, DrivenWorld]:
    world = DrivenWorld()
    head = Head(core_of, world)
    world.join(node("n0", 4))
    head.submit("job", job)
    head.run_until(lambda: bool(head.core.views()))
    head.run_until(lambda: head.job("job").workers > 0)
    return head, world


@pytest.mark.parametrize("least", [1, 2])
def test_it_grows_when_its_script_is_known_to_be_distributed(least: int) -> None:
    head, world = on_four_devices(restart(grows_when_distributed=True, min_workers=least))
    head.run_for(3.0)
    assert {workers for _, workers in head.job("job").sizes} == {least}
    head.die()
    head.fold()
    world.say(ScriptDistributed(at_s=world.now_s, job_id="job"))
    head.run_until(lambda: head.job("job").workers == 4)
    head.die()
    world.say(ScriptDistributed(at_s=world.now_s, job_id="job"))
    head.run_for(0.5)
    assert head.job("job").workers == 4


def test_a_job_whose_workers_get_equal_parts_has_sizes_that_divide_its_batch() -> None:
    job = restart(args=("--batch={local_batch}",), global_batch=12)
    assert job_sizes(job, 8, Sizes.EVERY).tolist() == [1, 2, 3, 4, 6]
    assert job_sizes(restart(global_batch=12), 8, Sizes.EVERY).tolist() == [*range(1, 9)]
