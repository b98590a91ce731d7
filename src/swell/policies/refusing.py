"""The answer of policies that admit or refuse, and then serve in a simple order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from swell.arrays import FloatArray, IntArray
from swell.model.plan import Account, Allocation, Reason, Refusal
from swell.policies import wording


def with_refusals(allocation: Allocation, refusals: Mapping[int, Refusal], floor: IntArray) -> Allocation:
    """The same sizes; who is in `refusals` is told so, and `floor` (J,) workers are what promises need."""
    return replace(allocation, floor=floor, refusals=refusals, account=_Account(allocation.account, refusals))


@dataclass(frozen=True)
class _Account:
    others: Account
    refusals: Mapping[int, Refusal]

    @property
    def codes(self) -> Sequence[str]:
        return ["refused" if row in self.refusals else code for row, code in enumerate(self.others.codes)]

    @property
    def finish_s(self) -> FloatArray:
        return self.others.finish_s

    def reason(self, row: int) -> Reason:
        if row in self.refusals:
            return wording.refused(self.refusals[row])
        return self.others.reason(row)


class LazyRefusals(Mapping[int, Refusal]):
    """Refusals by row, each worked out when it is first read: a counter-offer takes longer than admission."""

    def __init__(self) -> None:
        self._answers: dict[int, Callable[[], Refusal]] = {}

    def add(self, row: int, answer: Callable[[], Refusal]) -> None:
        """Refuse the job of this row; `answer` is called once at most."""
        self._answers[row] = cache(answer)

    def __getitem__(self, row: int) -> Refusal:
        return self._answers[row]()

    def __contains__(self, row: object) -> bool:
        return row in self._answers

    def __iter__(self) -> Iterator[int]:
        return iter(self._answers)

    def __len__(self) -> int:
        return len(self._answers)
