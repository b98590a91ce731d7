"""A new journal of what can be read of a damaged one, and of the folders of its jobs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from swell.assemble import settings_of
from swell.core.job_status import JobStatus
from swell.core.platform_core import PlatformCore
from swell.core.record import JobRecord
from swell.core.saved_kinds import SavedKind, encode_kinds, read_kinds
from swell.core.state import Saved
from swell.live.job_folders import JobFolders
from swell.live.recovery import ReplayError, load, replay
from swell.model.coding import encode
from swell.model.event import (
    AnyEvent,
    CancelRequested,
    DeadlineChangeAsked,
    DifferencesAccepted,
    GangEnded,
    GangResized,
    GangStarted,
    HoldRequested,
    JobSubmitted,
    Outcome,
    PredecessorsSucceeded,
    PriorityChanged,
    ProfilingFailed,
    ResumeRequested,
    StepsReported,
)
from swell.model.job import AfterRefusal, Elasticity, JobClass, Phase
from swell.model.view import JobView, Story
from swell.scheduler import new_core
from swell.store import sqlite
from swell.store.backup import set_aside
from swell.store.curves import salvaged
from swell.store.errors import StateError
from swell.store.folder import StateFolder
from swell.store.journal import JournalEntry, SqlJournal
from swell.store.lock import StateLock
from swell.store.sound_rows import SoundRows, read_remains
from swell.wire.checkpoint_files import checkpoints_in, steps_in

#: Phases that an event tells of.
ENDS = {
    Outcome.SUCCEEDED: Phase.SUCCEEDED,
    Outcome.ENDED_EARLY: Phase.ENDED_EARLY,
    Outcome.FAILED: Phase.FAILED,
}

#: Who says one of these has devices.
GANGS = (GangStarted, GangResized, StepsReported)

#: What owners asked for after they had submitted their jobs.
WISHES = (
    CancelRequested,
    DeadlineChangeAsked,
    DifferencesAccepted,
    HoldRequested,
    ResumeRequested,
    PredecessorsSucceeded,
    PriorityChanged,
)


class SalvageReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is in the new journal, and what is not."""

    journal: str
    damaged: str | None  #: where the former one is now; None: there was none
    has_state: bool  #: the head's state could be read: promises, progress and beliefs are kept
    num_batches: int  #: that follow this state without a gap
    num_batches_lost: int  #: that could be read, but not be put after the others
    num_rows_damaged: int
    num_ended: int  #: jobs of the archive
    num_kept: int  #: open jobs as they were
    queued_again: tuple[str, ...]  #: open jobs of which only the submission is known
    unknown: tuple[str, ...]  #: folders of jobs that nothing tells of


@dataclass(slots=True)
class _Rescue:
    """The parts of the new journal while they are gathered."""

    core: PlatformCore
    has_state: bool = False
    last_seq: int = 0  #: of the last batch that the core has handled
    ended: dict[str, JobView] = field(default_factory=dict)
    stories: dict[tuple[str, Story], None] = field(default_factory=dict)
    num_batches: int = 0


def salvage(state_dir: Path) -> SalvageReport:
    """Make a new journal; the former one stays as `journal.db.damaged-DATE`. No daemon may run.

    Workers of a killed one may: to the next they are those of an older journal.

    Raises:
        StateError: the platform is up, or nothing can be read.
    """
    folder = StateFolder(state_dir)
    if not folder.path.is_dir():
        raise StateError(f"there is no state folder {folder.path}; choose another with --state")
    with StateLock(folder.lock):
        return _salvage(folder)


def _salvage(folder: StateFolder) -> SalvageReport:
    remains = read_remains(folder.journal)
    folders = JobFolders(folder.jobs)
    rescue = _rebuild(remains, folder)
    rescue.ended = remains.jobs | rescue.ended
    later = [
        event for seq, batch in sorted(remains.batches.items()) if seq > rescue.last_seq for event in batch
    ]
    submissions = {event.job_id: event for job in folders.ids() if (event := folders.submitted(job))}
    submissions |= remains.all_submissions()
    rescue.ended = _ended_since(folders, submissions, later, rescue.ended.keys()) | rescue.ended
    _forget(rescue, folder)
    open_ids = {view.id for view in rescue.core.views()}
    known = open_ids | rescue.ended.keys()
    ran = {event.job_id for event in later if isinstance(event, GANGS)}
    queued = [
        _as_it_ran(event, folders, job_id in ran)
        for job_id, event in submissions.items()
        if job_id not in known
    ]
    rescue.stories |= dict.fromkeys(_stories(queued, rescue.ended.values(), remains.stories))
    if not (rescue.has_state or rescue.num_batches or rescue.ended or queued):
        raise StateError(
            f"nothing of {folder.journal} can be read, and no folder in {folder.jobs} has a "
            "readable job.json; nothing was changed; to start with no jobs, move both to "
            "another place"
        )
    wanted = {event.job_id for event in queued} | open_ids
    wishes = [event for event in later if isinstance(event, WISHES) and event.job_id in wanted]
    draft = _write(folder, remains, rescue, submissions.values(), [*queued, *wishes])
    damaged = set_aside(folder.journal, "damaged")
    draft.rename(folder.journal)
    return SalvageReport(
        journal=str(folder.journal),
        damaged=None if damaged is None else str(damaged),
        has_state=rescue.has_state,
        num_batches=rescue.num_batches,
        num_batches_lost=sum(seq > rescue.last_seq for seq in remains.batches),
        num_rows_damaged=remains.num_damaged,
        num_ended=len(rescue.ended),
        num_kept=len(open_ids),
        queued_again=tuple(event.job_id for event in queued),
        unknown=tuple(job for job in folders.ids() if job not in known | submissions.keys()),
    )


def _rebuild(remains: SoundRows, folder: StateFolder) -> _Rescue:
    """The head where the readable batches after its last state end."""
    seq, state = max(remains.folds.items(), default=(0, None))
    following = [JournalEntry(seq, [], None)]
    while (number := following[-1].seq + 1) in remains.batches:
        following.append(JournalEntry(number, remains.batches[number], None))
    entries = following[1:]
    while True:
        rescue = _Rescue(new_core(settings=settings_of(folder.path)), state is not None, seq)
        try:
            load(rescue.core, None if state is None else state.encode())
        except ReplayError:
            seq, state, entries = 0, None, []
            continue
        try:
            for entry, _ in replay(rescue.core, entries):
                rescue.last_seq = entry.seq
                rescue.num_batches += 1
                rescue.ended |= {view.id: view for view in rescue.core.ended_views()}
                rescue.stories |= dict.fromkeys(rescue.core.stories())
            return rescue
        except ReplayError:
            entries = entries[: rescue.num_batches]  # the one after these cannot be handled


def _ended_since(
    folders: JobFolders,
    submissions: Mapping[str, JobSubmitted],
    later: Iterable[AnyEvent],
    before: Set[str],
) -> dict[str, JobView]:
    """Jobs of whose end the head does not know, but their folders do, or the batches after a gap."""
    found = {
        job_id: view for job_id in folders.ids() if job_id not in before and (view := folders.ended(job_id))
    }
    for event in later:
        if isinstance(event, GangEnded | ProfilingFailed) and event.job_id in submissions.keys() - before:
            outcome = event.outcome if isinstance(event, GangEnded) else Outcome.FAILED
            if event.job_id not in found and outcome in ENDS:
                found[event.job_id] = _view_of_end(submissions[event.job_id], event, ENDS[outcome])
    return found


def _forget(rescue: _Rescue, folder: StateFolder) -> None:
    """Take open jobs that have ended out of the head's state."""
    if not any(view.id in rescue.ended for view in rescue.core.views()):
        return
    kept = []
    for one in read_kinds(rescue.core.save()):
        saved = one.saved
        _forget_of(saved, rescue.ended.keys())
        kept.append(SavedKind(kind=one.kind, head=encode(saved)))
    rescue.core = new_core(settings=settings_of(folder.path))
    load(rescue.core, encode_kinds(kept))


def _forget_of(saved: Saved, ended: Set[str]) -> None:
    """Take them out of the state of one kind."""
    gone = [record for record in saved.records if record.id in ended]
    saved.records = [record for record in saved.records if record.id not in ended]
    saved.rows = [job_id for job_id in saved.rows if job_id not in ended]
    saved.last_plan.forget(frozenset(ended))
    for record in gone:
        saved.tenants.leave(record.spec.tenant, saved.now_s)


def _view_of_end(submission: JobSubmitted, event: GangEnded | ProfilingFailed, phase: Phase) -> JobView:
    record = JobRecord(
        id=submission.job_id,
        spec=submission.spec,
        submitted_s=submission.at_s,
        continues=submission.origin.continues,
        user=submission.origin.user,
        ended=phase,
        status=JobStatus(
            finished_s=event.at_s,
            message=event.message,
            reason_code="salvaged",
            reason="ended; how it ran was lost with the journal",
        ),
    )
    if isinstance(event, GangEnded):
        record.progress.done_steps = float(event.steps)
    return record.view()


def _as_it_ran(event: JobSubmitted, folders: JobFolders, has_run: bool) -> JobSubmitted:
    """The same submission, with the steps that its checkpoints hold: the scheduler need not plan for them.

    A strict job that has run had its deadline promised. The promise is lost with the journal, and may be
    beyond renewal by now: the job goes on all the same.
    """
    spec, steps = event.spec, event.origin.steps
    if spec.elasticity is not Elasticity.RESTART:
        newest = checkpoints_in(folders.checkpoints(event.job_id))[:1]
        steps = max([steps, *(steps_in(path) for _, path in newest)])
    has_run = has_run or steps > event.origin.steps or folders.has_worker_log(event.job_id)
    if has_run and spec.job_class is JobClass.STRICT:
        spec = msgspec.structs.replace(spec, after_refusal=AfterRefusal.SOFT)
    origin = msgspec.structs.replace(event.origin, steps=steps)
    return msgspec.structs.replace(event, spec=spec, origin=origin)


def _stories(
    queued: Iterable[JobSubmitted], ended: Iterable[JobView], known: Iterable[tuple[str, Story]]
) -> Iterator[tuple[str, Story]]:
    """A line for each job whose story was lost, wholly or in part."""
    now_s, told = time.time(), {job_id for job_id, _ in known}
    for event in queued:
        since = f", from step {event.origin.steps}" if event.origin.steps else ""
        text = f"was queued again{since}: what became of it before was lost with the journal"
        yield event.job_id, Story(at_s=max(now_s, event.at_s), code="salvaged", text=text)
    for view in ended:
        if view.id not in told:
            text = f"{view.phase}: {view.reason}; how it came to that was lost with the journal"
            yield view.id, Story(at_s=view.finished_s or view.submitted_s, code="salvaged", text=text)


def _write(
    folder: StateFolder,
    remains: SoundRows,
    rescue: _Rescue,
    submissions: Iterable[JobSubmitted],
    events: list[AnyEvent],
) -> Path:
    """The new journal as a draft, read once more to see that it can be."""
    draft = folder.journal.with_name(folder.journal.name + ".draft")
    for left in (draft, *sqlite.companions(draft)):
        left.unlink(missing_ok=True)
    journal = SqlJournal(draft)
    try:
        stories = [*(remains.stories | rescue.stories)]
        journal.fold(rescue.core.save(), list(rescue.ended.values()), stories)
        journal.add_submissions(submissions)
        curves = salvaged(remains.curves, remains.told)
        journal.add_curves(curve for curve in curves if journal.knows(curve.key[0]))
        journal.append(sorted(events, key=lambda event: event.at_s))
        core = new_core(settings=settings_of(folder.path))
        history = journal.history()
        load(core, history.state)
        for _ in replay(core, history.entries):
            pass
    except ReplayError as error:
        raise StateError(
            f"the salvaged journal cannot be read again ({error}); nothing was changed"
        ) from error
    finally:
        journal.close()
    return draft
