"""A host with a valid token that lies: it speaks of jobs that were never given to it, and of much else.

    liar.py HEAD PORT TOKEN_FILE JOB...

What is too long and what is no message each cost it its line. It says all its lies in a term of its own, and
leaves: the head has heard them all when it closes the line. Where it believes them, the jobs tell.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from swell.executors.gang.job_context import MeetingPoint
from swell.executors.hosts import messages as h
from swell.executors.hosts.messages import SaidInTerm
from swell.executors.local.lines import MAX_LINE_BYTES, LineLink
from swell.executors.node.terms import HostTerms, TermHost
from swell.executors.remote.join_tokens import JoinToken, read_token
from swell.executors.remote.joining import CannotJoin, JoinAccepted, introduction, join
from swell.model.event import GangEnded, GangSuspended, Outcome
from swell.model.node import Node
from swell.wire import messages as m

NAME, TICK_S, PATIENCE_S = "liar", 0.05, 60.0
#: What a lie says, where it says anything.
LIE = "this is a lie"
STEPS = 1 << 40


def lies(job: str, generation: int) -> Iterator[h.FromHost]:
    """Of a job that others have, as a host of its gang would speak."""
    for number in range(generation + 2):
        of_gang: dict[str, Any] = {"at_s": 0.0, "job_id": job, "generation": number, "steps": STEPS}
        yield h.EndKept(end=GangEnded(**of_gang, outcome=Outcome.SUCCEEDED, message=LIE))
        yield h.EndKept(end=GangSuspended(**of_gang))
    for run in (job, f"trial:{job}"):
        yield h.RunRefused(run=run, outcome=Outcome.FAILED, why=LIE)
        at = MeetingPoint(address="10.0.0.1", port=9)
        yield h.RunOpened(run=run, first_worker=1, meeting_point=at)
        yield h.WorkerForked(run=run, worker=0, pid=1)
        yield h.WorkerSaid(run=run, worker=0, message=m.Finished(steps=STEPS))
        yield h.WorkersAlive(runs={run: {0: m.Alive()}})
        yield h.WorkerExited(run=run, worker=0, status=0, log_tail=LIE)
    yield h.OwnerWarned(job_id=job, message=LIE, about=LIE)
    yield h.OwnerWarned(job_id=job, message=LIE * 10_000)


def strange() -> Iterator[h.FromHost]:
    """Of itself, as no host can be."""
    foreign = Node(name="n1", devices=("n1/0",), kind="cpu")
    yield h.DevicesOffered(devices={}, num_cores=1, nodes=(foreign,))
    yield h.WorkersAlive(runs={str(number): {0: m.Alive()} for number in range(20_000)})


class Inside:
    """Without devices and without workers."""

    is_gone = True

    def __init__(self, offered: Callable[[], None]) -> None:
        self.present = offered

    def tell(self, message: h.ToHost) -> None: ...
    def tick(self) -> None: ...
    def kill(self) -> None: ...


class Liar:
    def __init__(self, head: str, port: int, token: JoinToken) -> None:
        self._head, self._port, self._token = head, port, token
        self._session, self._has_lease = secrets.token_hex(8), False
        self.terms = HostTerms(
            self._session, lambda: time.time_ns() // 1000, self._new_inside, time.monotonic
        )

    def _new_inside(self, answer: Callable[[h.FromHost], None]) -> TermHost:
        return cast(TermHost, Inside(lambda: setattr(self, "_has_lease", True)))

    async def attach(self) -> LineLink:
        """The line of one more connection, once the head listens."""
        me = introduction(NAME, NAME, self._session)
        end_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                return await join(self._head, self._port, self._token, me, self._take)
            except CannotJoin as error:
                if error.is_final or time.monotonic() > end_s:
                    raise
            await asyncio.sleep(TICK_S)

    def _take(self, line: LineLink, accepted: JoinAccepted) -> None:
        self.terms.attach(line)

    async def until(self, is_so: Callable[[], bool], what: str) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > end_s:
                raise SystemExit(f"liar: not within {PATIENCE_S:g} s: {what}")
            self.terms.tick()
            await asyncio.sleep(TICK_S)

    async def _say_oddly(self, odd: bytes) -> None:
        line = await self.attach()
        line.send_encoded(odd)
        await self.until(lambda: not line.is_open, f"the end of a line that said {odd[:20]!r}")

    async def lie(self, jobs: dict[str, int]) -> None:
        """`jobs`: the generation of each."""
        for odd in (
            b"x" * (MAX_LINE_BYTES + 1),
            b'{"type":"Sequenced","number":1,"body":{"type":"Lie"}}',
            b"{}",
        ):
            await self._say_oddly(odd)
        await self.attach()
        await self.until(lambda: self._has_lease, "a lease")
        told = [*(lie for job, generation in jobs.items() for lie in lies(job, generation)), *strange()]
        for message in told:
            self.terms.stream.say(SaidInTerm(term=self.terms.term, message=message))
        self.terms.leave()
        await self.until(lambda: not self.terms.stream.has_line, "the end of the line, once all was heard")
        sys.stdout.write(f"{len(told)} lies\n")


def main() -> None:
    head, port, token, *jobs = sys.argv[1:]
    liar = Liar(head, int(port), read_token(Path(token)))
    asyncio.run(
        liar.lie({name: int(generation) for name, _, generation in (job.partition("=") for job in jobs)})
    )


if __name__ == "__main__":
    main()
