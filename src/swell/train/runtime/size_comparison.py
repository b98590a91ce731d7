"""Compares, before a trial run measures, one step of a whole batch with the same step in two parts.

The loop's body gets the same samples several times: all of them as the only worker, then the first part and
the rest as two workers would, and all of them again. `run.step` updates nothing. Before each of these
*probes* the training state is put back to what it was. Where the sum of the parts' gradients is another one
than that of the whole by more than rounding, the job's owner is told, with the cause where the numbers show
it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.module import register_module_forward_pre_hook

from swell.script_facts import ScriptFinding, not_compared
from swell.train.collective.gradients import EpochLeft, LoopError, StepVote, check_agreement
from swell.train.collective.group import Group
from swell.train.collective.norms import other_buffers
from swell.train.data.random_streams import Purpose, apart, drawn_from, stream_states
from swell.train.data.sample_schedule import SampleSchedule, Share, cut
from swell.train.link.code_paths import place_of, place_of_error
from swell.train.runtime.host import Task
from swell.train.runtime.step_comparison import (
    PART_OF_BATCH,
    FixedDraws,
    Key,
    StepComparison,
    Steps,
    cause_of,
    finding,
    listed,
    sampled,
    tolerance_of,
)
from swell.train.state import codec
from swell.train.state.script_values import mark, tensors_in

#: Samples of the batch that is compared, at most.
MOST_SAMPLES = 16
#: Of these the first worker gets so many.
FIRST_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class Probe:
    """One step that updates nothing."""

    share: Callable[[], Share]  #: what it computes, once the script is about to get its batch
    is_fixed: bool = False  #: random numbers and batch statistics do not depend on the part
    carried: Mapping[Key, Any] = field(default_factory=dict)  #: what the script's variables begin with


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a probe has shown."""

    loss: float
    gradient: torch.Tensor  #: `sampled`, as `run.backward` has summed it, over all passes
    share: Share  #: that its worker computed
    buffers: dict[str, torch.Tensor]  #: of the model, batch norms' apart
    draws: set[str]  #: of whose random numbers the loop's body has drawn
    streams: tuple[Any, ...]  #: where they are then
    num_drawn: int  #: by torch, where draws are fixed
    has_norm: bool  #: over the samples of a batch
    left: codec.Tree = field(default_factory=dict)  #: what the script kept when it asked for the next batch

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.loss) and bool(self.gradient.isfinite().all())


Findings = list[ScriptFinding]
Plan = Generator[Probe, ProbeResult, Findings]

#: Compared steps begin with parameters that are multiplied by this: zeros, as those of a padding, stay.
MOVED = 1.01
#: Variables that are named at most.
MAX_NAMED = 4
#: Steps that follow each other with what the one before has left, at most.
MAX_CARRIED = 4
#: Probes before each of which the state is kept: the first, which is not compared, and the second.
NUM_FIRST = 2


class SizeComparison(StepComparison):
    """Leads the probes of one trial run."""

    num_kept = NUM_FIRST  #: probes before which the state is kept
    moves = True  #: parameters, before each probe but the first

    def __init__(self, task: Task, course: SampleSchedule, most_samples: int, has_passes: bool) -> None:
        """
        Args:
            course: of the job.
            most_samples: that go through the model together.
            has_passes: a step may have several.
        """
        super().__init__(task)
        self._course, self._has_passes = course, has_passes
        self._num = min(MOST_SAMPLES, course.global_batch, most_samples)
        self.is_possible = self._num >= 2 * course.least_samples  #: there is something to compare
        #: Of a whole batch: `run.backward` returns the same mean in all probes that are compared.
        self.mean_loss = torch.zeros(())
        self._device = next(task.state.model.parameters()).device
        self._group = Group(self._device)
        self._fixing = ExitStack()  # what holds for the probe under way
        self._left: codec.Tree = {}  # by the step that ended last, in what the script keeps
        self._result: ProbeResult  # of the probe that was made last
        self._draws: FixedDraws | None = None  # of the latest probe that had them
        self._has_norm = False  # over the samples of a batch, in a probe
        self._computed: set[torch.dtype] = set()  # types of the loss, and under autocast
        self._probe = Probe(self._whole)  # under way
        self._is_part = False  # of the batch, in that
        self._num_begun = 0

    # ------------------------------------------------------------ the steps that it leads
    def steps(self) -> Steps:
        """Lead the probes, each of which goes on when the script asks for the next batch."""
        state, plan = self._task.state, self._probes()
        state.undo.before_revert = self._look_at_values
        findings: list[ScriptFinding] = []
        try:
            self._probe = next(plan)
            while True:
                self._begin_probe()
                yield partial(self._share, self._probe)
                state.check_schedulers()
                if not self._task.positions.all(self._result.is_finite):
                    raise ValueError("a loss or a gradient is no finite number")
                self._probe = plan.send(replace(self._result, left=self._left))
        except StopIteration as end:
            findings = end.value
        except LoopError:
            raise
        except (RuntimeError, TypeError, ValueError) as error:
            findings = [not_compared(str(error))]
        self._put_back()
        self._leave()
        return findings

    def _begin_probe(self) -> None:
        if (
            self._num_begun < self.num_kept
        ):  # what the script keeps in `run.state` or a variable is known later
            self._keep()
        self._put_back(self._probe.carried)
        self._task.state.check_schedulers()  # from here on
        if (
            self._num_begun and self.moves
        ):  # to other ones than the script began with: its averages of them change
            with torch.no_grad():
                torch._foreach_mul_([*self._parameters], MOVED)
        self._fix()
        self._num_begun += 1

    def _share(self, probe: Probe, step: int) -> Share:
        """What the worker of a probe computes."""
        share = probe.share()
        self._is_part = share.num_local < share.num_global
        fixed = tuple(replace(part, first=0) for part in share.passes)
        return replace(share, passes=fixed) if probe.is_fixed else share

    def _whole(self) -> Share:
        """All of the batch, as the only worker has it."""
        course, shards = self._course, self._course.num_shards
        if shards is not None and not course.is_stream:
            return course.share(0, 0, 1)
        return course.trial_share(0, range(self._num), self._num, min(shards or 0, self._num), None)

    def _part(self, number: int) -> Share:
        """What one of two workers has of the batch, or one of as many as a step has shards."""
        share = self._whole()
        if self._course.num_shards is None:
            return part_of(share, cut_in_two(self._num, self._course.least_samples)[number])
        own = share.passes[number]
        if number and own.num_local > 1:  # parts that differ in size
            own = replace(own, indices=own.indices[:-1], num_local=own.num_local - 1)
        return replace(share, passes=(own,), shards=range(0), num_shards=0)

    def finding_of(self, error: BaseException | None, line: str) -> ScriptFinding | None:
        """Return the finding of an error of the script; None: what is tried has not caused it.

        A loop that breaks a rule with whole batches is no matter of parts.

        Args:
            error: None: the script has left its loop instead.
            line: the last one of the error's text.
        """
        if error is None:
            self._fixing.close()
            self._leave()
            return not_compared("the script left its loop after a few batches")
        is_part = self._num_begun > 1 and (self._is_part or not isinstance(error, LoopError))
        if isinstance(error, EpochLeft) or not is_part:
            return None
        return finding(PART_OF_BATCH, place_of_error(error), error=line.strip())

    def note(self, share: Share, loss: torch.Tensor) -> None:
        """The script's step of a probe, whose gradients are there."""
        self._fixing.close()
        self._computed.add(loss.dtype)
        part = share.passes[-1]
        draws = drawn_from(self._device, self._task.course.seed, Purpose.PASS, part.step, part.first)
        self._place, loss = place_of(sys._getframe(1)), self._loss_of(share, loss)
        self._result = ProbeResult(
            loss=float(loss),
            gradient=sampled(self._parameters),
            share=share,
            buffers={name: each.clone() for name, each in other_buffers(self._task.state.model).items()},
            draws=draws,
            streams=stream_states(),
            num_drawn=0 if self._draws is None else self._draws.num_drawn,
            has_norm=self._has_norm,
        )

    def _loss_of(self, share: Share, loss: torch.Tensor) -> torch.Tensor:
        """The loss of all passes of this worker, whose gradients are put together."""
        if not self._is_part:
            loss = self._task.gradients.reduce(share, loss, StepVote(), self._group).loss
            if self._num_begun <= NUM_FIRST:  # that of several passes differs by rounding
                self.mean_loss = loss
        return loss

    def _leave(self) -> None:
        self._task.state.undo.before_revert = lambda frame: None
        self._kept, self._left, self._originals = ("", []), {}, {}

    # ------------------------------------------------------------ what is looked at
    def _probes(self) -> Plan:
        """Make each probe in turn; return what they come to."""
        probe = Probe(self._whole)
        yield probe  # shows what the script changes in a step, which is put back in those that follow
        is_stream, shards = self._course.is_stream, self._course.num_shards
        whole = yield probe
        if shards is not None and (is_stream or shards < 2):
            return self._unsteady() if self._differ(whole, (yield probe)) else []
        parts = [Probe(partial(self._part, number)) for number in range(2)]
        first, second = (yield parts[0]), (yield parts[1])
        shares = first.share, second.share
        marks, num_weighted = sum(each.mark for each in shares), sum(each.is_weighted for each in shares)
        check_agreement(marks, num_weighted, second.share, 2)
        carried = _other_values(first.left, second.left)
        is_other = self._differ(whole, (yield replace(probe, carried=carried)), first, second)
        # What matters only once enough of it is kept, as a pool of earlier samples. Without this
        # `tests/scripts/differs/pool_of_fakes.py` goes wrong in silence.
        if not is_other and _is_used(carried):
            is_other = yield from self._follow(whole, second, carried, MAX_CARRIED)
        if is_other:
            return self._unsteady(carried)
        found = self._set_from_batch(first, second)
        has_buffer = bool(found)
        if not is_stream and (shards is not None or self._has_passes):
            halves = [cut(self._num, 2, number) for number in range(2)]
            in_passes = Probe(lambda: part_of(self._whole(), *halves))
            several = whole if shards is not None else (yield in_passes)
            found += yield from self._look_at_passes(several, first, second)
        if shards is None:  # with shards the passes are the same at any size
            found += yield from self._look_at_sizes([probe, *parts], whole, first, second, has_buffer)
        return found

    def _look_at_sizes(
        self,
        probes: Sequence[Probe],
        whole: ProbeResult,
        first: ProbeResult,
        second: ProbeResult,
        has_buffer: bool,
    ) -> Plan:
        """Find what makes the update of two workers, or the loss that they report, another one.

        If random numbers or batch statistics may, which are a known difference, all is made again without.
        """
        found: Findings = []
        if not self._differ(whole, _together(first, second), first, second):
            return []
        results = (whole, first, second)
        known = {
            "batch-statistics": any(result.has_norm for result in results),
            "random-draws": any(result.draws for result in results),
        }
        if any(known.values()):
            found = [finding(name, self._place, holds=False) for name, is_so in known.items() if is_so]
            fixed = [replace(probe, is_fixed=True) for probe in probes]
            whole, first, second = (yield fixed[0]), (yield fixed[1]), (yield fixed[2])
            is_drawn_alike = whole.num_drawn == first.num_drawn and not apart(whole.streams, first.streams)
            is_same = is_drawn_alike and whole.loss == first.loss and not self._differ(whole, first)
            if whole.draws and is_same:  # whatever the number of samples
                return [*found, finding("unused-batches", self._place)]
            if not self._differ(whole, _together(first, second), first, second):
                return found
        name = cause_of(whole.gradient, first.gradient, second.gradient, self._tolerance)
        others = set().union(*(result.draws for result in results)) - {"torch"}
        is_certain = not (has_buffer or others or (self._draws is not None and self._draws.has_others))
        if name is None and is_certain:
            name = "batch-dependent"
        return found if name is None else [*found, finding(name, self._place)]

    def _follow(self, one: ProbeResult, other: ProbeResult, keys: Iterable[Key], num_steps: int) -> Any:
        """Make steps that follow each other, with what one step has left in variables, and with another's.

        Returns whether two of these steps differ.
        """
        for _ in range(num_steps):
            own, strange = (
                {(part, name): left[part][name] for part, name in keys if name in left[part]}
                for left in (one.left, other.left)
            )
            one = yield Probe(self._whole, carried=own)
            other = yield Probe(self._whole, carried=strange)
            if self._differ(one, other):
                return True
        return False

    def _look_at_passes(self, several: ProbeResult, one: ProbeResult, other: ProbeResult) -> Plan:
        """Find what changes with each pass of a step, whatever its samples, and whether that matters.

        Without this `tests/scripts/differs/ema_at_the_top.py` goes wrong in silence.

        Args:
            several: of a step of several passes.
            one: of a step of one pass, as `other` is, with other samples.
        """
        depending = _other_values(one.left, other.left)
        changed = _other_values(several.left, one.left)
        changed = {key: value for key, value in changed.items() if key not in depending}
        if not changed:
            return []
        holds = _is_used(changed) or (yield from self._follow(one, several, changed, 1))
        return [finding("each-pass", self._place, holds=holds, names=_named(changed))]

    def _set_from_batch(self, first: ProbeResult, second: ProbeResult) -> Findings:
        """Find the model's first buffer that two workers have set otherwise from their parts of a batch."""
        for name in first.buffers.keys() & second.buffers.keys():
            one, other = first.buffers[name].double(), second.buffers[name].double()
            if one.shape != other.shape or not torch.allclose(
                one, other, rtol=self._tolerance, atol=1e-12, equal_nan=True
            ):
                return [finding("batch-buffer", self._place, buffer=name)]
        return []

    def _unsteady(self, carried: Iterable[Key] = ()) -> Findings:
        """The same batch gives another gradient the second time."""
        names = _named(carried)
        kept = f"; {names} had what another worker sets there" if names else ""
        return [finding("hidden-state", self._place, kept=kept)]

    def _differ(self, one: ProbeResult, other: ProbeResult, *parts: ProbeResult) -> bool:
        """Whether two steps differ by more than rounding, which losses and gradients of parts widen, too."""
        results, tolerance = (one, other, *parts), self._tolerance
        if abs(one.loss - other.loss) > tolerance * max(abs(result.loss) for result in results):
            return True
        bound = tolerance * max(float(result.gradient.norm()) for result in results)
        return float((one.gradient - other.gradient).norm()) > bound

    @property
    def _tolerance(self) -> float:
        return tolerance_of(self._parameters, self._computed)

    # ------------------------------------------------------------ what is put back
    def _look_at_values(self, frame: FrameType | None) -> None:
        """The script asks for the next batch, and what it has done is about to be undone."""
        self._left = self._task.state.script_values(frame)

    def _keep(self) -> None:
        self._originals = {**self._task.state.script_values()["variables"], **self._originals}
        super()._keep()

    def _fix(self) -> None:
        """See which norms and what precision modules use, and compile nothing for a few steps.

        Where the probe asks for it, make draws and statistics those of no part.
        """
        self._has_norm = False
        if "torch._dynamo" in sys.modules:
            self._fixing.enter_context(torch.compiler.set_stance("force_eager"))
        if self._probe.is_fixed:
            self._draws = FixedDraws()  # type: ignore[no-untyped-call]
            self._fixing.enter_context(self._draws)
        self._fixing.callback(register_module_forward_pre_hook(self._look_at_module).remove)

    def _look_at_module(self, module: nn.Module, given: object) -> None:
        kind = self._device.type
        if torch.is_autocast_enabled(kind):
            self._computed.add(torch.get_autocast_dtype(kind))
        if isinstance(module, _BatchNorm) and module.training:
            self._has_norm = True
            if self._probe.is_fixed and module.track_running_stats:
                module.training = False  # also where the script says `model.train()` in each step
                self._fixing.callback(module.train)


def _together(first: ProbeResult, second: ProbeResult) -> ProbeResult:
    """What `run.backward` makes of what two workers have computed."""
    one, other = ([*result.share.passes] for result in (first, second))
    factors = [sum(part.factor for part in passes) for passes in (one, other)]
    divisor = first.share.divisor(sum(part.word for part in one + other)) or 1.0
    gradient = (first.gradient * factors[0] + second.gradient * factors[1]) / divisor
    loss = (first.loss * factors[0] + second.loss * factors[1]) / divisor
    return replace(first, loss=loss, gradient=gradient)


def _other_values(first: codec.Tree, second: codec.Tree) -> dict[Key, Any]:
    """What the second of two steps has left otherwise than the first, single numbers before others."""
    marks = {
        (part, name): (mark(first[part][name]), mark(value))
        for part, values in second.items()
        for name, value in values.items()
        if name in first[part]
    }
    others = {key: repr(now) for key, (before, now) in marks.items() if before != now}
    return {key: second[key[0]][key[1]] for key in sorted(others, key=lambda key: len(others[key]))}


def _is_used(values: Mapping[Key, Any]) -> bool:
    """Whether some hold a tensor or an object, and are not numbers and texts as what a script prints."""
    return any(
        key[0] == "objects"
        or (key[0] == "variables" and "object" in value)
        or next(tensors_in(value), None) is not None
        for key, value in values.items()
    )


def _named(keys: Iterable[Key]) -> str:
    """What the script calls them."""
    names = [
        name.removeprefix("__main__.") if part == "variables" else f"run.state[{name!r}]"
        for part, name in keys
    ]
    return listed(names[:MAX_NAMED])


def cut_in_two(size: int, least: int) -> tuple[range, range]:
    """The places of a batch that each of two workers has: `least` or more, and two where there are three."""
    num_first = max(least, min(round(FIRST_SHARE * size), size - 2))
    return range(num_first), range(num_first, size)


def part_of(share: Share, *parts: range) -> Share:
    """Parts of a share of one pass, each in a pass, as of a step that has the samples of this pass alone."""
    whole, passes = share.passes[0], []
    for places in parts:
        own, first = whole.indices[places.start : places.stop], whole.first + places.start
        drawn_from = None if whole.drawn_from is None else whole.drawn_from + places.start
        sizes = {"num_local": len(own), "num_global": whole.num_local}
        passes.append(replace(whole, first=first, indices=own, drawn_from=drawn_from, **sizes))
    return replace(share, passes=tuple(passes))
