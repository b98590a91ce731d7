"""The fewest workers whose parts of a divided state fit into memory: how a trial run finds them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class LeastWorkersSearch:
    """The worker of a trial run keeps as much as one of `num` workers; if that is too much, of twice as many.

    So a trial run needs no more than one device, and finds the smallest number that the job names times a
    power of two, or the most that it may have. With mirrors, one of two workers has everything: from one it
    goes to one of four.
    """

    num: int
    most: int
    num_holders: int = 0  #: workers that have each part; 0: the state is not divided, as far as is known
    is_raised: bool = False  #: fewer than `num` have too little memory

    def raise_num(self) -> bool:
        """Memory has run out. Returns whether there are more workers to try."""
        num = min(2 * max(self.num, self.num_holders), self.most)
        if not self.num_holders or num <= max(self.num, self.num_holders):  # of so few each has everything
            return False
        self.num = num
        self.is_raised = True
        return True

    @property
    def known(self) -> int:
        """What a profile tells of it; 1: no number was too small."""
        return self.num if self.is_raised else 1

    def told_lack(self, failure: str) -> str:
        """Why the job fails that needs more memory with any number of workers that was tried."""
        if not self.is_raised:
            return failure
        return (
            f"one of {self.num} workers, the most that the job can have here, has too little memory for its "
            "part of the state: let the job have more workers or add nodes, make the model smaller, compute "
            f"in half precision, or use larger devices; {failure}"
        )
