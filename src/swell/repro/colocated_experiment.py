"""Schedules of real jobs that share a machine, under several policies in turn."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from swell.model.errors import InvalidInput
from swell.repro.colocated_findings import findings_of
from swell.repro.colocated_run import ColocatedRun, Contender, run_schedule
from swell.repro.colocated_twin import twins_of
from swell.repro.experiment import Context, Up
from swell.repro.findings import Findings
from swell.repro.flowcon_schedule import Schedule

#: Slots, more than any schedule has jobs; and the core that they share.
NUM_SLOTS, CORES = 16, 1.0
#: What scripts import is imported once for all workers.
PRELOAD = "sklearn.datasets"


def options_of(contender: Contender) -> list[str]:
    """Of `swell up`."""
    chosen = ["--devices", f"cpu:{NUM_SLOTS}", "--cores", f"{CORES:g}", "--preload", PRELOAD]
    chosen += ["--policy", contender.policy, "--cpu-shares", contender.limits]
    for name, value in contender.parameters:
        chosen += ["--set", f"{contender.policy}.{name}={value:g}"]
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class ColocatedExperiment:
    """See `experiment.Experiment`. The first contender is what the others are compared with."""

    name: str
    title: str
    draw: Callable[[int], Schedule]  #: the schedule of a seed
    contenders: tuple[Contender, ...]
    late_job: str | None = None  #: the one whose completion time the paper tells
    is_bar: bool = False  #: something is to be reached
    needs: tuple[str, ...] = ()

    def run(self, context: Context) -> Findings:
        """On real processes; their records are kept beside the findings. Raises InvalidInput, OSError."""
        if context.platforms is None:
            raise InvalidInput(f"{self.name} is measured on real processes, and none may be started here")
        with context.platforms() as up:
            runs = list(self._played(context, up))
        if context.runs is not None:
            context.runs.mkdir(parents=True, exist_ok=True)
            (context.runs / f"{self.name}-runs.json").write_bytes(msgspec.json.encode(runs))
        return findings_of(self, runs, twins_of(runs, self.contenders[0], NUM_SLOTS, CORES))

    def _played(self, context: Context, up: Up) -> Iterator[ColocatedRun]:
        """Every contender plays the schedule of a repetition, in an order that is shuffled each time."""
        order = random.Random(context.seed)
        for repetition in range(context.repetitions):
            schedule = self.draw(context.seed + repetition)
            for contender in order.sample(self.contenders, len(self.contenders)):
                label = f"{self.name} {repetition + 1}/{context.repetitions}, {contender.label}"
                with up(options_of(contender)) as client, context.watch(label, len(schedule)) as advance:
                    yield run_schedule(client, schedule, contender, repetition, advance)

    def labels(self) -> Sequence[str]:
        return [contender.label for contender in self.contenders]
