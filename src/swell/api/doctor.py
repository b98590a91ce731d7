"""What is sound and what is not in a state folder, without changing anything in it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from swell.api.machine_findings import machine_findings
from swell.assemble import refuse_lost_journal, replay_journal, unended_jobs
from swell.executors.engine import InvalidEngine
from swell.executors.engines import ENGINES, make_engine
from swell.executors.local.accounts import client as accounts
from swell.executors.local.launch import find_agent
from swell.live.recovery import Replay
from swell.live.submitter import JobFiles
from swell.model.finding import Finding, bad, ok, warn
from swell.model.target import ShareKind
from swell.model.view import JobView
from swell.platform_options import PlatformOptions
from swell.plugins import Registry, why_not_importable
from swell.policies.registry import POLICIES
from swell.settings import InvalidSettings, make_settings
from swell.store import database
from swell.store.errors import StateError, UnknownFormat, remedy
from swell.store.folder import StateFolder
from swell.store.journal import SqlJournal
from swell.store.lock import find_holder
from swell.wire.checkpoint_files import checkpoints_in, is_whole

#: Ids that a finding names.
NUM_NAMED = 5


def examine(state_dir: Path) -> list[Finding]:
    """Everything there is to know. Raises nothing about what is in the folder."""
    folder = StateFolder(state_dir)
    if not folder.path.is_dir():
        missing = bad("folder", f"there is no folder {folder.path}", "choose another with --state")
        return [missing, *_plugins()]
    findings = [about_folder(folder.path), *_processes(folder), *_options(folder), *_plugins()]
    with tempfile.TemporaryDirectory(prefix="swell-doctor-") as place:
        return findings + list(_journal(folder, StateFolder(place)))


def examine_machine(state_dir: Path) -> list[Finding]:
    """What this machine has, for the platform of this folder, which may be up."""
    agent = find_agent(state_dir)
    return machine_findings(
        state_dir, mode=_share_mode(StateFolder(state_dir)), pid=None if agent is None else agent.pid
    )


# ------------------------------------------------------------ the folder
def about_folder(folder: Path) -> Finding:
    """Whose it is, and who can read it."""
    found = folder.stat()
    if found.st_uid != os.geteuid():
        return bad(
            "folder",
            f"{folder} belongs to user {found.st_uid}, and this is user {os.geteuid()}",
            "run swell as its owner, or choose another with --state",
        )
    if found.st_mode & 0o066:
        mode = f"{found.st_mode & 0o777:04o}"
        return warn("folder", f"{folder} has mode {mode}: others may look into it", "chmod 700")
    return ok("folder", f"only you can read {folder}")


def _processes(folder: StateFolder) -> Iterator[Finding]:
    is_held, agent = find_holder(folder.lock) is not None, find_agent(folder.path)
    try:
        endpoint = folder.read_endpoint()
    except StateError as error:
        endpoint = None
        yield bad("daemon", str(error), f"remove {folder.endpoint}")
    if is_held:
        where = f"pid {endpoint.pid}" if endpoint else "its address is unknown"
        yield ok("daemon", f"is up ({where})")
    elif endpoint is not None:
        yield warn("daemon", "was killed; its endpoint.json remains", "`swell up` goes on")
    else:
        yield ok("daemon", "is down")
    if agent is not None and not is_held:
        yield warn(
            "agent", f"runs without a daemon (pid {agent.pid})", "`swell up` adopts it, `swell down` ends it"
        )
    else:
        yield ok("agent", f"is up (pid {agent.pid})" if agent else "is down")


def _options(folder: StateFolder) -> Iterator[Finding]:
    try:
        options = folder.read_options(PlatformOptions)
        if options is None:
            yield ok("options", "none yet")
            return
        make_settings(options.settings)
    except (StateError, InvalidSettings) as error:
        yield warn("options", str(error), f"remove {folder.options}: `swell up` then takes the defaults")
        return
    yield ok("options", f"{options.devices}, {options.policy}, {options.engine}")
    if options.accounts:
        yield _accounts(options.accounts)
    yield from _engine(options)


def _accounts(group: str) -> Finding:
    if accounts.is_there():
        return ok("accounts", f"jobs of members of {group} run as who submitted them")
    why = "the process of root that runs jobs as users does not answer: these jobs wait"
    return bad("accounts", why, f"`sudo swell up --accounts {group}` starts it")


def _engine(options: PlatformOptions) -> list[Finding]:
    """What the engine says of itself. It may be of another package, and fail in any way."""
    remedy = f"repair its package, or choose another with `swell up --engine`: {', '.join(ENGINES.own)}"
    try:
        engine = make_engine(options.engine, options.engine_options, options.listen)
        found = engine.findings(options.listen)
    except InvalidEngine as error:
        return [warn("engine", str(error), "give `swell up` other options of it, or another --engine")]
    except Exception as error:  # noqa: BLE001 - whatever another package does
        return [bad("engine", f"{options.engine} fails ({type(error).__name__}: {error})", remedy)]
    if engine.name not in ENGINES.own and (why := why_not_importable(engine.door)):
        found.append(bad("engine", f"its door {engine.door} cannot be imported ({why})", remedy))
    return found


def _plugins() -> Iterator[Finding]:
    """Policies and engines of installed packages."""
    registries: tuple[Registry[Any], ...] = (POLICIES, ENGINES)
    for registry in registries:
        for name in registry:
            if package := registry.packages.get(name):
                yield ok("plug-ins", f"{registry.noun} {name}, of package {package}")
        for why in registry.broken.values():
            yield warn("plug-ins", *why.rsplit("; ", 1))


def _share_mode(folder: StateFolder) -> ShareKind:
    """CPU share mode that was last chosen for the platform; the default if that is not known."""
    try:
        options = folder.read_options(PlatformOptions)
        return ShareKind.WEIGHT if options is None else options.cpu_shares
    except (StateError, ValueError):
        return ShareKind.WEIGHT  # as `swell up` takes it to be


# ------------------------------------------------------------ the journal
def _journal(folder: StateFolder, place: StateFolder) -> Iterator[Finding]:
    """`place`: where a copy is looked at, for SQLite changes what it opens."""
    if not folder.journal.exists() and not JobFiles(folder.jobs).ids():
        yield ok("journal", "none yet")
        return
    try:
        refuse_lost_journal(folder)
        _copy(folder, place)
        with closing(SqlJournal(place.journal)) as journal:
            is_blank, ended = journal.is_blank, {view.id for view in journal.archived_jobs()}
            submitted = {job_id for job_id in JobFiles(folder.jobs).ids() if journal.knows(job_id)}
        found = replay_journal(place.path)
        open_jobs = unended_jobs(place.path)
    except StateError as error:
        what = error.what.replace(str(place.path), str(folder.path))
        yield bad(
            "journal", what, error.remedy if isinstance(error, UnknownFormat) else remedy(folder.journal)
        )
        return
    if is_blank and (num := len(JobFiles(folder.jobs).ids())):
        yield bad("journal", f"is empty, but there are folders of {num} jobs", remedy(folder.journal))
        return
    size = database.bytes_on_disk(folder.journal)
    yield ok(
        "journal",
        f"{size:,} bytes; batches since the last fold: {found.num_batches}, open jobs: {len(open_jobs)}, "
        f"jobs in the archive: {len(ended)}",
    )
    if not found.is_equal:
        text = f"batch {found.first_difference} leads to other commands now than it did then"
        yield warn("replay", text, "harmless by itself; please report it with a copy of the journal")
    yield from _defects(found)
    yield from _jobs(JobFiles(folder.jobs), open_jobs, ended, submitted)


def _defects(found: Replay) -> Iterator[Finding]:
    """Findings about what the head could not handle, and went on without."""
    remedy = (
        "please report it with the trace; a policy of your own: mend it, then `swell down` and `swell up`"
    )
    for aside in found.set_aside:
        what = "a job" if aside.event is None else type(aside.event).__name__
        whose = f" of job {aside.job_id}, which has failed" if aside.job_id else ""
        yield warn("set aside", f"{what}{whose}: {aside.why}\n{aside.trace.rstrip()}", remedy)
    if (failed := found.failed_plan) is not None:
        text = f"no plan can be made, and the last one is followed: {failed.why}\n{failed.trace.rstrip()}"
        yield warn("plan", text, remedy)


def _copy(folder: StateFolder, place: StateFolder) -> None:
    """A state folder with the same journal and options, and nothing else."""
    if find_holder(folder.lock) is not None:
        try:
            database.copy_file(folder.journal, place.journal)
        except OSError as error:
            raise StateError(f"{folder.journal} cannot be copied for inspection ({error})") from error
    else:
        database.copy_as_it_is(folder.journal, place.path)
    if folder.options.exists():
        shutil.copyfile(folder.options, place.options)


# ------------------------------------------------------------ the jobs
def _jobs(
    folders: JobFiles, open_jobs: list[JobView], ended: set[str], submitted: set[str]
) -> Iterator[Finding]:
    there, known = set(folders.ids()), {view.id for view in open_jobs} | ended | submitted
    if strange := sorted(there - known):
        text = f"{len(strange)} job folders are not in the journal: {_named(strange)}"
        yield warn("jobs", text, "their logs and checkpoints are theirs; remove them if they are not needed")
    if bare := sorted(view.id for view in open_jobs if view.id not in there):
        text = f"{len(bare)} open jobs have no folder: {_named(bare)}"
        yield warn("jobs", text, "they will begin at step 0")
    if not (strange or bare):
        yield ok("jobs", f"{len(there)} folders, all in the journal")
    if gone := sorted(ended - there):
        text = f"{len(gone)} ended jobs no longer have a folder: {_named(gone)}"
        yield ok("jobs", f"{text}; `swell admin prune {gone[0]}` removes such a job from the list")
    yield from _checkpoints(folders, open_jobs)


def _checkpoints(folders: JobFiles, open_jobs: list[JobView]) -> Iterator[Finding]:
    """Findings about the checkpoints of open jobs; those of ended jobs are no longer read."""
    num_sound = 0
    for view in open_jobs:
        found = checkpoints_in(folders.checkpoints(view.id))
        try:
            damaged = [path for digest, path in found if not is_whole(path, digest)]
        except OSError as error:
            yield bad("checkpoints", f"of {view.id} cannot be read ({error})", "check the disk")
            continue
        num_sound += len(found) - len(damaged)
        if damaged and len(damaged) == len(found):
            text = f"all {len(found)} of {view.id} are damaged"
            yield bad(
                "checkpoints", text, "it will begin at step 0; put a sound copy there to continue from it"
            )
        elif damaged:
            text = f"{len(damaged)} of {view.id} damaged: {_named([path.name for path in damaged])}"
            yield warn("checkpoints", text, "it continues from another one; remove these")
    yield ok("checkpoints", f"{num_sound} of open jobs are sound")


def _named(ids: list[str]) -> str:
    return ", ".join(ids[:NUM_NAMED]) + (", ..." if len(ids) > NUM_NAMED else "")
