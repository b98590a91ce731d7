"""What a training script runs under, and what it is told of that."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

import torch
import torch.distributed as dist

from swell.script_facts import ScriptNumbers
from swell.tally import Reduction
from swell.train.collective.gradients import Gradients, StepTotals, StepVote
from swell.train.collective.group import Group
from swell.train.collective.positions import ALONE, Positions
from swell.train.collective.process_groups import backend_of
from swell.train.data.place import UNBOUNDED
from swell.train.data.sample_schedule import Pass, SampleSchedule, Share, tighter
from swell.train.link.agent_link import Link
from swell.train.runtime.witness import StepNotes
from swell.train.state.loss import LossNotFinite, say
from swell.train.state.state_transfer import share_state
from swell.train.state.train_state import TrainState
from swell.wire import environ, messages


@dataclass(frozen=True, slots=True)
class Task:
    """What there is to train, put together from what the script gave to `elastic`."""

    state: TrainState
    gradients: Gradients
    course: SampleSchedule
    own_batch: int  #: samples of a step of the job's own batch, also where a trial run takes smaller ones
    end_epoch: int | None = None  #: epochs to do, where that is not told in steps
    is_sum: bool = False  #: the loss is a sum over samples, and not their mean
    known_steps: int = UNBOUNDED  #: until the end, as far as is known before it
    own: ScriptNumbers | None = None  #: of the script by itself
    positions: Positions = ALONE  #: of the processes of this worker


class Host:
    """The surroundings of a run. This class is for `python train.py`: one process, without an agent.

    Other surroundings are its subclasses. `Run` calls them in this order: those that shape the task, `enter`
    once, then for each step `reach_boundary`, `share`, `begin_backward`, `reduce`, `finish_step`, and at
    the end `finish`.
    """

    edition = 0  #: changes whenever the shares of coming steps do, or `max_local_batch`
    shown: ShownCounts | None = None  #: what the script is told of steps that are tried; None: they count
    notes: StepNotes | None = None  #: of the step under way, where its passes are noted
    is_amid_epoch = True  #: an epoch of the job, whose loop the script has left, is certainly not over
    left_at = ""  #: FILE:LINE where the script has left its loop over epochs

    def __init__(
        self,
        welcome: messages.Welcome,
        max_local_batch: int | None,
        link: Link | None = None,
        positions: Positions = ALONE,
    ) -> None:
        """
        Args:
            welcome: says what the job is.
            max_local_batch: the script's own.
            positions: of the processes of this worker.
        """
        self.device = torch.device(welcome.device)
        self.seed = welcome.seed  #: of the order of samples, and of random numbers
        #: Samples that go through the model together at most.
        self.max_local_batch = tighter(max_local_batch, welcome.max_local_batch)
        #: Training ends at a loss that is no number; trial runs do not.
        self.stops_on_nan = welcome.stop_on_nan and welcome.mode == "train"
        self.welcome = welcome
        self.has_agent = link is not None
        self.positions = positions
        self._group = Group(self.device, link, positions)  # of one, until it is formed

    @property
    def rank(self) -> int:
        return self._group.rank

    @property
    def num_workers(self) -> int:
        return self._group.num_workers

    @property
    def is_leader(self) -> bool:
        """Whether this process speaks for all workers."""
        return self.rank == 0 and self.positions.is_first

    def adapt(self, course: SampleSchedule) -> SampleSchedule:
        """The course to follow, for the one that the script and the job lay out."""
        return course

    def known_steps(self, own: int | None) -> int:
        """Steps of the own batch until the end; `own` is what the script's number of epochs comes to."""
        total_steps = self.welcome.total_steps or own
        if total_steps is None:
            raise ValueError(
                "elastic() needs epochs=..., passes over the data, or steps=..., where no job of Swell has "
                "an end of its own"
            )
        return total_steps

    def end_epoch(self, own: int | None) -> int | None:
        """Epochs after which a run on a stream ends, however long they are; None: it ends after steps.

        `own`: what the script says.
        """
        epochs = self.welcome.epochs
        if epochs is None:
            return None if self.welcome.total_steps else own
        return int(epochs) if epochs == int(epochs) else None

    def enter(self, task: Task) -> Host:
        """Return when this worker is in a group and has the state to go on with: what it runs under then."""
        self._task = task
        task.state.losses.tell_odd = say
        return self

    def reach_boundary(self) -> None:
        """No step is under way, and the script wants a batch: the group may change here, and the state.

        A checkpoint that is due is written here: the script has done all that belongs to the step before.
        """

    def leave_batches(self, is_over: bool) -> None:
        """The script is told that the epoch is over, and not the run; or it leaves its loop before that."""

    def share(self, step: int) -> Share:
        """What this worker computes in a step."""
        group = self._group
        return self._task.course.share(step, group.rank, group.num_workers, self.max_local_batch)

    def begin_backward(self, part: Pass) -> None:
        """The last backward pass of a step begins: sums over a network may begin within it."""
        if self._group.spans_hosts and self.positions.num == 1:
            self._task.gradients.overlap(part, self._group)

    def reduce(self, share: Share, loss: torch.Tensor, stop: bool) -> StepTotals | None:
        """Average the gradients over all workers; None if that failed and the step must be done again."""
        return self._task.gradients.reduce(share, loss, StepVote(stop=stop), self._group)

    def _await_device(self) -> None:
        """What the script has begun on its device is over when this returns."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def loss_told(self, own: torch.Tensor) -> torch.Tensor:
        """What `run.backward` returns where nothing was summed, and this worker's own loss is this."""
        return own

    def finish_step(self, tally: StepTotals) -> None:
        """The step's update is applied."""

    def give_up(self, loss: torch.Tensor) -> LossNotFinite:
        """All workers agree that the run ends before this step's update. Returns when the state is kept."""
        raise NotImplementedError  # of those that stop there

    def keep(self, is_end: bool) -> None:
        """This process is about to end, in the middle of a step: save the state, if it is the one to.

        `is_end`: the script has raised, and all others end with it. Otherwise it is started again.
        """

    def report(self, metrics: dict[str, float], step: int | None, reduction: Reduction) -> bool:
        """Note what the script measured; True if it meets the end condition. `step` is None for now."""
        return False

    def settle(self, error: BaseException | None, line: str) -> None:
        """An error of the script ends this process, or it has left its loop (None), and that may come of what
        is tried here: then tell that.

        Args:
            line: the last one of the error's text.
        """

    def finish(self, is_early: bool) -> None:
        """Training is over. `is_early`: see `Run.is_early`."""
        self._task.state.losses.read()


class Torchrun(Host):
    """`torchrun --nproc-per-node 4 train.py`. A broken collective ends the script; torchrun restarts it."""

    def enter(self, task: Task) -> Host:
        self._task = task
        self._has_formed_group = not dist.is_initialized()
        if self._has_formed_group:
            dist.init_process_group(backend_of(self.device))
        self._group.rank, self._group.num_workers = dist.get_rank(), dist.get_world_size()
        num_here = int(os.environ.get(environ.LOCAL_WORLD_SIZE, self.num_workers))
        self._group.spans_hosts = num_here < self.num_workers
        if self.rank == 0:
            task.state.losses.tell_odd = say
        share_state(self._group, task.state)
        return self

    def finish(self, is_early: bool) -> None:
        super().finish(is_early)
        if self._has_formed_group:  # a script that has formed it ends it, too
            self._group.close()


@dataclass
class ShownCounts:
    """The counts of a run as its script sees them: those of the first steps of a job, again and again."""

    batch: int  #: samples of a step of the job
    most: int  #: steps, after which the first one comes again: fewer than an epoch has, or the job
    steps: int = 0
    is_tried: bool = False  #: the step that the script has just made is one, although it has updated nothing

    @property
    def updates(self) -> int:
        return self.steps

    @property
    def samples(self) -> int:
        return self.steps * self.batch

    def begin_step(self, is_again: bool) -> None:
        """The script asks for a batch. `is_again`: of the first step, whatever has come before."""
        self.is_tried = False
        if is_again or self.steps >= self.most:
            self.steps = 0


def warm_up(task: Task) -> None:
    """Touch memory for the gradients, the buffer they are summed in, and the optimizer's state.

    So a worker's first step takes no longer than its second. The first use of a page of memory costs several
    times what copying it costs, for the kernel clears it. What is touched goes back to the heap, which
    keeps it where `MALLOC_TRIM_THRESHOLD_` and `MALLOC_MMAP_THRESHOLD_` tell it to.
    A GPU multiplies two small matrices, forward and backward: libraries are loaded at their first use.
    """
    device = next(task.state.model.parameters()).device
    if device.type == "cuda":
        matrix = torch.ones(64, 64, device=device, requires_grad=True)
        (matrix @ matrix).sum().backward()
        torch.cuda.synchronize(device)
    if device.type == "cpu":
        trained = (parameter for parameter in task.state.model.parameters() if parameter.requires_grad)
        kept_bytes = sum(map(optimizer_bytes, task.state.optimizers))
        with suppress(RuntimeError):  # there is not as much: training will say so, or do with less
            num_bytes = sum(each.nbytes for each in trained) + task.gradients.num_bytes + kept_bytes
            torch.zeros(num_bytes, dtype=torch.uint8, device="cpu")
    torch.zeros(1, device="cpu", requires_grad=True).sum().backward()  # starts the engine


def optimizer_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of state that it will have once it has made a step, by the options of torch's own optimizers."""
    return sum(
        (2 if "betas" in group else 1 if group.get("momentum") else 0)
        * sum(each.nbytes for each in group["params"] if each.requires_grad)
        for group in optimizer.param_groups
    )
