"""What is decided where a policy ends in an error: the last plan is kept, or a job is to blame and ends."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from swell.core.within_quotas import decide_within_quotas
from swell.model.command import AnyCommand
from swell.model.event import AnyEvent, PlanFailed
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.policy import Policy

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

    To go on is to handle the batch from now on with `verdicts` at its end: see `PlanQuestions`.
    """

    def __init__(self, commands: Sequence[AnyCommand], verdicts: Sequence[PlanFailed]) -> None:
        super().__init__("; ".join(verdict.why for verdict in verdicts))
        self.commands, self.verdicts = list(commands), tuple(verdicts)


class PlanQuestions(msgspec.Struct, kw_only=True):
    """The questions to the policy of a core within a batch, and what was decided where one ended in an error.

    A batch that is handled again has these verdicts at its end, and such a question is not asked again.
    """

    known: list[PlanFailed] = []  #: from when the batch was handled first, and still to come
    failures: list[NoPlan] = []  #: whose verdicts are new, each with its error as the cause
    num_answers: int = 0

    def take_known(self, batch: Sequence[AnyEvent]) -> list[AnyEvent]:
        """Take the verdicts out of a part of the batch; returns its other events."""
        self.known += [event for event in batch if isinstance(event, PlanFailed)]
        return [event for event in batch if not isinstance(event, PlanFailed)]

    def ask(
        self,
        policy: Policy,
        snapshot: Snapshot,
        kind: str,
        blame: Callable[[Policy, Snapshot], str],
    ) -> tuple[Snapshot, Allocation]:
        """Return the policy's answer, and what it was asked; see `decide_within_quotas`.

        Args:
            kind: of the devices that it decides on.
            blame: tells the id of the job that is the cause of an error; empty: that is not known.

        Raises:
            NoPlan: the policy ends in an error, or did when this batch was handled first.
        """
        if self.known and self.known[0].num_asked == self.num_answers:
            raise NoPlan(self.known.pop(0))
        try:
            answer = decide_within_quotas(policy, snapshot)
        except MemoryError:
            raise
        except Exception as error:
            why, trace = told(error)
            verdict = PlanFailed(
                at_s=snapshot.now_s,
                kind=kind,
                job_id=blame(policy, snapshot),
                num_asked=self.num_answers,
                why=why,
                trace=trace,
            )
            self.failures.append(NoPlan(verdict))
            raise self.failures[-1] from error
        self.num_answers += 1
        return answer


def blamed(policy: Policy, snapshot: Snapshot, suspects: Iterable[str], is_sole_enough: bool) -> str:
    """Return the first of these jobs without which the policy answers; empty: it is none of them.

    Args:
        is_sole_enough: the only job of the snapshot may be to blame, too.
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
    """Return an error in one line, and as a trace."""
    lines = "".join(traceback.format_exception_only(error)).strip().splitlines()
    return lines[-1], "".join(traceback.format_exception(error))[-MOST_TRACE:]
