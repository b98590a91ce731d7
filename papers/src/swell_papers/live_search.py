"""A small live search for hyperparameters on machines that are killed without notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from swell.api import job_words
from swell.model.job import Phase
from swell.model.view import JobView
from swell_papers.experiment import Context, Paper
from swell_papers.findings import Cell, Findings, Missed, Part, findings, table
from swell_papers.lent_run import POLICY, play_on_lent_nodes, told_of
from swell_papers.lent_run import WINDOW as RECLAIM_WINDOW
from swell_papers.live_run import SCRIPTS
from swell_papers.page_texts import page_texts
from swell_papers.program_version import program_version
from swell_papers.reclaim_record import SearchEnded, SearchRun

WINDOW = replace(RECLAIM_WINDOW, num_nodes=4)
#: Pictures a second of each node: an epoch of 1,437 takes two and a half seconds on one.
DEVICES = "paced:1@600"
NUM_TRIALS, NUM_EPOCHS = 9, 9
#: Of `demo/cnn.py`. A step has 48 pictures for each worker.
SEARCH = f"""\
name: lr
script: {SCRIPTS}/cnn.py
workdir: {SCRIPTS}
args: [--lr, "{{lr}}", --batch, "48"]
batch_per_worker: 48
epochs: {NUM_EPOCHS}
workers: "1:2"
metric: accuracy
metric_goes: up
sweep:
  lr: {{min: 0.00001, max: 0.5, scale: log}}
search: {{draws: {NUM_TRIALS}, seed: SEED}}
halving: {{first: 1, by: epochs, factor: 3}}
"""


@dataclass(frozen=True, slots=True)
class LiveSearch:
    """See `experiment.Experiment`."""

    name: str = "hpo"
    needs: tuple[str, ...] = ()

    def run(self, context: Context) -> Findings:
        """Search on real machines, or read a search that was played before, and tell of it.

        Raises InvalidInput.
        """
        return told_of(context, self.name, SearchRun, _play, found_by)


def _play(context: Context) -> SearchRun:
    file, title = SEARCH.replace("SEED", str(context.seed)), "a search on machines that are reclaimed"
    lent, ended = play_on_lent_nodes(context, title, WINDOW, DEVICES, file, SearchEnded)
    return SearchRun(
        source=lent.source,
        ended=ended,
        reclaimed=lent.reclaimed,
        seed=context.seed,
        version=program_version(),
    )


def found_by(name: str, run: SearchRun) -> Findings:
    """What is told of the search."""
    truth = (
        f"{len(run.reclaimed)} times a machine was killed; intervals: {run.source}",
        f"{DEVICES} on each machine, policy {POLICY}, search drawn with seed {run.seed}",
        run.version,
    )
    return findings(name, "A search for a learning rate on machines that are reclaimed", truth, _parts(run))


def _parts(run: SearchRun) -> Iterator[Part]:
    views = run.ended.views
    yield table(
        "hpo",
        "trials in the order of submission",
        (
            "trial",
            "lr",
            "became",
            "rung",
            "rank there",
            "epochs",
            ("accuracy", 3),
            "resizes",
            ("ended, s", 0),
        ),
        (_row(view, run.ended.begun_s) for view in views),
    )
    trained = sum(map(_epochs, views))
    ended = [view for view in views if view.phase.is_end]
    best = max(views, key=lambda view: view.metrics.get("accuracy", 0.0))
    early = sum(job_words.is_stopped_early(view) for view in views)
    accuracy = best.metrics.get("accuracy", 0.0)
    yield (
        f"{early} of {len(views)} trials were stopped early. All trained {trained:.1f} epochs together, of "
        f"{NUM_EPOCHS * len(views)} without halving. The best one is {best.name}, with an accuracy of "
        f"{accuracy:.3f}."
    )
    joined = sum(one.has_joined for one in run.ended.seen)
    yield f"Nodes joined {joined} times and were lost {len(run.ended.seen) - joined} times during the search."
    if failed := [view.name for view in views if view.phase in (Phase.FAILED, Phase.CANCELLED)]:
        yield Missed(f"trials failed: {', '.join(failed)}; to reach: none")
    if len(ended) < len(views):
        yield Missed(f"{len(views) - len(ended)} trials had not ended when the nodes went; to reach: all")


def _row(view: JobView, begun_s: float) -> tuple[Cell, ...]:
    lr = next((tag.partition("=")[2] for tag in view.tags if tag.startswith("lr=")), "-")
    rank = f"{view.rung_rank} of {view.rung_trials}" if view.rung else "-"
    end_s = None if view.finished_s is None else view.finished_s - begun_s
    epochs = f"{_epochs(view):.1f}"
    accuracy = view.metrics.get("accuracy")
    return view.name, lr, job_words.phase(view), view.rung, rank, epochs, accuracy, view.resizes, end_s


def _epochs(view: JobView) -> float:
    """Passes over the data that the trial has made."""
    return NUM_EPOCHS * view.steps / view.total_steps if view.total_steps else 0.0


PAPER = Paper(
    name="hpo",
    title="A live search",
    inputs="",
    introduction=page_texts("hpo").introduction,
    experiments=(LiveSearch(),),
)
