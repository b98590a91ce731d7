"""`swell logs`."""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import typer

import swell
from swell.cli.options import JobName, Json, State, described
from swell.cli.output import print_json, printable_log, raw, warn
from swell.cli.selection import connect_to_read

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell.api.logs import LogChunk, LogOwner
    from swell.executors.local.logs.files import LogName

#: Seconds between two looks at a job's logs.
LOOK_EVERY_S = 0.3
#: So many lines are printed if no number is given, and this prints all.
LAST_LINES, ALL = 1000, "all"
#: Among so many lines the end of a traceback is looked for.
NUM_LAST_LINES = 200


@described("""
follow (--follow, -f):
    Keep printing new lines until the job has ended.
num_lines (-n, --lines): N
    Begin with the last N lines, or `all`. Default: 1000.
every (--all):
    Lines of all workers, each with its worker's number.
worker: N
    Lines of this worker only; `2.1`: of the process at position 1 of worker 2.
trial:
    Lines of the trial run.
is_raw (--raw):
    As the job wrote it: with its colours, and all else that a terminal obeys.
""")
def logs(
    job: JobName,
    follow: bool = False,
    num_lines: str = "",
    every: bool = False,
    worker: str | None = None,
    trial: bool = False,
    is_raw: bool = False,
    state: State = None,
    json: Json = False,
) -> None:
    """Print the output of a job.

    By default only the lines of rank 0. A job that has not started yet shows its trial run. The output of a
    failed job ends with its error.
    """
    from swell.api.logs import LogOwner

    if every and (trial or worker is not None):
        raise typer.BadParameter("--all excludes --worker and --trial; give one of them")
    if worker is not None and not re.fullmatch(r"\d+(\.\d+)?", worker, re.ASCII):
        raise typer.BadParameter(f"--worker {worker!r} is no number of a worker, such as 2, nor 2.1")
    if not (num_lines in ("", ALL) or (num_lines.isascii() and num_lines.isdecimal())):
        raise typer.BadParameter(f"-n {num_lines!r} is no number of lines, nor `{ALL}`")
    if json and num_lines:
        raise typer.BadParameter("-n excludes --json, whose chunks are no lines; leave one of them out")
    whose = None
    if trial or every or worker is not None:
        whose = LogOwner.TRIAL if trial else LogOwner.WORKERS
    with (swell.connect if follow else connect_to_read)(state) as client:
        job_id = client.find_job(job).id
        read = partial(_news, client, job_id, worker, whose, {})
        if json:
            print_json([chunk for chunks in read() for chunk in chunks])
            return
        lines = LogLines(whose is not None and worker is None, str if is_raw else printable_log)
        most = None if num_lines == ALL else int(num_lines or LAST_LINES)
        hint = "" if num_lines else f"`swell logs {job} -n {ALL}` prints all"
        _print_all(lines, read, most, hint, lambda: not follow or client.job(job_id).phase.is_end)
        view = client.job(job_id)
        last_words = view.message.strip() if view.phase == "failed" else ""
        if whose is None and last_words and last_words.split("\n")[-1] not in lines.last:
            print(last_words)  # another's than its leader's
        elif whose is not None and not lines.last:
            warn(_nothing(client, job_id, worker, trial))


def _print_all(
    lines: LogLines,
    read: Callable[[], Iterator[list[LogChunk]]],
    num_lines: int | None,
    hint: str,
    has_ended: Callable[[], bool],
) -> None:
    """Print lines until there are no more, of those that are there the last `num_lines`.

    `hint` is said where there were more.
    """
    is_over = False
    while not is_over:
        is_over = has_ended()  # asked before the logs are read: nothing is written after the end
        shown = enumerate((line for chunks in read() for line in lines.of(chunks)), 1)
        last = deque(shown, num_lines) if num_lines is not None else ()
        raw(sys.stdout).writelines(line for _, line in last or shown)
        sys.stdout.flush()
        if hint and last and last[0][0] > 1:
            warn(f"these are the last {num_lines:,} of {last[-1][0]:,} lines; {hint}")
        num_lines = None
        if not is_over:
            time.sleep(LOOK_EVERY_S)
    raw(sys.stdout).writelines(lines.unfinished())


def _nothing(client: Client, job_id: str, worker: str | None, is_trial: bool) -> str:
    """Why nothing was printed, where something was asked for by its kind or number."""
    from swell.api.logs import LogOwner

    if worker is None:
        return f"job {job_id} has printed nothing" + " in its trial run" * is_trial
    numbers = dict.fromkeys(chunk.worker for chunk in client.logs(job_id, whose=LogOwner.WORKERS))
    known = f"its workers are {', '.join(map(str, numbers))}" if numbers else "it has had no worker yet"
    return f"worker {worker} of job {job_id} has printed nothing; {known}"


def _news(
    client: Client,
    job_id: str,
    worker: str | None,
    whose: LogOwner | None,
    offsets: dict[bool, dict[LogName, int]],
) -> Iterator[list[LogChunk]]:
    """What was written since it was asked last, answer by answer: a log may be larger than memory.

    Args:
        whose: None: the leader's, or the trial run's until there is one.
        offsets: of each worker's log, where to go on; those of the trial run under True.
    """
    from swell.api.logs import LogOwner, is_news

    def ask(owner: LogOwner) -> list[LogChunk]:
        return client.logs(job_id, offsets.setdefault(owner == "trial", {}), worker, owner)

    while True:
        chunks = ask(whose) if whose else ask(LogOwner.LEADER) or ask(LogOwner.TRIAL)
        news = [chunk for chunk in chunks if is_news(chunk)]
        if not news:
            return
        for chunk in news:
            offsets[chunk.is_trial][chunk.worker] = chunk.next_offset
        yield news


class LogLines:
    """Makes whole lines of what workers print.

    Args:
        is_named: each has its worker's number in front, as soon as there is more than one worker.
        spelled: how a line is shown.
    """

    def __init__(self, is_named: bool, spelled: Callable[[str], str]) -> None:
        self._is_named, self._spelled = is_named, spelled
        self._unfinished: dict[tuple[bool, LogName], str] = {}
        self.last: deque[str] = deque(maxlen=NUM_LAST_LINES)

    def of(self, chunks: list[LogChunk]) -> Iterator[str]:
        """Complete lines; an incomplete one is kept for the next call."""
        for chunk in chunks:
            self._unfinished.setdefault((chunk.is_trial, chunk.worker), "")
        for chunk in chunks:
            key = (chunk.is_trial, chunk.worker)
            if not self._is_named:
                yield from self.unfinished(but=key)  # it leads no more
            if chunk.discarded_bytes:
                yield from self.unfinished(of=key)
                yield self._line(
                    key, f"[swell: {chunk.discarded_bytes:,} bytes are left out here: see --log-limit]"
                )
            *lines, self._unfinished[key] = (self._unfinished[key] + chunk.text).split("\n")
            for line in lines:
                yield self._line(key, line)

    def unfinished(
        self, of: tuple[bool, LogName] | None = None, but: tuple[bool, LogName] | None = None
    ) -> Iterator[str]:
        """Lines that lack their end, of a worker or of all others."""
        for key, line in self._unfinished.items():
            if line and of in (None, key) and key != but:
                self._unfinished[key] = ""
                yield self._line(key, line)

    def _line(self, key: tuple[bool, LogName], line: str) -> str:
        self.last.append(line)
        is_trial, worker = key
        is_alone = sum(other == is_trial for other, _ in self._unfinished) == 1
        has_name = (self._is_named or is_trial) and not is_alone
        return self._spelled(f"[{worker}] {line}\n" if has_name else f"{line}\n")
