"""The answer of policies that admit or refuse, and then serve in a simple order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
        refusal = self.refusals.get(row)
        return self.others.reason(row) if refusal is None else wording.refused(refusal)
