"""Back to where a killed daemon was, or the head before a batch that it cannot handle."""

from __future__ import annotations

import gc
import hashlib
import logging
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from swell.core.platform_core import Fault, PlatformCore
from swell.core.record import JobRecord
from swell.model.cluster import Cluster
from swell.model.command import AnyCommand, Reconfigure
from swell.model.event import (
    AnyEvent,
    EventSetAside,
    GangEnded,
    GangFound,
    JobEvent,
    NodeJoined,
    NodeLost,
    Outcome,
    PlanFailed,
    RunningWork,
)
from swell.model.job import Phase
from swell.model.node import Node
from swell.policies.registry import UnknownPolicy
from swell.store.journal import JournalEntry, SqlJournal

NO_AGENT = "there was no agent for so long that its lease had ended, and its workers with it"
NOT_BACK = "its host has not come back since the agent was gone"
GONE = "its processes were gone when the agent, or its machine, came back"


#: Errors that say nothing of the batch: the process ends, and the next one handles it.
FOREIGN = (MemoryError, UnknownPolicy)
#: Characters of a trace, from its end, that are kept.
MOST_TRACE = 4000
log = logging.getLogger("swell.platform")


class ReplayError(RuntimeError):
    """The journal cannot be followed to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What came of handling the journal's batches again."""

    num_batches: int
    num_commands: int
    num_compared: int  #: batches whose commands were noted at the time
    first_difference: int | None  #: number of the first batch that led to other commands now
    set_aside: tuple[EventSetAside, ...] = ()  #: the latest events that could not be handled, the latest last
    failed_plan: PlanFailed | None = None  #: why the last plan is still followed, if no other could be made

    @property
    def is_equal(self) -> bool:
        """Whether every batch that could be compared led to the same commands."""
        return self.first_difference is None


def replay(
    core: PlatformCore,
    entries: Iterable[JournalEntry],
    mend: Callable[[int, Sequence[AnyEvent], Exception], list[AnyCommand]] | None = None,
) -> Iterable[tuple[JournalEntry, list[AnyCommand]]]:
    """Handle every batch again; yields after each, while the core stands where it stood then.

    Args:
        mend: handles a batch, of that number, with which the core has just ended in that error.

    Raises:
        ReplayError: the head cannot handle a batch that was journalled; a policy is gone, or a defect.
    """
    for entry in entries:
        try:
            commands = core.handle(entry.batch)
        except UnknownPolicy as error:
            raise ReplayError(_about_missing(error)) from error
        except Exception as error:
            if mend is None:
                what = f"batch {entry.seq} of the journal cannot be handled ({error!r})"
                raise ReplayError(
                    f"{what}: `swell up` sets aside what is wrong in it, and goes on"
                ) from error
            try:
                commands = mend(entry.seq, entry.batch, error)
            except Exception as last:
                raise ReplayError(
                    f"batch {entry.seq} of the journal cannot be handled ({last!r}): this is a defect of "
                    "Swell, please report it with a copy of the state folder (or of a policy of your own: "
                    "mend it, and `swell up` goes on); `swell restore` goes back to a copy of before it"
                ) from last
        yield entry, commands


def load(core: PlatformCore, state: bytes | None) -> None:
    """Give a new head the folded state of a journal, if there is one.

    Raises:
        ReplayError: the head cannot read it.
    """
    if state is None:
        return
    try:
        with _no_search_for_garbage():
            core.load(state)
    except UnknownPolicy as error:
        raise ReplayError(_about_missing(error)) from error
    except Exception as error:
        raise ReplayError(
            f"the folded state in the journal cannot be read ({error!r}); `swell restore` (with the "
            "same --state) goes back to a copy"
        ) from error


def _about_missing(error: UnknownPolicy) -> str:
    return (
        f"the journal was written under policy {error.name!r}, which cannot be used now: install its "
        "package again, or repair it (`swell doctor` says why), and `swell up` goes on"
    )


@contextmanager
def _no_search_for_garbage() -> Iterator[None]:
    """Python would look again and again through jobs that are all there to stay: a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def digest(commands: Sequence[AnyCommand]) -> str:
    """What the journal keeps of a batch's commands: a replay that leads to the same has the same digest."""
    return hashlib.sha256(msgspec.json.encode(commands)).hexdigest()[:16]


def compare(replayed: Iterable[tuple[JournalEntry, list[AnyCommand]]]) -> Replay:
    """Whether the journal leads to the same commands."""
    num_batches = num_commands = num_compared = 0
    first_difference = None
    for entry, commands in replayed:
        num_batches += 1
        num_commands += len(commands)
        if entry.digest is None:
            continue
        num_compared += 1
        if entry.digest != digest(commands) and first_difference is None:
            first_difference = entry.seq
    return Replay(
        num_batches=num_batches,
        num_commands=num_commands,
        num_compared=num_compared,
        first_difference=first_difference,
    )


def changed_nodes(before: Cluster, nodes: Sequence[Node], now_s: float) -> list[AnyEvent]:
    """What makes the cluster the head remembers into the one that is there.

    All nodes of another kind are gone before the first new one joins: then the only kind may become another.
    """
    here = {node.name: node.kind for node in nodes}
    lost = [node.name for node in before.nodes if here.get(node.name) != node.kind]
    known = {node.name: node for node in before.nodes if node.name not in lost}
    joined = [node for node in nodes if known.get(node.name) != node]
    causes = {node.name: NOT_BACK for node in before.nodes if node.address}  # those that have joined
    return [
        *(NodeLost(at_s=now_s, name=name, cause=causes.get(name, "")) for name in lost),
        *(NodeJoined(at_s=now_s, node=node) for node in joined),
    ]


def explained_jobs(core: PlatformCore, work: RunningWork) -> frozenset[str]:
    """Jobs whose gang is what the head believes it to be, or whose end the head is about to hear."""
    believed = {record.id: record for record in core.holders()}
    live = {gang.job_id for gang in work.gangs if _explains(believed.get(gang.job_id), gang)}
    over = {
        job_id
        for job_id, generation in work.ended.items()
        if (record := believed.get(job_id)) and record.gang.generation <= generation <= record.generation
    }
    return frozenset(live | over)


def _explains(believed: JobRecord | None, found: GangFound) -> bool:
    """A journal is written before what it tells of is done: nothing that runs can be ahead of it."""
    if believed is None or found.generation > believed.generation:
        return False
    return set(found.devices) <= set(believed.gang.held)


def differences(core: PlatformCore, own: Sequence[Node], work: RunningWork, now_s: float) -> list[AnyEvent]:
    """What makes of the head's memory what is there: nodes, then gangs.

    It is asked when a daemon starts, and when its agent was killed and another one has come. Joined nodes
    that were given up meanwhile are lost before their gangs, which is no fault of the jobs, and join after
    them.

    Args:
        own: nodes of the platform's own machine.
    """
    # Nodes that were given up and are here again: each had a gang that is lost, and has no other. Hosts
    # outlive agents and daemons, and keep their gangs for the next ones as long as their leases last.
    alive = {gang.job_id for gang in work.gangs} | explained_jobs(core, work)
    missing = [one for one in core.holders() if one.id not in alive and one.phase is not Phase.STARTING]
    lost = {device for record in missing for device in record.gang.held}
    used = {device for gang in work.gangs for device in gang.devices}
    known = {node.name for node in core.cluster.nodes}
    left = [n for n in work.nodes if n.name in known and lost & {*n.devices} and not used & {*n.devices}]
    kept = {node.name for node in work.nodes}.union(work.away)
    return [
        *changed_nodes(core.cluster, (*own, *work.nodes), now_s),
        *(NodeLost(at_s=now_s, name=name, cause=NOT_BACK) for name in core.away - kept),
        *(NodeLost(at_s=now_s, name=node.name, cause=NO_AGENT) for node in left),
        *unlike_gangs(core, work, now_s),
        *(NodeJoined(at_s=now_s, node=node) for node in left),
    ]


def changes_again(core: PlatformCore, work: RunningWork) -> list[Reconfigure]:
    """Changes that the head was told are done, and of which hosts did not hear before their agent died."""
    found = {gang.job_id: gang.generation for gang in work.gangs}
    return [
        Reconfigure(job_id=record.id, generation=record.gang.generation, target=record.gang.members)
        for record in core.holders()
        if record.phase is Phase.RUNNING
        and found.get(record.id, record.gang.generation) < record.gang.generation
    ]


def unlike_gangs(core: PlatformCore, work: RunningWork, now_s: float) -> list[AnyEvent]:
    """Gangs that the head believes in and that are not there, and those that it cannot explain.

    A gang that was only being started never was: its job is planned again, on the devices that are there now.
    """
    explained = explained_jobs(core, work)
    found = [msgspec.structs.replace(gang, at_s=now_s) for gang in work.gangs if gang.job_id not in explained]
    is_found = {gang.job_id for gang in found}
    missing = [
        _missing(record, now_s)
        for record in core.holders()
        if record.id not in explained and record.id not in is_found
    ]
    gone = [
        # A gang that the journal does not explain has ended while no platform was there to hear it.
        GangEnded(at_s=now_s, job_id=job_id, generation=generation, outcome=Outcome.LOST, steps=0)
        for job_id, generation in core.unknown_gangs().items()
        if job_id not in work.jobs
    ]
    return [*missing, *gone, *found]


def _missing(record: JobRecord, now_s: float) -> GangEnded:
    return GangEnded(
        at_s=now_s,
        job_id=record.id,
        generation=record.generation,
        outcome=Outcome.STOPPED if record.phase is Phase.STARTING else Outcome.LOST,
        steps=int(record.progress.done_steps),
        message=GONE,
    )


class BatchGuard:
    """Sets aside what cannot be handled of a batch, so that all else goes on.

    A batch is in the journal before it is handled: without this, an error would come again with each start.
    The head is brought back to where it was before the batch, so nothing of what had been half done stays.
    Then the batch is handled without the event that the error is about, and the journal keeps it as it was
    handled: handled again, it leads to the same.
    """

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
    why, trace = error_texts(error)
    at_s = batch[-1].at_s
    return [*batch, PlanFailed(at_s=at_s, kind=fault.kind, why=why, trace=trace)]


def _without(
    batch: Sequence[AnyEvent], culprit: AnyEvent | str, error: Exception
) -> Sequence[AnyEvent] | None:
    """Return the batch without an event, or with the end of a job; None if that has been tried."""
    why, trace = error_texts(error)
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


def error_texts(error: BaseException) -> tuple[str, str]:
    """Return an error in one line, and as a trace."""
    lines = "".join(traceback.format_exception_only(error)).strip().splitlines()
    return lines[-1], "".join(traceback.format_exception(error))[-MOST_TRACE:]
