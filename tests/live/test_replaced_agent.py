"""A platform goes on when its agent is killed and another one takes its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from swell.live.clock import HeadClock
from swell.live.head_thread import Inbox
from swell.live.recovery import differences
from swell.model.command import LaunchGang, Reconfigure
from swell.model.event import NodeJoined, NodeLost, Outcome, Woke
from swell.model.job import Phase
from swell.model.running import RunningWork

from .parts import NODE, Hands, new_core, spec
from .test_nodes import JOINED, Noting, has
from .test_nodes import running as running_with_hosts
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


def test_what_was_not_answered_is_commanded_again(tmp_path: Path) -> None:
    hands = Hands()
    hands.is_obedient = False
    with running(tmp_path, hands) as platform:
        job_id = platform.submit(spec()).id
        until(lambda: len(hands.performed) == 1)
        hands.is_obedient = True
        replace(hands)
        until(lambda: platform.job(job_id).phase is Phase.RUNNING)


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


class Careful(Hands):
    """Notes whether events that are acknowledged may wait yet: they are not in the journal."""

    def __init__(self) -> None:
        super().__init__()
        self.is_waiting: Callable[[], bool] = lambda: False
        self.acknowledged_while_waiting = 0

    def acknowledge(self) -> None:
        super().acknowledge()
        self.acknowledged_while_waiting += self.is_waiting()


def test_what_the_killed_agent_has_told_counts_first(tmp_path: Path) -> None:
    hands = Careful()
    with running(tmp_path, hands) as platform:
        hands.is_waiting = lambda: platform._inbox.holds_back
        job_id = run_job(platform)
        platform._inbox.consult(lambda: None)  # no turn is under way
        with platform._inbox._changed:  # the head sees both at once
            hands.deliver(hands.ended(job_id, Outcome.SUCCEEDED))
            replace(hands)
        until(lambda: platform.job(job_id).phase is Phase.SUCCEEDED)
        until(lambda: not platform._inbox.holds_back)
        assert hands.acknowledged_while_waiting == 0


def test_a_node_that_the_next_agent_does_not_know_is_lost_with_the_reason(tmp_path: Path) -> None:
    hands = Noting()
    with running_with_hosts(tmp_path, hands, NODE) as platform:
        hands.join()
        until(has(platform, "node0", "far"))
        hands.nodes = ()
        replace(hands)
        until(has(platform, "node0"))
        (lost,) = platform.cluster().lost_nodes
        assert "has not come back since the agent was gone" in lost.cause


def test_a_node_that_was_away_is_lost_unless_the_agent_still_knows_its_host() -> None:
    core = new_core()
    core.handle([NodeJoined(at_s=0.0, node=NODE), NodeJoined(at_s=0.0, node=JOINED)])
    core.handle([NodeLost(at_s=1.0, name="far", is_host_kept=True)])
    assert core.away == {"far"}
    assert differences(core, [NODE], RunningWork(away=("far",)), 2.0) == []
    (lost,) = differences(core, [NODE], RunningWork(), 2.0)
    assert isinstance(lost, NodeLost) and lost.name == "far" and not lost.is_host_kept
    core.handle([lost])
    assert core.away == frozenset()


# ---------------------------------------------------------------- the inbox
def woke(at_s: float) -> Woke:
    return Woke(at_s=at_s)


def test_events_of_the_next_agent_wait_until_the_head_has_taken_what_it_runs() -> None:
    inbox, work = Inbox(HeadClock()), RunningWork(trials=("a",))
    inbox.hear(woke(1.0))
    inbox.find(work)
    inbox.hear(woke(2.0))
    request = inbox.request(woke(3.0))
    assert inbox.take_found() is None, "what the former agent has told was not taken yet"
    assert inbox.take(None) == [woke(1.0), woke(3.0)]
    found = inbox.take_found()
    assert found is not None and found[0] is work
    inbox.settle([])
    assert request.result(0.0)
    assert inbox.take(None) == [woke(2.0)]
    assert inbox.take_found() is None


def test_of_several_agents_that_were_killed_the_last_one_counts() -> None:
    inbox, last = Inbox(HeadClock()), RunningWork(trials=("b",))
    inbox.find(RunningWork(trials=("a",)))
    inbox.hear(woke(1.0))
    inbox.find(last)
    inbox.hear(woke(2.0))
    assert inbox.take_found() is None
    assert inbox.take(None) == [woke(1.0)]
    found = inbox.take_found()
    assert found is not None and found[0] is last
    assert inbox.take(None) == [woke(2.0)]
