"""What is decided where a policy ends in an error: the last plan is kept, or a job is to blame and ends."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Sequence

import numpy as np

from swell.core.ports import Decides
from swell.model.command import AnyCommand
from swell.model.event import PlanFailed
from swell.model.snapshot import Snapshot

#: After so many plans in a row that ended in an error, all jobs are suspects, and not newcomers alone.
PATIENCE = 3
#: Of which each is tried to be the cause.
MOST_SUSPECTS = 10
#: Characters of a trace, from its end, that are kept.
MOST_TRACE = 4000


class NoPlan(Exception):
    """The policy does not answer."""

    def __init__(self, verdict: PlanFailed) -> None:
        super().__init__(verdict.why)
        self.verdict = verdict


class PlanError(RuntimeError):
    """A batch was handled, and in it a policy has ended in an error, which is the cause of this one.

    Who goes on handles the batch from now on with `verdicts` at its end: the policy is not asked again then.
    """

    def __init__(self, commands: Sequence[AnyCommand], verdicts: Sequence[PlanFailed]) -> None:
        super().__init__("; ".join(verdict.why for verdict in verdicts))
        self.commands, self.verdicts = list(commands), tuple(verdicts)


def blamed(policy: Decides, snapshot: Snapshot, suspects: Iterable[str], is_sole_enough: bool) -> str:
    """The first of these jobs without which the policy answers; empty: it is none of them.

    Args:
        is_sole_enough: a job that there is no other beside may be to blame, too.
    """
    for job_id in suspects:
        others = np.flatnonzero(np.arange(snapshot.num_jobs) != snapshot.row_of[job_id])
        if not (len(others) or is_sole_enough):
            continue
        try:
            policy.decide(snapshot.of_jobs(others, snapshot.num_devices))
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001, S112 - so it is not because of this job
            continue
        return job_id
    return ""


def told(error: BaseException) -> tuple[str, str]:
    """An error in one line, and as a trace."""
    lines = "".join(traceback.format_exception_only(error)).strip().splitlines()
    return lines[-1], "".join(traceback.format_exception(error))[-MOST_TRACE:]
