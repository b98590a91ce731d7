"""Machines that join a platform while they are lent, and are killed when they are not."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar, cast

import msgspec

import swell
from swell_papers import reclaimer
from swell_papers.lent_intervals import LentInterval
from swell_papers.machines.network import HOME, STATE, NamespacedMachine, Network
from swell_papers.reclaim_record import PlayBegun, PlayOrder, Reclaimed, ScriptsMeasured, Told

Word = TypeVar("Word", bound=Told)

PORT, TOKEN_FILE = 7070, f"{HOME}/join-token"
#: That plays an order on the machine of the head.
PLAYER = (sys.executable, "-P", "-m", "swell_papers.reclaim_player")
SWELL = (sys.executable, "-P", "-m", "swell.cli.main")
#: Threads of torch, and the package that the machines see.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(swell.__file__).parents[1])}


class PlayFailed(Exception):
    """The platform, or the program that plays at it, failed; the text has its last words."""


@dataclass(slots=True)
class LentMachines:
    """One machine for each name; it runs while the node is lent."""

    head: NamespacedMachine
    machines: dict[str, NamespacedMachine]
    token: str
    devices: str  #: of each

    def join(self, name: str) -> None:
        """`swell node` on a machine that is up. Returns before it has joined."""
        machine = self.machines[name]
        file = machine.outside(TOKEN_FILE)
        file.touch(mode=0o600)
        file.write_text(self.token)
        where = ("--join", f"{self.head.address}:{PORT}", "--token-file", TOKEN_FILE)
        what = ("--name", name, "--devices", self.devices, "--borrowed")
        machine.popen(*SWELL, "node", *where, *what, env=ENVIRONMENT, stderr=subprocess.DEVNULL)

    def kill(self, name: str) -> None:
        self.machines[name].kill()


class Reclaimer:
    """The third process: it is given who is to be killed when, and tells afterwards what it did."""

    def __init__(self, opened_s: float) -> None:
        """`opened_s`: time 0 of the intervals, by CLOCK_MONOTONIC."""
        self._opened_s = opened_s
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", reclaimer.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def note(self, at_s: float, machine: NamespacedMachine, name: str) -> None:
        """That machine, which runs now, is to be killed at that time of the intervals."""
        orders = cast(IO[str], self._process.stdin)
        orders.write(f"{self._opened_s + at_s} {machine.pid} {name}\n")
        orders.flush()

    def close(self) -> tuple[Reclaimed, ...]:
        """What was done, once all is."""
        said, _ = self._process.communicate()
        rows = [line.split() for line in said.splitlines()]
        return tuple(
            Reclaimed(node=name, sent_s=float(sent_s) - self._opened_s, gone_s=float(gone_s) - self._opened_s)
            for name, sent_s, gone_s in rows
        )


@contextmanager
def lent_machines(names: Sequence[str], up: Sequence[str], devices: str) -> Iterator[LentMachines]:
    """A platform without devices of its own, on a machine of its own, and a machine for each name.

    Args:
        up: options of `swell up`.
        devices: of `swell node`.

    Raises:
        NamespacesMissing: machines cannot be had.
        PlayFailed: the platform does not start.
    """
    with Network(NamespacedMachine, 1 + len(names)) as network:
        head, *others = network
        words = ("up", "--devices", "none", "--listen", f"{head.address}:{PORT}", *up)
        try:
            head.run(*SWELL, *words, env=ENVIRONMENT)
        except subprocess.CalledProcessError as error:
            raise PlayFailed(f"`swell up` fails on the machine of the head: {error.stdout}") from error
        token = head.outside(f"{STATE}/first.join-token").read_text()
        yield LentMachines(head, dict(zip(names, others, strict=True)), token, devices)


def play(
    lent: LentMachines,
    order: PlayOrder,
    intervals: Sequence[LentInterval],
    advance: Callable[[int], None],
    kind: type[Word],
) -> tuple[Word, tuple[Reclaimed, ...]]:
    """The jobs of the order, on machines that come and go by the intervals.

    Args:
        advance: called now and then with the seconds that have been played.
        kind: of its last word.

    Raises:
        PlayFailed: the player has ended before its time.
    """
    for name in lent.machines:
        lent.join(name)
    player = lent.head.popen(
        *PLAYER,
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with cast(IO[str], player.stdin) as orders:
        orders.write(msgspec.json.encode(order).decode())
    _await(player, ScriptsMeasured)
    for name in lent.machines.keys() - order.first:
        lent.kill(name)
    _await(player, PlayBegun)
    follower = Follower(lent, intervals, order.played_s, advance)
    follower.start()
    ended = _await(player, kind)
    follower.join()
    return ended, follower.reclaimed


class Follower(threading.Thread):
    """Has the machines start and end by the intervals."""

    def __init__(
        self,
        lent: LentMachines,
        intervals: Sequence[LentInterval],
        played_s: float,
        advance: Callable[[int], None],
    ) -> None:
        super().__init__(daemon=True)
        self._lent, self._intervals, self._played_s, self._advance = lent, intervals, played_s, advance
        self._opened_s = time.monotonic()
        self.reclaimed: tuple[Reclaimed, ...] = ()

    def run(self) -> None:
        reclaimer = Reclaimer(self._opened_s)
        for one in sorted(self._intervals, key=lambda one: one.start_s):
            self._await_time(one.start_s)
            machine = self._lent.machines[one.node]
            if one.start_s > 0.0:
                machine.release()
                machine.start()
                self._lent.join(one.node)
            reclaimer.note(one.end_s, machine, one.node)
        self.reclaimed = reclaimer.close()

    def _await_time(self, at_s: float) -> None:
        while (wait_s := self._opened_s + at_s - time.monotonic()) > 0.0:
            time.sleep(min(wait_s, 1.0))
            self._advance(int(min(time.monotonic() - self._opened_s, self._played_s)))


def _await(player: subprocess.Popen[str], kind: type[Word]) -> Word:
    """Raises PlayFailed: something else came."""
    line = cast(IO[str], player.stdout).readline()
    told = msgspec.json.decode(line, type=Told) if line else None
    if isinstance(told, kind):
        return told
    complaint = cast(IO[str], player.stderr).read()
    raise PlayFailed(f"no {kind.__name__} came from the player on the machine of the head:\n{complaint}")
