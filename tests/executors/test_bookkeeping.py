"""Small laws: folding of progress, the outbox, all-reduce tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.puppets import make_spec

from swell.executors.controller.protocol import EventTold, Outbox
from swell.executors.gang.host_messages import StartWorker, TellWorker
from swell.executors.gang.job_context import DeviceBinding
from swell.executors.gang.trial_plan import allreduce_s
from swell.executors.local.agent.host import HostRun
from swell.executors.local.agent.job_files import JobPlace
from swell.executors.local.agent.worker_processes import WorkerProcesses
from swell.executors.local.lines import LineLink
from swell.executors.local.logs.files import LEADERS, TRIAL, WORKER
from swell.executors.local.zygote.messages import Fork
from swell.model.event import GangStarted, StepsReported
from swell.wire.messages import Regroup


class Pipe(LineLink):
    """A daemon's end that keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(heard=lambda link, line: None)
        self.told: list[EventTold] = []

    @property
    def is_open(self) -> bool:
        return True

    def send(self, message: msgspec.Struct) -> None:
        assert isinstance(message, EventTold)
        self.told.append(message)


def steps(job: str, number: int, generation: int = 1) -> StepsReported:
    return StepsReported(
        at_s=0.0, job_id=job, generation=generation, steps=number, num_workers=2, pause_s=1.0
    )


def started(job: str, generation: int) -> GangStarted:
    return GangStarted(at_s=0.0, job_id=job, generation=generation, steps=0, pids=())


def new_run(folder: Path, kind: str = WORKER) -> HostRun:
    spec = make_spec()
    return HostRun("a", "a", spec, JobPlace(folder, folder, 0, spec.workdir, spec.entry), {}, kind)


def fork(run: HostRun, order: StartWorker) -> Fork:
    """That of the only process of a worker."""
    worker = WorkerProcesses(
        "a", order.worker, 1, None, lambda: 0.0, lambda *_: None, lambda _: None, lambda _: None
    )
    return run.fork(order, worker.processes[0], "module:function", "127.0.0.1:1")


def start(worker: int, **environ: str) -> StartWorker:
    return StartWorker(run="a", worker=worker, devices=(), environ=environ)


def tell(worker: int, message: Regroup) -> TellWorker:
    return TellWorker(run="a", worker=worker, message=message)


def regroup(rank: int | None) -> Regroup:
    return Regroup(
        generation=1,
        rank=rank,
        num_workers=2,
        source=None,
        local_rank=rank or 0,
        local_world_size=2,
    )


def at_once(work: Callable[[], OSError | None], then: Callable[[OSError | None], None]) -> None:
    then(work())


def lead(run: HostRun, effect: StartWorker | TellWorker) -> None:
    run.logs.see_leader(effect)
    run.logs.note_leaders(at_once)


def test_who_leads_is_noted_with_the_place_in_its_log(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    for worker in (0, 1):
        lead(run, start(worker))
    run.logs.path(0).write_text("on its way to the group\n")
    run.logs.path(1).write_text("four\n")
    for rank, worker in enumerate((0, 1)):
        lead(run, tell(worker, regroup(rank)))
    assert (tmp_path / LEADERS).read_text() == "0 0\n"
    lead(run, tell(0, regroup(None)))
    lead(run, tell(1, regroup(0)))
    lead(run, tell(1, regroup(0)))
    assert (tmp_path / LEADERS).read_text() == "0 0\n1 5\n"


def test_a_live_worker_is_told_at_its_fork_what_will_not_change(tmp_path: Path) -> None:
    environment = fork(new_run(tmp_path), start(3)).environ
    told = {name: value for name, value in environment.items() if name != "SWELL_TOKEN"}
    assert told == {
        "SWELL_AGENT": "127.0.0.1:1",
        "SWELL_JOB_ID": "a",
        "SWELL_RUN_ID": "a",
        "SWELL_WORKER": "3",
        "SWELL_ADDRESS": "127.0.0.1",
        "SWELL_DEVICES": "",
        "SWELL_WORKDIR": "/scripts",
        "TORCHELASTIC_RUN_ID": "a",
        "GROUP_RANK": "0",
        "CUDA_VISIBLE_DEVICES": "",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def test_a_job_sets_variables_but_not_those_of_swell(tmp_path: Path) -> None:
    spec = make_spec(code="0" * 64, env=(("MOOD", "calm"), ("SWELL_WORKER", "7")))
    run = dataclasses.replace(new_run(tmp_path), spec=spec)
    told = fork(run, start(3)).environ
    assert told["MOOD"] == "calm"
    assert told["SWELL_WORKER"] == "3"
    assert told["SWELL_CODE"] == str(run.place.folder / "code")


def test_leaders_that_cannot_be_noted_stop_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = new_run(tmp_path / "gone")
    lead(run, start(0))
    assert "cannot note the leader in" in caplog.text
    run.place.folder.mkdir()
    for _ in range(2):
        run.logs.note_leaders(at_once)
        assert (run.place.folder / LEADERS).read_text() == "0 0\n", "once, as soon as it can be written"
    trial = new_run(tmp_path, TRIAL)
    lead(trial, start(0))
    assert list(tmp_path.iterdir()) == [run.place.folder]


def test_the_outbox_stays_small_while_no_daemon_reads() -> None:
    outbox = Outbox()
    for number in range(1000):
        outbox.add(steps("a", number))
        outbox.add(steps("b", number))
    assert len(outbox._events.messages) == 2
    pipe = Pipe()
    outbox.attach(pipe)
    first = pipe.told[0].event
    assert isinstance(first, StepsReported)
    assert (first.steps, first.pause_s) == (999, 1000.0)


def test_a_worker_counts_gpus_in_the_order_in_which_it_was_given_them(tmp_path: Path) -> None:
    spec, place = (
        make_spec(),
        JobPlace(tmp_path, tmp_path, 0, "/", "x:y", environ={"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}),
    )
    bindings = {f"n/{n}": DeviceBinding(torch_device="cuda:0", kind="k", cuda=f"GPU-{n}") for n in (1, 2)}
    run = HostRun("a", "a", spec, place, bindings)
    order = msgspec.structs.replace(start(0), devices=("n/2", "n/1"))
    environ = dict(fork(run, order).environ)
    assert (environ["CUDA_VISIBLE_DEVICES"], environ["CUDA_DEVICE_ORDER"]) == ("GPU-2,GPU-1", "PCI_BUS_ID")


@given(st.lists(st.sampled_from(["add", "attach", "detach", "acknowledge"]), max_size=40))
def test_every_event_is_told_in_order_until_it_is_acknowledged(moves: list[str]) -> None:
    outbox, pipes, num_added, acknowledged = Outbox(), [Pipe()], 0, 0
    for move in [*moves, "attach"]:
        if move == "add":
            num_added += 1
            outbox.add(started("a", num_added))
        elif move == "attach":
            pipes.append(Pipe())
            outbox.attach(pipes[-1])
        elif move == "detach":
            outbox.detach(pipes[-1])
        elif pipes[-1].told:
            acknowledged = pipes[-1].told[-1].number
            outbox.acknowledge(acknowledged)
    numbers = [told.number for told in pipes[-1].told]
    assert numbers == list(range(acknowledged + 1, num_added + 1))
    assert [told.event for told in pipes[-1].told] == [started("a", number) for number in numbers]


# ---------------------------------------------------------------- all-reduce
TABLE = {2: {1000: 1e-3, 10_000: 2e-3, 100_000: 8e-3}, 4: {1000: 2e-3, 10_000: 4e-3, 100_000: 16e-3}}


def test_measured_points_are_kept_and_between_them_it_is_a_line() -> None:
    assert allreduce_s(TABLE, 2, 10_000) == pytest.approx(2e-3)
    assert allreduce_s(TABLE, 4, 31_623) == pytest.approx(8e-3, rel=1e-3)
    assert 2e-3 < allreduce_s(TABLE, 3, 10_000) < 4e-3
    assert allreduce_s(TABLE, 8, 10_000) == pytest.approx(8e-3)
    assert allreduce_s(TABLE, 1, 10_000) == 0.0


@given(
    st.dictionaries(
        st.sampled_from([2, 4, 8]),
        st.dictionaries(st.sampled_from([1000, 10**5, 10**7]), st.floats(1e-6, 10), min_size=1),
        min_size=1,
    ),
    st.integers(1, 64),
    st.integers(0, 10**10),
)
def test_an_all_reduce_never_takes_no_time(
    table: dict[int, dict[int, float]], num_workers: int, num_bytes: int
) -> None:
    seconds = allreduce_s(table, num_workers, num_bytes)
    assert seconds >= 0
    assert seconds < float("inf")
    assert (seconds == 0) == (num_workers == 1)
