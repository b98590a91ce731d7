"""What users on other machines cost a platform: `python -m benchmarks.uploads`.

Code of 50 MB is uploaded over a line of 100 Mbit/s, and again; then many upload at the same time beside jobs
that train, while other requests are timed.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import statistics
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.service import SCRIPT, swell
from swell.api.client import Client, connect
from swell.api.code_sender import CodeSender
from swell.api.role import Role
from swell.api.submission import Submission
from swell.api.user_list import UserList

#: Of the line of one laptop.
BYTES_PER_S = 100e6 / 8
#: What a line may send at once after a sleep that took longer than it was to.
CATCHES_UP_S = 0.02
NUM_FILES, FILE_BYTES = 50, 1_000_000
DEVICES = "paced:8@200"


class SlowLine:
    """A port of this machine that leads to another one, and passes on so many bytes a second each way."""

    def __init__(self, port: int) -> None:
        self._port, self._listener = port, socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            onward = socket.create_connection(("127.0.0.1", self._port))
            for pair in ((connection, onward), (onward, connection)):
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, to: socket.socket) -> None:
        due_s = time.monotonic()
        with suppress(OSError):
            while content := source.recv(1 << 14):
                due_s = max(due_s, time.monotonic() - CATCHES_UP_S) + len(content) / BYTES_PER_S
                time.sleep(max(0.0, due_s - time.monotonic()))
                to.sendall(content)
            to.shutdown(socket.SHUT_WR)


def make_code(folder: Path, seed: int) -> Submission:
    """A folder of code, which no platform has."""
    folder.mkdir()
    rng = random.Random(seed)
    for number in range(NUM_FILES):
        (folder / f"part_{number}.bin").write_bytes(rng.randbytes(FILE_BYTES))
    (folder / "train.py").write_text(SCRIPT)
    return Submission(script=str(folder / "train.py"), workdir=str(folder), global_batch=16)


def upload(client: Client, submission: Submission) -> float:
    """Seconds until the platform has all of it."""
    began_s = time.perf_counter()
    CodeSender(client).sent(submission, False)
    return time.perf_counter() - began_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uploads", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=100)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        measure(Path(root), given.uploads, given.jobs)


def measure(root: Path, num_uploads: int, num_jobs: int) -> None:
    state, code = root / "state", make_code(root / "code", 0)
    swell(state, "up", "--devices", DEVICES, "--serve", "127.0.0.1:0", "--set", "user_transfer_mib_per_h=1e6")
    try:
        token = UserList(state).add("ana", Role.SUBMIT, "vision")
        with connect(state) as owner:
            at = owner.endpoint
            line = SlowLine(urlsplit(at.network_url).port or 0)
            with connect(line.url, token, fingerprint=at.fingerprint) as client:
                print(f"load average {os.getloadavg()[0]:.1f}")
                print(f"50 MB over 100 Mbit/s: {upload(client, code):.2f} s (bar: 6)", flush=True)
                print(f"again: {upload(client, code):.2f} s (bar: 1)", flush=True)
            for _ in range(num_jobs):
                owner.submit(script=code.script, workdir=root, global_batch=16, steps=10**6, code="live")
            time_others(root, owner, token, num_uploads)
    finally:
        swell(state, "down")


def time_others(root: Path, owner: Client, token: str, num_uploads: int) -> None:
    """Time requests of the owner while users upload, from a process that leaves this machine to others."""
    codes = [make_code(root / f"code-{number}", number + 1) for number in range(num_uploads)]
    at, waits_s = owner.endpoint, list[float]()
    port = urlsplit(at.network_url).port or 0
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=os.nice, initargs=(19,)) as elsewhere:
        sent = elsewhere.submit(upload_all, codes, port, token, at.fingerprint)
        while not sent.done():
            began_s = time.perf_counter()
            owner.jobs(limit=100)
            waits_s.append(time.perf_counter() - began_s)
            time.sleep(0.02)
        took_s = sent.result()
    p99_s = statistics.quantiles(waits_s, n=100)[98]
    print(
        f"{len(took_s)} of {num_uploads} uploads of 50 MB at the same time: the last took {max(took_s):.1f} s"
    )
    print(
        f"other requests meanwhile: {len(waits_s)}, median {1e3 * statistics.median(waits_s):.0f} ms, ",
        end="",
    )
    print(f"p99 {1e3 * p99_s:.0f} ms (bar: 150); load average {os.getloadavg()[0]:.1f}")


def upload_all(codes: list[Submission], port: int, token: str, fingerprint: str) -> list[float]:
    """Upload all at the same time, each over a line of its own; seconds that each took."""

    def send(code: Submission) -> float:
        with connect(SlowLine(port).url, token, fingerprint=fingerprint) as client:
            return upload(client, code)

    with ThreadPoolExecutor(len(codes)) as threads:
        return list(threads.map(send, codes))


if __name__ == "__main__":
    main()
