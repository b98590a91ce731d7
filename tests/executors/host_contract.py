"""What every node host does, whatever its machine: inherit, and give a fixture `world`."""

from __future__ import annotations

import signal
from typing import Protocol, TypeVar

import msgspec
from tests.executors.puppets import make_spec

from swell.executors.gang import host_messages as h
from swell.model.event import NodeTested, Outcome
from swell.model.job import Elasticity, JobSpec
from swell.wire import messages as m

Heard = TypeVar("Heard", bound=msgspec.Struct)
RUN = "job-1"


class HostWorld(Protocol):
    """A host with two devices at least, and what it has answered."""

    heard: list[h.FromHost]
    devices: tuple[str, ...]

    def tell(self, message: h.ToHost) -> None:
        """To the host."""

    def wait(self, kind: type[Heard], num: int = 1) -> Heard:
        """The `num`th answer of a kind."""

    def meet_new_controller(self) -> None:
        """One that knows nothing hears it from now on."""

    def allow_no_ports(self) -> None:
        """From now on the host has no descriptor left for a socket."""

    def make_job(self) -> JobSpec:
        """Whose workers say hello, wait for orders, and end by a signal only."""


def welcome(world: HostWorld) -> m.Welcome:
    return m.Welcome(
        mode="train",
        device="cpu",
        global_batch=64,
        total_steps=10**6,
        seed=0,
        checkpoint_dir="",
    )


def begin(world: HostWorld, worker: int | None = None, device: int = 0) -> int:
    """A worker; returns its number."""
    if not any(isinstance(message, h.RunOpened) for message in world.heard):
        world.tell(h.OpenRun(run=RUN, job_id=RUN, spec=world.make_job()))
    number = world.wait(h.RunOpened).first_worker if worker is None else worker
    world.tell(h.StartWorker(run=RUN, worker=number, devices=(world.devices[device],), environ={}))
    return number


def said(world: HostWorld, worker: int, kind: type[m.Message]) -> bool:
    return any(
        isinstance(message, h.WorkerSaid) and message.worker == worker and isinstance(message.message, kind)
        for message in world.heard
    )


def order_of(world: HostWorld, worker: int) -> list[type]:
    """What was heard of a worker."""
    return [type(message) for message in world.heard if getattr(message, "worker", None) == worker]


def told_first(heard: list[h.FromHost]) -> list[h.FromHost]:
    """What a host has kept and what it has, without what its workers happen to say meanwhile."""
    return [message for message in heard if isinstance(message, h.RunKept | h.EndKept | h.DevicesOffered)]


class HostContract:
    def test_its_devices_are_tested_each_and_together(self, world: HostWorld) -> None:
        world.tell(h.TestDevices(node="n", devices=world.devices))
        tested = world.wait(NodeTested)
        assert tested.name == "n" and [one.device for one in tested.results] == list(world.devices)
        for one in tested.results:
            assert not one.fault and None not in (one.flops_per_s, one.memory_per_s, one.sum_per_s)

    def test_it_says_what_it_has_before_anything_else(self, world: HostWorld) -> None:
        world.wait(h.DevicesOffered)
        offered = world.heard[0]
        assert isinstance(offered, h.DevicesOffered) and offered.num_cores >= 1
        assert not offered.devices or set(world.devices) <= set(offered.devices)

    def test_a_worker_is_forked_says_hello_and_is_told_what_the_controller_says(
        self, world: HostWorld
    ) -> None:
        worker = begin(world)
        forked = world.wait(h.WorkerForked)
        assert (forked.run, forked.worker) == (RUN, worker)
        hello = world.wait(h.WorkerSaid).message
        assert isinstance(hello, m.Hello) and (hello.worker, hello.pid) == (worker, forked.pid)
        world.tell(h.TellWorker(run=RUN, worker=worker, message=welcome(world)))
        world.wait(h.WorkerSaid, 2)
        assert said(world, worker, m.Ready) or said(world, worker, m.Alive)

    def test_a_killed_worker_has_exited_once_and_last(self, world: HostWorld) -> None:
        worker = begin(world)
        world.wait(h.WorkerSaid)
        for _ in range(2):
            world.tell(h.SignalWorker(run=RUN, worker=worker, signal=signal.SIGKILL))
        exited = world.wait(h.WorkerExited)
        assert (exited.worker, exited.status) == (worker, -signal.SIGKILL)
        world.tell(h.SignalWorker(run=RUN, worker=worker, signal=signal.SIGKILL))
        second = begin(world, worker + 1)
        world.wait(h.WorkerForked, 2)
        assert order_of(world, worker).count(h.WorkerExited) == 1
        assert order_of(world, worker)[-1] is h.WorkerExited
        world.tell(h.SignalWorker(run=RUN, worker=second, signal=signal.SIGKILL))
        assert world.wait(h.WorkerExited, 2).worker == second

    def test_two_workers_are_two(self, world: HostWorld) -> None:
        first = begin(world)
        second = begin(world, first + 1, device=1)
        world.wait(h.WorkerForked, 2)
        world.tell(h.SignalWorker(run=RUN, worker=first, signal=signal.SIGKILL))
        assert world.wait(h.WorkerExited).worker == first
        world.tell(h.SignalWorker(run=RUN, worker=second, signal=signal.SIGKILL))
        assert world.wait(h.WorkerExited, 2).worker == second

    def test_numbers_of_workers_go_on_where_the_run_before_left_off(self, world: HostWorld) -> None:
        worker = begin(world)
        world.wait(h.WorkerForked)
        world.tell(h.SignalWorker(run=RUN, worker=worker, signal=signal.SIGKILL))
        world.wait(h.WorkerExited)
        world.tell(h.CloseRun(run=RUN))
        world.tell(h.OpenRun(run=RUN, job_id=RUN, spec=world.make_job()))
        assert world.wait(h.RunOpened, 2).first_worker > worker

    def test_what_cannot_be_opened_is_refused_and_has_no_workers(self, world: HostWorld) -> None:
        """Its name would lead out of the folder of jobs."""
        world.tell(h.OpenRun(run="../x", job_id="../x", spec=world.make_job()))
        refused = world.wait(h.RunRefused)
        assert (refused.run, refused.outcome) == ("../x", Outcome.FAILED) and refused.why
        world.tell(h.StartWorker(run="../x", worker=0, devices=world.devices[:1], environ={}))
        world.tell(h.CloseRun(run="../x"))
        begin(world)
        assert world.wait(h.WorkerForked).run == RUN

    def test_what_is_said_of_a_run_that_is_not_open_changes_nothing(self, world: HostWorld) -> None:
        world.tell(h.TellWorker(run="gone", worker=0, message=m.Abort(generation=1)))
        world.tell(h.SignalWorker(run="gone", worker=0, signal=signal.SIGKILL))
        world.tell(h.CloseRun(run="gone"))
        worker = begin(world)
        world.tell(h.TellWorker(run=RUN, worker=worker + 1, message=m.Abort(generation=1)))
        assert world.wait(h.WorkerForked).worker == worker

    def test_a_script_that_knows_nothing_of_swell_has_a_port_to_meet_at(self, world: HostWorld) -> None:
        spec = msgspec.structs.replace(world.make_job(), elasticity=Elasticity.RESTART)
        world.tell(h.OpenRun(run=RUN, job_id=RUN, spec=spec))
        at = world.wait(h.RunOpened).meeting_point
        assert at is not None and at.address and 0 < at.port < 2**16

    def test_a_host_without_a_port_for_it_refuses_it(self, world: HostWorld) -> None:
        world.allow_no_ports()
        spec = msgspec.structs.replace(world.make_job(), elasticity=Elasticity.RESTART)
        world.tell(h.OpenRun(run=RUN, job_id=RUN, spec=spec))
        refused = world.wait(h.RunRefused)
        assert refused.outcome is Outcome.LOST and "Too many open files" in refused.why

    def test_every_message_is_itself_after_the_wire(self, world: HostWorld) -> None:
        begin(world)
        world.wait(h.WorkerSaid)
        decode = msgspec.json.Decoder(h.FromHost).decode
        assert [decode(msgspec.json.encode(message)) for message in world.heard] == world.heard
        order = h.OpenRun(run=RUN, job_id=RUN, spec=make_spec(), share=0.5)
        assert msgspec.json.decode(msgspec.json.encode(order), type=h.ToHost) == order

    def test_a_new_controller_is_told_first_what_it_runs(self, world: HostWorld) -> None:
        worker = begin(world)
        world.wait(h.WorkerSaid)
        world.tell(h.TellWorker(run=RUN, worker=worker, message=welcome(world)))
        world.wait(h.WorkerSaid, 2)
        pid, num_heard = world.wait(h.WorkerForked).pid, len(world.heard)
        world.meet_new_controller()
        kept, offered = told_first(world.heard[num_heard:])
        assert isinstance(kept, h.RunKept) and isinstance(offered, h.DevicesOffered)
        assert (kept.order.run, kept.order.spec, kept.gang) == (RUN, world.make_job(), None)
        live = kept.workers[worker]
        assert (live.pid, live.exit) == (pid, None)

    def test_it_keeps_nothing_of_a_run_that_was_closed(self, world: HostWorld) -> None:
        worker = begin(world)
        world.wait(h.WorkerForked)
        world.tell(h.SignalWorker(run=RUN, worker=worker, signal=signal.SIGKILL))
        world.wait(h.WorkerExited)
        world.tell(h.CloseRun(run=RUN))
        num_heard = len(world.heard)
        world.meet_new_controller()
        assert [type(message) for message in told_first(world.heard[num_heard:])] == [h.DevicesOffered]
