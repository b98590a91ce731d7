"""`swell down`."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from swell.api.errors import ApiError, PlatformSilent
from swell.cli.options import State
from swell.cli.output import warn
from swell.model.errors import Unavailable
from swell.model.lengths import span

if TYPE_CHECKING:
    from psutil import Process

    from swell.api.client import Client
    from swell.model.view import JobView
    from swell.store.folder import StateFolder

#: `down` waits so long for checkpoints to be written and processes to end.
END_WITHIN_S = 120.0
#: Seconds between two looks at what it waits for.
LOOK_EVERY_S = 1.0
#: Exit status when a job that ran was not saved.
UNSAVED = 1


def down(
    state: State = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also end a platform that hangs: it is killed, and its jobs are saved if possible.",
        ),
    ] = False,
) -> None:
    """Suspend every job and end the platform with all its processes.

    Exit status 1: a job could not be saved in time; it will continue from its last checkpoint.
    """
    from swell.cli.force import make_answer
    from swell.store.folder import StateFolder

    folder = StateFolder(state)
    is_killed = force and make_answer(folder)
    pid = _stop_daemon(folder, force)
    if pid is None and not folder.path.exists():
        print(f"nothing to stop: there is no state folder {folder.path}")
        return
    with _free(folder):  # from here on no daemon runs, and none can start
        left = _worker_pids(folder)
        num_strays = _end_strays(folder)
        is_left = _stop_agent(folder)
        jobs = _running(folder) if pid is not None or is_killed or left else []
    if num_strays:
        print(f"ended {_processes(num_strays)} left behind by jobs of a killed platform")
    if pid is not None or is_killed:
        _tell_of_platform(folder, pid, jobs)
    elif is_left:
        print(_killed(folder, left, jobs))
    elif not num_strays:
        print(f"nothing to stop: no platform is running for state folder {folder.path}")


def _stop_daemon(folder: StateFolder, force: bool) -> int | None:
    """The pid of the daemon that has ended; None if there was none."""
    from swell.api.client import NoPlatform, PlatformSilent, connect_as_owner
    from swell.cli.force import kill_daemon

    try:
        with connect_as_owner(folder.path) as client:
            pid = client.endpoint.pid
            try:
                _stop(client)
            except (TimeoutError, PlatformSilent):
                if not force:
                    raise
                kill_daemon(folder, pid)
    except (NoPlatform, ProcessLookupError):  # it may end while we ask
        return None
    return pid


@contextmanager
def _free(folder: StateFolder) -> Iterator[None]:
    """Holds the folder's lock. Raises PlatformSilent if a daemon has it: one that starts, or that hangs."""
    from swell.store.errors import StateLocked
    from swell.store.lock import StateLock, find_holder

    lock = StateLock(folder.lock)
    try:
        lock.acquire()
    except StateLocked as error:
        pid = find_holder(folder.lock)
        raise PlatformSilent(
            f"a process (pid {pid or 'unknown'}) holds {folder.lock} and does not answer: it "
            "is a platform that starts or hangs, or another `swell down`; try again, or end "
            "it with `swell down --force`"
        ) from error
    with lock:
        yield


def _end_strays(folder: StateFolder) -> int:
    from swell.executors.local.processes.strays import end_strays

    return end_strays(folder.path)


def _processes(num: int) -> str:
    return "1 process" if num == 1 else f"{num} processes"


def _stop(client: Client) -> None:
    """Ask the daemon to end, and wait until its process has."""
    daemon = os.pidfd_open(client.endpoint.pid)
    try:
        asked_s = time.monotonic()
        try:
            client.stop()
        except Unavailable as error:  # it is about to end by itself, or hangs: the wait will tell
            warn(str(error))
        has_ended = _wait(client, daemon, asked_s)
    finally:
        os.close(daemon)
    if not has_ended:
        raise TimeoutError(
            f"the platform (pid {client.endpoint.pid}) has not ended after {span(END_WITHIN_S)}; "
            f"see {client.folder.log}; `swell down --force` ends it"
        )


def _wait(client: Client, daemon: int, asked_s: float) -> bool:
    """Wait for the daemon to end, and print each thing it waits for once. False: it did not end in time."""
    give_up_s = time.monotonic() + END_WITHIN_S
    told: set[str] = set()
    while (left_s := give_up_s - time.monotonic()) > 0:
        if select.select([daemon], [], [], min(left_s, LOOK_EVERY_S))[0]:
            return True
        for line in _hindrances(client, asked_s):
            if line not in told:
                print(line, file=sys.stderr)
                told.add(line)
    return False


def _hindrances(client: Client, asked_s: float) -> list[str]:
    """What became first of each job that could not be saved since it was asked, and holds devices still.

    Nothing if no daemon answers any more.
    """
    from swell.api.client import ApiError, NoPlatform
    from swell.cli.selection import HOLDING

    if told := _agent_hindrance(client.folder):
        return [told]
    try:
        # The machine's clock, and with it the platform's calendar, may be set while we wait.
        since_s = client.cluster().now_s - (time.monotonic() - asked_s)
        return [
            f"waiting for {job.id}, which {failures[0].partition(chr(10))[0]}"
            for job in client.jobs(HOLDING)
            if (failures := _failures(client, job.id, since_s))
        ]
    except (NoPlatform, ApiError):  # it is about to end
        return []


def _agent_hindrance(folder: StateFolder) -> str:
    from swell.executors.local.launch import find_agent
    from swell.executors.local.processes.stopped import is_stopped

    agent = find_agent(folder.path)
    if agent is None or not is_stopped(agent.pid):
        return ""
    return (
        f"waiting for the agent (pid {agent.pid}), which was stopped by a signal: `kill -CONT {agent.pid}` "
        "lets it go on, and `swell down --force` does so"
    )


def _failures(client: Client, job_id: str, since_s: float) -> list[str]:
    stories = client.stories(job_id)
    return [told.text for told in stories if told.code == "suspend_failed" and told.at_s >= since_s]


def _worker_pids(folder: StateFolder) -> frozenset[int]:
    """Pids of the workers that a killed platform has left: the children of its agent's children."""
    import psutil

    from swell.executors.local.launch import find_agent

    agent = find_agent(folder.path)
    if agent is None:
        return frozenset()
    try:
        zygotes = psutil.Process(agent.pid).children()
        return frozenset(
            worker for zygote in zygotes for worker in _workers_of(zygote.pid, zygote.children())
        )
    except (psutil.NoSuchProcess, ProcessLookupError):
        # the agent, and with it all that it had, ends by itself
        return frozenset()


def _workers_of(zygote: int, children: Sequence[Process]) -> Iterator[int]:
    """A zygote's children are its workers, and what these have left behind in other groups or sessions."""
    pids = {child.pid for child in children}
    for pid in pids:
        is_in_group_of_other = os.getpgid(pid) in pids - {pid}
        if os.getsid(pid) == os.getsid(zygote) and not is_in_group_of_other:
            yield pid


def _stop_agent(folder: StateFolder) -> bool:
    """End the agent of a platform that was killed. True if there was one."""
    from swell.executors.local.launch import AgentError, stop_agent

    try:
        return stop_agent(folder.path)
    except AgentError as error:
        raise ApiError(str(error)) from error


def _running(folder: StateFolder) -> list[JobView]:
    """The jobs that still held devices when the platform's journal ended: they were not suspended."""
    if not folder.journal.exists():
        return []
    from swell.assemble import unended_jobs
    from swell.store.errors import StateUnwritable

    try:
        return [job for job in unended_jobs(folder.path) if job.phase.holds_devices]
    except StateUnwritable as error:  # even to read it SQLite needs some room
        warn(f"cannot tell which jobs were not saved: {error}")
        return []


def _tell_of_platform(folder: StateFolder, pid: int | None, unsaved: list[JobView]) -> None:
    """Ends the program with status 1 if not all was saved. `pid`: None if it was killed."""
    who = "the killed platform" if pid is None else f"the platform (pid {pid})"
    print(f"stopped {who} of {folder.path}; `swell up` continues its jobs")
    if unsaved:
        print(f"not saved, continuing from their last checkpoints: {_ids(unsaved)}")
        raise typer.Exit(UNSAVED)


def _killed(folder: StateFolder, left: frozenset[int], jobs: list[JobView]) -> str:
    """Jobs may have ended since the daemon was killed: what counts is whose workers were there."""
    text = f"stopped the workers that a killed platform had left running for {folder.path}"
    if not left:
        return text
    number = "1 worker was" if len(left) == 1 else f"{len(left)} workers were"
    text += f"\n{number} ended unsaved"
    unsaved = [job for job in jobs if left.intersection(job.live_pids)]
    return f"{text}: {_ids(unsaved)}, continuing from the last checkpoint" if unsaved else text


def _ids(jobs: list[JobView]) -> str:
    return ", ".join(job.id for job in jobs)
