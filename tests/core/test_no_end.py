"""A job that nothing which is there can run: no end of it is named, and its deadline is at risk."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.core.fakes import core_of, node, profile, spec
from tests.examples import share_of_examples

from swell.api.page.rows import job_row
from swell.api.words import distance
from swell.core.platform_core import PlatformCore
from swell.live.board import TurnResult, ViewBoard
from swell.model.command import LaunchGang
from swell.model.deadline_state import DeadlineState, deadline_state
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangStarted,
    HostRuledOut,
    JobProfiled,
    JobSubmitted,
    NodeJoined,
    NodeLost,
    Outcome,
    Woke,
)
from swell.model.job import JobClass, JobSpec, Phase
from swell.model.view import JobView
from swell.placement.best_fit import BestFitPlacer
from swell.policies.registry import POLICIES

DEADLINE_S = 1e6
WHY = "/data is not on the host, and the job needs it (`needs`)"


class Fleet:
    """Nodes, each of which has or lacks what job `a` needs, and a head that has to find out."""

    def __init__(self, policy: str, job: JobSpec, first: bool) -> None:
        self.core = PlatformCore(lambda: core_of(POLICIES[policy](), BestFitPlacer()))
        self.board, self.now_s, self.home = ViewBoard(), 100.0, ""
        self.has_it: dict[str, bool] = {}
        self.generation = 0
        self.join(first)
        self.say(JobSubmitted(at_s=self.now_s, job_id="a", spec=job))
        self.say(JobProfiled(at_s=self.now_s, job_id="a", profile=profile()))

    def say(self, *events: AnyEvent) -> None:
        """And what hosts answer to what follows."""
        commands = self.core.handle(list(events))
        self.board.post(TurnResult.of(self.core))
        self.now_s += 1.0
        for command in commands:
            if isinstance(command, LaunchGang):
                self._answer(command)

    def _answer(self, launch: LaunchGang) -> None:
        [name] = {device.split(".")[0] for device in launch.target.devices}
        facts: dict[str, Any] = {"at_s": self.now_s, "job_id": "a", "generation": launch.generation}
        self.generation = launch.generation
        if self.has_it[name]:
            self.home = name
            self.say(GangStarted(**facts, steps=0, pids=(1,)))
        else:
            own = node(name, 4).devices
            self.say(
                HostRuledOut(at_s=self.now_s, job_id="a", devices=own, message=WHY),
                GangEnded(**facts, outcome=Outcome.LOST, steps=0, message=WHY),
            )

    def join(self, has_it: bool) -> None:
        name = f"n{len(self.has_it)}"
        self.has_it[name] = has_it
        self.say(NodeJoined(at_s=self.now_s, node=node(name, 4)))

    def lose(self) -> None:
        """The node on which it runs, or the first."""
        names = [one.name for one in self.core.cluster.nodes]
        if not names:
            return
        name, was_home = self.home or names[0], bool(self.home)
        self.home = ""
        ended = GangEnded(
            at_s=self.now_s,
            job_id="a",
            generation=self.generation,
            outcome=Outcome.LOST,
            steps=0,
            message="gone",
        )
        self.say(NodeLost(at_s=self.now_s, name=name, cause="gone"), *([ended] if was_home else []))

    @property
    def can_run(self) -> bool:
        return any(self.has_it[one.name] for one in self.core.cluster.nodes)

    def job(self) -> JobView:
        """As it is told, which is the same everywhere."""
        shown, [view] = self.board.job("a"), self.core.views()
        assert shown is not None and shown.estimated_finish_s == view.estimated_finish_s
        assert shown.reason == view.reason
        return view


@pytest.mark.parametrize("policy", ["elasticflow", "edf", "tiresias", "bftrainer"])
@pytest.mark.parametrize("job_class", JobClass)
@settings(max_examples=share_of_examples(0.1), deadline=None)
@given(first=st.booleans(), fates=st.lists(st.sampled_from(["join", "join without", "lose"]), max_size=8))
@example(first=False, fates=["join without", "join", "lose", "lose", "lose"])
def test_what_no_node_can_run_is_at_risk_and_no_end_of_it_is_named(
    policy: str, job_class: JobClass, first: bool, fates: list[str]
) -> None:
    deadline_s = None if job_class is JobClass.BEST_EFFORT else DEADLINE_S
    job = spec(10**6, min_workers=2, max_workers=2, job_class=job_class, deadline_s=deadline_s)
    fleet = Fleet(policy, job, first)
    for fate in ["", *fates]:
        match fate:
            case "lose":
                fleet.lose()
            case "join" | "join without":
                fleet.join(has_it=fate == "join")
        fleet.say(Woke(at_s=fleet.now_s + 60.0))
        view = fleet.job()
        state = deadline_state(view, fleet.now_s, view.estimated_finish_s)
        shown = job_row(view, fleet.now_s)
        if fleet.can_run:
            assert view.phase is Phase.RUNNING and view.estimated_finish_s is not None
            assert state is DeadlineState.ON_TRACK and view.reason_code != "nowhere"
            continue
        assert view.phase is Phase.QUEUED and view.estimated_finish_s is None and view.reason
        assert distance(view, fleet.now_s) == "" and shown.expected_s is None
        assert state is (DeadlineState.ON_TRACK if deadline_s is None else DeadlineState.AT_RISK)
        assert shown.standing in (("free",) if deadline_s is None else ("at-risk", "late"))
        if fleet.core.cluster.nodes:
            assert view.reason_code == "nowhere"
            assert view.reason == f"waits for a node that has what it needs: {WHY}"
