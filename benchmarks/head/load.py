"""A process that is a thousand hosts: real lines, joining, leases and streams; emulated machines."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import secrets
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import cast

from benchmarks.head.machine import EmulatedMachine, Emulation, name_of
from swell.executors.gang.host_messages import FromHost
from swell.executors.local.lines import LineLink
from swell.executors.node.terms import HostTerms, TermHost
from swell.executors.remote.host_address import parse_address
from swell.executors.remote.join_tokens import JoinToken
from swell.executors.remote.joining import Join, JoinAccepted, JoinRefused, introduction, join
from swell.wire.lease_end import HostClock

#: Hosts are looked at in turns, so that the load is even: each of them so often.
TICK_EVERY_S, NUM_TURNS = 0.25, 25
JOINING_AT_ONCE = 16
TRY_AGAIN_S = 0.5


class EmulatedHost:
    """One host, as `executors.node.process` has it, without its process."""

    def __init__(self, index: int, emulation: Emulation) -> None:
        self.machine: EmulatedMachine | None = None  #: there is none before the first lease
        self.name = name_of(index)
        self._index, self._emulation = index, emulation
        self._session = secrets.token_hex(8)
        self._numbers = itertools.count(1)
        now_s = HostClock().now_s
        self.terms = HostTerms(self._session, lambda: next(self._numbers), self._new_machine, now_s)
        self.line: LineLink | None = None
        self.is_cut = False

    def _new_machine(self, answer: Callable[[FromHost], None]) -> TermHost:
        self.machine = EmulatedMachine(self._index, self._emulation, answer)
        return cast(TermHost, self.machine)

    @property
    def introduction(self) -> Join:
        return introduction(self.name, f"{self._index:032x}", self._session)

    def cut(self) -> None:
        """As if its machine had lost its power: nothing is heard of it any more."""
        self.is_cut = True
        if self.line is not None:
            self.line.closed = None
            self.line.close()


class Load:
    """All hosts, and what the benchmark asks of them."""

    def __init__(self, num_hosts: int, address: str, token: JoinToken, report_every_s: float) -> None:
        self._head, self._token = parse_address(address), token
        self._emulation = Emulation(time.monotonic, report_every_s)
        self._hosts = [EmulatedHost(index, self._emulation) for index in range(num_hosts)]
        self._random = random.Random(0)
        self._warnings = itertools.count()
        self._warn_every_s = 0.0

    async def run(self, orders: Connection) -> None:
        """Until told to end, by `(name, argument)`; each order is answered."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(orders.fileno(), self._obey, orders, ended)
        tasks = [loop.create_task(self._keep_time()), loop.create_task(self._keep_warning())]
        tasks.append(loop.create_task(self._join_all()))
        await ended.wait()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    def _obey(self, orders: Connection, ended: asyncio.Event) -> None:
        name, argument = orders.recv()
        match name:
            case "count":
                orders.send(sum(host.terms.has_lease for host in self._hosts))
            case "warn":
                self._warn_every_s = argument
                orders.send(None)
            case "cut":
                lost = [host for host in self._hosts if not host.is_cut][-argument:]
                for host in lost:
                    host.cut()
                orders.send([host.name for host in lost])
            case "written":
                orders.send(self._emulation.written)
            case _:
                orders.send(None)
                ended.set()

    async def _join_all(self) -> None:
        few = asyncio.Semaphore(JOINING_AT_ONCE)
        await asyncio.gather(*(self._join(host, few) for host in self._hosts))

    async def _join(self, host: EmulatedHost, few: asyncio.Semaphore) -> None:
        """Try until it is joined; a host that loses its line stays away."""
        head = self._head

        def attach(line: LineLink, accepted: JoinAccepted) -> None:
            host.terms.attach(line)

        while host.line is None:
            async with few:
                with contextlib.suppress(JoinRefused):
                    host.line = await join(head.host, head.port, self._token, host.introduction, attach)
                    return
            await asyncio.sleep(TRY_AGAIN_S)

    async def _keep_time(self) -> None:
        """A part of the hosts at a time, so that the load is even."""
        for turn in itertools.count():
            begun_s = time.monotonic()
            for host in self._hosts[turn % NUM_TURNS :: NUM_TURNS]:
                if not host.is_cut:
                    host.terms.tick()
            await asyncio.sleep(max(0.0, begun_s + TICK_EVERY_S / NUM_TURNS - time.monotonic()))

    async def _keep_warning(self) -> None:
        """From one host after the other that runs something."""
        while True:
            await asyncio.sleep(self._warn_every_s or 0.1)
            if self._warn_every_s and (machine := self._any_machine()) is not None:
                machine.warn(self._random.choice(sorted(machine.jobs)), f"probe {next(self._warnings)}")

    def _any_machine(self) -> EmulatedMachine | None:
        return next(self._busy_machines(), None)

    def _busy_machines(self) -> Iterator[EmulatedMachine]:
        for _ in range(100):
            host = self._random.choice(self._hosts)
            if not host.is_cut and host.machine is not None and host.machine.jobs:
                yield host.machine


def serve(num_hosts: int, address: str, token: JoinToken, report_every_s: float, orders: Connection) -> None:
    """The process."""
    asyncio.run(Load(num_hosts, address, token, report_every_s).run(orders))
