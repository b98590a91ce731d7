"""Between an actor and the host that it starts: `python -m swell.executors.ray.host_process WORDS`.

The kernel ends a child with the *thread* that started it, and Ray does not say which of its threads stay. So
this process, which has one, starts the host, and ends it when its standard input ends: the actor is gone.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from functools import partial

from swell.executors.local.processes.parent_death import die_with_parent
from swell.executors.local.processes.strays import HOST_MODULE

#: As long as the actor lives, nothing comes from it.
STDIN = 0


def main() -> None:
    host = subprocess.Popen(
        [sys.executable, "-P", "-m", HOST_MODULE, *sys.argv[1:]],
        stdin=subprocess.DEVNULL,
        preexec_fn=partial(die_with_parent, os.getpid()),
    )
    ended = os.pidfd_open(host.pid)
    select.select([STDIN, ended], [], [])
    if host.poll() is None:
        host.kill()
    sys.exit(host.wait())


if __name__ == "__main__":
    main()
