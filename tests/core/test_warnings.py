"""A warning with a topic stands until it is ended; one without a topic is told once."""

from __future__ import annotations

from tests.core.driven_world import DrivenWorld
from tests.core.fakes import core_of, node, spec
from tests.core.head import Head

from swell.core.record import MOST_LINKS, MOST_TOPICS, JobRecord
from swell.model.event import STEPS, JobLinked, JobWarned
from swell.model.job import Phase


def record() -> JobRecord:
    return JobRecord(id="a", spec=spec(50), submitted_s=0.0)


def test_topics_stand_side_by_side_and_end_by_themselves() -> None:
    job = record()
    assert job.status.warn("output", "10 bytes dropped")
    assert job.status.warn("checkpoint", "disk full")
    assert job.status.warn("output", "20 bytes dropped")
    assert job.view().warnings == {"checkpoint": "disk full", "output": "20 bytes dropped"}
    assert job.status.warn("output", "")
    assert job.view().warnings == {"checkpoint": "disk full"}


def test_those_about_a_gangs_processes_end_with_it() -> None:
    job = record()
    job.status.warn("output", "10 bytes dropped")
    job.status.warn("checkpoint", "disk full")
    job.status.warn("drift", "replicas differ")
    job.status.end_warnings_of_gang()
    assert job.status.warnings == {"drift": "replicas differ"}


def test_a_job_has_warnings_about_so_many_topics_at_once_and_no_more() -> None:
    """Whoever warns may make up topics: all are in each view of the job."""
    job = record()
    told = [job.status.warn(f"topic-{number}", "look") for number in range(MOST_TOPICS + 5)]
    assert sum(told) == len(job.status.warnings) == MOST_TOPICS
    assert job.status.warn("topic-0", "") and job.status.warn("another", "look")


def test_a_job_shows_the_newest_address_of_each_name_and_no_more_than_a_few() -> None:
    world = DrivenWorld()
    head = Head(core_of, world)
    world.join(node("n0", 1))
    head.submit("job", spec(1000))
    names = [*map(str, range(MOST_LINKS + 3)), "0"]
    for number, name in enumerate(names):
        world.say(JobLinked(at_s=world.now_s, job_id="job", name=name, url=f"https://a.org/{number}"))
    head.run_until(lambda: bool(head.core.views()) and head.job("job").links.get("0", "").endswith("/13"))
    assert [*head.job("job").links] == names[:MOST_LINKS]


def test_a_job_that_stands_still_is_not_believed_to_go_on_until_its_next_step() -> None:
    world = DrivenWorld()
    head = Head(core_of, world)
    world.join(node("n0", 1))
    head.submit("job", spec(1000))
    head.run_until(lambda: bool(head.core.views()) and head.job("job").steps > 20)
    world.say(JobWarned(at_s=world.now_s, job_id="job", about=STEPS, message="no step for 60 s"))
    head.run_until(lambda: head.job("job").stalled_since_s is not None)
    still = head.job("job")
    assert still.phase is Phase.RUNNING and 0.0 < (still.stalled_since_s or 0.0) <= world.now_s
    world.say(JobWarned(at_s=world.now_s, job_id="job", about=STEPS, message=""))
    head.run_until(lambda: head.job("job").stalled_since_s is None)
    head.run_until(lambda: head.job("job").phase is Phase.SUCCEEDED)
