"""Rounds of workloads in the environments of commits: one commit alone, or two at the same moment."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

from benchmarks.guard.environments import Environment

HERE = Path(__file__).parent
Values = dict[str, float | str]
Ratios = dict[str, float]
WORKLOADS, HOOK = HERE / "workloads.py", HERE / "hook" / "sitecustomize.py"
DIGEST = "digest"
LEAST = 1e-9  #: of a figure: a count may be 0, and has no logarithm then


class Workload:
    """A process of one commit, which is ready for its first round once it is made."""

    def __init__(self, environment: Environment, words: Sequence[str]) -> None:
        """Raises EOFError: the commit cannot run it."""
        tree = environment.tree
        variables = {"PYTHONPATH": str(tree), "PYTHONHASHSEED": "0", "PYTHONSAFEPATH": "1"}
        variables |= {
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "SWELL_STATE": str(tree / "no-state"),
        }
        self._name = f"{' '.join(words[:1])} of {environment.commit}"
        self._process = subprocess.Popen(
            [environment.python, "-P", WORKLOADS, *words],
            cwd=tree,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | variables,
        )
        try:
            self._hear()
        except EOFError:
            self._process.wait()
            raise

    def round(self, *cores: int) -> Values:
        """The figures of a round on these cores. Raises EOFError: it has failed, and said why."""
        print(*cores, file=self._process.stdin, flush=True)
        return self._hear()

    def _hear(self) -> Values:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise EOFError(f"{self._name} failed; its error stands above")
        values: Values = json.loads(line)
        return values

    def __enter__(self) -> Workload:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._process.communicate()


def once(environment: Environment, words: Sequence[str], *cores: int) -> Values:
    """One round. Nothing where the commit cannot run it."""
    with _told_of_failure(), Workload(environment, words) as workload:
        return workload.round(*cores)
    return {}


def in_pairs(
    words: Sequence[str],
    candidate: Environment,
    others: Mapping[str, tuple[Environment, int]],
    cores: Sequence[int],
) -> tuple[Values, dict[str, Ratios]]:
    """Rounds of the candidate beside others, which swap cores between pairs.

    Args:
        others: by a name of the caller's: with whom, and how many pairs.

    Returns:
        medians of the candidate's figures, and of each other one the geometric mean of ratios to it.
    """
    with ExitStack() as stack, ThreadPoolExecutor(len(cores)) as pool:
        environments = [candidate, *(environment for environment, _ in others.values())]
        begun = [pool.submit(_begin, environment, words) for environment in environments]
        workloads = [future.result() for future in begun]
        ours, *theirs = [one and stack.enter_context(one) for one in workloads]
        if ours is None:
            return {}, {}
        pairs: dict[str, list[tuple[Values, Values]]] = {}
        for (name, (_, num_pairs)), other in zip(others.items(), theirs, strict=True):
            if other is not None:
                with _told_of_failure():
                    pairs[name] = [_pair(pool, ours, other, cores, turn) for turn in range(num_pairs)]
        values = [mine for of_one in pairs.values() for mine, _ in of_one]
        with _told_of_failure():
            values = values or [ours.round(*cores)]
    names = values[0] if values else ()
    medians: Values = {name: statistics.median(float(value[name]) for value in values) for name in names}
    return medians, {name: ratios(of_one) for name, of_one in pairs.items()}


def _begin(environment: Environment, words: Sequence[str]) -> Workload | None:
    with _told_of_failure():
        return Workload(environment, words)
    return None


@contextmanager
def _told_of_failure() -> Iterator[None]:
    """A commit that cannot run a workload leaves its rows empty."""
    try:
        yield
    except EOFError as error:
        print(f"bench-guard: {error}: its rows stay empty", file=sys.stderr)


def _pair(
    pool: ThreadPoolExecutor, ours: Workload, other: Workload, cores: Sequence[int], turn: int
) -> tuple[Values, Values]:
    """At the same moment, or one after the other where there is one core."""
    mine = pool.submit(ours.round, cores[turn % len(cores)])
    theirs = pool.submit(other.round, cores[(turn + 1) % len(cores)])
    return mine.result(), theirs.result()


def ratios(pairs: Sequence[tuple[Values, Values]]) -> Ratios:
    """Geometric means of ours over theirs, of figures that both have."""
    both = [name for name in pairs[0][0] if name in pairs[0][1] and name != DIGEST]
    return {name: math.exp(statistics.fmean(_log_ratio(a[name], b[name]) for a, b in pairs)) for name in both}


def _log_ratio(ours: float | str, theirs: float | str) -> float:
    return math.log(max(float(ours), LEAST)) - math.log(max(float(theirs), LEAST))
