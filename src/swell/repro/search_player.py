"""A program at the machine of the head: a search for hyperparameters on machines that join and are killed.

    python -m swell.repro.search_player < ORDER.json

It is `reclaim_player` with a job file in place of a schedule.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import msgspec

from swell.api.client import Client, connect
from swell.repro.live_run import LOOK_EVERY_S
from swell.repro.reclaim_player import PoolWatch, await_nodes, say
from swell.repro.reclaim_record import PlayBegun, ScriptsMeasured, SearchEnded, SearchOrder


def search(client: Client, order: SearchOrder) -> SearchEnded:
    """Submit the file once the nodes are those of time 0; what became of its jobs by the end of the order."""
    await_nodes(client, lambda names: len(names) == order.num_nodes)
    say(ScriptsMeasured())  # each trial has arguments of its own, and is measured when it comes
    cluster = await_nodes(client, lambda names: names == order.first)
    say(PlayBegun())
    until_s = time.monotonic() + order.played_s
    watch = PoolWatch(client, cluster.now_s)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "search.yaml"
        file.write_text(order.file)
        ids = client.submit_file(file)
    views = [client.job(job_id) for job_id in ids]
    while time.monotonic() < until_s and not all(view.phase.is_end for view in views):
        watch.look()
        time.sleep(LOOK_EVERY_S)
        views = [client.job(job_id) for job_id in ids]
    watch.look()
    return SearchEnded(views=tuple(views), begun_s=cluster.now_s, seen=tuple(watch.seen))


def main() -> None:
    order = msgspec.json.decode(sys.stdin.read(), type=SearchOrder)
    with connect() as client:
        say(search(client, order))


if __name__ == "__main__":
    main()
