"""A script's own loop over what a library has prepared for it: models, optimizers and loaders."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from swell.train.collective.gradients import LoopError
from swell.train.data.random_streams import set_stream_states, stream_states
from swell.train.elastic import elastic
from swell.train.link.agent_link import close_script, exit_now
from swell.train.runtime.run import Run

_NO_EPOCHS = (
    "{0}.backward(loss) outside of `for epoch in {0}.epochs(num_epochs):`; write this in place of `for epoch "
    "in range(num_epochs):`, for a worker that joins begins at a later epoch. With `from {1}` the script "
    "also runs without Swell"
)
_PART = (
    "{0}.{1}() in the loop over the training batches, where a worker has a part of the samples, and sees no "
    "other worker's: {0}.backward(loss) returns the mean loss of the step on all workers. In an evaluation "
    "each worker has all samples, and {1}() returns what it is given"
)


class PreparedLoop:
    """The elastic loop of a job, behind the object of the library that the script knows."""

    run: Run | None = None  #: of the job, once its loop over epochs has begun
    trained: DataLoader[Any] | None = None  #: the loader of the loop that is under way
    step_loss: torch.Tensor  #: mean of the step, on all workers, once its last pass is done
    is_within = False  #: a batch of the training data is out
    _is_spare = False  # the pass under way
    num_passes = 0  #: batches that the script counts, and sums the gradients of; 0: it counts none

    def __init__(self, name: str, imported: str, follow: Callable[[Run], None]) -> None:
        """
        Args:
            name: what scripts call the library's object.
            imported: how a script that is to run without Swell imports its class.
            follow: tells the library which rank this worker has by now.
        """
        self.name, self._imported, self._follow = name, imported, follow
        self.models, self.optimizers, self.loaders = list[Any](), list[Any](), list[DataLoader[Any]]()

    def epochs(self, num_batches: int, **options: Any) -> Iterator[int]:
        """The epochs that are still to do. The first loader that shuffles is trained on, or the first one."""
        groups = [group for each in self.optimizers for group in each.param_groups]
        trained = {id(one) for group in groups for one in group["params"]}
        models = [each for each in self.models if any(id(one) in trained for one in each.parameters())]
        loaders = sorted(self.loaders, key=lambda each: isinstance(each.sampler, SequentialSampler))
        if not (models and groups and loaders):
            raise LoopError(f"{self.name}.epochs() before a model, its optimizer and a loader were prepared")
        parts = _one_or_named(models), _one_or_named(self.optimizers)
        run = self.begin(*parts, loaders[0], num_batches, **options)
        try:
            yield from run.epochs()
        finally:
            self.trained = None
        leave_to_leader(run)

    def begin(
        self, model: Any, optimizer: Any, loader: DataLoader[Any], num_batches: int, **options: Any
    ) -> Run:
        """Have the loop be elastic, each step with `num_batches` batches of the loader; see `elastic`."""
        models = [*model.values()] if isinstance(model, Mapping) else [model]
        self._parameters = [one for each in models for one in each.parameters()]
        if num_batches > 1 and not isinstance(optimizer, Mapping):  # they go through the model one by one
            options["max_local_batch"] = loader.batch_size
        several = joined(loader, num_batches, drops_last=self.num_passes > 0)
        self.run = elastic(model, optimizer, several, num_passes=self.num_passes or None, **options)
        self.trained = loader
        self._follow(self.run)
        return self.run

    def batches(self) -> Iterator[Any]:
        """This worker's batches of the epoch, with the rank that it has by then."""
        run, last = self.begun, None
        for batch in run.batches():
            self._follow(run)
            if (share := run.share) is not None and share is not last:  # a step begins
                for _ in range(self.num_passes - len(share.passes)):
                    yield from self._spare(batch, run.device)
            last = share
            yield batch
        self._follow(run)

    def _spare(self, batch: Any, device: torch.device) -> Iterator[Any]:
        """A pass for nothing: a trial run has a part of a step, and the script counts to its end."""
        states, self._is_spare = stream_states(device), True
        yield batch
        set_stream_states(states)
        self._is_spare = False

    def backward(self, loss: torch.Tensor, **options: Any) -> torch.Tensor:
        """Compute the gradients of a step; see `Run.backward`, also for the loss that is returned."""
        num = self.num_passes or 1  # by which the script divides the loss, if it wants the mean
        told = loss.detach() if self._is_spare else self.begun.backward(loss * num, **options) / num
        self.step_loss = told
        return told

    @property
    def begun(self) -> Run:
        """The run. Raises LoopError where the script's loop over epochs is its own."""
        if self.run is None:
            raise LoopError(_NO_EPOCHS.format(self.name, self._imported))
        return self.run

    @property
    def has_gradients(self) -> bool:
        """Whether a pass was its step's last: those of a whole step are there."""
        return any(each.grad is not None for each in self._parameters)


class ElasticLoader:
    """What a prepared loader is besides: in the loop over epochs it has the job's batches if trained on."""

    loop: PreparedLoop
    plain: DataLoader[Any]  #: as the script has made it

    def __iter__(self) -> Iterator[Any]:
        loop, is_trained = self.loop, self.plain is self.loop.trained
        own: Any = super()
        try:
            for batch in loop.batches() if is_trained else own.__iter__():
                loop.is_within = is_trained
                yield batch
        finally:
            loop.is_within = False


def as_elastic(thing: Any, form: type, **attributes: Any) -> Any:
    """A twin of a library's object that is one of `form`, too."""
    own: Any = type(type(thing).__name__, (form, type(thing)), {})
    twin = own.__new__(own)
    vars(twin).update(vars(thing), **attributes)
    return twin


def whole_only(method: Callable[..., Any]) -> Callable[..., Any]:
    """A library's method that joins what workers have, where each of them has all of it, else a LoopError."""

    @functools.wraps(method)
    def join(self: Any, *args: Any, **options: Any) -> Any:
        if self.loop is not None and self.loop.is_within:
            raise LoopError(_PART.format(self.loop.name, method.__name__))
        return method(self, *args, **options)

    return join


def leave_to_leader(run: Run) -> None:
    """Training is over: the leader alone goes on with the script, which may read what it still writes."""
    run.finish()
    if not run.is_leader:
        close_script()
        exit_now(0)


def _one_or_named(things: Sequence[Any]) -> Any:
    return things[0] if len(things) == 1 else {f"part{place}": each for place, each in enumerate(things)}


class JoinedBatches:
    """A batch sampler whose batches are several of another one's."""

    def __init__(self, batches: Any, num: int) -> None:
        self._batches, self._num = batches, num

    def __iter__(self) -> Iterator[list[Any]]:
        batches = iter(self._batches)
        while several := list(itertools.islice(batches, self._num)):
            yield [index for batch in several for index in batch]

    def __len__(self) -> int:
        return -(-len(self._batches) // self._num)


def joined(loader: DataLoader[Any], num: int, drops_last: bool = False) -> DataLoader[Any]:
    """A loader each of whose batches has the samples of `num` batches of this one.

    Args:
        drops_last: leave out what an epoch has beyond these.
    """
    batches: Any = loader.batch_sampler
    if num == 1 or batches is None:
        return loader
    twin = copy.copy(loader)
    if type(batches) is BatchSampler and (drops_last or not batches.drop_last):
        vars(twin)["batch_sampler"] = BatchSampler(batches.sampler, num * batches.batch_size, drops_last)
    else:
        vars(twin)["batch_sampler"] = JoinedBatches(batches, num)
    return twin
