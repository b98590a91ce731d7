"""A state that a job goes on from holds over what the script loads after `elastic`.

A script that calls `load_state_dict` between `elastic` and its loop, with weights that it begins with or with
a checkpoint of its own, does so in each process: one that joins, or goes on later, has got a state before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from types import FrameType
from typing import Any

from torch import nn
from torch.nn.modules.module import _IncompatibleKeys

from swell.train.link.code_paths import place_of

_guards: list[LoadGuard] = []  # that are open
_watched: set[type] = set()  # classes of what they keep


class LoadGuard:
    """Keeps what was restored until the script begins with it: what it loads before that is left out."""

    def __init__(self, model: nn.Module, others: Sequence[Any]) -> None:
        """`others`: that have a state, beside the model."""
        self._model, self._others = model, others
        self._versions, self._is_told = self._versions_now(), False
        for kind in (nn.Module, *map(type, others)):
            if kind not in _watched:
                _watched.add(kind)
                kind.load_state_dict = _watching(kind.load_state_dict)  # type: ignore[attr-defined]
        _guards.append(self)

    def close(self) -> None:
        """The script begins: what it loads from now on counts."""
        _guards.remove(self)

    def leaves_out(self, part: object, frame: FrameType) -> bool:
        """Whether the script is to load nothing into this part.

        If it has changed the model since, as one that has tried rates does, it puts back what there was.
        """
        is_ours = any(part is each for each in (*self._model.modules(), *self._others))
        if not is_ours or self._versions != self._versions_now():
            return False
        if not self._is_told and (place := place_of(frame)):
            self._is_told = True
            sys.stderr.write(
                f"swell: {place} loads a state after elastic(), which gave this worker the job's: that one "
                "holds. Load before elastic() what the job is to begin with\n"
            )
        return True

    def _versions_now(self) -> list[int]:
        return [tensor._version for tensor in (*self._model.parameters(), *self._model.buffers())]


def _watching(load: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(load)
    def load_unless_left_out(part: Any, *args: Any, **options: Any) -> Any:
        if any(guard.leaves_out(part, sys._getframe(1)) for guard in _guards):
            return _IncompatibleKeys([], []) if isinstance(part, nn.Module) else None
        return load(part, *args, **options)

    return load_unless_left_out
