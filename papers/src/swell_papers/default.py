"""The bars of the policy `unified`: each paper's own measure, and a queue of all kinds of jobs."""

from __future__ import annotations

from swell_papers.default_studies import BORROWED, HU_JOBS, POLLUX, SAXENA_QUEUE, SHARED_CORES, summary
from swell_papers.experiment import Paper
from swell_papers.mixed_queue import MIXED
from swell_papers.page_texts import page_texts

PAPER = Paper(
    name="default",
    title="One policy for one queue",
    inputs="they are Pollux's workloads and profiles, as pollux/workloads/workload-N.csv and "
    "pollux/profiles, and BFTrainer's inputs, as bftrainer/summit-idle-intervals-8d.csv.gz, "
    "imagenet-throughput.csv and *-jobs-*.csv",
    introduction=page_texts("default").introduction,
    experiments=(POLLUX, MIXED, SAXENA_QUEUE, BORROWED, HU_JOBS, SHARED_CORES),
    summary=summary,
)
