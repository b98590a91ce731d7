"""What hosts keep of a gang comes back as it was, and so does what an earlier version wrote."""

from __future__ import annotations

import msgspec
import pytest
from tests.executors.puppets import JOB, PuppetWorld, devices, is_stopped, make_spec, make_stage, target

from swell.executors.gang.elastic_controller import ElasticController
from swell.executors.gang.elastic_gang import ElasticGang
from swell.executors.gang.kept_worker import KeptWorker
from swell.executors.gang.records import end_in, read_record, write_record
from swell.executors.gang.restart_gang import RestartAim, RestartGang
from swell.model.command import LaunchGang, Reconfigure, StopGang
from swell.model.event import GangEnded, Outcome
from swell.model.target import Configuration, Target

DIALOGUE = '{"generation":2,"asked":["Reconfigure",2],"answer":null,"end":null,"warnings":{},"losses":[]}'
CHANGE = '{"aim":"RESIZE","failure":"","lost":[]}'
ORDER = '{"type":"Regroup","generation":1,"rank":0,"num_workers":1,"source":null,"has_news":true}'
SETBACK = '{"why":"it died","has_lost":true,"is_of_death":true,"is_cut_back":false,"is_over_memory":true}'


def elastic_of_before(setback: str = "null", ending: str = "null") -> msgspec.Raw:
    """A gang on one device that is to have two, and another batch, as the version before wrote it."""
    return msgspec.Raw(
        f'{{"type":"ElasticRecord","dialogue":{DIALOGUE},"membership":{{"slots":[["node0/0"]],"batch":64,'
        f'"generation":1,"change":{CHANGE},"is_unheard":false}},"target":[["node0/0"],["node0/1"]],'
        f'"batch":128,"setback":{setback},"num_failed_rounds":2,"suspension":{{"round":null,"is_void":false,'
        f'"is_saved":false,"has_left":false}},"ending":{ending},"round":1,"round_batch":64,"group":[0],'
        f'"orders":{{"0":{ORDER}}},"members":{{"0":["node0/0"]}},"next_worker":3,"has_started":true,'
        '"max_local_batch":8,"steps":3,"saved_steps":2}'.encode()
    )


def test_an_elastic_gang_of_before_is_read() -> None:
    gang = read_record(elastic_of_before(SETBACK, '{"outcome":"failed","message":"why"}'))
    assert isinstance(gang, ElasticGang)
    assert gang.replies.generation == 2 and gang.replies.asked == ("Reconfigure", 2)
    assert gang.membership.configuration == gang.formation.configuration == Configuration(global_batch=64)
    assert gang.configuration == Configuration(global_batch=128)
    assert gang.setback.is_open and gang.setback.why == "it died" and gang.setback.num_failed_rounds == 2
    assert gang.ending is not None and gang.ending.outcome is Outcome.FAILED
    assert (gang.formation.round, gang.formation.group, list(gang.formation.orders)) == (1, [0], [0])
    assert (gang.members, gang.next_worker, gang.steps, gang.saved_steps) == ({0: ("node0/0",)}, 3, 3, 2)


@pytest.mark.parametrize("is_over_memory", [True, False])
def test_why_its_end_came_is_read(is_over_memory: bool) -> None:
    told = str(is_over_memory).lower()
    ending = f'{{"outcome":"lost","message":"why","is_over_memory":{told}}}'
    gang = read_record(elastic_of_before(ending=ending))
    assert isinstance(gang, ElasticGang)
    assert gang.setback.is_over_memory is is_over_memory and not gang.setback.is_open


def test_a_controller_goes_on_with_a_gang_of_before() -> None:
    gang = read_record(elastic_of_before())
    assert isinstance(gang, ElasticGang)
    controller = ElasticController(make_stage(), gang, is_stopped)
    controller.take_over({0: KeptWorker(number=0, pid=9)}, (), 5.0)
    assert controller.devices == devices(0, 1) and controller.wanted_devices == devices(0, 1)
    assert controller.generation == 2


def test_a_restarted_gang_of_before_is_read() -> None:
    text = (
        f'{{"type":"RestartRecord","dialogue":{DIALOGUE},"running":1,"target":[["node0/0"]],'
        '"members":{"0":["node0/0"]},"aim":"RESTART","ending":{"outcome":"lost","message":"why",'
        '"is_over_memory":true},"num_starts":1,"next_worker":2,"steps":3,"steps_before":1,"is_new":false,'
        '"votes":{"0":7}}'
    )
    gang = read_record(msgspec.Raw(text.encode()))
    assert isinstance(gang, RestartGang)
    assert (gang.aim, gang.outcome, gang.message) == (RestartAim.RESTART, Outcome.LOST, "why")
    assert gang.is_over_memory and gang.votes == {0: 7}
    assert (gang.steps, gang.tally.begun_with, gang.tally.is_new) == (3, 1, False)


def test_a_record_is_the_gang_and_tells_hosts_how_it_ended() -> None:
    world = PuppetWorld(ElasticController(make_stage(min_batch=16, max_batch=256), ElasticGang(), is_stopped))
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
