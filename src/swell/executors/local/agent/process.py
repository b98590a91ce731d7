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

import msgspec

from swell.executors.controller.controller import Controller
from swell.executors.local.agent.address import AgentAddress, AgentRunning, address_path, hold_lock
from swell.executors.local.agent.door import Door, DoorError
from swell.executors.local.agent.options import AgentOptions, decode_options
from swell.executors.local.agent.supervisor import WorkerSupervisor
from swell.executors.local.limits.allocation import confine
from swell.wire.whole_files import write_whole

log = logging.getLogger("swell.agent")


async def serve(options: AgentOptions, lock_fd: int) -> None:
    """Until the daemon or a signal says to stop, and every process is gone. Raises DoorError."""
    supervisor = WorkerSupervisor(options, lock_fd, make_door if options.door else None)
    port = await supervisor.listen()
    address = AgentAddress(
        port=port,
        pid=os.getpid(),
        token=supervisor.token,
        boot_id=supervisor.boot_id,
        hosts=supervisor.hosts_address,
        fixed=options.fixed,
    )
    try:
        write_whole(address_path(options.state_dir), msgspec.json.encode(address))
    except OSError as error:
        sys.exit(f"cannot write {address_path(options.state_dir)} ({error.strerror}); make room on its disk")
    log.info("listens on port %d", port)
    await supervisor.stopped.wait()
    await supervisor.shut_down()
    address_path(options.state_dir).unlink(missing_ok=True)
    log.info("every process is gone")


def make_door(controller: Controller, options: AgentOptions, session: str) -> Door:
    """Make what lets hosts in, which may be of another package. Raises DoorError, whatever that does."""
    module, _, name = options.door.partition(":")
    try:
        door: Door = getattr(import_module(module), name)(controller, options, session)
    except DoorError:
        raise
    except Exception as error:
        if not isinstance(error, ImportError):
            log.exception("the door of the engine cannot be made")
        raise DoorError(
            f"the engine cannot be used: {options.door} fails ({type(error).__name__}: {error}); "
            "repair its package, or choose another --engine"
        ) from error
    return door


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    options = decode_options(sys.stdin.buffer.read())
    options.state_dir.mkdir(parents=True, exist_ok=True)
    confine(options.sharing.cores)
    try:
        lock_fd = hold_lock(options.state_dir)
        asyncio.run(serve(options, lock_fd))
    except (AgentRunning, DoorError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
