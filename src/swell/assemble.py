"""A platform put together: its head, store and world, and the start after a crash."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from io import FileIO
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from swell.core.platform_core import PlatformCore
from swell.executors.engine import Engine
from swell.executors.local.agent.options import DEFAULT_PRELOAD, AgentOptions
from swell.executors.local.devices import DeviceError, parse_devices
from swell.executors.local.limits.control_groups import check_sharing
from swell.executors.local.link import LocalExecutor
from swell.executors.local.processes.listing import is_stopped
from swell.live.board import TurnResult, ViewBoard
from swell.live.head_journal import HeadJournal
from swell.live.head_thread import Site
from swell.live.job_source import JobSource
from swell.live.news import NO_ADDRESSES, Addresses
from swell.live.platform import Platform
from swell.live.pruning import PruneRequest, prune
from swell.live.recovery import Replay, ReplayError, compare, load, replay
from swell.live.submitter import JobFiles
from swell.live.webhooks import Webhooks, key_of
from swell.model.node import Node
from swell.model.quota import NO_CLAIMS, Claims
from swell.model.view import JobView, PrunedJob
from swell.model.webhook import Webhook
from swell.platform_options import PlatformOptions
from swell.scheduler import new_core
from swell.settings import InvalidSettings, Settings
from swell.store.database import copy_as_it_is, log_of
from swell.store.errors import DamagedState, StateError, StateHeld, StateUnwritable, remedy
from swell.store.folder import StateFolder
from swell.store.journal import JournalEntry, JournalHistory, SqlJournal
from swell.store.lock import find_holder, lock_state

#: A daemon that was killed may need a moment until the kernel has let go of its lock.
LOCK_WAIT_S = 2.0

log = logging.getLogger("swell.platform")


@contextmanager
def open_platform(
    folder: StateFolder,
    options: PlatformOptions,
    addresses: Addresses = NO_ADDRESSES,
    read_quotas: Callable[[], Claims] = lambda: NO_CLAIMS,
) -> Iterator[Platform]:
    """A platform on this machine, where its journal left it; `run` it, and everything ends with it.

    `addresses` are told of more than one job.
    `read_quotas` is asked every two seconds: see `live.watches.QuotaWatch`.

    Leaving by an exception leaves the workers running, as a kill would: the next platform adopts them.

    Raises:
        StateError: the state folder cannot be used, or another platform uses it.
        UnknownPolicy, ValueError: the options name nothing that there is.
    """
    check_sharing(options.sharing)
    nodes = parse_devices(options.devices, options.sharing.cores, options.rack)
    if not nodes and not options.hosts_may_join:
        raise DeviceError(
            f"devices {options.devices!r}: without devices of its own a platform needs hosts that can join: "
            "add `--listen ADDRESS`, or name devices of this machine"
        )
    settings, engine = options.made_settings, options.made_engine
    core = new_core(options.policy, settings)
    folder.create()
    folder.use_storage(options.storage)
    if options.accounts:
        folder.let_users_pass()
    with _locked(folder):
        journal = _open_journal(folder)
        executor = LocalExecutor(_agent_options(folder, options, settings), nodes, engine)
        site = _site(folder, options, settings, engine, [node.node for node in nodes])
        try:
            with _told_as_damage():
                told = _webhooks(folder, journal, addresses)
                _fold_under_last_settings(folder, journal, settings, told)
                note = partial(_note, folder)
                platform = Platform(
                    site, core, journal, executor, note, webhooks=told, read_quotas=read_quotas
                )
                platform.recover(journal.history())
            yield platform
            executor.shut_down()
        finally:
            executor.close()
            journal.close()


def _agent_options(folder: StateFolder, options: PlatformOptions, settings: Settings) -> AgentOptions:
    return AgentOptions(
        state_dir=folder.path,
        preload=(*DEFAULT_PRELOAD, *options.preload),
        gang_settings=settings.gang_settings,
        containers=options.containers,
        sharing=options.sharing,
        advertise=options.advertise,
        listen=options.listen,
        leases=settings.leases,
    )


def _site(
    folder: StateFolder, options: PlatformOptions, settings: Settings, engine: Engine, nodes: Sequence[Node]
) -> Site:
    return Site(
        jobs_dir=folder.jobs,
        policy=options.policy,
        nodes=nodes,
        retention=settings.retention,
        hosts_may_join=options.hosts_may_join,
        longest_time_s=settings["longest_time_s"],
        session_devices=settings["session_devices"],
        engine="" if engine.is_joined_by_hand else engine.name,
        no_nodes=engine.no_nodes,
    )


def _webhooks(folder: StateFolder, journal: SqlJournal, addresses: Addresses) -> Webhooks:
    """Raises StateError if the secret in the folder is none."""
    try:
        key = key_of(folder.ensure_webhook_secret())
    except ValueError as error:
        raise StateError(f"{folder.webhook_secret}: {error}; correct the file, or remove it") from error
    return Webhooks(journal, key, addresses, partial(webhooks_of, journal))


def webhooks_of(journal: SqlJournal, job_id: str) -> tuple[Webhook, ...]:
    """Those of a job; none if what was submitted cannot be read: others are told anyway."""
    try:
        submission = journal.submission(job_id)
    except StateError as error:
        log.warning("the webhooks of job %s are not known, and are not told: %s", job_id, error)
        return ()
    spec = None if submission is None else submission.spec
    return () if spec is None else (*((spec.webhook,) if spec.webhook else ()), *spec.notify)


def _note(folder: StateFolder, why: str) -> None:
    """Last words, in case the platform is ended while it stands still."""
    try:
        folder.write_notice(why)
    except StateUnwritable as error:
        log.warning("no notice of it is left: %s", error)


def _locked(folder: StateFolder) -> FileIO:
    """Raises StateHeld, whose text says so if the holder was stopped by a signal."""
    try:
        return lock_state(folder.lock, LOCK_WAIT_S)
    except StateHeld:
        pid = find_holder(folder.lock)
        if pid is None or not is_stopped(pid):
            raise
        raise StateHeld(
            f"state folder {folder.path} is in use by a platform (pid {pid}) that was stopped by a signal: "
            f"`kill -CONT {pid}` lets it go on, `swell down --force` ends it"
        ) from None


def _open_journal(folder: StateFolder, path: Path | None = None) -> SqlJournal:
    """Open a folder's journal, or a copy of it. Raises DamagedState if it is empty, and there are jobs."""
    refuse_lost_journal(folder)
    journal = SqlJournal(path or folder.journal)
    if journal.is_blank and (jobs := JobFiles(folder.jobs).ids()):
        journal.close()
        raise _lost(folder, "is empty", f"there are folders of {len(jobs)} jobs")
    return journal


def refuse_lost_journal(folder: StateFolder) -> None:
    """Raises DamagedState, before SQLite sees the file: with an empty one it removes the write-ahead log."""
    is_missing = not folder.journal.exists()
    if not is_missing and folder.journal.stat().st_size > 0:
        return
    what, log = "is missing" if is_missing else "is empty", log_of(folder.journal)
    if jobs := JobFiles(folder.jobs).ids():
        raise _lost(folder, what, f"there are folders of {len(jobs)} jobs")
    if log.exists() and log.stat().st_size > 0:
        raise _lost(folder, what, f"there is a {log.name}")


def _lost(folder: StateFolder, what: str, witness: str) -> DamagedState:
    return DamagedState(
        f"the journal is lost, {folder.journal} {what}, but {witness}",
        f"{remedy(folder.journal)}; to start with no jobs, move {folder.jobs} (and what is left of the "
        "journal) to another place",
    )


def settings_of(state_dir: Path) -> Settings:
    """Those that the platform of a state folder is, or was last, up with."""
    return _last_settings(StateFolder(state_dir))


def _fold_under_last_settings(
    folder: StateFolder, journal: SqlJournal, settings: Settings, webhooks: Webhooks
) -> None:
    """Handled again under other settings, a journal leads elsewhere: what came of it is kept instead."""
    last = _last_settings(folder)
    is_other_head = (last.core, last.parameters) != (settings.core, settings.parameters)
    if is_other_head and journal.last_seq != 0:
        core = _finished(journal, journal.history(), last, webhooks)
        journal.fold(core.save())


def _finished(
    journal: SqlJournal, history: JournalHistory, settings: Settings, webhooks: Webhooks
) -> PlatformCore:
    """The head where the journal ends, which then has all that came of its batches.

    That is what a platform would do that is up with these settings.
    """
    core = new_core(settings=settings)
    for _ in HeadJournal(journal, webhooks).recover(core, history):
        pass  # what counts is where it ends
    return core


def _last_settings(folder: StateFolder) -> Settings:
    """Those under which the journal's batches were handled."""
    try:
        options = folder.read_options(PlatformOptions)
        return Settings() if options is None else options.made_settings
    except (StateError, InvalidSettings):
        return Settings()  # as `swell up` takes them to be


def prune_left_behind(
    state_dir: Path,
    request: PruneRequest,
    find: Callable[[Sequence[JobView]], Sequence[str]],
    addresses: Addresses,
) -> list[PrunedJob]:
    """Remove ended jobs of a platform that is not up; what was, or would be, freed.

    Args:
        find: the ids of those, among all that have ended, that are named besides.
        addresses: are told by the next platform what a killed one has not told them.

    Raises:
        StateError: a platform is up, or its journal cannot be read or written.
        UnknownJob: a job that is named has not ended, or is not there.
        Unwritable: a folder cannot be removed, or the archive cannot be written.
    """
    folder = StateFolder(state_dir)
    with lock_state(folder.lock):
        refuse_lost_journal(folder)
        with closing(SqlJournal(folder.journal)) as journal:
            if journal.last_seq:
                webhooks = _webhooks(folder, journal, addresses)
                with _told_as_damage():
                    _finished(journal, journal.history(), _last_settings(folder), webhooks)
            job_ids = (*request.job_ids, *find(journal.archived_jobs()))
            request = msgspec.structs.replace(request, job_ids=job_ids)
            return prune(journal, folder.jobs, request, time.time())


def replay_journal(state_dir: Path) -> Replay:
    """Handle the journal's batches again, and compare the commands with those of the time.

    Raises:
        StateError: there is no journal that can be read.
    """
    with _journalled(state_dir) as (core, entries, _):
        found = compare(replay(core, entries))
        return replace(found, set_aside=tuple(core.set_aside), failed_plan=core.failed_plans[1])


def unended_jobs(state_dir: Path) -> list[JobView]:
    """The jobs that go on with the next platform, as the journal left them; oldest first.

    Raises:
        StateError: there is no journal that can be read.
    """
    with _journalled(state_dir) as (core, entries, _):
        for _ in replay(core, entries):
            pass  # what counts is where it ends
        views = core.views()
    return sorted(views, key=lambda view: view.submitted_s)


def left_behind(state_dir: Path) -> tuple[bytes, list[JobView]]:
    """The head's state where the journal of a platform that is not up ends, and the jobs that have ended.

    Raises:
        StateError: there is no journal that can be read.
    """
    ended: list[JobView] = []
    with _journalled(state_dir) as (core, entries, journal):
        for entry, _ in replay(core, entries):
            views = core.ended_views()
            if entry.digest is None:  # it is not kept yet what came of this batch
                ended += views
        return core.save(), [*journal.archived_jobs(), *ended]


@contextmanager
def open_lookup(state_dir: Path) -> Iterator[JobSource]:
    """Open what a state folder tells of its jobs; open jobs are as they stand where its journal ends.

    Raises:
        StateError: there is no journal that can be read.
    """
    board, ended = ViewBoard(), list[JobView]()
    with _journalled(state_dir) as (core, entries, journal):
        board.post(TurnResult.of(core))
        for entry, _ in replay(core, entries):
            news = TurnResult.of(core)
            board.post(news)
            if entry.digest is None:  # it is not kept yet what came of this batch
                ended += news.ended
        journal.keep(ended)
        yield JobSource(board, journal)


@contextmanager
def _journalled(state_dir: Path) -> Iterator[tuple[PlatformCore, Iterable[JournalEntry], SqlJournal]]:
    """A head as of the journal's last fold, the batches since, and the journal: a copy if it is read-only."""
    folder = StateFolder(state_dir)
    folder.check_owner()
    with ExitStack() as opened:
        path = folder.journal
        if path.exists() and not (os.access(path, os.W_OK) and os.access(folder.path, os.W_OK)):
            place = Path(opened.enter_context(TemporaryDirectory(prefix="swell-")))
            path = copy_as_it_is(path, place)
        journal = opened.enter_context(closing(_open_journal(folder, path)))
        history = journal.history()
        core = new_core(settings=_last_settings(folder))
        with _told_as_damage():
            load(core, history.state)
            yield core, history.entries, journal


@contextmanager
def _told_as_damage() -> Iterator[None]:
    try:
        yield
    except ReplayError as error:
        raise DamagedState(str(error)) from error
