"""Workers that were asked to stop do so after the same step, however their signals and messages come."""

from __future__ import annotations

import dataclasses
from typing import cast

import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.puppets import JOB, hear_exited, hear_said, make_stage, target

from swell.executors.gang.gang_record import GangRecord, Restarts
from swell.executors.gang.host_messages import TellWorker
from swell.executors.gang.restarts import RestartController
from swell.model.command import LaunchGang
from swell.model.job import Elasticity
from swell.train.link.lease import Lease
from swell.train.link.observer_line import ObserverLine
from swell.train.runtime.unmanaged_script import StepCounter
from swell.wire import environ, messages


class Gang:
    """Of so many workers, on two hosts by turns."""

    def __init__(self, num: int) -> None:
        hosts = {f"node0/{number}": "ab"[number % 2] for number in range(num)}
        stage = dataclasses.replace(make_stage(None, elasticity=Elasticity.RESTART), hosts=hosts)
        self._gang = RestartController(stage, GangRecord(restarts=Restarts()))
        self._gang.command(
            LaunchGang(
                job_id=JOB, generation=1, target=target(*range(num)), spec=stage.spec, total_steps=None
            ),
            0.0,
        )

    def ask(self, worker: int, message: messages.FromWorker) -> messages.FromAgent:
        (answer,) = hear_said(self._gang, worker, message, 0.0)
        assert isinstance(answer, TellWorker) and answer.worker == worker
        return answer.message


class Line:
    """Of one worker."""

    def __init__(self, gang: Gang, worker: int) -> None:
        self._gang, self._worker = gang, worker

    def send(self, message: messages.FromWorker, *, is_question: bool) -> messages.FromAgent:
        return self._gang.ask(self._worker, message)


class CountedScript:
    """One worker's, which has made a step."""

    def __init__(self, line: object) -> None:
        self._counter = StepCounter(cast(ObserverLine, line), None, Lease())
        self._optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
        self.step()

    def ask_to_stop(self) -> None:
        self._counter.asked_to_stop(environ.STOP_AT_STEP, None)

    def step(self) -> bool:
        """Whether it was the last one."""
        try:
            self._counter.stepped(self._optimizer, (), {})
        except SystemExit:
            return True
        return False


@given(st.data())
def test_workers_in_step_agree_however_their_signals_come(data: st.DataObject) -> None:
    """A worker can end its step only when all others have ended the one before."""
    num = data.draw(st.integers(1, 4))
    gang = Gang(num)
    scripts = [CountedScript(Line(gang, worker)) for worker in range(num)]
    counts, stopped = [1] * num, [0] * num
    unasked = set(range(num))
    for patience in range(60, -1000, -1):
        able = [rank for rank in range(num) if not stopped[rank] and counts[rank] <= min(counts)]
        if not able:
            break
        if unasked and (patience < 0 or data.draw(st.booleans())):
            asked = data.draw(st.sampled_from(sorted(unasked)))
            unasked.discard(asked)
            scripts[asked].ask_to_stop()
            continue
        rank = data.draw(st.sampled_from(able))
        counts[rank] += 1
        if scripts[rank].step():
            stopped[rank] = counts[rank]
    assert not unasked
    assert min(stopped) == max(stopped) > 0, "none is left behind"


def test_a_worker_that_has_gone_need_not_vote() -> None:
    gang = Gang(2)
    assert gang.ask(1, messages.StopVote(num_steps=7)) == messages.StopVotes(most=None)
    hear_exited(gang._gang, 0, 0, "", 0.0)
    assert gang.ask(1, messages.StopVote(num_steps=8)) == messages.StopVotes(most=7)


def test_without_an_answer_no_step_is_the_last_one() -> None:
    class Deaf:
        def send(self, message: messages.FromWorker, *, is_question: bool) -> None: ...

    script = CountedScript(Deaf())
    script.ask_to_stop()
    assert not any(script.step() for _ in range(7))
