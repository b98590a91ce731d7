"""What is known of a run's loss: its running mean, and since when it is no number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

#: Weight of the newest step in the running mean.
NEWEST_SHARE = 0.1
#: Losses that may wait on a GPU until somebody asks for them: reading one makes the processor wait.
MAX_UNREAD = 256


class LossLog:
    """Takes the loss of each step. If `is_lazy`, it reads them when somebody asks, many at once."""

    def __init__(self, is_lazy: bool) -> None:
        self._is_lazy = is_lazy
        self._mean: float | None = None  # of the steps whose loss was a number
        self._odd: float | None = None  # the latest loss, if it is none
        self._since: int | None = None
        self._unread: list[tuple[int, torch.Tensor]] = []
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

    def state(self) -> dict[str, Any]:
        self.read()
        return {"mean": self._mean, "odd": self._odd, "since": self._since}

    def restore(self, state: dict[str, Any] | float | None) -> None:
        """Of a state, or of a plain mean as earlier versions had it."""
        known: dict[str, Any] = (
            state if isinstance(state, dict) else {"mean": state, "odd": None, "since": None}
        )
        self._mean, self._odd, self._since = known["mean"], known["odd"], known["since"]
        self._unread = []

    def read(self) -> None:
        """Losses that wait on a GPU."""
        if self._unread:
            steps, losses = zip(*self._unread, strict=True)
            self._unread = []
            for step, loss in zip(steps, torch.stack(losses).tolist(), strict=True):
                self._note(step, loss)

    def _note(self, step: int, loss: float) -> None:
        if not math.isfinite(loss):
            self._odd = loss
            self._since = step if self._since is None else self._since
            if self.tell_odd is not None:
                self.tell_odd(loss, self._since)
                self.tell_odd = None
            return
        self._odd = self._since = None
        self._mean = loss if self._mean is None else self._mean + NEWEST_SHARE * (loss - self._mean)
