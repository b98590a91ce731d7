"""What is known of a run's loss: its running mean, and since when it is no number.

That is told, or it is the end of the run, where its owner asked for that.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

#: Weight of the newest step in the running mean.
NEWEST_SHARE = 0.1
#: Losses that may wait on a GPU until somebody asks for them: reading one makes the processor wait.
MAX_UNREAD = 256
#: Steps whose losses are kept until they are told. A gang's leader tells them twice a second; another worker
#: keeps them for the case that it becomes leader because the leader has died.
MAX_UNTOLD = 2048
REMEDY = "lower the learning rate, clip gradients (clip_grad_norm_) or look for such values in the data"


class LossLog:
    """Takes the loss of each step. If `is_lazy`, it reads them when somebody asks, many at once."""

    def __init__(self, is_lazy: bool) -> None:
        self._is_lazy = is_lazy
        self._mean: float | None = None  # of the steps whose loss was a number
        self._odd: float | None = None  # the latest loss, if it is none
        self._since: int | None = None
        self._unread: list[tuple[int, torch.Tensor]] = []
        self._untold: deque[tuple[int, float]] = deque(maxlen=MAX_UNTOLD)
        self._last: float | None = None  # of the latest step
        #: Called with the loss and the step since when, at the first that is no number, and only then.
        self.tell_odd: Callable[[float, int], None] | None = None

    def add(self, step: int, loss: torch.Tensor) -> None:
        """`loss`, a tensor of shape (), is that of step `step`, counted from 1."""
        if not self._is_lazy:
            self._note(step, float(loss))
            return
        self._unread.append((step, loss.clone()))  # its memory may be used again by the next step
        if len(self._unread) >= MAX_UNREAD:
            self.read()

    @property
    def value(self) -> float | None:
        """The running mean; NaN or an infinity while the latest loss is one; None before the first step."""
        self.read()
        return self._mean if self._odd is None else self._odd

    @property
    def odd_since(self) -> int | None:
        """The step whose loss was the first of those that are no numbers; None while the latest is one."""
        self.read()
        return self._since

    def take_untold(self) -> list[tuple[int, float]]:
        """Step and loss of each step since the last call, as far as they are kept."""
        self.read()
        untold = list(self._untold)
        self._untold.clear()
        return untold

    def forget_told(self, steps: int | None) -> None:
        """Losses up to this step need not be told; None: none at all."""
        self.read()
        while self._untold and (steps is None or self._untold[0][0] <= steps):
            self._untold.popleft()

    def state(self) -> dict[str, Any]:
        self.read()
        return {"mean": self._mean, "odd": self._odd, "since": self._since, "last": self._last}

    def restore(self, state: dict[str, Any], steps: int) -> None:
        """Restore the log from its state after `steps` steps."""
        self.read()
        self._mean, self._odd, self._since = state["mean"], state["odd"], state["since"]
        self._last = state["last"]
        while self._untold and self._untold[-1][0] > steps:
            self._untold.pop()  # they are made again
        is_behind = not self._untold or self._untold[-1][0] < steps
        if self._last is not None and is_behind:  # the step that the group broke in: others have finished it
            self._untold.append((steps, self._last))

    def read(self) -> None:
        """Losses that wait on a GPU."""
        if self._unread:
            steps, losses = zip(*self._unread, strict=True)
            self._unread = []
            for step, loss in zip(steps, torch.stack(losses).tolist(), strict=True):
                self._note(step, loss)

    def _note(self, step: int, loss: float) -> None:
        self._untold.append((step, loss))
        self._last = loss
        if not math.isfinite(loss):
            self._odd = loss
            self._since = step if self._since is None else self._since
            if self.tell_odd is not None:
                self.tell_odd(loss, self._since)
                self.tell_odd = None
            return
        self._odd = self._since = None
        self._mean = loss if self._mean is None else self._mean + NEWEST_SHARE * (loss - self._mean)


class LossNotFinite(ArithmeticError):
    """The loss of a step is NaN or infinite. Its update was not applied: the state is that before it."""


def not_finite(loss: float, steps: int, folder: Path, kept_steps: int | None) -> LossNotFinite:
    """The error to raise, the same on every worker.

    Args:
        steps: of the state before it.
        folder: of the checkpoints.
        kept_steps: of the newest one; None if none could be written, or if that is not known.
    """
    if kept_steps is None:
        kept = f"no state is known to be saved in {folder}"
    elif kept_steps == steps:
        kept = f"the state after step {kept_steps} is saved in {folder}"
    else:
        kept = (
            f"the parameters were no numbers even before it, and the last good state is that of step "
            f"{kept_steps} in {folder}"
        )
    return LossNotFinite(
        f"the loss is {loss} in step {steps + 1}, whose update was not applied; {kept}. "
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
