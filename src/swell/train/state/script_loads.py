"""A state that a job goes on from holds over what the script loads after `elastic`.

A script that calls `load_state_dict` between `elastic` and its loop, with weights that it begins with or with
a checkpoint of its own, does so in each process: one that joins, or goes on later, has got a state before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache, wraps
from types import FrameType
from typing import Any

import torch
from torch import nn

from swell.train.link.code_paths import place_of

_guards: list[LoadGuard] = []  # that are open


class LoadGuard:
    """Keeps what was restored until the script begins with it, whatever it loads before that."""

    def __init__(
        self,
        model: nn.Module,
        optimizers: Sequence[torch.optim.Optimizer],
        keep: Callable[[], Any],
        put_back: Callable[[Any], object],
    ) -> None:
        """
        Args:
            keep: copies what was restored; it is called where the script loads something.
            put_back: gives it back.
        """
        self._model, self._optimizers, self._keep, self._put_back = model, optimizers, keep, put_back
        self._kept: Any = None
        self._versions = self._versions_now()
        _watch_loads()
        _guards.append(self)

    def note(self, loading: object, frame: FrameType) -> None:
        """The script is about to load a state into a module or an optimizer.

        If it has changed the model since, as one that has tried rates does, it puts back what there was.
        """
        is_ours = any(loading is one for one in (*self._model.modules(), *self._optimizers))
        if self._kept is not None or not is_ours or self._versions != self._versions_now():
            return
        self._kept = self._keep()
        if place := place_of(frame):
            sys.stderr.write(
                f"swell: {place} loads a state after elastic(), which gave this worker the job's: that one "
                "holds. Load before elastic() what the job is to begin with\n"
            )

    def close(self) -> None:
        """The script begins: what it has loaded since is forgotten."""
        _guards.remove(self)
        if self._kept is not None:
            self._put_back(self._kept)

    def _versions_now(self) -> list[int]:
        return [tensor._version for tensor in (*self._model.parameters(), *self._model.buffers())]


@cache
def _watch_loads() -> None:
    nn.Module.load_state_dict = _noting(nn.Module.load_state_dict)  # type: ignore[method-assign]
    optimizers = torch.optim.Optimizer
    optimizers.load_state_dict = _noting(optimizers.load_state_dict)  # type: ignore[method-assign]


def _noting(load: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(load)
    def load_noted(thing: object, *args: Any, **options: Any) -> Any:
        for guard in _guards:
            guard.note(thing, sys._getframe(1))
        return load(thing, *args, **options)

    return load_noted
