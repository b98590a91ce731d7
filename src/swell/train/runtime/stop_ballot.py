"""Vote of workers on the step after which all of them stop, for scripts that know nothing of Swell.

Each worker tells the agent how many steps it had ended when it was asked to stop. When all have, they stop
after the same step: `LARGEST_LEAD_STEPS` after the largest number, and one more. The last one to vote is no
further behind the others than that lead, so none has gone too far when the last number is known.
"""

from __future__ import annotations

from swell.train.link.observer_line import ObserverLine
from swell.wire import messages

#: Workers that compute together are never further apart than one step.
LARGEST_LEAD_STEPS = 1


class StopBallot:
    """One worker's vote, and what comes of all, which the agent's controller keeps.

    A vote goes out at the end of a step, not in the signal's handler, which may interrupt another message.
    """

    def __init__(self, line: ObserverLine) -> None:
        self._line = line
        self._is_asked = self._is_closed = False

    def cast(self) -> None:
        """This worker was asked to stop. For a signal's handler."""
        self._is_asked = True

    def is_due(self, num_steps: int) -> bool:
        """Whether this step, counted from 1, is the last one. To be called at its end.

        Where the agent does not answer, SIGTERM will come by itself.
        """
        if not self._is_asked or self._is_closed:
            return False
        told = self._line.ask(messages.StopVote(num_steps=num_steps))
        most = told.most if isinstance(told, messages.StopVotes) else None
        return most is not None and num_steps > most + LARGEST_LEAD_STEPS

    def close(self) -> None:
        """It was due: a second request changes nothing."""
        self._is_closed = True
