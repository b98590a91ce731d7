"""`swell down`."""

from __future__ import annotations

import os
import select
import sys
import time
from typing import TYPE_CHECKING

import typer

from swell.api.errors import ApiError
from swell.cli.options import State
from swell.model.errors import Unavailable

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell.model.view import JobView
    from swell.store.folder import StateFolder

#: `down` waits so long for checkpoints to be written and processes to end.
END_WITHIN_S = 120.0
#: Seconds between two looks at what it waits for.
LOOK_EVERY_S = 1.0
#: Exit status when a job that ran was not saved.
UNSAVED = 1


def down(state: State = None) -> None:
    """Suspend every job and end the platform with all its processes.

    Exit status 1: a job could not be saved in time; it continues from its last checkpoint.
    """
    from swell.api.client import NoPlatform, connect
    from swell.store.folder import StateFolder
    from swell.store.lock import StateLock

    folder = StateFolder(state)
    try:
        with connect(state) as client:
            pid: int | None = client.endpoint.pid
            _stop(client)
    except (NoPlatform, ProcessLookupError):  # it may end while we ask
        pid = None
    if pid is None and not folder.path.exists():
        print(f"nothing to stop: there is no state folder {folder.path}")
        return
    with StateLock(folder.lock):  # from here on no daemon runs, and none can start
        left = _worker_pids(folder)
        is_left = _stop_agent(folder)
        jobs = _running(folder) if pid is not None or left else []
    if pid is not None:
        _tell_of_platform(folder, pid, jobs)
    elif is_left:
        print(_killed(folder, left, jobs))
    else:
        print(f"nothing to stop: no platform is running for state folder {folder.path}")


def _stop(client: Client) -> None:
    """Ask the daemon to end, and wait until its process has."""
    daemon = os.pidfd_open(client.endpoint.pid)
    try:
        asked_s = time.time()
        try:
            client.stop()
        except Unavailable as error:  # it is about to end by itself, or hangs: the wait will tell
            print(f"swell: {error}", file=sys.stderr)
        has_ended = _wait(client, daemon, asked_s)
    finally:
        os.close(daemon)
    if not has_ended:
        raise TimeoutError(
            f"the platform (pid {client.endpoint.pid}) has not ended after {END_WITHIN_S:g} s; "
            f"see {client.folder.log}"
        )


def _wait(client: Client, daemon: int, asked_s: float) -> bool:
    """For the daemon's end; tells meanwhile what it waits for, each once. False if it does not come."""
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


def _hindrances(client: Client, since_s: float) -> list[str]:
    """What became first of each job that could not be saved since then, and holds devices still.

    Nothing if nobody answers any more.
    """
    from swell.api.client import ApiError, NoPlatform

    try:
        return [
            f"waiting for {job.id}, which {failures[0].partition(chr(10))[0]}"
            for job in client.jobs()
            if job.phase.holds_devices and (failures := _failures(client, job.id, since_s))
        ]
    except (NoPlatform, ApiError):  # it is about to end
        return []


def _failures(client: Client, job_id: str, since_s: float) -> list[str]:
    stories = client.stories(job_id)
    return [told.text for told in stories if told.code == "suspend_failed" and told.at_s >= since_s]


def _worker_pids(folder: StateFolder) -> frozenset[int]:
    """Of the workers that a killed platform has left: the children of its agent's children."""
    import psutil

    from swell.executors.local.launch import find_agent

    agent = find_agent(folder.path)
    if agent is None:
        return frozenset()
    try:
        zygotes = psutil.Process(agent.pid).children()
        return frozenset(worker.pid for zygote in zygotes for worker in zygote.children())
    except psutil.NoSuchProcess:  # the agent, and with it all that it had, ends by itself
        return frozenset()


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

    return [job for job in unended_jobs(folder.path) if job.phase.holds_devices]


def _tell_of_platform(folder: StateFolder, pid: int, unsaved: list[JobView]) -> None:
    """Ends the program with status 1 if not all was saved."""
    print(f"stopped the platform (pid {pid}) of {folder.path}; `swell up` continues its jobs")
    if unsaved:
        print(f"not saved: {_ids(unsaved)}: they continue from their last checkpoints")
        raise typer.Exit(UNSAVED)


def _killed(folder: StateFolder, left: frozenset[int], jobs: list[JobView]) -> str:
    """Jobs may have ended since the daemon was killed: what counts is whose workers were there."""
    text = f"stopped the workers that a killed platform had left running for {folder.path}"
    if not left:
        return text
    number = "1 worker was" if len(left) == 1 else f"{len(left)} workers were"
    text += f"\n{number} ended unsaved"
    unsaved = [job for job in jobs if left.intersection(job.live_pids)]
    return f"{text}: {_ids(unsaved)}, to be continued from the last checkpoint" if unsaved else text


def _ids(jobs: list[JobView]) -> str:
    return ", ".join(job.id for job in jobs)
