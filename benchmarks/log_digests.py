"""What whole logs are decided to be, as digests: `python -m benchmarks.log_digests --data FOLDER --out FILE`.

Each log is simulated in a process of its own. `--against FILE` compares with an earlier run and tells within
which `BLOCK` commands two runs part. CPU time is that of the run, without reading the log and compiling.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import msgspec

from benchmarks.simulation import CASES, NUM_WARM_UP, Case, play, set_stage
from swell.core.platform_core import PlatformCore
from swell.model.command import AnyCommand
from swell.model.event import AnyEvent
from swell.scheduler import new_core
from swell.settings import make_settings
from swell.sim.conditions import SETTINGS
from swell.sim.metrics import metrics_of
from swell.sim.simulate import simulate
from swell.sim.world import Scenario

#: Commands of which there is a digest each.
BLOCK = 100
DEFAULT = "195,cluster"
_encoder = msgspec.msgpack.Encoder(order="deterministic")


class LogDigest(msgspec.Struct, frozen=True, kw_only=True):
    """Of one log."""

    case: str
    jobs: int
    turns: int
    num_commands: int
    digest: str  #: of all commands
    answers: str  #: of what became of each job
    deadlines: float | None  #: share that was met, of all that there were
    refused: int
    late: int  #: promised, and not kept
    cpu_s: float
    blocks: tuple[str, ...]  #: digests of all commands so far, after each `BLOCK` of them


class DigestedCore:
    """Passes all on to a head, and keeps digests of its commands."""

    def __init__(self, core: PlatformCore) -> None:
        self._handle = core.handle
        self._whole = hashlib.sha256()
        self.num_commands = 0
        self.blocks: list[str] = []
        core.handle = self.handle  # type: ignore[method-assign]

    def handle(self, batch: Sequence[AnyEvent]) -> list[AnyCommand]:
        commands = self._handle(batch)
        for command in commands:
            self._whole.update(_encoder.encode(command))
            self.num_commands += 1
            if self.num_commands % BLOCK == 0:
                self.blocks.append(self._whole.hexdigest()[:6])
        return commands

    @property
    def digest(self) -> str:
        return self._whole.hexdigest()[:16]


def digest_of(case: Case, data: Path, num_jobs: int | None) -> LogDigest:
    """In this process. Jobs beyond the first `num_jobs` are left out."""
    scenario = set_stage(case, data)
    play(case, _first(scenario, NUM_WARM_UP if num_jobs is None else min(num_jobs, NUM_WARM_UP)))
    if num_jobs is not None:
        scenario = _first(scenario, num_jobs)
    core = new_core(case.policy, make_settings(SETTINGS))
    digested = DigestedCore(core)
    outcome = simulate(core, scenario)
    metrics = metrics_of(outcome)
    return LogDigest(
        case=case.name,
        jobs=metrics.jobs,
        turns=outcome.num_events,
        num_commands=digested.num_commands,
        digest=digested.digest,
        answers=hashlib.sha256(_encoder.encode(tuple(outcome.jobs))).hexdigest()[:16],
        deadlines=metrics.deadline_satisfaction,
        refused=metrics.rejected,
        late=metrics.admitted_late,
        cpu_s=round(outcome.cpu_s, 2),
        blocks=tuple(digested.blocks),
    )


def _first(scenario: Scenario, num_jobs: int) -> Scenario:
    return replace(scenario, jobs=tuple(islice(scenario.jobs, num_jobs)))


def compared(was: LogDigest, now: LogDigest) -> str:
    """In words; empty if both are the same but for their times."""
    if (was.digest, was.answers) == (now.digest, now.answers):
        return ""
    if was.digest == now.digest:
        return "the same commands, other answers"
    same = 0
    while same < min(len(was.blocks), len(now.blocks)) and was.blocks[same] == now.blocks[same]:
        same += 1
    return f"parts between commands {same * BLOCK + 1} and {(same + 1) * BLOCK}"


def told(now: LogDigest, was: LogDigest | None) -> str:
    share = "" if now.deadlines is None else f"deadlines {now.deadlines:.4f}, "
    line = f"{now.case}: {now.digest}, {share}{now.late} late, {now.refused} refused, {now.cpu_s:.1f} s"
    if was is None:
        return line
    return f"{line}; before {was.cpu_s:.1f} s, {compared(was, now) or 'the same decisions'}"


def in_a_process(case: Case, options: argparse.Namespace) -> LogDigest:
    command = [
        sys.executable,
        "-m",
        "benchmarks.log_digests",
        "--data",
        str(options.data),
        "--row",
        case.name,
    ]
    if options.jobs is not None:
        command += ["--jobs", str(options.jobs)]
    found = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return msgspec.json.decode(found.splitlines()[-1], type=LogDigest)


def read(file: Path) -> dict[str, LogDigest]:
    return {one.case: one for one in msgspec.json.decode(file.read_bytes(), type=list[LogDigest])}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="log_digests", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="as for `make bench-sim`")
    parser.add_argument("--out", type=Path, help="write digests to this file")
    parser.add_argument("--against", type=Path, help="compare with digests of this file")
    parser.add_argument("--rows", default=DEFAULT, help=", ".join(case.name for case in CASES))
    parser.add_argument("--jobs", type=int, help="only the first so many jobs of each log")
    parser.add_argument("--row", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def cases_of(rows: str) -> list[Case]:
    """Words name a case, or are how the names of several begin that end in a number."""
    words = rows.split(",")
    return [case for case in CASES if case.name in words or case.name.rstrip("0123456789") in words]


def main() -> None:
    options = parse()
    if options.row:
        case = next(case for case in CASES if case.name == options.row)
        print(msgspec.json.encode(digest_of(case, options.data, options.jobs)).decode())
        return
    chosen = cases_of(options.rows)
    before = read(options.against) if options.against else {}
    found: list[LogDigest] = []
    for case in chosen:
        found.append(in_a_process(case, options))
        print(told(found[-1], before.get(case.name)), flush=True)
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_bytes(msgspec.json.encode(found))
    print(f"{sum(one.cpu_s for one in found):.1f} s in all")
    if any(one.case in before and compared(before[one.case], one) for one in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
