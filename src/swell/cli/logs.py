"""`swell logs`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.options import JobName, Json, State
from swell.cli.output import print_json
from swell.cli.resolve import find_job

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell.api.logs import LogChunk

#: Seconds between two looks at a job's logs.
LOOK_EVERY_S = 0.3


def logs(
    job: JobName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    worker: Annotated[int | None, typer.Option(min=0, metavar="N", help="Of this worker only.")] = None,
    state: State = None,
    json: Json = False,
) -> None:
    """Print what the workers of a job printed."""
    from swell.api.client import connect

    with connect(state) as client:
        view = find_job(client, job)
        reader = Reader(client, view.id, worker)
        if json:
            print_json(reader.rest())
            return
        printer = Printer(is_named=worker is None)
        while True:
            # Asked before the logs are read: nothing is written after the end.
            has_ended = not follow or client.job(view.id).phase.is_end
            printer.print(reader.rest())
            if has_ended:
                break
            time.sleep(LOOK_EVERY_S)
        printer.finish()


class Reader:
    """What was written since it was last asked."""

    def __init__(self, client: Client, job_id: str, worker: int | None) -> None:
        self._client = client
        self._job_id = job_id
        self._worker = worker
        self._offsets: dict[int, int] = {}

    def rest(self) -> list[LogChunk]:
        chunks: list[LogChunk] = []
        while news := [chunk for chunk in self._ask() if chunk.next_offset > chunk.offset]:
            self._offsets.update({chunk.worker: chunk.next_offset for chunk in news})
            chunks += news
        return chunks

    def _ask(self) -> list[LogChunk]:
        return self._client.logs(self._job_id, self._offsets, self._worker)


class Printer:
    """Whole lines, each with its worker's number as soon as there is more than one worker."""

    def __init__(self, is_named: bool) -> None:
        self._is_named = is_named
        self._unfinished: dict[int, str] = {}

    def print(self, chunks: list[LogChunk]) -> None:
        for chunk in chunks:
            self._unfinished.setdefault(chunk.worker, "")
        for chunk in chunks:
            *lines, rest = (self._unfinished[chunk.worker] + chunk.text).split("\n")
            self._unfinished[chunk.worker] = rest
            for line in lines:
                self._write(chunk.worker, line)
        sys.stdout.flush()

    def finish(self) -> None:
        """The last lines may lack their end."""
        for worker, line in self._unfinished.items():
            if line:
                self._write(worker, line)

    def _write(self, worker: int, line: str) -> None:
        is_alone = not self._is_named or len(self._unfinished) == 1
        sys.stdout.write(f"{line}\n" if is_alone else f"[{worker}] {line}\n")
