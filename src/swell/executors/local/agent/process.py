"""The process that owns a machine's workers and outlives the daemon.

`python -m swell.executors.local.agent.process FOLDER`, with its options as JSON in its standard input. There
is one for a state folder: it holds a lock that its zygote and all workers inherit, so the next agent begins
only when every process of this one is gone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from swell.executors.local.agent.address import address_path
from swell.executors.local.agent.door import Door, DoorError
from swell.executors.local.agent.lock import AgentRunning, hold_lock
from swell.executors.local.agent.options import AgentOptions, decode_options
from swell.executors.local.agent.supervisor import NewDoor, WorkerSupervisor
from swell.executors.local.limits.allocation import confine
from swell.executors.local.protocol import AgentAddress
from swell.wire.whole_files import write_whole

log = logging.getLogger("swell.agent")


def write_address(state_dir: Path, address: AgentAddress) -> None:
    """Whole or not at all, and readable by its owner only. Ends the process if the disk has no room."""
    try:
        write_whole(address_path(state_dir), msgspec.json.encode(address))
    except OSError as error:
        sys.exit(f"cannot write {address_path(state_dir)} ({error.strerror}); make room on its disk")


async def serve(options: AgentOptions, lock_fd: int, new_door: NewDoor | None) -> None:
    """Until the daemon or a signal says to stop, and every process is gone. Raises DoorError."""
    supervisor = WorkerSupervisor(options, lock_fd, new_door)
    port = await supervisor.listen()
    address = AgentAddress(
        port=port,
        pid=os.getpid(),
        token=supervisor.token,
        boot_id=supervisor.boot_id,
        hosts=supervisor.hosts_address,
    )
    write_address(options.state_dir, address)
    log.info("listens on port %d", port)
    await supervisor.stopped.wait()
    await supervisor.shut_down()
    address_path(options.state_dir).unlink(missing_ok=True)
    log.info("every process is gone")


def _door(place: str) -> NewDoor | None:
    """What lets hosts in, if they may come. Ends the process if it cannot be imported."""
    module, _, name = place.partition(":")
    try:
        return _guarded(getattr(import_module(module), name), place) if place else None
    except Exception as error:  # noqa: BLE001 - whatever the package of an engine does
        sys.exit(
            f"the engine cannot be used: {place} cannot be imported ({type(error).__name__}: {error}); "
            "repair its package, or choose another --engine"
        )


def _guarded(new_door: NewDoor, place: str) -> NewDoor:
    """Any failure of a door that is made becomes one line: it may be of another package."""

    def make(*parts: Any) -> Door:
        try:
            return new_door(*parts)
        except DoorError:
            raise
        except Exception as error:
            log.exception("the door of the engine cannot be made")
            raise DoorError(
                f"the engine cannot be used: {place} fails ({type(error).__name__}: {error}); "
                "repair its package, or choose another --engine"
            ) from error

    return make


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    options = decode_options(sys.stdin.buffer.read())
    options.state_dir.mkdir(parents=True, exist_ok=True)
    confine(options.sharing.cores)
    try:
        lock_fd = hold_lock(options.state_dir)
        asyncio.run(serve(options, lock_fd, _door(options.door)))
    except (AgentRunning, DoorError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
