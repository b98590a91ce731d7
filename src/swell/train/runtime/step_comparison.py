"""Steps of a trial run that are made again, each from the same state, and compared.

Everything that lasts is put back: the training state, and what the script keeps in variables. So whatever
differs afterwards comes of what was changed between the two on purpose, or of what is no part of the state.
Few causes are named: those that the numbers of the compared steps show. Of others it is said what differs.
"""

from __future__ import annotations

import dis
import math
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from swell.script_facts import NOT_RESUMED, ScriptFinding
from swell.train.collective.group import is_out_of_memory
from swell.train.collective.pieces import as_real, local
from swell.train.data.sample_schedule import Share
from swell.train.data.stream_reader import NUM_BACK
from swell.train.link.code_paths import is_feeding, place_of
from swell.train.runtime.host import ShownCounts, Task
from swell.train.runtime.run import started
from swell.train.runtime.witness import PassNote, StepNotes
from swell.train.state import codec
from swell.train.state.script_values import copied, kind_of

#: The name of what fails with a part of a batch.
PART_OF_BATCH = "part-of-batch"
#: That of what comes to something else in a new process.
SCRIPT_STATE = "script-state"
#: Part of the training state, and name in it.
Key = tuple[str, str]
#: What a worker computes in the step of this number.
ShareOf = Callable[[int], Share]
#: Yields the share of each coming step, and None to go on when the script asks for the next batch.
Steps = Generator[ShareOf | None, None, list[ScriptFinding]]

#: Numbers of each parameter's gradient that are compared, evenly spread over it.
MOST_COMPARED = 1 << 18
#: What rounding may come to, as a share of the gradients' norm; more is a difference.
_DOUBLE, _SINGLE, _HALF = 1e-8, 5e-4, 1e-1
_SHORT_PRODUCTS = 2e-2  # of a GPU with TF32, whose products have 11 bits
PAGE = (
    "causes and changes stand in docs/how-to/make-a-script-elastic.md, `When the result depends on the size`"
)
_TEXTS = {
    "hidden-state": "the same batch gives another gradient the second time: the step depends on what the "
    "script keeps and changes by itself, which each worker has for itself{kept}; take it from the number of "
    "steps (`run.steps`) or from the loss that `backward` returns, or keep it out of the loss "
    f"({PAGE})",
    "batch-buffer": "the model's buffer '{buffer}' is set from the batch, and each worker has another part "
    "of it; set it from values that are averaged over the workers, or keep it out of the loss",
    "each-pass": "{names} changes with each pass of a step, and a worker that has more of its samples makes "
    "more passes; put what belongs to a step after its last pass, once the optimizer has stepped: under `if "
    "run.has_stepped:`, `if accelerator.sync_gradients:` or in a callback's hook for the end of a step",
    "sum-loss": "the loss is a sum over the batch's samples, maybe divided by a constant, so two workers' "
    "average is half of it; divide by `len(batch)`, or, where the script calls `elastic`, declare it: "
    '`elastic(..., loss_reduction="sum")`',
    "weighted-mean": "the loss is a mean over more than samples (tokens, masks or weights), and workers are "
    "weighted by their samples; tell what it is a mean over: `backward(loss, weight=N)`, N the sum of the "
    "weights, or the number of tokens that count",
    "batch-dependent": "a batch's gradient is not the mean of its samples' gradients, so it depends on how "
    "many samples a worker has: make the loss a mean over samples that does not compare them with each "
    "other, change gradients between the backward pass and the optimizer's step and not in hooks, or keep "
    f"to one worker ({PAGE})",
    PART_OF_BATCH: "the script fails with a part of a batch, and not with all of it ({error}): each of "
    "several workers gets a part, and parts differ in size. Take sizes from the batch, as `len(x)`, keep "
    "nothing from one batch to the next whose size is that of a batch, and ask `p.grad is not None` before a "
    "gradient is changed: a step in several passes has them in the last",
    SCRIPT_STATE: "a job of this script that is saved and goes on in a new process {what}. Something that "
    "the script counts, keeps or reads is neither saved with the job nor in a variable that can be put back, "
    "as an `enumerate`, a `range`, an iterator, a closure, a gradient that it does not clear in each step or "
    "a file that it reads back: keep it in `run.state`, in an object with a `state_dict` or in a plain "
    "attribute of a callback, or use the counts of steps and epochs of the loop, which go on, and have the "
    f"dataset give the same sample for an index in any process and at any time ({PAGE})",
    "unused-batches": "the loop over the batches of the job does not use the batch that it gets, and draws "
    "one of its own: each worker draws a whole one, so that a step has more samples on more workers. Put "
    "what makes a batch (get_batch, or the like) into a torch Dataset that gives one sample, with a "
    "DataLoader that has batch_size and, to draw with replacement, sampler=RandomSampler(dataset, "
    "replacement=True, num_samples=...)",
    "batch-statistics": "a batch norm takes its statistics from each worker's own part of the batch; that is "
    "a known difference, as in data-parallel training elsewhere: a norm within samples, such as GroupNorm or "
    "LayerNorm, takes it away, or in a script with one optimizer `elastic(..., deterministic=True)`",
    "random-draws": "dropout or other random numbers are drawn for each worker's part of the batch; that is "
    "a known difference, of the numbers and not of what is learnt: drawing in the dataset, for each sample, "
    "takes it away, or in a script with one optimizer `elastic(..., deterministic=True)`",
}


class StepComparison:
    """Steps of one trial run that are made again. Its subclasses have `steps`, which leads them."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._parameters = [p for p in task.state.model.parameters() if p.requires_grad]
        self._originals: dict[str, Any] = {}  # variables that the script begins its first batch with
        self._place = ""  # of what is found

    def _other(self, what: str) -> ScriptFinding:
        """The finding that a new process comes to something else."""
        return finding(SCRIPT_STATE, self._place, what=what)

    def _keep(self) -> None:
        self._kept = self._task.state.copy()

    def _put_back(self, carried: Mapping[Key, Any] | None = None) -> None:
        """Put back the kept state; variables that a new process would make itself are as at the beginning.

        Args:
            carried: values of the script to begin with instead of the kept ones.
        """
        state, (skeleton, tensors) = self._task.state, self._kept
        tree = codec.decode(skeleton, [tensor.clone() for tensor in tensors])
        for name in {*state.objects} - {*tree["objects"], *tree["values"]}:
            del state.objects[name]
        own = "" if state.scaler is None else kind_of(state.scaler)  # it is no variable any more
        originals = {name: value for name, value in self._originals.items() if value.get("kind") != own}
        tree["variables"] = {**copied(originals), **tree["variables"]}
        state.variables.delete_others(tree["variables"].keys())
        for (part, name), value in (carried or {}).items():
            tree[part] = {**tree[part], name: copied(value)}
        state.restore(tree)
        for parameter in self._parameters:
            parameter.grad = None


def tolerance_of(parameters: Sequence[torch.Tensor], computed: Iterable[torch.dtype] = ()) -> float:
    """What rounding may come to with these parameters, as a share of the gradients' norm.

    Args:
        computed: types in which the script computes otherwise, as under autocast.
    """
    dtypes = {*computed, *(parameter.dtype for parameter in parameters)}
    if dtypes & {torch.float16, torch.bfloat16}:
        return _HALF
    if dtypes <= {torch.float64, torch.complex128}:
        return _DOUBLE
    return _SHORT_PRODUCTS if any(parameter.is_cuda for parameter in parameters) else _SINGLE


def sampled(parameters: Sequence[nn.Parameter]) -> torch.Tensor:
    """Gradients in one vector on the CPU, in double precision; of large ones a part. Zeros where none is."""
    parts = []
    for parameter in parameters:
        step = max(1, parameter.numel() // MOST_COMPARED)
        gradient = None if parameter.grad is None else local(parameter.grad)
        if gradient is None:
            gradient = torch.zeros_like(local(parameter))
        elif gradient.layout != torch.strided:
            gradient = gradient.to_dense()
        parts.append(as_real(gradient.detach().reshape(-1)[::step]).reshape(-1).to("cpu", torch.float64))
    return torch.cat(parts)


def finding(name: str, place: str, holds: bool = True, **words: str) -> ScriptFinding:
    """Return a finding with its text, in which `words` stand."""
    return ScriptFinding(name=name, text=_TEXTS[name].format(**words), place=place, holds=holds)


def listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def cause_of(whole: torch.Tensor, first: torch.Tensor, second: torch.Tensor, tolerance: float) -> str | None:
    """The cause that the gradients of a whole batch and of its two parts show; None: they show none.

    The combination of the parts' that comes nearest to the whole batch's (least squares) is all of a sum, and
    of a mean with other weights than samples. Parts that differ from it by the same factor are of neither.
    """
    parts = torch.stack([first, second], dim=1)
    solved = torch.linalg.lstsq(parts, whole.unsqueeze(1), driver="gelsd").solution.squeeze(1)
    if float((whole - parts @ solved).norm()) > 2.0 * tolerance * max(float(whole.norm()), 1e-300):
        return None
    one, other = solved.tolist()
    bound = max(2.0 * tolerance, 1e-6)
    if abs(one - 1.0) <= bound and abs(other - 1.0) <= bound:
        return "sum-loss"
    return "weighted-mean" if abs(one + other - 1.0) <= bound else None


class FixedDraws(TorchDispatchMode):
    """While it is on, every draw of torch gives the same numbers to each sample.

    So two batches that differ in size alone are computed alike, as they would be without dropout and noise.
    What it does not know draws as ever.
    """

    has_others = False  #: something that it does not know has drawn
    num_drawn = 0  #: numbers

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        name = func.overloadpacket.__name__
        draws = name in _KNOWN or torch.Tag.nondeterministic_seeded in func.tags
        if not draws or is_feeding(sys._getframe(1)):
            return func(*args, **given)
        if name not in _KNOWN:
            self.has_others = True
            return func(*args, **given)
        if name == "native_dropout":
            return _dropped_out(*args)
        if name == "multinomial" and args[1] <= args[0].shape[-1]:
            return args[0].topk(args[1], dim=-1).indices
        drawn = func(*args, **given)  # of the right shape, type and device
        self.num_drawn += drawn.numel()
        if name == "randperm":
            return drawn.copy_(torch.arange(drawn.numel(), device=drawn.device))
        if name in _CHANCES:  # what it is on average: a dropout that is made of it changes nothing
            chances = [arg for arg in args if arg is not drawn and isinstance(arg, torch.Tensor | float)]
            return drawn.copy_(torch.as_tensor(chances[-1] if chances else 0.5))
        if name in _FILLS and drawn.numel():
            bounds = [arg for arg in args if isinstance(arg, int | float) and not isinstance(arg, bool)]
            generator = torch.Generator(drawn.device).manual_seed(0)
            row = torch.empty_like(drawn[:1] if drawn.dim() else drawn)
            drawn.copy_(getattr(row, _FILLS[name])(*bounds, generator=generator))
        return drawn


def _dropped_out(tensor: torch.Tensor, probability: float, *_: object) -> tuple[torch.Tensor, torch.Tensor]:
    scale = 0.0 if probability >= 1.0 else 1.0 / (1.0 - probability)  # as its backward pass scales
    return tensor * scale, torch.ones_like(tensor, dtype=torch.bool)


#: Functions that draw, and the method that draws the numbers of one sample in their place.
_FILLS = {
    **dict.fromkeys(("rand", "rand_like", "uniform_"), "uniform_"),
    **dict.fromkeys(("randn", "randn_like", "normal_"), "normal_"),
    **dict.fromkeys(("randint", "randint_like", "random_"), "random_"),
    "exponential_": "exponential_",
}
_CHANCES = {"bernoulli", "bernoulli_"}
_KNOWN = {*_FILLS, *_CHANCES, "native_dropout", "multinomial", "randperm"}


#: Steps that are made twice, at most.
NUM_STEPS = NUM_BACK
#: Fewer steps will do once they have taken as long as this.
LONG_S = 1.5
#: On a CPU the same step is the same but for rounding in the last bits.
CPU_SHARE = 1e-3


class ResumeCheck(StepComparison):
    """Whether a script that is stopped and goes on learns the same: it makes some steps twice.

    Before the second time the state that a checkpoint has is put back as in a new process. What is not in
    that state, as an `enumerate`, an iterator or a file, has gone on meanwhile: gradients, losses or learning
    rates are others. Without this `warmup_over_closure.py` and `next_count.py` of `tests/scripts/differs` go
    wrong in silence.
    """

    def __init__(
        self,
        task: Task,
        shown: ShownCounts,
        share_of: ShareOf,
        originals: Mapping[str, Any],
    ) -> None:
        """The script asks for a batch.

        Args:
            shown: what the script is told of its steps.
            share_of: of each step.
            originals: its variables as it had them before its first batch.
        """
        super().__init__(task)
        self._shown, self._share_of, self._originals = shown, share_of, dict(originals)
        is_cpu = not any(parameter.is_cuda for parameter in self._parameters)
        self._tolerance = tolerance_of(self._parameters) * (CPU_SHARE if is_cpu else 1.0)
        self.notes: StepNotes  #: of the step under way
        self._is_again = False
        frames = task.state.variables.frames()
        self._place = place_of(frames[0]) if frames else ""

    def steps(self) -> Steps:
        """Lead the steps, each of which goes on when its update is made. Return what was found."""
        task = self._task
        task.state.variables.put_waiting()  # of a comparison before this
        self._keep()
        shown_steps = self._shown.steps
        first = yield from self._make(NUM_STEPS, time.monotonic() + LONG_S)
        yield None
        counts = self._counts_of_next()
        try:
            self._put_back()
        except (RuntimeError, TypeError, ValueError, KeyError) as error:
            return [_not_tried(str(error))]
        self._shown.steps, self._is_again = shown_steps, True
        again = yield from self._make(len(first))
        yield None
        for number, results in enumerate(zip(first, again, strict=True), 1):
            for one, other in zip(*results, strict=False):
                if what := one.difference(other, self._tolerance):
                    return [self._other(f"is another one: it computes {what} in its step {number}")]
        counted = self._counts_of_next()
        if others := [name for name, count in counts.items() if counted.get(name) != count]:
            what = f"counts the batches that it takes with next() otherwise: {listed(others)}"
            return [self._other(what)]
        return []

    def _make(
        self, most: int, end_s: float = math.inf
    ) -> Generator[ShareOf | None, None, list[list[PassNote]]]:
        """Have the script make so many steps, or fewer if it is `end_s` before that."""
        share_of = partial(self._share_of)  # another one than before: batches are to be drawn again
        made: list[list[PassNote]] = []
        while len(made) < most and (not made or time.monotonic() <= end_s):
            self.notes = StepNotes(self._task.state)
            yield share_of
            made.append(self.notes.passes)
        return made

    def begin_step(self) -> None:
        """The script asks for a batch. A new process has no gradients when it gets its first one."""
        if self._is_again:
            for parameter in self._parameters:
                parameter.grad = None

    def finding_of(self, error: BaseException | None, line: str) -> ScriptFinding | None:
        """Return the finding of an error of the script; None: what is tried has not caused it.

        Args:
            error: None: the script has left its loop instead.
            line: the last one of the error's text.
        """
        if error is None:
            why = "the script leaves its loop after a few batches"
            return self._other("leaves its loop earlier") if self._is_again else _not_tried(why)
        return self._other(f"fails: {line}") if self._is_again and not is_out_of_memory(error) else None

    def _counts_of_next(self) -> dict[str, int]:
        """Return the whole numbers that the script keeps, if it takes its batches with `next`.

        Such a loop has a count of its own, as a rule. One over `run.epochs()` takes up what ends too early.
        """
        variables = self._task.state.variables
        frame = next(iter(variables.frames()), None)
        if frame is None or not started[-1].is_early():
            return {}
        if frame.f_code.co_code[frame.f_lasti] == dis.opmap["FOR_ITER"]:  # it waits for what a `for` gets
            return {}
        values = variables.values(frame)
        counts = {name: value["value"] for name, value in values.items() if type(value.get("value")) is int}
        return {name.removeprefix("__main__."): count for name, count in counts.items()}


def _not_tried(why: str) -> ScriptFinding:
    """Return the hint that going on from a checkpoint was not tried."""
    text = (
        f"going on from a checkpoint was not tried ({why.strip()}), so whether a worker that joins, and a "
        "job that goes on, learn the same is not known; what is in run.state goes on in any case"
    )
    return ScriptFinding(name=NOT_RESUMED, text=text, holds=False)
