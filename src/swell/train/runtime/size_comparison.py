"""Compares, before a trial run measures, one step of a whole batch with the same step in two shards.

The loop's body gets the same samples several times: all of them as the only worker, then the first part and
the rest as two workers would, and all of them again. `run.step` updates nothing. Before each of these
*probes* the training state is put back to what it was. Where the sum of the parts' gradients is another one
than that of the whole by more than rounding, the job's owner is told, with the cause where the numbers show
it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import wraps
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _NormBase

from swell.train.collective.gradients import EpochLeft, LoopError, StepVote, check_agreement
from swell.train.collective.group import Group
from swell.train.collective.memory_errors import is_out_of_memory
from swell.train.collective.norms import other_buffers
from swell.train.data.random_streams import Purpose, has_drawn
from swell.train.data.sample_schedule import Pass, SampleSchedule, Share, cut
from swell.train.runtime.difference_causes import (
    ComparedSizes,
    ProbeResult,
    causes_of,
    ends_by_part,
    fails_with_part,
)
from swell.train.runtime.fixed_draws import FixedDraws
from swell.train.runtime.gradient_differences import sampled, tolerance_of
from swell.train.runtime.host import Task
from swell.train.runtime.loop_exits import loop_exits
from swell.train.runtime.script_frames import place_of_caller, place_of_error
from swell.train.runtime.values_left import Key, is_plain_data, is_same, of_second, spelled, with_values
from swell.train.state import codec
from swell.train.state.script_values import copied
from swell.wire.findings import ScriptFinding, not_compared

#: Samples of the batch that is compared, at most.
MOST_SAMPLES = 16
#: Of these the first worker gets so many. Two are left for a batch norm, if the batch has as many.
FIRST_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class Probe:
    """One step that updates nothing."""

    rank: int | None = None  #: of two workers, or of as many as a step has shards; None: the only one
    is_fixed: bool = False  #: random numbers and batch statistics do not depend on the shard
    carried: Mapping[Key, Any] = field(default_factory=dict)  #: what the script's variables begin with
    num_passes: int = 1  #: of the only worker, where the job has no shards


_LOWER = (torch.bfloat16, torch.float16)
#: Compared steps begin with parameters that are multiplied by this: zeros, as those of a padding, stay.
MOVED = 1.01
#: Variables that are named at most.
MAX_NAMED = 4
#: Steps that follow each other with what the one before has left, at most.
MAX_CARRIED = 4
#: Probes before each of which the state is kept: the first, which is not compared, and the second.
NUM_FIRST = 2


class SizeComparison:
    """Leads the probes of one trial run. `findings` is what they came to, once it is over."""

    def __init__(self, device: torch.device, seed: int) -> None:
        self.edition = -1  #: counts down with each probe, so that batches are drawn again
        self.findings: list[ScriptFinding] = []
        self.num_done = 0
        #: Of the latest whole batch: each worker is told of all workers' mean.
        self.mean_loss = torch.zeros(())
        self._device = device
        self._seed = seed
        self._fixing = ExitStack()  #: what holds for the probe under way
        self._kept: tuple[str, list[torch.Tensor]] = ("", [])
        self._left: codec.Tree = {}  #: by the step that ended last, in what the script keeps
        self._originals: dict[str, Any] = {}  #: variables of the script, as the probes are to find them
        self._result: ProbeResult | None = None  #: of the probe that was made last
        self._backward: dict[nn.Parameter, torch.Tensor] = {}  #: gradients that it left in a probe, sampled
        self._has_norm = False  #: over the samples of a batch, in a probe
        self._is_lower = False  #: it computes in half precision
        self._own: set[str] = set()  #: variables of the script that its worker's part of the batch sets

    def finding_of(self, error: BaseException, line: str) -> ScriptFinding | None:
        """What an error of the script comes to; None: it raises it with a whole batch, too.

        A loop that breaks a rule with whole batches is no matter of parts. Where memory runs out, one of
        several workers may need less: the comparison keeps the whole state.

        Args:
            line: the last one of the error's text.
        """
        if self._task.state.shard is not None and is_out_of_memory(error):
            return not_compared(line)
        is_part = self.num_done > 0 and (self._probe.rank is not None or not isinstance(error, LoopError))
        if isinstance(error, EpochLeft) or not is_part:
            return None
        return fails_with_part(line, place_of_error(error))

    # ------------------------------------------------------------ the steps that it leads
    def begin(self, task: Task, course: SampleSchedule, most_samples: int, has_passes: bool) -> bool:
        """False: there is nothing to compare.

        Args:
            course: of the job.
            most_samples: that go through the model together.
            has_passes: a step may have several.
        """
        self._task, self._course, self._has_passes = task, course, has_passes
        self._num = min(MOST_SAMPLES, course.global_batch, most_samples)
        if course.is_stream and self._num > 2:
            self._num -= 1 - self._num % 2  # two workers' parts of a stream are of one size, or nearly
        if self._num < 2 * course.least_samples:
            return False
        self._group = Group(self._device)
        self._parameters = [p for p in task.state.model.parameters() if p.requires_grad]
        self._plan = self._probes()
        self._probe = next(self._plan)
        task.state.undo.before_revert = self._look_at_values
        return True

    def goes_on(self) -> bool:
        """The script asks for a batch: whether there is one more to compare."""
        self._task.state.check_schedulers()
        if self._result is not None and not self._go_on(replace(self._result, left=self._left)):
            return False
        self.edition -= 1
        if self.num_done < NUM_FIRST:  # what the script keeps in `run.state` or a variable is known later
            self._keep()
        self._restore()
        self._task.state.check_schedulers()  # from here on
        if self.num_done:
            self._move()
        self._fix()
        self._watch()
        return True

    def _go_on(self, result: ProbeResult) -> bool:
        """Think of the next probe. Returns whether there is one."""
        try:
            self._probe = self._plan.send(result)
        except StopIteration as end:
            frames = self._task.state.variables.frames()
            exits = [ends_by_part(each) for each in loop_exits(frames, self._own)]
            self.findings = [*end.value, *exits]
        except LoopError:
            raise
        except (RuntimeError, TypeError, ValueError) as error:
            self.findings = [not_compared(str(error))]
        else:
            self.num_done += 1
            return True
        self._probe = Probe()
        self._restore()
        self._leave()
        return False

    def share(self, step: int) -> Share:
        """What the worker of this probe computes."""
        if self._course.is_stream:
            return self._stream_share()
        rank, shards = self._probe.rank, self._course.num_shards
        if shards is not None:
            share = self._course.share(0, rank or 0, 1 if rank is None else shards)
            return _shortened(share) if rank else share
        places = self._places()
        parts = [cut(len(places), self._probe.num_passes, part) for part in range(self._probe.num_passes)]
        return Share(tuple(self._pass(places[part.start : part.stop]) for part in parts))

    def _pass(self, places: range) -> Pass:
        """A pass of samples of the first epoch; of one that is shuffled, from all of the data."""
        part = self._course.trial_pass(0, places, self._num)
        if self._course.is_shuffled:
            width = max(1, self._course.num_samples // self._num)
            part = replace(part, indices=[place * width for place in places])
        return replace(part, first=0) if self._probe.is_fixed else part

    def _stream_share(self) -> Share:
        shards, rank = self._course.num_shards, self._probe.rank
        places = range(self._num) if rank is None or shards is not None else cut(self._num, 2, rank)
        return self._course.trial_share(0, places, self._num, min(shards, self._num) if shards else 0, None)

    def _places(self) -> range:
        if self._probe.rank is None:
            return range(self._num)
        num_first = max(1, min(round(FIRST_SHARE * self._num), self._num - 2))
        return range(num_first) if self._probe.rank == 0 else range(num_first, self._num)

    def note(self, share: Share, loss: torch.Tensor) -> None:
        """The script's step of a probe, whose gradients are there."""
        self._fixing.close()
        self._result = self._result_of(share, loss)

    def finding_of_end(self) -> ScriptFinding:
        """What it comes to that the script leaves its loop: nothing of that is compared."""
        self._fixing.close()
        self._leave()
        return not_compared("the script left its loop after a few batches")

    def _leave(self) -> None:
        self._task.state.undo.before_revert = lambda frame: None
        self._kept, self._left, self._originals, self._result = ("", []), {}, {}, None

    # ------------------------------------------------------------ what is looked at
    def _probes(self) -> Generator[Probe, ProbeResult, list[ScriptFinding]]:
        yield Probe()  # shows what the script changes in a step, which is put back in those that follow
        plain = yield from self._compare(is_fixed=False)
        fixed = None
        if plain.differs and not plain.is_unsteady and (plain.has_drawn or plain.has_norm):
            fixed = yield from self._compare(is_fixed=True)
        return causes_of(plain, fixed)

    def _compare(self, is_fixed: bool) -> Generator[Probe, ProbeResult, ComparedSizes]:
        is_stream, shards = self._course.is_stream, self._course.num_shards
        whole = yield Probe(is_fixed=is_fixed)
        if shards is not None and (is_stream or shards < 2):
            return self._compared(whole, None, (yield Probe()))
        first = yield Probe(0, is_fixed)
        second = yield Probe(1, is_fixed)
        one, other = first.share, second.share
        check_agreement(one.mark + other.mark, one.habits + other.habits, other, 2)
        carried = {} if is_fixed else of_second(first.left, second.left)
        self._own |= {name for _, name in carried}
        again = yield Probe(is_fixed=is_fixed, carried=carried)
        parts = (first, second) if shards is None else None  # with shards the passes are the same at any size
        compared = self._compared(whole, parts, again, carried)
        if is_fixed or compared.is_unsteady:
            return compared
        # What matters only once enough of it is kept, as a pool of earlier samples. Without this
        # `tests/scripts/differs/pool_of_fakes.py` goes wrong in silence.
        if not all(is_plain_data(key, value) for key, value in carried.items()):
            compared = yield from self._follow(compared, whole, second, carried, MAX_CARRIED)
        if is_stream or (shards is None and not self._has_passes):
            return compared
        several = whole if shards is not None else (yield Probe(num_passes=2))
        return (yield from self._look_at_passes(compared, several, first, second))

    def _follow(
        self,
        compared: ComparedSizes,
        one: ProbeResult,
        other: ProbeResult,
        keys: Iterable[Key],
        num_steps: int,
    ) -> Generator[Probe, ProbeResult, ComparedSizes]:
        """Make steps that follow each other, with what one step has left in variables, and with another's.

        The comparison is that of the first two of these steps that differ, if any do.
        """
        for _ in range(num_steps):
            own, strange = ({key: result.left[key[0]][key[1]] for key in keys} for result in (one, other))
            one = yield Probe(carried=own)
            other = yield Probe(carried=strange)
            followed = replace(compared, whole=one, again=other)
            if followed.is_unsteady:
                return followed
        return compared

    def _look_at_passes(
        self, compared: ComparedSizes, several: ProbeResult, one: ProbeResult, other: ProbeResult
    ) -> Generator[Probe, ProbeResult, ComparedSizes]:
        """Find what changes with each pass of a step, whatever its samples, and whether that matters.

        Without this `tests/scripts/differs/ema_at_the_top.py` goes wrong in silence.

        Args:
            several: of a step of several passes.
            one: of a step of one pass, as `other` is, with other samples.
        """
        changed = of_second(several.left, one.left)
        changed = {key: value for key, value in changed.items() if is_same(key, one.left, other.left)}
        depends = not all(is_plain_data(key, value) for key, value in changed.items())
        if changed and not depends:
            depends = (yield from self._follow(compared, one, several, changed, 1)).is_unsteady
        return replace(compared, each_pass=_named(changed), depends_on_passes=depends)

    def _compared(
        self,
        whole: ProbeResult,
        shards: tuple[ProbeResult, ProbeResult] | None,
        again: ProbeResult,
        carried: Iterable[Key] = (),
    ) -> ComparedSizes:
        results = (whole, *(shards or ()), again)
        if not all(math.isfinite(result.loss) and result.gradient.isfinite().all() for result in results):
            raise ValueError("a loss or a gradient is no finite number")
        return ComparedSizes(
            whole,
            shards,
            again,
            tolerance_of(self._parameters, self._is_lower),
            carried=_named(carried),
        )

    def _result_of(self, share: Share, loss: torch.Tensor) -> ProbeResult:
        task, has_drawn = self._task, self._has_drawn(share.passes[-1])
        backward = torch.cat(
            [self._backward[each] if each in self._backward else sampled([each]) for each in self._parameters]
        )
        is_by_hand = not torch.equal(sampled(self._parameters), backward)
        if self._probe.rank is None:
            loss = self.mean_loss = task.gradients.reduce(share, loss, StepVote(), self._group).loss
        return ProbeResult(
            share=share,
            loss=float(loss),
            gradient=sampled(self._parameters),
            backward=backward,
            is_by_hand=is_by_hand,
            buffers={name: tensor.clone() for name, tensor in other_buffers(task.state.model).items()},
            has_drawn=has_drawn,
            has_norm=self._has_norm,
            place=place_of_caller(),
        )

    def _has_drawn(self, part: Pass) -> bool:
        """Whether the streams are not as they were when the pass began."""
        return has_drawn(self._device, self._seed, Purpose.PASS, part.step, part.first)

    # ------------------------------------------------------------ what is put back
    def _look_at_values(self, frame: FrameType | None) -> None:
        """The script asks for the next batch, and what it has done is about to be undone."""
        self._left = self._task.state.script_values(frame)

    def _keep(self) -> None:
        self._originals = {**self._task.state.script_values()["variables"], **self._originals}
        self._kept = self._task.state.copy()
        self._kept_buffers = {
            name: tensor.clone() for name, tensor in other_buffers(self._task.state.model).items()
        }

    def _restore(self) -> None:
        model, (skeleton, tensors) = self._task.state.model, self._kept
        tree = codec.decode(skeleton, [tensor.clone() for tensor in tensors])
        tree["variables"] = {**copied(self._originals), **tree.get("variables", {})}
        self._task.state.restore(with_values(tree, self._probe.carried))
        with torch.no_grad():
            for name, tensor in other_buffers(model).items():
                if name in self._kept_buffers and tensor.shape == self._kept_buffers[name].shape:
                    tensor.copy_(self._kept_buffers[name])
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def _move(self) -> None:
        """Have parameters be others than the script began with: its averages of them change."""
        for parameter in self._parameters:
            parameter.mul_(MOVED)

    def _watch(self) -> None:
        """See what the backward pass leaves in gradients, norms over a batch, and lower precision."""
        self._backward, self._has_norm = {}, False

        def note_gradient(parameter: nn.Parameter) -> None:
            if parameter.grad is not None:  # else a hook has taken it
                self._backward[parameter] = sampled([parameter])

        def note_norm(*given: Any, **named: Any) -> None:
            self._has_norm |= bool(given[5] if len(given) > 5 else named.get("training"))

        def note_precision(context: torch.autocast) -> None:
            self._is_lower |= context.fast_dtype in _LOWER

        for parameter in filter(lambda each: each.requires_grad, self._parameters):  # it may be frozen by now
            self._fixing.callback(parameter.register_post_accumulate_grad_hook(note_gradient).remove)
        self._note_calls(functional, "batch_norm", note_norm)
        self._note_calls(torch.autocast, "__enter__", note_precision)

    def _note_calls(self, owner: Any, name: str, note: Callable[..., None]) -> None:
        """Have `note` told of what this function is called with until the probe is over."""
        function = getattr(owner, name)

        @wraps(function)
        def noting(*args: Any, **named: Any) -> Any:
            note(*args, **named)
            return function(*args, **named)

        setattr(owner, name, noting)
        self._fixing.callback(setattr, owner, name, function)

    def _fix(self) -> None:
        """Compile nothing for a few steps. Where asked, make draws and statistics those of no shard."""
        if "torch._dynamo" in sys.modules:
            self._fixing.enter_context(torch.compiler.set_stance("force_eager"))
        if not self._probe.is_fixed:
            return
        self._fixing.enter_context(FixedDraws())  # type: ignore[no-untyped-call]
        for module in self._task.state.model.modules():
            if isinstance(module, _NormBase) and module.track_running_stats and module.training:
                handle = module.register_forward_pre_hook(_use_running_statistics)
                self._fixing.callback(handle.remove)
                self._fixing.callback(module.train)


def _named(keys: Iterable[Key]) -> tuple[str, ...]:
    return tuple(map(spelled, keys))[:MAX_NAMED]


def _shortened(share: Share) -> Share:
    """The share with one sample less in each pass, where a pass has several."""
    parts = [
        replace(part, indices=part.indices[:-1], num_local=part.num_local - 1) if part.num_local > 1 else part
        for part in share.passes
    ]
    return replace(share, passes=tuple(parts))


def _use_running_statistics(module: nn.Module, given: object) -> None:
    module.training = False  # also where the script says `model.train()` in each step
