"""What a policy is given beside the jobs: its memory, and word that another of its periods has begun."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec


class InvalidMemory(TypeError):
    """A policy wants to remember what would not be the same after a restart; the text names it."""


class PolicyState(msgspec.Struct, kw_only=True):
    """Of the policy that decides now. Another one begins with none of it."""

    name: str = ""
    memory: dict[str, Any] = {}
    due_s: float = -math.inf  #: when its next period begins
    now_s: float = -math.inf

    @property
    def is_due(self) -> bool:
        return self.now_s >= self.due_s

    def begin(self, name: str, now_s: float) -> None:
        """This one is asked now."""
        if name != self.name:
            self.name, self.memory, self.due_s = name, {}, -math.inf
        self.now_s = now_s

    def end(self, memory: Mapping[str, Any], period_s: float) -> None:
        """It has answered. Periods begin at whole multiples of their length.

        Raises:
            InvalidMemory: it holds what JSON cannot, or gives back as something else.
        """
        self.memory = _as_kept(self.name, memory) if memory else {}
        if self.is_due:
            self.due_s = math.inf if math.isinf(period_s) else (self.now_s // period_s + 1) * period_s


def _as_kept(policy: str, memory: Mapping[str, Any]) -> dict[str, Any]:
    """A copy by way of JSON, as a fold would give it back. Raises InvalidMemory."""
    remedy = "use words as keys, and plain numbers, words, lists and mappings as values"
    try:
        kept: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(memory))
    except (TypeError, ValueError) as error:
        raise InvalidMemory(f"the memory of policy {policy!r} cannot be kept ({error}); {remedy}") from error
    for name, value in memory.items():
        if kept.get(name) != value:
            raise InvalidMemory(
                f"the memory of policy {policy!r} would be another one after a restart: {name!r} holds "
                f"{value!r}, and JSON gives back {kept.get(name)!r}; {remedy}"
            )
    return kept
