"""`make bench-guard`: measure this tree beside the baseline and the anchors, print a table, and judge.

Exit status 1: a figure is worse than it may be, or a budget was raised without a word. It adds a line to
`benchmarks/guard.csv`, and needs two quiet cores. `benchmarks/guard.toml` has commits and budgets.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.guard.config import GuardConfig, parse_config, unexplained
from benchmarks.guard.environments import FOLDER, Environment, git, of_commit, of_this_tree
from benchmarks.guard.history import append, line_of, read_lines
from benchmarks.guard.measurement import BASELINE, PAIRED, PAST, WARM_UP, Guard, Measurement, counts_on
from benchmarks.guard.verdicts import Row, failures, rows_of

CONFIG = "benchmarks/guard.toml"
NUM_PAIRS, NUM_ANCHOR_PAIRS = 5, 2


def compare(config: GuardConfig, base: str, cores: Sequence[int], num_pairs: int) -> int:
    """This tree beside the baseline; the exit status."""
    candidate, baseline = of_this_tree(), of_commit(base)
    anchors = {
        name: (of_commit(commit), min(num_pairs, NUM_ANCHOR_PAIRS)) for name, commit in config.anchors.items()
    }
    guard = Guard(candidate, {BASELINE: (baseline, num_pairs), **anchors}, cores)
    found = Measurement()
    guard.counts(found)
    for anchor, workloads in PAIRED.items():
        for words in workloads:
            guard.pairs(found, anchor, words)
    rows = judged(found, config)
    Console(width=120).print(table_of(rows, candidate, baseline))
    note(candidate, found, rows)
    print(told_of_digests(found))
    wrong = failures(rows) + unexplained_since(config, base)
    for text in wrong:
        print(f"bench-guard: {text}")
    return 1 if wrong else 0


def judged(found: Measurement, config: GuardConfig) -> list[Row]:
    to_anchors = {
        name: ratio for anchor in config.anchors for name, ratio in found.ratios.get(anchor, {}).items()
    }
    is_same = found.digest == found.baseline_digest
    return rows_of(found.values, found.ratios.get(BASELINE, {}), to_anchors, config.budgets, is_same)


def unexplained_since(config: GuardConfig, base: str) -> list[str]:
    """Budgets that are higher than in the baseline's guard.toml, if it has one."""
    if not git("ls-tree", "--name-only", base, CONFIG):
        return []
    return unexplained(config, parse_config(git("show", f"{base}:{CONFIG}")))


def told_of_digests(found: Measurement) -> str:
    if found.digest == found.baseline_digest:
        return f"Digest of decisions: {found.digest}, as the baseline's."
    return (
        f"Digest of decisions: {found.digest}, the baseline's is {found.baseline_digest}; calls a plan count."
    )


def table_of(rows: Sequence[Row], candidate: Environment, baseline: Environment) -> Table:
    table = Table(box=SIMPLE_HEAD, title=f"{candidate.commit} beside {baseline.commit}; figures over theirs")
    for head in ("figure", candidate.commit, "", "baseline", "anchor", "budget", ""):
        table.add_column(head, justify="left" if head in ("figure", "") else "right")
    for row in rows:
        figure, ratio_texts = row.figure, (row.to_baseline, row.to_anchor, row.budget)
        value = "" if row.value is None else f"{row.value:,.4g}" if row.value < 1e4 else f"{row.value:,.0f}"
        texts = ["" if ratio is None else f"{ratio:.3f}" for ratio in ratio_texts]
        table.add_row(figure.text, value, figure.unit, *texts, row.failure)
    return table


def note(environment: Environment, found: Measurement, rows: Sequence[Row]) -> None:
    """A line for guard.csv, of what is committed."""
    if environment.commit.endswith("+"):
        print("src has changes that are not committed: no line is added to guard.csv.")
        return
    at, subject = (git("show", "-s", f"--format={code}", environment.commit) for code in ("%cI", "%s"))
    append(line_of(environment.commit, at, subject, found.digest, rows))


def build(commits: Sequence[str], cores: Sequence[int]) -> None:
    """Environments, and the compiled loops of each, which a first run keeps."""
    for environment in (of_commit(commit) for commit in commits):
        print(f"bench-guard: {environment.tree}", flush=True)
        counts_on(environment, WARM_UP, *cores)


def walk(commits: Sequence[str], cores: Sequence[int]) -> None:
    """Lines of counts for commits of the past that have none; one process at a time.

    One tree goes from commit to commit, so that loops whose files are the same stay compiled.
    """
    known = {line["commit"] for line in read_lines()}
    for commit in commits:
        environment, found = of_commit(commit, FOLDER / "past"), Measurement()
        if environment.commit not in known:
            found.add(counts_on(environment, PAST, *cores), {})
            note(environment, found, rows_of(found.values, {}, {}, {}, is_same=True))
            print(f"bench-guard: {environment.commit}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench-guard", description=__doc__)
    parser.add_argument("--base", metavar="COMMIT", help="baseline instead of that of guard.toml")
    parser.add_argument("--cores", default="", help="such as 0,1; default: the first two of this process")
    parser.add_argument("--pairs", type=int, default=NUM_PAIRS, help="rounds beside the baseline")
    parser.add_argument("--environments", action="store_true", help="only make what commits run in")
    parser.add_argument("--past", nargs="+", metavar="COMMIT", help="add lines of counts for these")
    options = parser.parse_args()
    config = parse_config(Path(CONFIG).read_text())
    cores = [int(core) for core in options.cores.split(",") if core] or sorted(os.sched_getaffinity(0))[:2]
    base = options.base or config.baseline
    FOLDER.mkdir(exist_ok=True)
    try:
        if options.environments:
            build((base, *config.anchors.values()), cores)
        elif options.past:
            walk(options.past, cores)
        else:
            sys.exit(compare(config, base, cores, options.pairs))
    except subprocess.CalledProcessError as error:
        sys.exit(f"bench-guard: {' '.join(map(str, error.cmd))}: {error.stderr or error}")


if __name__ == "__main__":
    main()
