"""`make bench-solvers`: CPU time of the exact solvers, beside general ones on the papers' models.

The kernel is the solver alone, from arrays to counts. A turn is all that the scheduler does about one event,
from the event to the commands.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.conditions import conditions, describe, write_json
from benchmarks.solvers import horizons, knapsacks, trainers
from benchmarks.solvers.measured import Row
from benchmarks.solvers.page import page_of, write_csv


def rows(num_instances: int, num_rival: int, limit_s: float) -> Iterator[Row]:
    yield from trainers.bftrainer_rows(num_instances, num_rival, limit_s)
    yield from knapsacks.saxena_rows(num_instances, num_rival, limit_s)
    yield from horizons.hu_rows(num_instances, num_rival, limit_s)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench-solvers", description=__doc__)
    parser.add_argument("--instances", type=int, default=20, help="seeded instances of each size")
    parser.add_argument("--rival", type=int, default=3, help="of those, how many the general solver solves")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds of HiGHS for an instance")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--page", type=Path, help="write the page of docs/results there, and a CSV beside it")
    options = parser.parse_args(arguments)
    known = conditions()
    found = []
    for row in rows(options.instances, options.rival, options.limit):
        print(*row.cells(), sep=" | ", flush=True)
        found.append(row)
    if options.json is not None:
        write_json(options.json, {"conditions": known, "rows": [row.told() for row in found]})
    if options.page is not None:
        told = page_of(found, options.instances, options.rival, options.limit, describe(known))
        options.page.write_text(told)
        write_csv(found, options.page.with_suffix(".csv"))


if __name__ == "__main__":
    main()
