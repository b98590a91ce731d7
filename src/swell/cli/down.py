"""`swell down`: ask the platform to end, wait until it has, and tell what was not saved."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated

import typer

from swell.api.errors import ApiError, InvalidOption, NoAnswer, NoPlatform
from swell.cli.options import State, own_state
from swell.cli.output import warn
from swell.model.errors import Unavailable
from swell.model.quantities import span
from swell.store.errors import StateError

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell.model.view import JobView
    from swell.store.folder import StateFolder

#: `down` waits so long for checkpoints to be written and processes to end.
END_WITHIN_S = 120.0
#: Seconds between two looks at what it waits for.
LOOK_EVERY_S = 1.0
#: A killed process is gone in milliseconds, one that waits for a disk later.
GONE_WITHIN_S = 10.0
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
    from swell.executors.local.accounts.client import end_helper
    from swell.executors.local.launch import AgentError, stop_agent
    from swell.executors.local.processes.strays import end_strays

    folder = own_state(state)
    is_killed = force and _make_answer(folder)
    pid = _stop_daemon(folder, force)
    if pid is None and not folder.path.exists():
        print(f"nothing to stop: there is no state folder {folder.path}")
        return
    with _free(folder):  # from here on no daemon runs, and none can start
        num_strays = end_strays(folder.path)
        try:
            is_left = stop_agent(folder.path)  # of a platform that was killed
        except AgentError as error:
            raise ApiError(str(error)) from error
        was_up = pid is not None or is_killed
        if was_up or is_left:
            end_helper(os.geteuid())
        unsaved = ", ".join(job.id for job in _running(folder)) if was_up or is_left else ""
    if num_strays:
        processes = "1 process" if num_strays == 1 else f"{num_strays} processes"
        print(f"ended {processes} left behind by jobs of a killed platform")
    if was_up:
        who = "the killed platform" if pid is None else f"the platform (pid {pid})"
        print(f"stopped {who} of {folder.path}; `swell up` continues its jobs")
    elif is_left:
        print(f"stopped the workers that a killed platform had left running for {folder.path}")
    elif not num_strays:
        print(f"nothing to stop: no platform is running for state folder {folder.path}")
    if unsaved:
        print(f"not saved, continuing from their last checkpoints: {unsaved}")
        if was_up:
            raise typer.Exit(UNSAVED)


def _stop_daemon(folder: StateFolder, force: bool) -> int | None:
    """The pid of the daemon that has ended; None if there was none."""
    from swell.api.client import connect_as_owner

    try:
        with connect_as_owner(folder.path) as client:
            pid = client.endpoint.pid
            try:
                _stop(client)
            except (TimeoutError, NoAnswer):
                if not force:
                    raise
                _kill(folder, pid)
    except (NoPlatform, ProcessLookupError):  # it may end while we ask
        return None
    return pid


def _stop(client: Client) -> None:
    """Ask the daemon to end, and wait until its process has. Raises TimeoutError."""
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
                _print_progress(line)
                told.add(line)
    return False


def _hindrances(client: Client, asked_s: float) -> list[str]:
    """What became first of each job that could not be saved since it was asked, and holds devices still.

    Nothing if no daemon answers any more.
    """
    from swell.cli.selection import HOLDING

    if pid := _stopped_agent(client.folder):
        return [
            f"waiting for the agent (pid {pid}), which was stopped by a signal: `kill -CONT {pid}` "
            "lets it go on, and `swell down --force` does so"
        ]
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


def _failures(client: Client, job_id: str, since_s: float) -> list[str]:
    stories = client.stories(job_id)
    return [told.text for told in stories if told.code == "suspend_failed" and told.at_s >= since_s]


def _stopped_agent(folder: StateFolder) -> int | None:
    """The pid of the agent, if it was stopped by a signal."""
    from swell.executors.local.launch import find_agent
    from swell.executors.local.processes.listing import is_stopped

    agent = find_agent(folder.path)
    return agent.pid if agent is not None and is_stopped(agent.pid) else None


def _free(folder: StateFolder) -> AbstractContextManager[object]:
    """Holds the folder's lock. Raises NoAnswer if a daemon has it: one that starts, or that hangs."""
    from swell.store.errors import StateHeld
    from swell.store.lock import find_holder, lock_state

    try:
        return lock_state(folder.lock)
    except StateHeld as error:
        pid = find_holder(folder.lock)
        raise NoAnswer(
            f"a process (pid {pid or 'unknown'}) holds {folder.lock} and does not answer: it "
            "is a platform that starts or hangs, or another `swell down`; try again, or end "
            "it with `swell down --force`"
        ) from error


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


def _print_progress(text: str) -> None:
    print(text, file=sys.stderr)


# ------------------------------------------------------------ by force
def _make_answer(folder: StateFolder) -> bool:
    """Kill a daemon that does not answer, and start another to save what it left. True if it was killed."""
    from swell.api.client import connect_as_owner
    from swell.store.lock import find_holder

    if pid := _stopped_agent(folder):  # it can save its workers once it goes on
        os.kill(pid, signal.SIGCONT)
        _print_progress(f"resumed the agent (pid {pid}), which was stopped by a signal")
    if not folder.lock.exists() or (pid := find_holder(folder.lock)) is None:
        return False
    try:
        connect_as_owner(folder.path).close()
    except (NoPlatform, ApiError):
        _kill(folder, pid)
        _start_again(folder)
        return True
    return False


def _kill(folder: StateFolder, pid: int) -> None:
    """Returns when the folder is free. Raises StateHeld if it does not become so."""
    from swell.store.lock import lock_state

    with contextlib.suppress(ProcessLookupError):  # it may end while we ask
        os.kill(pid, signal.SIGKILL)
    lock_state(folder.lock, GONE_WITHIN_S).close()
    _print_progress(f"killed the platform (pid {pid}) of {folder.path}, which did not answer or did not end")


def _start_again(folder: StateFolder) -> None:
    """So that workers that still train are saved, and not only ended."""
    from swell.cli.launch import launch
    from swell.executors.local.launch import find_agent

    if find_agent(folder.path) is None:
        return
    try:
        launch(folder, ()).close()
    except (InvalidOption, StateError) as error:
        _print_progress(f"its jobs cannot be saved: {error}")
