"""Numbers that a script reports and that are none any more: its owner is told, once of each."""

from __future__ import annotations

import math
from collections.abc import Mapping

REMEDY = (
    "lower the learning rate, clip gradients (elastic(clip_grad_norm=1.0)) or look for such values in the "
    "data; with --stop-on-nan a job ends there, with its last good state saved"
)


#: No name of a metric: it has a blank.
LOSS = "the loss"


class Divergence:
    """Warnings of values that one gang has reported as not finite: one for each name.

    The job's next gang, which goes on from a checkpoint, warns of them again.
    """

    def __init__(self, stops_on_nan: bool) -> None:
        self._told = {LOSS} if stops_on_nan else set()  # how the job failed tells it then

    def note(
        self, steps: int, loss: float | None, odd_since: int | None, metrics: Mapping[str, float]
    ) -> list[str]:
        """What its owner is to be told of this report, which was made after `steps` steps."""
        told = []
        if loss is not None and not math.isfinite(loss) and self._is_new(LOSS):
            told.append(
                f"the loss is {loss} since step {steps if odd_since is None else odd_since}: {REMEDY}"
            )
        for name, value in metrics.items():
            if not math.isfinite(value) and self._is_new(name):
                told.append(f"the script reports {name} as {value} after step {steps}")
        return told

    def _is_new(self, name: str) -> bool:
        is_new = name not in self._told
        self._told.add(name)
        return is_new
