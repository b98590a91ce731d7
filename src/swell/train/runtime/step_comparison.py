"""Steps of a trial run that are made again, each from the same state, and compared.

Everything that lasts is put back: the training state, and what the script keeps in variables. So whatever
differs afterwards comes of what was changed between the two on purpose, or of what is no part of the state.
Few causes are named: those that the numbers of the compared steps show. Of others it is said what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from swell.script_facts import ScriptFinding
from swell.train.collective.local_tensors import local
from swell.train.collective.norms import other_buffers
from swell.train.collective.pieces import as_real
from swell.train.data.sample_schedule import Share
from swell.train.runtime.host import Task
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


def buffers_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return copies of a model's buffers, those of batch norms apart."""
    return {name: tensor.clone() for name, tensor in other_buffers(model).items()}


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
