"""BFTrainer's evaluation."""

from __future__ import annotations

from swell_papers import bftrainer_diverse, bftrainer_hpo, bftrainer_pools
from swell_papers.bftrainer_checkpoints import checkpoint_intervals
from swell_papers.bftrainer_checks import beside_replayer, machine, pool_figures
from swell_papers.experiment import Paper
from swell_papers.page_texts import page_texts

PAPER = Paper(
    name="bftrainer",
    title="BFTrainer",
    inputs="they are a week of Summit's idle nodes with throughputs and lists of trainers, as "
    "bftrainer/summit-idle-intervals-8d.csv.gz, imagenet-throughput.csv and *-jobs-*.csv",
    introduction=page_texts("bftrainer").introduction,
    experiments=(
        pool_figures,
        *bftrainer_pools.FIGURES,
        beside_replayer,
        machine,
        checkpoint_intervals,
        *bftrainer_hpo.FIGURES,
        *bftrainer_diverse.FIGURES,
        *bftrainer_hpo.LATER_FIGURES,
    ),
)
