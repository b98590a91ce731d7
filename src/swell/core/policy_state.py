"""What a policy is given beside the jobs: its memory, and word that another of its periods has begun."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec


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

        Its memory is kept as JSON would give it back: what it finds next time is the same whether the head
        has been restarted or not.

        Raises:
            TypeError: the memory holds what JSON cannot: numbers of numpy, for instance.
        """
        self.memory = msgspec.json.decode(msgspec.json.encode(memory)) if memory else {}
        if self.is_due:
            self.due_s = math.inf if math.isinf(period_s) else (self.now_s // period_s + 1) * period_s
