"""The process that owns a machine's workers and outlives the daemon.

`python -m swell.executors.local.agent.process --state DIR`. There is one for a state folder: it holds a lock
that its zygote and all workers inherit, so the next agent begins only when every process of this one is gone.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from swell.executors.gang.gang_settings import GangSettings
from swell.executors.leases.lease_times import LeaseTimes
from swell.executors.local.agent.address import address_path
from swell.executors.local.agent.door import Door, DoorError
from swell.executors.local.agent.lock import AgentRunning, hold_lock
from swell.executors.local.agent.options import DEFAULT_CALL, AgentOptions, advertised_by
from swell.executors.local.agent.supervisor import NewDoor, WorkerSupervisor
from swell.executors.local.containers.engine import ContainerChoice
from swell.executors.local.limits.allocation import confine
from swell.executors.local.limits.limiter import CoreSharing
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
    parser = argparse.ArgumentParser(prog="swell.executors.local.agent.process", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="state folder")
    parser.add_argument("--preload", action="append", default=[], help="a module that workers find imported")
    parser.add_argument("--call", default=DEFAULT_CALL, help="what a worker runs, with entry and arguments")
    parser.add_argument(
        "--gang-settings", default="{}", help="JSON: time limits, and what workers do from time to time"
    )
    parser.add_argument("--sharing", default="{}", help="JSON: how gangs share the cores")
    parser.add_argument("--containers", default=ContainerChoice.AUTO.value, help="which program runs them")
    parser.add_argument("--listen", default="", help="ADDRESS:PORT at which hosts join")
    parser.add_argument("--advertise", default="", help="IP address for workers of hosts; else of --listen")
    parser.add_argument("--rack", default="", help="in which this machine stands")
    parser.add_argument("--leases", default="{}", help="JSON: how long leases of hosts are")
    parser.add_argument("--door", default="", help="MODULE:CLASS of what lets hosts in; empty: none come")
    parser.add_argument("--engine", default="", help="JSON: options of what brings hosts")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    state_dir = arguments.state.resolve()
    state_dir.mkdir(parents=True, exist_ok=True)
    options = AgentOptions(
        state_dir=state_dir,
        preload=tuple(arguments.preload),
        call=arguments.call,
        gang_settings=msgspec.json.decode(arguments.gang_settings, type=GangSettings),
        sharing=msgspec.json.decode(arguments.sharing, type=CoreSharing),
        containers=ContainerChoice(arguments.containers),
        advertise=arguments.advertise or advertised_by(arguments.listen),
        rack=arguments.rack,
        listen=arguments.listen,
        leases=msgspec.json.decode(arguments.leases, type=LeaseTimes),
        engine=arguments.engine,
    )
    confine(options.sharing.cores)
    try:
        lock_fd = hold_lock(state_dir)
        asyncio.run(serve(options, lock_fd, _door(arguments.door)))
    except (AgentRunning, DoorError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
