"""A controller with a door for hosts, without a daemon: a program for a machine of the tests.

    python -m tests.machines.head ADDRESS:PORT LEASE_S MARGIN_S CHECKPOINT_INTERVAL_S CALL [PRELOAD ...]

It reads commands, a line of JSON each, and prints lines: `token TEXT`, `joined NAME`, `offered NAME`,
`lost NAME`, and every event as JSON. The numbers before them are seconds, by the clock by which leases are
granted.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from tests.machines.namespaces import STORAGE

from swell.executors.controller.controller import Controller
from swell.executors.controller.protocol import EventTold, ExecutorCommand
from swell.executors.gang.host_messages import DevicesOffered, FromHost, ToHost
from swell.executors.gang.job_context import GangSettings
from swell.executors.leases import LeaseTimes
from swell.executors.local.agent.options import AgentOptions
from swell.executors.remote.certificate import CERTIFICATE_FILE, fingerprint_of
from swell.executors.remote.join_tokens import TokenList
from swell.executors.remote.listening_door import ListeningDoor
from swell.store.folder import StateFolder
from swell.wire.lease_end import granter_now_s

TICK_S = 0.05


def say(*words: object) -> None:
    print(f"{granter_now_s():.3f}", *words, flush=True)


class PrintingController(Controller):
    def join_host(
        self, name: str, tell: Callable[[ToHost], None], is_reached: Callable[[], bool] = lambda: True
    ) -> None:
        super().join_host(name, tell, is_reached)
        say("joined", name)

    def handle_host_message(self, host: str, message: FromHost) -> None:
        super().handle_host_message(host, message)
        if isinstance(message, DevicesOffered) and message.devices:
            say("offered", host)

    def lose_host(self, name: str, why: str) -> None:
        say("lost", name)
        super().lose_host(name, why)


class Printer:
    """See `DaemonLine`."""

    is_open, is_full = True, False
    controller: Controller

    def send(self, message: msgspec.Struct) -> None:
        if isinstance(message, EventTold):
            say("event", msgspec.json.encode(message.event).decode())
            asyncio.get_running_loop().call_soon(self.controller.acknowledge, message.number)


async def serve(
    listen: str, times: LeaseTimes, checkpoint_interval_s: float, call: str, preload: tuple[str, ...]
) -> None:
    folder, printer = Path(os.environ["SWELL_STATE"]), Printer()
    state = StateFolder(folder)
    state.create()
    state.use_storage(STORAGE)
    options = AgentOptions(state_dir=folder, preload=preload, call=call, listen=listen, leases=times)
    gang_settings = GangSettings(checkpoint_interval_s=checkpoint_interval_s)
    printer.controller = PrintingController(folder, gang_settings, "boot")
    door = ListeningDoor(printer.controller, options, f"head-{os.getpid()}")
    printer.controller.attach(printer, "session")
    await door.open()
    fingerprint = fingerprint_of(folder / CERTIFICATE_FILE)
    say("token", str(TokenList(folder).add(f"t{os.getpid()}", fingerprint)))
    commands: asyncio.StreamReader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    performing = asyncio.create_task(perform(printer.controller, commands))
    while not performing.done():
        door.tick()
        printer.controller.tick()
        await asyncio.sleep(TICK_S)


async def perform(controller: Controller, commands: asyncio.StreamReader) -> None:
    number = 0
    while line := await commands.readline():
        number += 1
        controller.perform(number, msgspec.json.decode(line, type=ExecutorCommand))


if __name__ == "__main__":
    times = LeaseTimes(lease_s=float(sys.argv[2]), margin_s=float(sys.argv[3]))
    asyncio.run(serve(sys.argv[1], times, float(sys.argv[4]), sys.argv[5], tuple(sys.argv[6:])))
