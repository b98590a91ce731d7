"""What a worker leaves behind when it ends: found and ended by the zygote before the worker's end is told.

A script may start processes that leave its session (`setsid`, a daemon). The zygote adopts them when their
parent ends; whose they are stands in their mark. Those of a worker that lives are its own affair.
"""

from __future__ import annotations

from dataclasses import dataclass

from swell.executors.local.processes.listing import ProcessEntry, kill, list_processes
from swell.executors.local.processes.strays import read_mark
from swell.executors.local.zygote.messages import Exited

#: A process that the kernel does not end in time waits for a device: the worker's end is told without it.
KILL_WITHIN_S = 3.0


@dataclass(slots=True)
class Departure:
    """A worker that has ended, while processes of its own are left."""

    key: str
    pid: int
    number: int  #: in the mark of its processes
    status: int
    give_up_s: float


class Orphans:
    """The children of a zygote that are no workers. Ask `settle` when a child has ended, and in `wait_s`."""

    def __init__(self, own_pid: int, zygote_id: str) -> None:
        """`zygote_id`: in the mark of its processes."""
        self._own_pid = own_pid
        self._zygote_id = zygote_id
        self._departures: list[Departure] = []

    def leave(self, key: str, pid: int, number: int, status: int, now_s: float) -> None:
        """This worker has ended."""
        self._departures.append(Departure(key, pid, number, status, now_s + KILL_WITHIN_S))

    def settle(self, workers: dict[int, int], now_s: float) -> list[Exited]:
        """The ends of workers of which nothing is left. `workers`: live ones, pid -> number.

        The children of a process that is killed are adopted next.
        """
        waited_for: set[str] = set()
        for orphan in list_processes() if self._departures else ():
            if orphan.is_dead or orphan.parent != self._own_pid or orphan.pid in workers:
                continue
            if (departure := self._departure_of(orphan, set(workers.values()))) is not None:
                waited_for.add(departure.key)
                kill(orphan.pid)
        over = [
            departure
            for departure in self._departures
            if departure.key not in waited_for or now_s >= departure.give_up_s
        ]
        self._departures = [departure for departure in self._departures if departure not in over]
        return [Exited(key=departure.key, status=departure.status) for departure in over]

    def wait_s(self, now_s: float) -> float | None:
        """Until `settle` is due, if no child ends before; None: it is not."""
        dues_s = [departure.give_up_s for departure in self._departures]
        return max(0.0, min(dues_s) - now_s) if dues_s else None

    def _departure_of(self, orphan: ProcessEntry, live: set[int]) -> Departure | None:
        """The worker whose end it is a part of; None while it may be one that lives."""
        mark = read_mark(orphan.pid)
        number = mark.worker if mark is not None and mark.zygote_id == self._zygote_id else 0
        for departure in self._departures:
            if number == departure.number or orphan.group == departure.pid:
                return departure
        if number in live or (not number and live):
            return None
        return self._departures[-1]  # of a worker whose end was told, or its mark does not say whose it is
