"""What the history of metrics costs a turn: the journal's append, with curves in the reports and without.

1,000 jobs report every 5 s, and the head takes a turn each second: 200 reports a turn. Run it on the disk of
the state folder: `python -m benchmarks.metric_history --folder FOLDER`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.service import percentile
from swell.model.event import AnyEvent, StepsReported
from swell.store.journal import SqlJournal
from swell.tally import Tally

JOBS = 1000
TURNS_A_REPORT = 5
NAMES = ("loss", "accuracy")
#: Steps between two reports.
STEPS = 50


def batch(turn: int, has_curves: bool) -> list[AnyEvent]:
    step = turn // TURNS_A_REPORT * STEPS
    tally = Tally(step + 1, step + STEPS, 2, STEPS, 0, 0.31415 / (turn + 1), 0.1, 0.9, 0.3, "mean")
    return [
        StepsReported(
            at_s=1_800_000_000.0 + turn,
            job_id=f"job-{number:06x}",
            generation=1,
            steps=step + STEPS,
            num_workers=2,
            step_s=0.1,
            loss=0.31415 / (turn + 1),
            metrics={"accuracy": 0.9},
            curves=dict.fromkeys(NAMES, tally) if has_curves else {},
            mark=turn + 1 if has_curves else 0,
        )
        for number in range(turn % TURNS_A_REPORT, JOBS, TURNS_A_REPORT)
    ]


def measure(folder: Path, num_turns: int, has_curves: bool) -> tuple[list[float], float, int]:
    """Milliseconds of each append, those of a processor on average, and bytes on disk at the end.

    Every 500 turns the journal is folded.
    """
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        journal = SqlJournal(Path(scratch) / "journal.db")
        spent_ms, busy_s = [], 0.0
        for turn in range(num_turns):
            events = batch(turn, has_curves)
            begun_s, begun_busy_s = time.perf_counter(), time.process_time()
            journal.append(events)
            spent_ms.append((time.perf_counter() - begun_s) * 1000)
            busy_s += time.process_time() - begun_busy_s
            if turn % 500 == 499:
                journal.fold(b"{}")
        begun_s = time.perf_counter()
        curves = journal.curves("job-000000")
        read_ms = (time.perf_counter() - begun_s) * 1000
        if has_curves:
            num_points = sum(map(len, curves.values()))
            print(f"one job's curves: {num_points} points, read in {read_ms:.1f} ms")
        num_bytes = journal.bytes_on_disk
        journal.close()
    return spent_ms, busy_s / num_turns * 1000, num_bytes


def main() -> None:
    """Measure both and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--turns", type=int, default=3000)
    args = parser.parse_args()
    print(f"{JOBS} jobs, {JOBS // TURNS_A_REPORT} reports a turn, {args.turns} turns, {len(NAMES)} names")
    for has_curves in (False, True):
        spent_ms, busy_ms, num_bytes = measure(args.folder, args.turns, has_curves)
        settled = sorted(spent_ms[args.turns // 3 :])
        print(
            f"{'with' if has_curves else 'without'} curves: mean {statistics.fmean(settled):.2f} ms "
            f"({busy_ms:.2f} ms of a processor), "
            f"median {percentile(settled, 0.5):.2f} ms, 99 % {percentile(settled, 0.99):.2f} ms, "
            f"most {settled[-1]:.2f} ms; {num_bytes / 1e6:.1f} MB at the end"
        )


if __name__ == "__main__":
    main()
