"""What cannot be handled of a batch is set aside, so that all else goes on.

A batch is in the journal before it is handled: without this, an error would come again with each start.
The head is brought back to where it was before the batch, so nothing of what had been half done stays. Then
the batch is handled without the event that the error is about, and the journal keeps it as it was handled:
handled again, it leads to the same.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence

import msgspec

from swell.core.platform_core import Fault, PlatformCore
from swell.live.recovery import load
from swell.model.command import AnyCommand
from swell.model.event import AnyEvent, EventSetAside, JobEvent, PlanFailed
from swell.policies.registry import UnknownPolicy
from swell.store.journal import SqlJournal

#: Errors that say nothing of the batch: the process ends, and the next one handles it.
FOREIGN = (MemoryError, UnknownPolicy)

#: Characters of a trace, from its end, that are kept.
MOST_TRACE = 4000

log = logging.getLogger("swell.platform")


class PoisonGuard:
    """Handles what the head cannot: of such a batch, all but what is wrong."""

    def __init__(
        self, core: PlatformCore, store: SqlJournal, amend: Callable[[int, Sequence[AnyEvent]], None]
    ) -> None:
        """Args: amend: keeps a batch in the place of the one of that number."""
        self._core, self._store, self._amend = core, store, amend

    def mend(self, seq: int, batch: Sequence[AnyEvent], error: Exception) -> list[AnyCommand]:
        """Handle a batch on which the head has just raised `error`; the journal has it so from now on.

        Raises the error if nothing helps, or if it says nothing of the batch.
        """
        while True:
            if isinstance(error, FOREIGN):
                raise error
            log.error("batch %d cannot be handled as it is", seq, exc_info=error)
            amended = _amended(batch, self._core.fault, error)
            if amended is None:
                raise error
            batch, before = amended, self._before(seq)
            if before is not None:
                self._core.become(before)
            try:
                commands = self._core.handle_more(batch) if before is None else self._core.handle(batch)
            except Exception as another:  # noqa: BLE001 - whatever a policy or a defect raises
                error = another
                continue
            self._amend(seq, batch)
            if before is None:  # what was commanded before the error is lost
                commands = [*(one for one in self._core.under_way() if one not in commands), *commands]
            return commands

    def _before(self, seq: int) -> PlatformCore | None:
        """Return the head as it was before that batch, made of the journal.

        None: a batch that was handled without an error raises one now, as if a policy has changed meanwhile.
        Then the head goes on from amid the batch: it hears once more what it has heard of it, as an executor
        may say it, and says again what it has said, as after a restart.
        """
        core, history = self._core.sibling(), self._store.history()
        try:
            load(core, history.state)
            for entry in history.entries:
                if entry.seq >= seq:
                    break
                core.handle(entry.batch)
        except FOREIGN:
            raise
        except Exception:
            log.exception("the head cannot be brought back to where it was before batch %d", seq)
            return None
        return core


def _amended(batch: Sequence[AnyEvent], fault: Fault, error: Exception) -> Sequence[AnyEvent] | None:
    """Return what is to take the place of the batch; None: there is nothing left to try."""
    if fault.culprit is not None:
        return _without(batch, fault.culprit, error)
    if any(isinstance(event, PlanFailed) and event.kind == fault.kind for event in batch):
        return None
    why, trace = told(error)
    at_s = batch[-1].at_s
    return [*batch, PlanFailed(at_s=at_s, kind=fault.kind, why=why, trace=trace)]


def _without(
    batch: Sequence[AnyEvent], culprit: AnyEvent | str, error: Exception
) -> Sequence[AnyEvent] | None:
    """Return the batch without an event, or with the end of a job; None if that has been tried."""
    why, trace = told(error)
    place = next((place for place, event in enumerate(batch) if event is culprit), None)
    if place is not None:
        event = batch[place]
        if isinstance(event, EventSetAside):  # its job cannot be ended either
            aside = None if not event.job_id else msgspec.structs.replace(event, job_id="")
        else:
            job_id = event.job_id if isinstance(event, JobEvent) else ""
            aside = EventSetAside(at_s=event.at_s, job_id=job_id, event=event, why=why, trace=trace)
        return None if aside is None else [*batch[:place], aside, *batch[place + 1 :]]
    job_id = culprit if isinstance(culprit, str) else getattr(culprit, "job_id", "")
    if not job_id or any(isinstance(event, EventSetAside) and event.job_id == job_id for event in batch):
        return None
    verdicts = [event for event in batch if isinstance(event, PlanFailed)]
    events = [event for event in batch if not isinstance(event, PlanFailed)]
    return [*events, EventSetAside(at_s=batch[-1].at_s, job_id=job_id, why=why, trace=trace), *verdicts]


def told(error: BaseException) -> tuple[str, str]:
    """Return an error in one line, and as a trace."""
    lines = "".join(traceback.format_exception_only(error)).strip().splitlines()
    return lines[-1], "".join(traceback.format_exception(error))[-MOST_TRACE:]
