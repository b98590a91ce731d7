"""A platform goes on when its agent is killed and another one takes its place."""

from __future__ import annotations

from pathlib import Path

import msgspec

from swell.model.command import LaunchGang, Reconfigure
from swell.model.event import Outcome
from swell.model.job import Phase

from .parts import Hands, spec
from .test_platform import run_job, running, until


def replace(hands: Hands) -> None:
    """The agent is killed, with its workers, and another one takes its place."""
    hands.gangs.clear()
    hands.replaced(hands.work)


def test_gangs_that_the_next_agent_does_not_have_are_lost_and_started_again(tmp_path: Path) -> None:
    hands = Hands()
    with running(tmp_path, hands) as platform:
        kept, lost = (platform.submit(spec(name)).id for name in "ab")
        until(lambda: platform.job(kept).phase is platform.job(lost).phase is Phase.RUNNING)
        del hands.gangs[lost]  # a host has kept the other one
        hands.replaced(hands.work)
        until(lambda: platform.job(lost).phase is Phase.RUNNING and platform.job(lost).generation == 2)
        assert platform.job(kept).generation == 1
        told = next(story.text for story in platform.stories(lost) if story.code == "requeued")
        assert "processes were gone" in told


def test_a_launch_on_its_way_to_a_killed_agent_is_planned_again(tmp_path: Path) -> None:
    hands = Hands()
    with running(tmp_path, hands) as platform:
        job_id = run_job(platform)
        hands.is_obedient = False
        other = platform.submit(spec("b")).id
        until(lambda: len(hands.performed) == 3)
        hands.obey_again(other)  # its trial run; and the launch that comes of it is lost
        hands.is_obedient = False
        until(lambda: any(isinstance(c, LaunchGang) and c.job_id == other for c in hands.performed))
        hands.is_obedient = True
        replace(hands)
        until(lambda: platform.job(other).phase is platform.job(job_id).phase is Phase.RUNNING)


def test_a_gang_whose_hosts_had_not_heard_of_its_latest_change_is_told_again(tmp_path: Path) -> None:
    hands = Hands()
    with running(tmp_path, hands) as platform:
        job_id = run_job(platform)
        (found,) = hands.work.gangs
        behind = msgspec.structs.replace(found, generation=found.generation - 1)
        hands.replaced(msgspec.structs.replace(hands.work, gangs=(behind,)))
        until(lambda: any(isinstance(command, Reconfigure) for command in hands.performed))
        again = next(command for command in hands.performed if isinstance(command, Reconfigure))
        assert (again.job_id, again.generation) == (job_id, found.generation)
        assert again.target.devices == found.devices


def test_what_the_killed_agent_has_told_counts_first(tmp_path: Path) -> None:
    hands = Hands()
    with running(tmp_path, hands) as platform:
        job_id = run_job(platform)
        platform._inbox.call_between_turns(lambda: None)  # no turn is under way
        with platform._inbox._changed:  # the head sees both at once
            hands.deliver(hands.ended(job_id, Outcome.SUCCEEDED))
            replace(hands)
        until(lambda: platform.job(job_id).phase is Phase.SUCCEEDED)
