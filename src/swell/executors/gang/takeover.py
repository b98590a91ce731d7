"""A gang goes from one controller to the next: what its workers have said since its record is said again.

A record is written before what follows from it is done. So it may tell of orders that have not arrived, which
are given again (`Dealings`), and know nothing of what came after it, of which nothing followed then: that
is heard now, as if it came now. A gang that is whole trains on, and hears nothing at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from swell.executors.exit_status import HOST_LOST
from swell.executors.gang.effects import Effect, WorkerExit
from swell.executors.gang.gang_protocol import GangProtocol
from swell.executors.gang.kept_worker import KeptWorker


def take_over(
    gang: GangProtocol,
    kept: Mapping[int, KeptWorker],
    lost: Collection[int],
    num_heard: Mapping[int, int],
    now_s: float,
) -> list[Effect]:
    """Go on with a former controller's gang. Call it before any other method of the gang.

    Args:
        kept: what hosts tell of workers. One that is missing was never started, and is started now.
        lost: workers whose hosts are gone.
        num_heard: how many of a worker's messages the gang knows of.
    """
    effects = list(gang.take_over(now_s))
    for number, worker in kept.items():
        if worker.pid is not None:
            effects += gang.forked(number, worker.pid, now_s)
    for number, worker in kept.items():
        for message in worker.unheard(num_heard.get(number, 0)):
            effects += gang.said(number, message, now_s)
    for number, worker in kept.items():
        if worker.reported is not None:
            effects += gang.hear_again(number, worker.reported, now_s)
    why = "its host was lost together with the controller"
    exits = [WorkerExit(number, HOST_LOST, why) for number in lost]
    exits += [WorkerExit(w.number, w.exit.status, w.exit.log_tail) for w in kept.values() if w.exit]
    return [*effects, *gang.exited_together(exits, now_s)]
