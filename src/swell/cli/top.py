"""`swell top`."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.jobs import print_jobs
from swell.cli.options import State
from swell.cli.printable import raw

if TYPE_CHECKING:
    from swell.api.client import Client

#: To the upper left corner of an empty terminal.
CLEAR = "\033[H\033[2J"
#: Lines of a terminal that are no rows: the summary, the headings, what is left out, and the cursor's.
OTHER_LINES = 5


def top(
    every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.2, help="Seconds between two looks.")
    ] = 2.0,
    state: State = None,
) -> None:
    """Show devices and open jobs, again and again until Ctrl-C. Once, where the output is no terminal."""
    from swell.api.client import connect

    is_terminal = sys.stdout.isatty()
    with connect(state) as client:
        while True:
            if is_terminal:
                raw(sys.stdout).write(CLEAR)
            _print(client, max(1, shutil.get_terminal_size().lines - OTHER_LINES) if is_terminal else 0)
            sys.stdout.flush()
            if not is_terminal:
                return
            time.sleep(every)


def _print(client: Client, limit: int) -> None:
    """Summary and table; `limit` is the most jobs that are shown, 0: all."""
    from swell.cli.selection import WORDS, select, told_phases

    cluster, counts = client.cluster(), client.count_jobs()
    chosen = select(client, WORDS["open"], None, limit)
    num_used = cluster.num_devices - cluster.num_free
    told = told_phases(counts)
    print(f"{num_used} of {cluster.num_devices} devices in use; jobs: {told or 'none'}\n")
    if chosen.views:
        print_jobs(cluster, chosen.views)
    if chosen.num_left_out:
        print(f"{chosen.num_left_out:,} more: {chosen.left_out}")
