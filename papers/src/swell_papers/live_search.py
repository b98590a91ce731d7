"""A small live search for hyperparameters on machines that are killed without notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

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
from swell_papers.reclaim_record import SearchEnded, SearchRun, SearchWork

WINDOW = replace(RECLAIM_WINDOW, num_nodes=4)
#: Pictures a second of each node: an epoch of 1,437 takes two and a half seconds on one.
DEVICES = "paced:1@600"
NUM_TRIALS, NUM_EPOCHS = 9, 9
#: Of `demo/cnn.py`. A step has 48 pictures for each worker.
SEARCH = SearchWork(
    job={
        "script": f"{SCRIPTS}/cnn.py",
        "workdir": f"{SCRIPTS}",
        "args": ["--batch", "48"],
        "batch_per_worker": 48,
        "epochs": NUM_EPOCHS,
        "workers": "1:2",
        "metric": "accuracy",
        "metric_goes": "up",
        "group": "lr",
    },
    least_lr=1e-5,
    most_lr=0.5,
    num_trials=NUM_TRIALS,
    seed=0,
)


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
    work, title = (
        msgspec.structs.replace(SEARCH, seed=context.seed),
        "a search on machines that are reclaimed",
    )
    lent, ended = play_on_lent_nodes(context, title, WINDOW, DEVICES, work, SearchEnded)
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
            "epochs",
            ("accuracy", 3),
            "resizes",
            ("ended, s", 0),
        ),
        (_row(view, run.ended) for view in views),
    )
    trained = sum(_epochs(view, run.ended) for view in views)
    ended = [view for view in views if view.phase.is_end]
    best = max(views, key=lambda view: view.metrics.get("accuracy", 0.0))
    accuracy = best.metrics.get("accuracy", 0.0)
    yield (
        f"{len(run.ended.pruned)} of {len(views)} trials were stopped early. All trained {trained:.1f} "
        f"epochs together, of {NUM_EPOCHS * len(views)} without halving. The best one is {best.name}, with "
        f"an accuracy of {accuracy:.3f}."
    )
    joined = sum(one.has_joined for one in run.ended.seen)
    yield f"Nodes joined {joined} times and were lost {len(run.ended.seen) - joined} times during the search."
    if failed := [view.name for view in views if view.phase is Phase.FAILED]:
        yield Missed(f"trials failed: {', '.join(failed)}; to reach: none")
    if len(ended) < len(views):
        yield Missed(f"{len(views) - len(ended)} trials had not ended when the nodes went; to reach: all")


def _row(view: JobView, search: SearchEnded) -> tuple[Cell, ...]:
    lr = next((tag.partition("=")[2] for tag in view.tags if tag.startswith("lr=")), "-")
    became = "stopped early" if view.id in search.pruned else job_words.phase(view)
    end_s = None if view.finished_s is None else view.finished_s - search.begun_s
    epochs = f"{_epochs(view, search):.1f}"
    accuracy = view.metrics.get("accuracy")
    return view.name, lr, became, epochs, accuracy, view.resizes, end_s


def _epochs(view: JobView, search: SearchEnded) -> float:
    """Passes over the data that the trial has made. A cancelled job counts the steps that it has saved."""
    if view.id in search.pruned:
        return float(search.pruned[view.id])
    return NUM_EPOCHS * view.steps / view.total_steps if view.total_steps else 0.0


PAPER = Paper(
    name="hpo",
    title="A live search",
    inputs="",
    introduction=page_texts("hpo").introduction,
    experiments=(LiveSearch(),),
)
