"""Schedules of real jobs that share a machine, under several policies in turn."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from swell.model.errors import InvalidInput
from swell_papers.colocated_findings import findings_of
from swell_papers.colocated_run import ColocatedRun, Contender, SharedMachine, engine_with, run_schedule
from swell_papers.colocated_speed import step_costs
from swell_papers.colocated_twin import is_known, twins_of
from swell_papers.experiment import Context, Up, keep_record, read_record
from swell_papers.findings import Findings
from swell_papers.flowcon_schedule import shortened

#: Slots, more than any schedule has jobs; and the core that they share.
NUM_SLOTS, CORES = 16, 1.0
#: What scripts import is imported once for all workers.
PRELOAD = "sklearn.datasets"


def options_of(contender: Contender) -> list[str]:
    """Return the command-line options of `swell up` for a contender."""
    chosen = ["--devices", f"cpu:{NUM_SLOTS}", "--cores", f"{CORES:g}", "--preload", PRELOAD]
    chosen += ["--policy", contender.policy, "--cpu-shares", contender.limits]
    for name, value in contender.parameters:
        chosen += ["--set", f"{contender.policy}.{name}={value:g}"]
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class ColocatedExperiment(SharedMachine):
    """See `experiment.Experiment`."""

    def run(self, context: Context) -> Findings:
        """Run the schedules on real processes, or read runs that were played before, and evaluate them.

        Raises InvalidInput, OSError.
        """
        if context.played is not None:
            return self._tell_again(context.played)
        if context.platforms is None:
            raise InvalidInput(f"{self.name} is measured on real processes, and none may be started here")
        if context.image:
            engine_with(context.image)
        chosen = self.with_containers(context.image) if context.image else self
        runs: list[ColocatedRun] = []
        with context.platforms() as up:
            for run in chosen._played(context, up):
                runs.append(run)
                if context.runs is not None:  # after each: an hour's work is not lost with the last minute
                    keep_record(runs, context.runs, self._record)
        return chosen.findings(runs)

    def _tell_again(self, folder: Path) -> Findings:
        """Whole repetitions only. Raises InvalidInput: there is none, or the file is of no use."""
        runs = read_record(folder, self._record, list[ColocatedRun], self.name)
        image = next((run.contender.image for run in runs if run.contender.image), "")
        chosen = self.with_containers(image) if image else self
        num = Counter(run.repetition for run in runs)
        whole = [run for run in runs if num[run.repetition] == len(chosen.contenders)]
        if not whole:
            raise InvalidInput(f"{folder / self._record}.json has no whole repetition; run {self.name} again")
        return chosen.findings(whole)

    @property
    def _record(self) -> str:
        return f"{self.name}-runs"

    def findings(self, runs: Sequence[ColocatedRun]) -> Findings:
        """Evaluate played runs and their simulated twins. Raises InvalidInput if a job failed."""
        known = [run for run in runs if is_known(run)]
        if not known:
            return findings_of(self, runs)
        costs = step_costs(known)
        return findings_of(self, runs, twins_of(known, costs, NUM_SLOTS, CORES), costs.interference_share)

    def _played(self, context: Context, up: Up) -> Iterator[ColocatedRun]:
        """Every contender plays the schedule of a repetition, in an order that is shuffled each time."""
        order = random.Random(context.seed)
        for repetition in range(context.repetitions):
            schedule = shortened(self.draw(context.seed + repetition), context.shorter)
            for chosen in order.sample(self.contenders, len(self.contenders)):
                contender = chosen.shortened(context.shorter)
                label = f"{self.name} {repetition + 1}/{context.repetitions}, {contender.label}"
                with up(options_of(contender)) as client, context.watch(label, len(schedule)) as advance:
                    yield run_schedule(client, schedule, contender, repetition, advance, context.shorter)
