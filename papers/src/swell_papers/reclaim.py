"""Real jobs on machines that are killed without notice, as a log of idle nodes says, and a simulation."""

from __future__ import annotations

from dataclasses import dataclass

from swell_papers.experiment import Context, Paper
from swell_papers.findings import Findings
from swell_papers.lent_run import SETTINGS, WINDOW, play_on_lent_nodes, told_of
from swell_papers.live_run import PlannedJob
from swell_papers.page_texts import page_texts
from swell_papers.reclaim_findings import findings_of
from swell_papers.reclaim_record import PlayEnded, ReclaimRun

#: A step of 64 samples takes one of these a second.
DEVICES = "paced:1@64"
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
        return told_of(context, self.name, ReclaimRun, _play, findings_of)


def _play(context: Context) -> ReclaimRun:
    lent, ended = play_on_lent_nodes(
        context, "machines that are reclaimed", WINDOW, DEVICES, WORKLOAD, PlayEnded
    )
    return ReclaimRun(played_s=WINDOW.played_s, settings=SETTINGS, ended=ended, **lent._asdict())


PAPER = Paper(
    name="reclaim",
    title="Machines that are reclaimed",
    inputs="",
    introduction=page_texts("reclaim").introduction,
    experiments=(ReclaimExperiment(),),
)
