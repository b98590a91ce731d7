"""What hosts keep of a gang comes back as it was."""

from __future__ import annotations

from tests.executors.puppets import JOB, PuppetWorld, devices, make_spec, make_stage, target

from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord, read_record, write_record
from swell.model.command import LaunchGang, Reconfigure
from swell.model.target import Configuration, Target


def test_a_record_is_the_gang() -> None:
    world = PuppetWorld(GangController(make_stage(min_batch=16, max_batch=256), GangRecord()))
    launch = LaunchGang(job_id=JOB, generation=1, target=target(0, 1), spec=make_spec(), total_steps=1000)
    world.command(launch)
    world.settle()
    wanted = Target(devices=devices(0), configuration=Configuration(global_batch=128, share=0.5))
    world.command(Reconfigure(job_id=JOB, generation=2, target=wanted))
    assert read_record(write_record(world.gang.gang)) == world.gang.gang
