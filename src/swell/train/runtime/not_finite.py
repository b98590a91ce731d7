"""A loss that is no number any more: told, or the end of the run where its owner asked for that."""

from __future__ import annotations

import sys
from pathlib import Path

from swell.train.state.train_state import TrainState

REMEDY = "lower the learning rate, clip gradients (clip_grad_norm_) or look for such values in the data"


class LossNotFinite(ArithmeticError):
    """The loss of a step is NaN or infinite. Its update was not applied: the state is that before it."""


def not_finite(loss: float, state: TrainState, folder: Path, kept_steps: int | None) -> LossNotFinite:
    """The error to raise, the same on every worker.

    Args:
        folder: of the checkpoints.
        kept_steps: of the newest one; None if none could be written, or if that is not known.
    """
    if kept_steps is None:
        kept = f"no state is known to be saved in {folder}"
    elif kept_steps == state.steps:
        kept = f"the state after step {kept_steps} is saved in {folder}"
    else:
        kept = (
            f"the parameters were no numbers even before it, and the last good state is that of step "
            f"{kept_steps} in {folder}"
        )
    return LossNotFinite(
        f"the loss is {loss} in step {state.steps + 1}, whose update was not applied; {kept}. "
        f"{REMEDY[0].upper()}{REMEDY[1:]}"
    )


def say(loss: float, since: int) -> None:
    """Print to stderr that the loss is NaN or infinite, for a user of a run without an agent.

    This is no Python warning: scripts silence those, and Python shows a repeated one only once.
    """
    sys.stderr.write(
        f"swell: the loss is {loss} since step {since}, and training goes on: {REMEDY}; "
        "a job may end before the update of such a step (`--stop-on-nan`)\n"
    )
