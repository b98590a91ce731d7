"""What hosts keep of a gang comes back as it was."""

from __future__ import annotations

from tests.executors.puppets import JOB, PuppetWorld, devices, is_stopped, make_spec, make_stage, target

from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord, end_in, read_record, write_record
from swell.model.command import LaunchGang, Reconfigure, StopGang
from swell.model.event import GangEnded
from swell.model.target import Configuration, Target


def test_a_record_is_the_gang_and_tells_hosts_how_it_ended() -> None:
    world = PuppetWorld(GangController(make_stage(min_batch=16, max_batch=256), GangRecord(), is_stopped))
    launch = LaunchGang(job_id=JOB, generation=1, target=target(0, 1), spec=make_spec(), total_steps=1000)
    world.command(launch)
    world.settle()
    wanted = Target(devices=devices(0), configuration=Configuration(global_batch=128, share=0.5))
    world.command(Reconfigure(job_id=JOB, generation=2, target=wanted))
    record = write_record(world.gang.gang)
    assert read_record(record) == world.gang.gang and end_in(record) is None
    world.command(StopGang(job_id=JOB, generation=2))
    world.settle()
    ended = end_in(write_record(world.gang.gang))
    assert isinstance(ended, GangEnded) and ended == world.events[-1]
