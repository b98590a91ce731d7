"""Vote of workers on the step after which all of them stop, for scripts that know nothing of Swell.

Each worker notes how many steps it may have ended when it was asked to stop. When all have, they stop after
the same step: `LARGEST_LEAD_STEPS` after the largest number, and one more. The last one to vote is no further
behind the others than that lead, so none has gone too far when the last number can be read. A worker looks at
the end of each step, and relies on nothing that it has read before.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Protocol

from swell.train.link.observer_line import ObserverLine
from swell.wire import messages

#: Workers that compute together are never further apart than one step.
LARGEST_LEAD_STEPS = 1

_COUNT = struct.Struct("=q")


class StopBallot(Protocol):
    """One worker's vote, and what comes of all."""

    def cast(self, num_steps: int) -> None:
        """This worker was asked to stop, and may have ended so many steps. For a signal's handler."""

    def is_due(self, num_steps: int) -> bool:
        """Whether this step, counted from 1, is the last one. To be called at its end."""

    def close(self) -> None:
        """It was due: a second request changes nothing."""


def is_last(num_steps: int, most: int) -> bool:
    """`most`: the largest number of all votes."""
    return num_steps > most + LARGEST_LEAD_STEPS


class FileBallot:
    """Votes in a file, where all workers are on one host."""

    def __init__(self, path: Path, rank: int, num_workers: int) -> None:
        self._path = path
        self._place = rank * _COUNT.size
        self._num_workers = num_workers
        self._handle: int | None = None
        self._is_closed = False

    def cast(self, num_steps: int) -> None:
        """See `StopBallot`."""
        if self._handle is None and not self._is_closed:
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.pwrite(self._handle, _COUNT.pack(num_steps), self._place)

    def is_due(self, num_steps: int) -> bool:
        """See `StopBallot`."""
        if self._handle is None:
            return False
        size = self._num_workers * _COUNT.size
        counts = [
            count for (count,) in _COUNT.iter_unpack(os.pread(self._handle, size, 0).ljust(size, b"\0"))
        ]
        return all(counts) and is_last(num_steps, max(counts))

    def close(self) -> None:
        """See `StopBallot`."""
        if self._handle is not None:
            os.close(self._handle)
        self._handle, self._is_closed = None, True


class AgentBallot:
    """Votes that the agent's controller keeps, where workers are on several hosts.

    A vote goes out at the end of a step, not in the signal's handler, which may interrupt another message.
    """

    def __init__(self, line: ObserverLine) -> None:
        self._line = line
        self._is_asked = self._is_closed = False

    def cast(self, num_steps: int) -> None:
        """See `StopBallot`."""
        self._is_asked = True

    def is_due(self, num_steps: int) -> bool:
        """See `StopBallot`. Where the agent does not answer, SIGTERM will come by itself."""
        if not self._is_asked or self._is_closed:
            return False
        told = self._line.ask(messages.StopVote(num_steps=num_steps))
        return (
            isinstance(told, messages.StopVotes) and told.most is not None and is_last(num_steps, told.most)
        )

    def close(self) -> None:
        """See `StopBallot`."""
        self._is_closed = True
