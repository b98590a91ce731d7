"""What is told of a step that differs between one worker and two.

Few causes are named: those that the numbers of the compared steps show. Of others it is said what differs.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from swell.script_facts import ScriptFinding

PAGE = (
    "causes and changes stand in docs/how-to/make-a-script-elastic.md, `When the result depends on the size`"
)


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


_TEXTS = {
    "hidden-state": "the same batch gives another gradient the second time: the step depends on what the "
    "script keeps and changes by itself, which each worker has for itself{kept}; take it from `run.steps` or "
    f"from what `run.step` returns, or keep it out of the loss ({PAGE})",
    "batch-buffer": "the model's buffer '{buffer}' is set from the batch, and each worker has another part "
    "of it; set it from values that are averaged over the workers, or keep it out of the loss",
    "each-pass": "{names} changes with each pass of a step, and a worker that has more of its samples makes "
    "more passes; put what belongs to a step after `run.step`, under `if run.has_stepped:`",
    "sum-loss": "the loss is a sum over the batch's samples, maybe divided by a constant, so two workers' "
    'average is half of it; divide by `len(batch)`, or declare it: `elastic(..., loss_reduction="sum")`',
    "weighted-mean": "the loss is a mean over more than samples (tokens, masks or weights), and workers are "
    "weighted by their samples; tell what it is a mean over: `run.step(loss, weight=N)`, N the sum of the "
    "weights, or the number of tokens that count",
    "batch-dependent": "a batch's gradient is not the mean of its samples' gradients, so it depends on how "
    "many samples a worker has: make the loss a mean over samples that does not compare them with each "
    "other, have torch's `clip_grad_norm_` or `clip_grad_value_` in place of what changes gradients by hand, "
    f"or keep to one worker ({PAGE})",
    "part-of-batch": "the script fails with a part of a batch, and not with all of it ({error}): each of "
    "several workers gets a part, and parts differ in size. Take sizes from the batch, as `len(x)`, and keep "
    "nothing from one batch to the next whose size is that of a batch",
    "batch-statistics": "a batch norm takes its statistics from each worker's own part of the batch; that is "
    "a known difference, as in data-parallel training elsewhere: `deterministic=True` takes it away, where "
    "there is one optimizer, or a norm within samples, such as GroupNorm or LayerNorm",
    "random-draws": "dropout or other random numbers are drawn for each worker's part of the batch; that is "
    "a known difference, of the numbers and not of what is learnt: `deterministic=True` takes it away, where "
    "there is one optimizer, or drawing in the dataset, for each sample",
}
