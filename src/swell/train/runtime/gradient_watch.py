"""Whether a script changes gradients by hand between its backward pass and its step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from swell.train.runtime.gradient_differences import sampled


class GradientWatch:
    """Notes what the backward pass leaves in gradients, and copies it from the first change on."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._parameters = parameters
        self._is_copying = False
        self._left: dict[int, tuple[torch.Tensor, int]] = {}  # gradients and their versions
        self._copies: dict[int, torch.Tensor] = {}  # sampled
        self._hooks: list[RemovableHandle] = []

    def start(self) -> None:
        """Begin a step."""
        self.stop()
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(self._note) for parameter in self._parameters
        ]

    def stop(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._left, self._copies = [], {}, {}

    def _note(self, parameter: nn.Parameter) -> None:
        gradient = parameter.grad
        if gradient is None:  # a hook of the script has taken it
            return
        self._left[id(parameter)] = gradient, gradient._version
        if self._is_copying:
            self._copies[id(parameter)] = sampled([parameter])

    def before_change(self) -> torch.Tensor | None:
        """Return what the backward pass left, `sampled`; None if the script has not changed it.

        The first change of all is only noticed: what it changed is not known.
        """
        is_changed = any(
            parameter.grad is not None and self._is_changed(parameter) for parameter in self._parameters
        )
        if not is_changed:
            return None
        if not self._is_copying:
            self._is_copying = True
            return None
        return torch.cat([self._copy(parameter) for parameter in self._parameters])

    def _is_changed(self, parameter: nn.Parameter) -> bool:
        left, version = self._left.get(id(parameter), (None, 0))
        return left is not None and (left is not parameter.grad or left._version != version)

    def _copy(self, parameter: nn.Parameter) -> torch.Tensor:
        copied = self._copies.get(id(parameter))
        return sampled([parameter]) if copied is None or parameter.grad is None else copied
