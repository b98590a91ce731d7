"""A program that kills process 1 of machines when their owner wants them back, and tells no other process.

    python -I -S reclaimer.py

It reads lines `AT_S PID NAME`, with times of CLOCK_MONOTONIC. It prints for each `NAME AT_S GONE_S`: when
SIGKILL was sent, and when the kernel had ended the last process of that PID namespace.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from threading import Thread

WITHIN_S = 20.0


def main() -> None:
    waiting = []
    for line in sys.stdin:
        at_s, pid, name = line.split()
        waiting.append(Thread(target=reclaim, args=(float(at_s), os.pidfd_open(int(pid)), name)))
        waiting[-1].start()
    for thread in waiting:
        thread.join()


def reclaim(at_s: float, process: int, name: str) -> None:
    """`process`: a pidfd, for the number may be given to another process meanwhile."""
    while (left_s := at_s - time.monotonic()) > 0.0:
        time.sleep(left_s)
    sent_s = time.monotonic()
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended by itself: nothing is kept
    end = select.poll()
    end.register(process, select.POLLIN)
    if not end.poll(WITHIN_S * 1000):
        sys.exit(f"the machine of {name} was killed and has not ended within {WITHIN_S:g} s")
    print(name, sent_s, time.monotonic(), flush=True)
    os.close(process)


if __name__ == "__main__":
    main()
