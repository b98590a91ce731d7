"""What the page on deadlines met says before its tables."""

from __future__ import annotations

from swell.repro.experiment import Paper

PAPER = Paper(
    name="promises",
    title="Deadlines met, by policy",
    inputs="they are traces and throughput tables of ElasticFlow's public artifact, as "
    "elasticflow/traces/*.csv[.gz] and elasticflow/throughputs_{A100,T4}/MODEL.csv, and Philly's log, as "
    "philly/philly.csv.gz",
    introduction="""
Every policy on every log and size of [ElasticFlow's evaluation](elasticflow.md) (`6b-` to `11-`), on
stretches of 3,000 jobs of Philly's log (`philly-DAY-`), and on made-up logs of 600 jobs
(`made-MEDIAN-LOAD`). A policy that refuses a job promises the others their deadlines; refused jobs count as
missed. With `--refused soft` they go on as soft jobs, and count as met if they end in time all the same.
Gates are the other policies that promise: `edf_admission`, `edf_admission_largest`, `chronus`. Variants of
`elasticflow` are no rivals of it. Differences under 0.005 count as none.

`swell repro promises --data FOLDER --docs docs` writes this page. It takes hours at first, can be stopped
(`--limit SECONDS`), and goes on where it stopped; after a change of the program all runs are made again.
""",
    experiments=(),
)
