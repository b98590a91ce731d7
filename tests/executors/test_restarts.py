"""Scripts that know nothing of Swell: stop and start, in torchrun's environment."""

from __future__ import annotations

import dataclasses
import signal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.contract import JOB
from tests.executors.puppets import hear, hear_said, make_spec, make_stage, target, validate

from swell.executors.exit_status import OVER_MEMORY
from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord, RestartSet
from swell.executors.gang.host_messages import (
    SignalWorker,
    StartWorker,
    TellWorker,
    WorkerExited,
    WorkerForked,
    WorkerOrder,
    WorkerState,
)
from swell.executors.gang.job_context import local_ranks
from swell.model.command import LaunchGang, Reconfigure, StopGang, SuspendGang
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    JobWarned,
    Outcome,
    ScriptDistributed,
    StepsReported,
)
from swell.model.job import Elasticity, EndCondition
from swell.script_facts import WHOLE
from swell.tally import Tally, tally_of
from swell.wire.environ import LOCAL_BATCH, STOP_AT_STEP
from swell.wire.messages import Distributed, FromAgent, FromWorker, Reported, Stepped, StopVote

SPEC = make_spec(elasticity=Elasticity.RESTART, end=EndCondition())

#: What a script says whose steps Accelerate makes.
BY_LIBRARY = Distributed(is_so=True, is_by_library=True)


def launch(*numbers: int) -> LaunchGang:
    return LaunchGang(job_id=JOB, generation=1, target=target(*numbers), spec=SPEC, total_steps=None)


class Processes:
    """Carries out what the gang says; a test decides when processes end."""

    def __init__(self, **fields: Any) -> None:
        """`fields`: of the job's specification."""
        self.job = make_stage(None, **{"elasticity": Elasticity.RESTART} | fields)
        self.gang = GangController(self.job, GangRecord(launch=1, restarts=RestartSet()))
        self.alive: dict[int, dict[str, str]] = {}
        self.is_forking_slowly = False  #: a test forks what is to start, by `fork`
        self.signals: list[tuple[int, int]] = []
        self.talk: dict[int, list[FromAgent | FromWorker]] = {}
        self.exits: dict[int, WorkerExited] = {}
        self.events: list[AnyEvent] = []
        self.now_s = 0.0

    def command(self, command: LaunchGang | Reconfigure | SuspendGang | StopGang) -> None:
        self.do(self.gang.command(command, self.now_s))

    def do(self, effects: object) -> None:
        validate(self.gang.gang)
        for effect in effects:  # type: ignore[attr-defined]
            if isinstance(effect, StartWorker):
                self.alive[effect.worker] = effect.environ
                if not self.is_forking_slowly:
                    self.fork(effect.worker)
            elif isinstance(effect, SignalWorker):
                self.signals.append((effect.worker, effect.signal))
            elif isinstance(effect, TellWorker):
                self.talk.setdefault(effect.worker, []).append(effect.message)
            elif not isinstance(effect, WorkerOrder):
                self.events.append(effect)
                if isinstance(effect, GangEnded | GangSuspended):
                    assert not self.alive

    def fork(self, *workers: int) -> None:
        for worker in workers:
            self.do(hear(self.gang, WorkerForked, worker, self.now_s, pid=worker + 100))

    def tick(self, now_s: float) -> None:
        self.now_s = now_s
        self.do(self.gang.tick(now_s))

    def replace_controller(self, **exits: int) -> None:
        """Another one takes over what a host has kept; `exits`: with which status `worker_0` has ended."""
        for name, status in exits.items():
            number = int(name.removeprefix("worker_"))
            self.alive.pop(number)
            self.note_exit(number, status, "last words")
        settled = self.gang.gang.settled
        for number in self.alive.keys() - settled.workers.keys():
            del self.alive[number]  # what is none of the settled gang is ended first
        facts = {
            number: WorkerState(pid=number + 100, exit=self.exits.get(number)) for number in settled.workers
        }
        self.gang = GangController(self.job, GangRecord(**msgspec.structs.asdict(settled)))
        self.do(self.gang.take_over(facts, self.now_s))

    def vote(self, worker: int, num_steps: int) -> None:
        vote = StopVote(num_steps=num_steps)
        self.talk.setdefault(worker, []).append(vote)
        self.do(hear_said(self.gang, worker, vote, self.now_s))

    def say(self, worker: int, message: Stepped | Distributed | Reported) -> None:
        self.do(hear_said(self.gang, worker, message, self.now_s))

    def end(self, worker: int, status: int, log_tail: str = "last words") -> None:
        del self.alive[worker]
        self.note_exit(worker, status, log_tail)
        self.do(self.gang.handle_worker_message(self.exits[worker], self.now_s))

    def note_exit(self, worker: int, status: int, log_tail: str) -> None:
        self.exits[worker] = WorkerExited(run=JOB, worker=worker, status=status, log_tail=log_tail)

    @property
    def ended(self) -> GangEnded:
        """The last that was told: how the gang ended."""
        last = self.events[-1]
        assert isinstance(last, GangEnded)
        return last


def test_workers_get_what_torchrun_would_give_them() -> None:
    processes = Processes()
    processes.command(launch(0, 1))
    assert [env["RANK"] for env in processes.alive.values()] == ["0", "1"]
    assert processes.alive[1] == {
        "RANK": "1",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "0",
        "MASTER_ADDR": "10.9.0.1",
        "MASTER_PORT": "4711",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_RUN_ID": "job-1",
        "SWELL_STEPS": str(processes.job.spec.end.steps),
    }
    assert isinstance(processes.events[0], GangStarted)


def test_a_resize_stops_all_and_starts_all_even_if_they_exit_with_0() -> None:
    processes = Processes()
    processes.command(launch(0, 1))
    processes.command(Reconfigure(job_id=JOB, generation=2, target=target(0, 1, 2)))
    assert processes.signals == [(0, STOP_AT_STEP), (1, STOP_AT_STEP)]
    processes.end(0, 143)
    processes.end(1, 0)
    assert sorted(processes.alive) == [2, 3, 4]
    resized = processes.events[-1]
    assert isinstance(resized, GangResized)
    assert resized.pids == (102, 103, 104)
    assert processes.alive[2]["TORCHELASTIC_RESTART_COUNT"] == "1"


def test_a_worker_that_makes_no_step_gets_sigterm_and_one_that_ignores_that_is_killed() -> None:
    processes = Processes()
    processes.command(launch(0))
    processes.command(SuspendGang(job_id=JOB, generation=1))
    expected = [(0, STOP_AT_STEP)]
    for now_s, signals in (
        (4.9, []),
        (5.0, [signal.SIGTERM]),
        (14.9, []),
        (15.0, [signal.SIGKILL]),
        (30.0, []),
    ):
        processes.tick(now_s)
        expected += [(0, number) for number in signals]
        assert processes.signals == expected
    processes.end(0, -signal.SIGKILL)
    assert isinstance(processes.events[-1], GangSuspended)


def test_who_has_sigterm_already_gets_no_second_one_while_it_saves() -> None:
    processes = Processes()
    processes.command(launch(0))
    processes.command(Reconfigure(job_id=JOB, generation=2, target=target(0, 1)))
    processes.now_s = 3.0
    processes.say(0, Stepped(num_workers=1, steps=7, own_steps=7, is_last=True))
    processes.tick(12.9)
    assert processes.signals == [(0, STOP_AT_STEP)]
    processes.tick(13.0)
    assert processes.signals[1:] == [(0, signal.SIGKILL)]


def test_that_a_script_works_with_others_is_told_and_that_it_does_not_is_warned_of() -> None:
    processes = Processes()
    processes.command(launch(0))
    processes.say(0, Distributed(is_so=False))
    warned = processes.events[-1]
    assert isinstance(warned, JobWarned) and warned.about == "size"
    assert "stays at 1 worker" in warned.message and "init_process_group" in warned.message
    processes.say(0, Distributed(is_so=True))
    told, ended = processes.events[-2:]
    assert isinstance(told, ScriptDistributed) and told.job_id == "job-1"
    assert isinstance(ended, JobWarned) and (ended.about, ended.message) == ("size", "")


def test_a_script_of_a_library_stays_small_and_its_owner_hears_how_it_may_grow() -> None:
    processes = Processes()
    processes.command(launch(0))
    processes.say(0, BY_LIBRARY)
    warned = processes.events[-1]
    assert isinstance(warned, JobWarned) and warned.about == "size"
    assert warned.message.startswith("the job stays at 1 worker: a library makes its steps")
    assert "`{local_batch}`" in warned.message and "--accept-differences whole-batches" in warned.message
    processes.talk[0] = [BY_LIBRARY]
    processes.replace_controller()
    assert not [event for event in processes.events if isinstance(event, ScriptDistributed)]


@pytest.mark.parametrize("given", [{"accept_differences": (WHOLE,)}, {"args": ("--batch={local_batch}",)}])
def test_it_grows_where_its_batch_is_cut_or_whole_batches_are_accepted(given: dict[str, Any]) -> None:
    processes = Processes(**given)
    processes.command(launch(0))
    processes.say(0, BY_LIBRARY)
    assert any(isinstance(event, ScriptDistributed) for event in processes.events)


def test_each_worker_is_told_its_part_of_the_batch() -> None:
    processes = Processes(global_batch=64, args=("--batch={local_batch}",))
    processes.command(launch(0, 1))
    assert [member[LOCAL_BATCH] for member in processes.alive.values()] == ["32", "32"]


def test_a_stop_asks_for_no_step() -> None:
    processes = Processes()
    processes.command(launch(0))
    processes.say(0, Stepped(num_workers=1, steps=7, own_steps=7))
    processes.command(StopGang(job_id=JOB, generation=1))
    processes.say(0, Stepped(num_workers=1, steps=8, own_steps=8))  # too late to tell of
    processes.end(0, -signal.SIGTERM)
    assert processes.signals == [(0, signal.SIGTERM)]
    ended = processes.ended
    assert (ended.outcome, ended.steps) == (Outcome.STOPPED, 7)


def reports_of(processes: Processes) -> list[StepsReported]:
    return [event for event in processes.events if isinstance(event, StepsReported)]


def test_values_that_are_no_numbers_are_told_as_they_are_and_warned_of_once() -> None:
    processes = Processes()
    processes.command(launch(0))
    for now_s in (1.0, 2.0):
        processes.say(0, Reported(values={"loss": "nan", "scale": "inf"}))
        processes.tick(now_s)
    first, _ = reports_of(processes)
    assert str(first.loss) == "nan" and str(first.metrics) == "{'scale': inf}"
    warned = [event.message for event in processes.events if isinstance(event, JobWarned)]
    assert warned == [
        "the script reports loss as nan after step 0",
        "the script reports scale as inf after step 0",
    ]


def test_a_script_that_begins_anew_is_told_of() -> None:
    processes = Processes()
    processes.command(launch(0))
    processes.say(0, Stepped(num_workers=1, steps=30, own_steps=30, step_s=0.1))
    processes.command(Reconfigure(job_id=JOB, generation=2, target=target(0, 1)))
    processes.end(0, 143)
    processes.say(1, Stepped(num_workers=2, steps=1, own_steps=1))
    (warning,) = [event for event in processes.events if isinstance(event, JobWarned)]
    assert "was stopped after step 30 and began again" in warning.message


def ended_by(statuses: list[int]) -> tuple[GangEnded, int]:
    """How a gang ends whose workers end with these one after the other, and the first bad one of them."""
    processes = Processes()
    processes.command(launch(*range(len(statuses))))
    for worker, status in enumerate(statuses):
        processes.end(worker, status)
    return processes.ended, next((status for status in statuses if status), 0)


@given(st.lists(st.sampled_from([0, 1, 3, -9, -11, 143]), min_size=1, max_size=4))
def test_the_first_bad_end_decides(statuses: list[int]) -> None:
    ended, bad = ended_by(statuses)
    outcomes = {0: Outcome.SUCCEEDED, 1: Outcome.FAILED, 3: Outcome.FAILED}
    assert ended.outcome is outcomes.get(bad, Outcome.LOST)
    if ended.outcome is Outcome.FAILED:
        assert "last words" in ended.message


@given(st.lists(st.sampled_from([0, 1, -9, OVER_MEMORY]), min_size=1, max_size=4))
def test_of_ends_that_no_controller_heard_the_one_that_others_may_echo_decides(statuses: list[int]) -> None:
    """Which came first is not known; a script whose peer is killed fails by itself."""
    processes = Processes()
    processes.command(launch(*range(len(statuses))))
    processes.replace_controller(**{f"worker_{worker}": status for worker, status in enumerate(statuses)})
    outcomes = {0: Outcome.SUCCEEDED, 1: Outcome.FAILED, -9: Outcome.LOST, OVER_MEMORY: Outcome.LOST}
    assert processes.ended.outcome is outcomes[min(statuses, key=[OVER_MEMORY, -9, 1, 0].index)]
    assert processes.ended.is_over_memory == (OVER_MEMORY in statuses)


@pytest.mark.parametrize("status", [0, 143])
@pytest.mark.parametrize("has_started", [False, True])
def test_a_script_that_was_told_to_stop_when_its_controller_died_is_lost_and_has_not_succeeded(
    status: int, has_started: bool
) -> None:
    processes = Processes()
    processes.command(launch(0, 1))
    processes.command(Reconfigure(job_id=JOB, generation=2, target=target(2, 3)))
    processes.end(0, status)
    if has_started:
        processes.is_forking_slowly = True
        processes.end(1, status)
    processes.replace_controller()
    if not has_started:
        processes.end(1, status)
    assert processes.ended.outcome is Outcome.LOST


def curve(*values: tuple[int, float]) -> Tally:
    tally = tally_of(values, num_workers=1)
    assert tally is not None
    return tally


def test_values_have_the_steps_of_the_script_of_its_lines_or_else_of_its_optimizer() -> None:
    processes = Processes()
    processes.command(launch(0))
    processes.say(0, Stepped(num_workers=1, steps=7, own_steps=7))
    processes.say(0, Reported(values={"loss": 0.5}))
    processes.say(0, Reported(values={"step": 9.0, "loss": 0.4}))
    processes.say(0, Reported(values={"accuracy": 0.5}, curves={"accuracy": curve((3, 0.1), (12, 0.5))}))
    processes.tick(10.0)
    told = [report.curves for report in reports_of(processes)]
    assert [one["loss"].first_step for one in told if "loss" in one] == [7, 9]
    assert [(one["accuracy"].first_step, one["accuracy"].last_step) for one in told[3:]] == [(3, 12)]


def test_steps_of_an_optimizer_that_does_not_count_begin_where_the_gang_before_ended() -> None:
    processes = Processes()
    processes.command(launch(0))
    processes.say(0, Stepped(num_workers=1, steps=30, own_steps=None))
    processes.command(Reconfigure(job_id=JOB, generation=2, target=target(0, 1)))
    processes.end(0, 143)
    told = Reported(values={"loss": 0.5}, curves={"loss": curve((5, 0.5))}, relative=["loss"])
    processes.say(1, told)
    assert reports_of(processes)[-1].curves["loss"].first_step == 35


# ---------------------------------------------------------------- several hosts
@given(st.lists(st.sampled_from("abc")))
def test_local_ranks_count_up_within_each_host(hosts: list[str]) -> None:
    ranks = local_ranks(hosts)
    for host in set(hosts):
        of_host = [rank for rank, name in zip(ranks, hosts, strict=True) if name == host]
        assert [rank.local_rank for rank in of_host] == list(range(len(of_host)))
        assert {rank.local_world_size for rank in of_host} == {len(of_host)}
        assert len({rank.group_rank for rank in of_host}) == 1
    assert sorted({rank.group_rank for rank in ranks}) == list(range(len(set(hosts))))


def test_a_gang_whose_host_goes_before_it_starts_there_is_lost() -> None:
    stage = dataclasses.replace(make_stage(None, elasticity=Elasticity.RESTART), meeting_points={})
    gang = GangController(stage, GangRecord(restarts=RestartSet()))
    (report,) = gang.command(launch(0), 0.0)
    assert isinstance(report, GangEnded)
    assert (report.outcome, report.message) == (Outcome.LOST, "its host is gone")
