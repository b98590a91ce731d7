"""`make bench-pages`: what open pages cost a platform that is up, and how soon they hear of a report.

The platform is real but for its machine, which obeys at once. Each running job reports once a second. The
pages are connections of another process that read the events. With --job they are pages of jobs that print a
line a second.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import re
import selectors
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import quote

import httpx
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.conditions import conditions, describe, write_json
from benchmarks.crowded_state import write_crowded_state
from benchmarks.live_turns import timed_platform
from swell.api.caller import OWNER
from swell.api.page.page import Page
from swell.api.server import create_app
from swell.api.serving import ApiServer, bind
from swell.live.platform import Platform
from swell.model.job import EndCondition, JobSpec

#: A device for each job.
NODE_DEVICES = 8
TOKEN = "t" * 40
#: Threads that work for pages: one sends, two make events, others answer what is fetched.
SENDING, MAKING = ("swell-api",), ("swell-page", "swell-job-pages")
FETCHING = ("AnyIO worker thread", "asyncio_")
WARM_UP_S = 5.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Of so many pages."""

    num_jobs: int
    num_pages: int
    api_share: float  #: of a core, of the thread that sends events
    page_share: float  #: of a core, of the threads that make them
    fetch_share: float  #: of a core, of the threads that answer what pages fetch
    turn_ms: float  #: median of the head's turns
    load_ms: float  #: median time to load the page
    median_s: (
        float  #: from a report of steps, which may wait for the head's next turn, to its event at a page
    )
    longest_s: float
    submitted_s: float  #: median, from a submission, which makes a turn, to its event at a page
    longest_submitted_s: float
    bytes_per_s: float  #: to each page


def measure(folder: Path, num_jobs: int, num_pages: int, seconds: float, num_shown: int = 0) -> Cost:
    """With the crowd of jobs whose state lies in the folder.

    Args:
        num_shown: the pages are of so many jobs; 0: they are the page Now.
    """
    devices = f"paced:{-(-num_jobs // NODE_DEVICES)}x{NODE_DEVICES}@200"
    with timed_platform(folder / f"state-{num_jobs}", devices) as (platform, machine, turns_s):
        listener = bind()
        port = int(listener.getsockname()[1])
        page = Page(platform, port=lambda: port)
        server = ApiServer(create_app(platform, TOKEN, page=page), listener)
        server.start()
        cookie, loads_s = _load(page, port)
        ours, theirs = multiprocessing.Pipe()
        shown = [view.id for view in platform.jobs()[:num_shown]]
        told = (theirs, port, cookie)
        readers = multiprocessing.get_context("spawn").Process(
            target=read, args=(*told, num_pages, seconds + WARM_UP_S, shown)
        )
        readers.start()
        theirs.close()  # if they fail, nothing is waited for
        sent_s: dict[int, float] = {}
        stopped = threading.Event()
        logs = [platform.log_dir(job_id) / "worker-0.log" for job_id in shown]
        asked_s: dict[str, float] = {}
        reporter = threading.Thread(target=_report, args=(machine, num_jobs, sent_s, stopped, logs))
        submitter = threading.Thread(target=_submit, args=(platform, folder / "tiny.py", asked_s, stopped))
        reporter.start()
        ours.recv()  # all are connected
        submitter.start()
        stopped.wait(WARM_UP_S)
        before, begun_s, num_turns = _cpu_s(), time.perf_counter(), len(turns_s)
        stopped.wait(seconds - 2.0)
        used, passed_s = _cpu_s(), time.perf_counter() - begun_s
        turn_s = statistics.median(turns_s[num_turns:])
        came_s, num_bytes = ours.recv()
        stopped.set()
        reporter.join()
        submitter.join()
        readers.join()
        page.stop()
        server.stop()
    late_s = [
        at_s - sent_s[int(key)] for key, at_s in came_s.items() if key.isdecimal() and int(key) in sent_s
    ]
    submitted_s = [at_s - asked_s[key] for key, at_s in came_s.items() if key in asked_s]
    shares = [
        sum(used.get(name, 0.0) - before.get(name, 0.0) for name in names) / passed_s
        for names in (SENDING, MAKING, FETCHING)
    ]
    return Cost(
        num_jobs=num_jobs,
        num_pages=num_pages,
        api_share=shares[0],
        page_share=shares[1],
        fetch_share=shares[2],
        turn_ms=1000 * turn_s,
        load_ms=1000 * statistics.median(loads_s),
        median_s=statistics.median(late_s or [0.0]),
        longest_s=max(late_s, default=0.0),
        submitted_s=statistics.median(submitted_s or [0.0]),
        longest_submitted_s=max(submitted_s, default=0.0),
        bytes_per_s=num_bytes / max(1, num_pages) / (seconds + WARM_UP_S),
    )


def _load(page: Page, port: int) -> tuple[str, list[float]]:
    """A session's cookie, and how long it takes to load the page."""
    loads_s = []
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as browser:
        browser.get(page.link(OWNER))
        for _ in range(9):
            begun_s = time.perf_counter()
            browser.get("/").raise_for_status()
            loads_s.append(time.perf_counter() - begun_s)
        return "; ".join(f"{name}={value}" for name, value in browser.cookies.items()), loads_s


def _report(  # type: ignore[no-untyped-def]
    machine, num_jobs: int, sent_s: dict[int, float], stopped: threading.Event, logs: list[Path]
) -> None:
    """Each job once a second, and into each log a line; the number of steps tells which report it was."""
    for number in itertools.count():
        sent_s[number + 1] = time.time()
        machine.report(number, loss=1.0 / (number + 1) if logs else None)
        for log in logs[number % num_jobs :: num_jobs]:
            with log.open("a") as file:
                file.write(f"step {number}: the loss is 1.25, and all is well\n")
        if stopped.wait(1.0 / num_jobs):
            return


def _submit(platform: Platform, script: Path, asked_s: dict[str, float], stopped: threading.Event) -> None:
    """A job every 1.7 s: at any moment between two reports."""
    for number in itertools.count():
        name = f"news-{number}"
        end = EndCondition(steps=10**6)
        spec = JobSpec(name=name, entry=str(script), workdir=str(script.parent), global_batch=16, end=end)
        asked_s[name] = time.time()
        platform.submit(spec)
        if stopped.wait(1.7):
            return


def _cpu_s() -> dict[str, float]:
    """Processor time of this process's threads, by name without a number."""
    used: dict[str, float] = {}
    for thread in threading.enumerate():
        try:
            fields = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        name = thread.name.rstrip("0123456789")
        used[name] = used.get(name, 0.0) + (int(fields[11]) + int(fields[12])) / 100
    return used


def read(
    told: Connection, port: int, cookie: str, num_pages: int, seconds: float, job_ids: Sequence[str] = ()
) -> None:
    """Be so many pages; tell when the first heard of which report or job, and how much came to all.

    Args:
        job_ids: pages are of these jobs in turn; none: they are the page Now.
    """
    abouts = [f"?job={quote(job_id)}" for job_id in job_ids] or [""]
    pages = [_opened(port, cookie, abouts[number % len(abouts)]) for number in range(num_pages)]
    readable = selectors.DefaultSelector()
    for page in pages:
        readable.register(page, selectors.EVENT_READ, page)
    told.send("connected")
    came_s: dict[str, float] = {}
    num_bytes, until_s = 0, time.time() + seconds
    while time.time() < until_s:
        for key, _ in readable.select(0.2):
            content = key.data.recv(1 << 20)
            num_bytes += len(content)
            if key.data is pages[0]:
                for found in re.findall(rb'"steps":(\d+)|"name":"(news-\d+)"', content):
                    came_s.setdefault(b"".join(found).decode(), time.time())
    told.send((came_s, num_bytes))


def _opened(port: int, cookie: str, about: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    lines = (f"GET /page/events{about} HTTP/1.1", "Host: 127.0.0.1", f"Cookie: {cookie}", "", "")
    connection.sendall("\r\n".join(lines).encode())
    return connection


def _measure_apart(folder: Path, num_jobs: int, num_pages: int, seconds: float, num_shown: int) -> Cost:
    """In a process of its own, as a platform is."""
    devices = f"paced:{-(-num_jobs // NODE_DEVICES)}x{NODE_DEVICES}@200"
    write_crowded_state(folder / f"state-{num_jobs}", folder / "tiny.py", devices, 0, num_jobs)
    return measure(folder, num_jobs, num_pages, seconds, num_shown)


def show(rows: list[Cost]) -> None:
    parts = ("send %", "make %", "fetch %")
    names = (
        "jobs",
        "pages",
        *parts,
        "turn ms",
        "load ms",
        "report s",
        "longest",
        "submit s",
        "longest",
        "kB/s",
    )
    table = Table(*names, box=SIMPLE_HEAD)
    for row in rows:
        table.add_row(
            f"{row.num_jobs}",
            f"{row.num_pages}",
            f"{100 * row.api_share:.2f}",
            f"{100 * row.page_share:.2f}",
            f"{100 * row.fetch_share:.2f}",
            f"{row.turn_ms:.1f}",
            f"{row.load_ms:.0f}",
            f"{row.median_s:.2f}",
            f"{row.longest_s:.2f}",
            f"{row.submitted_s:.2f}",
            f"{row.longest_submitted_s:.2f}",
            f"{row.bytes_per_s / 1000:.1f}",
        )
    Console(width=130).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.open_pages", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--pages", type=int, nargs="+", default=(0, 1, 50))
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--job", type=int, default=0, metavar="N", help="pages of so many jobs")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    under = conditions()
    print(describe(under))
    rows = []
    for num_pages in options.pages:
        with tempfile.TemporaryDirectory(prefix="swell-bench-") as name:
            rows.append(_measure_apart(Path(name), options.jobs, num_pages, options.seconds, options.job))
    show(rows)
    if options.json:
        content = {"conditions": under, "costs": [asdict(row) for row in rows]}
        write_json(options.json, json.loads(json.dumps(content)))


if __name__ == "__main__":
    main()
