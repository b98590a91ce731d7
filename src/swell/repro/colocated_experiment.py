"""Schedules of real jobs that share a machine, under several policies in turn."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from swell.model.errors import InvalidInput
from swell.repro.colocated_findings import findings_of
from swell.repro.colocated_run import ColocatedRun, run_schedule
from swell.repro.experiment import Context, Up
from swell.repro.findings import Findings
from swell.repro.flowcon_schedule import Schedule

#: Slots, more than any schedule has jobs; and the core that they share.
DEVICES, CONFINED = "cpu:16", ("--cores", "1")
#: What scripts import is imported once for all workers.
PRELOAD = "sklearn.datasets"


@dataclass(frozen=True, slots=True)
class Contender:
    """A policy with parameters, and how a table calls it."""

    label: str
    policy: str
    parameters: tuple[tuple[str, float], ...] = ()
    limits: str = "weight"  #: how a share is kept: see `swell up --cpu-shares`

    @property
    def options(self) -> list[str]:
        """Of `swell up`."""
        chosen = ["--devices", DEVICES, *CONFINED, "--preload", PRELOAD, "--policy", self.policy]
        chosen += ["--cpu-shares", self.limits]
        for name, value in self.parameters:
            chosen += ["--set", f"{self.policy}.{name}={value:g}"]
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
        return findings_of(self, runs)

    def _played(self, context: Context, up: Up) -> Iterator[ColocatedRun]:
        """Every contender plays the schedule of a repetition, in an order that is shuffled each time."""
        order = random.Random(context.seed)
        for repetition in range(context.repetitions):
            schedule = self.draw(context.seed + repetition)
            for contender in order.sample(self.contenders, len(self.contenders)):
                label = f"{self.name} {repetition + 1}/{context.repetitions}, {contender.label}"
                names = (contender.policy, contender.label, self.name)
                with up(contender.options) as client, context.watch(label, len(schedule)) as advance:
                    yield run_schedule(client, schedule, names, repetition, advance)

    def labels(self) -> Sequence[str]:
        return [contender.label for contender in self.contenders]
