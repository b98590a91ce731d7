"""What a policy is given beside the jobs: its memory, and word that another of its periods has begun."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from swell.model.snapshot import Memory, plain_memory


class InvalidMemory(TypeError):
    """A policy wants to remember what would not be the same after a restart; the text names it."""


class PolicyState(msgspec.Struct, kw_only=True, dict=True):
    """State of the policy that decides now; another policy begins with an empty one."""

    name: str = ""
    memory: dict[str, Any] = {}
    due_s: float = -math.inf  #: when its next period begins
    now_s: float = -math.inf

    def __post_init__(self) -> None:
        self._is_checked = False  #: a memory of this policy

    @property
    def is_due(self) -> bool:
        return self.now_s >= self.due_s

    def begin(self, name: str, now_s: float) -> None:
        """This one is asked now."""
        if name != self.name:
            self.name, self.memory, self.due_s, self._is_checked = name, {}, -math.inf, False
        self.now_s = now_s

    def end(self, memory: Memory, period_s: float) -> None:
        """It has answered. Periods begin at whole multiples of their length.

        The memory is kept as it is, and written down by `written`. The first one is looked at here, so that
        who writes a policy hears of a mistake at once.

        Raises:
            InvalidMemory: it holds what JSON cannot, or gives back as something else.
        """
        if memory and not self._is_checked:
            _as_kept(self.name, memory)
            self._is_checked = True
        self.memory = dict(memory)
        if self.is_due:
            self.due_s = math.inf if math.isinf(period_s) else (self.now_s // period_s + 1) * period_s

    def written(self) -> PolicyState:
        """The same with plain values, for a fold. Raises InvalidMemory."""
        return msgspec.structs.replace(self, memory=_as_kept(self.name, self.memory))


def _as_kept(policy: str, memory: Memory) -> dict[str, Any]:
    """A copy by way of JSON, as a fold would give it back. Raises InvalidMemory."""
    remedy = "use words as keys, and plain numbers, words, lists and mappings as values"
    plain = plain_memory(memory)
    try:
        kept: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plain))
    except (TypeError, ValueError) as error:
        raise InvalidMemory(f"the memory of policy {policy!r} cannot be kept ({error}); {remedy}") from error
    for name, value in plain.items():
        if kept.get(name) != value:
            raise InvalidMemory(
                f"the memory of policy {policy!r} would be another one after a restart: {name!r} holds "
                f"{value!r}, and JSON gives back {kept.get(name)!r}; {remedy}"
            )
    return kept
