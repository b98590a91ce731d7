"""Real jobs on machines that are killed without notice, as a log of idle nodes says, and a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from swell.model.errors import InvalidInput
from swell.repro.bftrainer_inputs import POOL
from swell.repro.experiment import Context, Paper, keep_record, read_record
from swell.repro.findings import Findings
from swell.repro.lent_intervals import LentInterval, Window, compressed, drawn
from swell.repro.live_run import PlannedJob
from swell.repro.machines.first_process import NamespacesMissing
from swell.repro.page_texts import page_texts
from swell.repro.reclaim_findings import findings_of
from swell.repro.reclaim_machines import PlayFailed, lent_machines, play
from swell.repro.reclaim_record import PlayEnded, PlayOrder, ReclaimRun
from swell.settings import spell
from swell.sim.pool_file import read_pool

#: Of the log: four hours in six minutes. Six nodes come and go, two or three are lent on average.
WINDOW = Window(
    num_nodes=6,
    from_s=160_000.0,
    length_s=14_400.0,
    times_faster=40.0,
    least_s=20.0,
    least_gap_s=15.0,
    apart_s=2.0,
    least_changes=2,
)
#: A step of 64 samples takes one of these a second.
DEVICES = "paced:1@64"
#: It charges starts. As printed, equal jobs take turns wherever one seems a percent faster, as chance has it.
POLICY = "bftrainer_corrected"
#: A host that is silent is given up after seven seconds. A job that has lost all its workers goes back five.
#: Several machines import torch at the same time on the cores of one.
SETTINGS: dict[str, float] = {
    "lease_s": 5.0,
    "lease_margin_s": 2.0,
    "checkpoint_interval_s": 5.0,
    "ready_s": 300.0,
    f"{POLICY}.t_fwd_s": 15.0,
    f"{POLICY}.max_trainers": 4.0,
}
#: That submits the jobs on the machine of the head.
PLAYER = "swell.repro.reclaim_player"
#: 8 steps are an epoch of the script. All jobs are as fast on a node, so for most workloads chance decides
#: who has which: of some hundred drawn at random this is one whose outcome hangs little on it, by simulation
#: (see `ReclaimComparison.chance_share`).
WORKLOAD = (
    PlannedJob(at_s=0, name="a", script="visits.py", steps=104, workers="1:2"),
    PlannedJob(at_s=0.5, name="b", script="visits.py", steps=56, workers="1"),
    PlannedJob(at_s=51, name="c", script="visits.py", steps=40, workers="2:3"),
    PlannedJob(at_s=108, name="d", script="visits.py", steps=24, workers="1:2"),
    PlannedJob(at_s=130, name="e", script="visits.py", steps=24, workers="2"),
    PlannedJob(at_s=155, name="f", script="visits.py", steps=56, workers="2"),
    PlannedJob(at_s=175, name="g", script="visits.py", steps=152, workers="1"),
    PlannedJob(at_s=244, name="h", script="visits.py", steps=128, workers="2:3"),
)


@dataclass(frozen=True, slots=True)
class ReclaimExperiment:
    """See `experiment.Experiment`."""

    name: str = "reclaim"
    needs: tuple[str, ...] = ()

    def run(self, context: Context) -> Findings:
        """Run the jobs on real machines, or read a run that was played before, and evaluate it.

        Raises InvalidInput.
        """
        name = f"{self.name}-run"
        if context.played is not None:
            return findings_of(self.name, read_record(context.played, name, ReclaimRun))
        run = self._play(context)
        if context.runs is not None:
            keep_record(run, context.runs, name)
        return findings_of(self.name, run)

    def _play(self, context: Context) -> ReclaimRun:
        source, intervals = lent_nodes(context.data, context.seed)
        names = sorted({one.node for one in intervals})
        order = PlayOrder(
            parts=WORKLOAD,
            num_nodes=len(names),
            first=frozenset(one.node for one in intervals if not one.start_s),
            played_s=WINDOW.played_s,
        )
        up = ["--policy", POLICY]
        for setting, value in SETTINGS.items():
            up += ["--set", f"{setting}={spell(value)}"]
        try:
            with (
                context.watch("machines that are reclaimed", int(WINDOW.played_s)) as advance,
                lent_machines(names, up, DEVICES) as lent,
            ):
                ended, reclaimed = play(lent, order, intervals, advance, PLAYER, PlayEnded)
        except NamespacesMissing as error:
            raise InvalidInput(f"machines cannot be had here: {error}") from error
        except PlayFailed as error:
            raise InvalidInput(str(error)) from error
        return ReclaimRun(
            source=source,
            intervals=intervals,
            played_s=WINDOW.played_s,
            settings=SETTINGS,
            ended=ended,
            reclaimed=reclaimed,
        )


def lent_nodes(data: Path, seed: int, window: Window = WINDOW) -> tuple[str, tuple[LentInterval, ...]]:
    """Where the intervals are from, and they; without the log they are drawn. Raises InvalidInput."""
    if not (data / POOL).exists():
        return f"drawn with seed {seed}, as there is no {POOL}", drawn(window, seed)
    source = f"{POOL} from {window.from_s:,.0f} s on, {window.times_faster:g} times as fast"
    return source, compressed(read_pool(data / POOL), window)


PAPER = Paper(
    name="reclaim",
    title="Machines that are reclaimed",
    inputs="",
    introduction=page_texts("reclaim").introduction,
    experiments=(ReclaimExperiment(),),
)
