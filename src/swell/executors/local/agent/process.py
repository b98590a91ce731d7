"""The process that owns a machine's workers and outlives the daemon.

`python -m swell.executors.local.agent.process FOLDER`, with its options as JSON in its standard input. There
is one for a state folder: it holds a lock that its zygote and all workers inherit, so the next agent begins
only when every process of this one is gone.

Inside are a controller, its one host, and the door by which daemons and workers come in: one event loop, one
thread, no torch. No part waits for another: every method returns at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module

import msgspec

from swell.executors.controller import protocol
from swell.executors.controller.controller import Controller
from swell.executors.limited_log import LimitedLog, log_to_stderr
from swell.executors.local.agent.address import AgentAddress, AgentRunning, address_path, hold_lock
from swell.executors.local.agent.door import Door, DoorError
from swell.executors.local.agent.handshakes import Handshakes
from swell.executors.local.agent.host import LocalHost, is_same
from swell.executors.local.agent.options import LOOPBACK, AgentOptions, decode_options
from swell.executors.local.limits.allocation import confine
from swell.executors.local.lines import LineLink
from swell.wire.messages import Hello
from swell.wire.whole_files import write_whole

TICK_S = 0.1
#: How the controller calls this machine.
HOST = "local"
#: Makes the door of an agent at which hosts join, from its controller, its options and its `boot_id`.
NewDoor = Callable[[Controller, AgentOptions, str], Door]

log = logging.getLogger("swell.agent")
_from_daemon = msgspec.json.Decoder(protocol.ToAgent).decode


class WorkerSupervisor:
    """The local engine: controller and host in one process, so that a message between them is a call."""

    def __init__(self, options: AgentOptions, lock_fd: int, new_door: NewDoor | None = None) -> None:
        """`new_door`: for hosts of other machines; None: none can join. Raises DoorError."""
        self.boot_id = secrets.token_hex(8)
        self.token = secrets.token_hex(32)
        self.stopped = asyncio.Event()
        self._options = options
        self._daemon: LineLink | None = None
        self.controller = Controller(options.state_dir, options.gang_settings, self.boot_id)
        self._handshakes = Handshakes(msgspec.json.Decoder(protocol.FirstLine).decode, self._admit)
        self.host = LocalHost(options, lock_fd, partial(self.controller.handle_host_message, HOST))
        self.controller.join_host(HOST, self.host.tell)
        self._door = None if new_door is None else new_door(self.controller, options, self.boot_id)
        self._ticking: dict[str, tuple[Callable[[], None], LimitedLog]] = {
            "the host of this machine": (self.host.tick, LimitedLog(log.exception)),
            "the controller": (self.controller.tick, LimitedLog(log.exception)),
        }
        if self._door is not None:
            self._ticking["the door of the engine"] = (self._door.tick, LimitedLog(log.exception))
        self.hosts_address = ""  #: where hosts join

    # ------------------------------------------------------------ life
    async def listen(self) -> int:
        """Open the doors, start the zygote and the clock; returns the port. Raises DoorError."""
        loop = asyncio.get_running_loop()
        port = await self._handshakes.listen(LOOPBACK)
        if self._door is not None:
            self.hosts_address = await self._door.open()
        self.host.start(f"{LOOPBACK}:{port}")
        loop.call_later(TICK_S, self._tick)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stopped.set)
        return port

    async def shut_down(self) -> None:
        """Every process of ours is gone when this returns."""
        ends = [self.host.shut_down(), *([self._door.close()] if self._door is not None else [])]
        await asyncio.gather(*ends)
        await self._handshakes.close()

    def _tick(self) -> None:
        asyncio.get_running_loop().call_later(TICK_S, self._tick)
        for part, (tick, failures) in self._ticking.items():
            try:
                tick()
            except Exception:  # noqa: BLE001 - it keeps nothing else from going on, and is tried again
                failures("%s failed; it goes on once it does not", part)

    # ------------------------------------------------------------ who is at the door
    def _admit(self, link: LineLink, hello: protocol.Attach | Hello) -> bool:
        """The first line says who it is; one without the right token gets no answer."""
        if isinstance(hello, Hello):
            return self.host.admit(link, hello)
        if is_right := is_same(hello.token, self.token):
            self._attach(link, hello)
        return is_right

    # ------------------------------------------------------------ the daemon
    def _attach(self, link: LineLink, hello: protocol.Attach) -> None:
        if self._daemon is not None:
            self._daemon.close()
        self._daemon = link
        link.heard, link.closed = self._hear_daemon, self._lose_daemon
        self.controller.attach(link, hello.session)

    def _lose_daemon(self, link: LineLink) -> None:
        self.controller.detach(link)
        if self._daemon is link:
            self._daemon = None

    def _hear_daemon(self, link: LineLink, line: bytes) -> None:
        match _from_daemon(line):
            case protocol.Acknowledge(number=number):
                self.controller.acknowledge(number)
            case protocol.BindDevices(bindings=bindings):
                self.host.offer(bindings)
            case protocol.RemoveHost(name=name) if self._door is not None:
                try:  # what comes of it, the daemon hears by `NodeLost`
                    self._door.remove(name)
                except DoorError as error:  # it is gone already
                    log.warning("cannot remove host %s: %s", name, error)
            case protocol.TestDevices() as order:
                self.controller.test_devices(order)
            case protocol.DevicesWanted(num=num) if self._door is not None:
                self._door.want_devices(num)
            case protocol.Perform(number=number, command=command):
                link.send(protocol.Performed(number=self.controller.perform(number, command)))


async def serve(options: AgentOptions, lock_fd: int) -> None:
    """Until the daemon or a signal says to stop, and every process is gone. Raises DoorError."""
    supervisor = WorkerSupervisor(options, lock_fd, make_door if options.door else None)
    port = await supervisor.listen()
    address = AgentAddress(
        port=port,
        pid=os.getpid(),
        token=supervisor.token,
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
    log_to_stderr("%(asctime)s %(levelname)s %(message)s")
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
