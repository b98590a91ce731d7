"""Data as ElasticFlow's artifact has it, small enough to be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from swell.sim.traces.entry import Trace
from swell.sim.traces.read import read
from swell_papers.experiment import Study
from swell_papers.log_experiment import EFFICIENCY, MAKESPAN, SPEED_UP, LogCase, LogLine, LogRun, log_study
from swell_papers.promises import PromiseInput

TRACE = "tiny/traces/three.csv"
PROFILES = "tiny/tables"

#: The clock begins at 1000. One is easy, one cannot be in time, one is, if it need not wait.
JOBS = """\
job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration
easy,1000,3600,net,9000,64,1,3600
hopeless,1600,3600,net,1700,64,4,1200
late,1700,3600,net,12000,64,4,1200
"""
RATES = "global_batch_size,1,2,4\n64,1.0,1.8,3.0\n"


def _trace(data: Path, seed: int) -> Trace:
    return read(data / TRACE)


INPUT = PromiseInput(
    name="tiny",
    title="three jobs on 1x4",
    files=(TRACE, PROFILES),
    profiles=PROFILES,
    cluster=(1, 4),
    trace=_trace,
)


def write(folder: Path, texts: Mapping[str, str] | None = None) -> Path:
    """Everything that the experiments below need."""
    for name, text in (texts or {TRACE: JOBS, f"{PROFILES}/net.csv": RATES}).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


COMPARED = LogLine(policy="elasticflow", printed=0.5)


def experiment(
    *lines: LogLine, at_least: float = 0.6, name: str = "1a", num_cases: int = 1, **more: Any
) -> Study[LogRun]:
    """A figure of these lines on clusters of 4 devices and more."""
    study = log_study(
        name=name,
        title="Figure 1(a): three jobs",
        cases=[
            LogCase(name=f"1x{devices}", trace=TRACE, profiles=PROFILES, cluster=(1, devices), lines=lines)
            for devices in (4, 8, 16, 32)[:num_cases]
        ],
        more=(MAKESPAN, EFFICIENCY, *SPEED_UP),
        to_reach={("1x4",): at_least},
        **more,
    )
    return replace(study, remarks=("Three jobs are few.",))
