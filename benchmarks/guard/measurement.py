"""All figures of a candidate, beside the baseline and the anchors."""

from __future__ import annotations

import json
import queue
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.guard.environments import FOLDER, Environment
from benchmarks.guard.generated_log import generated_log
from benchmarks.guard.measuring import DIGEST, HOOK, WORKLOADS, Ratios, Values, in_pairs, once, ratios

Words = tuple[str, ...]
#: Workloads by the anchor of their figures. A word in capitals is a generated log.
PAST: Mapping[str, Sequence[Words]] = {
    "decisions": (("calls", "LOG_30"), ("turns",)),
    "service": (("commands", "LOG_5"),),
    "": (("size",),),
}
#: Of this tree and of those beside which it is measured, for a commit of the past these take too long.
COUNTED = {**PAST, "service": (*PAST["service"], ("crowded_daemon",), ("step_calls",))}
PAIRED: Mapping[str, Sequence[Words]] = {
    "decisions": (("simulation", "LOG_195"), ("decisions", "1000", "2783"), ("decisions", "5000", "10000")),
    "service": (("submissions",), ("training",)),
}
#: Rounds that compile all loops that the others use.
WARM_UP = {"decisions": PAIRED["decisions"][:2]}
LOGS = {f"LOG_{num_jobs}": generated_log(num_jobs) for num_jobs in (5, 30, 195)}
BASELINE = "baseline"


@dataclass
class Measurement:
    """What was found of the candidate, and its ratios to others by their names."""

    digest: str = ""
    baseline_digest: str = ""
    values: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, Ratios] = field(default_factory=dict)

    def add(self, values: Mapping[str, float | str], to_others: Mapping[str, Ratios]) -> None:
        self.digest = str(values.get(DIGEST, self.digest))
        self.values |= {name: float(value) for name, value in values.items() if name != DIGEST}
        for name, found in to_others.items():
            self.ratios.setdefault(name, {}).update(found)


@dataclass(frozen=True)
class Guard:
    """Measures; `others` are the baseline and the anchors by their names, with the numbers of pairs."""

    candidate: Environment
    others: Mapping[str, tuple[Environment, int]]
    cores: Sequence[int]

    def counts(self, found: Measurement) -> None:
        """Those of commits are counted once and kept, so that the first run takes longer."""
        free: queue.SimpleQueue[int] = queue.SimpleQueue()
        for core in self.cores:
            free.put(core)
        with ThreadPoolExecutor(len(self.cores)) as pool:
            ours = pool.submit(counts_of, self.candidate, COUNTED, free)
            theirs = {
                name: pool.submit(kept_counts_of, other, anchors_of(name), free)
                for name, (other, _) in self.others.items()
            }
            values = ours.result()
            found.add(values, {name: ratios([(values, other.result())]) for name, other in theirs.items()})
            found.baseline_digest = str(theirs[BASELINE].result().get(DIGEST, ""))

    def pairs(self, found: Measurement, anchor: str, words: Words) -> None:
        others = {name: other for name, other in self.others.items() if anchor in anchors_of(name)}
        with tempfile.TemporaryDirectory(prefix="swell-guard-") as folder:
            found.add(*in_pairs(with_logs(words, Path(folder)), self.candidate, others, self.cores))


def anchors_of(name: str) -> Sequence[str]:
    """Whose figures are compared with this commit's: all with the baseline's."""
    return tuple(COUNTED) if name == BASELINE else (name,)


def with_logs(words: Words, folder: Path) -> Words:
    """The same with files for the names of logs."""
    for name in LOGS.keys() & set(words):
        (folder / f"{name}.csv").write_text(LOGS[name])
    return tuple(str(folder / f"{word}.csv") if word in LOGS else word for word in words)


def counts_of(
    environment: Environment, counted: Mapping[str, Sequence[Words]], free: queue.SimpleQueue[int]
) -> Values:
    """By one process after the other, on a core that is free."""
    core = free.get()
    try:
        return counts_on(environment, counted, core)
    finally:
        free.put(core)


def counts_on(environment: Environment, counted: Mapping[str, Sequence[Words]], *cores: int) -> Values:
    values = Values()
    with tempfile.TemporaryDirectory(prefix="swell-guard-") as folder:
        for words in (words for workloads in counted.values() for words in workloads):
            values |= once(environment, with_logs(words, Path(folder)), *cores)
    return values


def kept_counts_of(environment: Environment, anchors: Sequence[str], free: queue.SimpleQueue[int]) -> Values:
    """Of a commit, as long as what counts is the same."""
    text = "".join(file.read_text() for file in (WORKLOADS, HOOK)) + repr((COUNTED, LOGS))
    kept = FOLDER / f"{environment.commit}-{zlib.crc32(text.encode()):08x}-{'-'.join(anchors)}.json"
    if not kept.exists():
        counted = {anchor: COUNTED[anchor] for anchor in anchors}
        kept.write_text(json.dumps(counts_of(environment, counted, free)))
    values: Values = json.loads(kept.read_text())
    return values
