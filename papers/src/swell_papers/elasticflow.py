"""ElasticFlow's evaluation (Gu, Zhao, Zhong et al., ASPLOS 2023, section 6).

Printed figures are the paper's; where it draws without printing numbers, they are those that its public
artifact plots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from swell_papers.experiment import Paper, Picture, Study
from swell_papers.log_experiment import (
    CHANGED,
    EFFICIENCY,
    MAKESPAN,
    SPEED_UP,
    UTILISATION,
    LogCase,
    LogLine,
    LogRun,
    log_study,
)
from swell_papers.platform_records import of_records, overheads

A100, T4 = "elasticflow/throughputs_A100", "elasticflow/throughputs_T4"
POLLUX = "pollux/profiles"
#: As the paper lists them in section 6.1.
BASELINES = ("edf_largest", "gandiva", "tiresias", "themis", "chronus")
#: The default, and the printed one.
OURS = ("elasticflow", "elasticflow_paper")
HALVES = ("edf_admission_largest", "edf_elastic")
#: Policies that the paper does not compare with in Figure 8(b), and that are hard to beat.
BESIDE = ("equal_share", "edf_elastic", "edf_admission")
#: A panel a case with its policies, and the paper's and ours over the cases.
BY_POLICY = Picture(
    measures=("paper", CHANGED),
    x="policy",
    panels="case",
    y_label="deadline satisfaction",
)
CASE_NAMES = {"8b": "trace", "9": "devices", "11": "share of best-effort jobs"}


def _by_case(figure: str, *measures: str, name: str = "") -> Picture:
    return Picture(
        measures=measures or ("paper", CHANGED),
        x=CASE_NAMES[figure],
        lines="policy",
        panels="measure",
        y_label="" if measures else "deadline satisfaction",
        name=name,
    )


def _printed(*figures: float) -> dict[str, float]:
    """Printed figures of EDF, Gandiva, Tiresias, Themis, Chronus, ElasticFlow, by our policy."""
    return dict(zip((*BASELINES, "elasticflow"), figures, strict=True))


def _case(
    name: str,
    trace: str,
    cluster: tuple[int, int],
    policies: Sequence[str],
    printed: Mapping[str, float] = {},
    *,
    speed_ups: Mapping[str, float] = {},
    profiles: str = A100,
    num_jobs: int | None = None,
) -> LogCase:
    """A line for each policy."""
    lines = tuple(
        LogLine(policy=policy, printed=printed.get(policy), printed_speed_up=speed_ups.get(policy))
        for policy in policies
    )
    trace = f"elasticflow/traces/{trace}"
    return LogCase(name=name, trace=trace, profiles=profiles, cluster=cluster, lines=lines, num_jobs=num_jobs)


#: As the artifact plots it; the text prints ElasticFlow's over each of the others'.
SMALL_TESTBED = _printed(0.08, 0.24, 0.32, 0.28, 0.40, 0.64) | {"pollux": 0.32}
TESTBED = _printed(0.087, 0.210, 0.456, 0.390, 0.410, 0.667)
TESTBED_POLICIES = (*BASELINES, "edf", "edf_admission", *HALVES, *OURS)
POLLUX_POLICIES = (*BASELINES, "pollux", "edf", "edf_admission", *HALVES, *OURS)
POLLUX_PAPER = _printed(0.118, 0.09, 0.287, 0.312, 0.262, 0.728) | {"pollux": 0.523}
#: Trace -> (file, nodes of 8 devices, printed figures).
PRODUCTION = {
    "1": ("cluster01.csv", 64, (0.182, 0.246, 0.478, 0.464, 0.474, 0.788)),
    "2": ("cluster02.csv.gz", 64, (0.228, 0.286, 0.470, 0.431, 0.445, 0.822)),
    "4": ("cluster04.csv.gz", 128, (0.007, 0.228, 0.120, 0.432, 0.450, 0.631)),
    "5": ("cluster05.csv.gz", 64, (0.375, 0.228, 0.420, 0.430, 0.453, 0.832)),
    "7": ("cluster07.csv.gz", 128, (0.046, 0.351, 0.346, 0.437, 0.460, 0.665)),
    "8": ("cluster08.csv.gz", 128, (0.252, 0.325, 0.373, 0.423, 0.447, 0.896)),
    "10": ("cluster10.csv", 32, (0.769, 0.354, 0.473, 0.431, 0.454, 0.981)),
    "Philly": ("philly_103959.csv", 32, (0.01, 0.15, 0.32, 0.33, 0.324, 0.87)),
}
#: Devices -> figures for EDF, EDF + admission control, EDF + elastic scaling, ElasticFlow.
SOURCES = {
    64: (0.026, 0.203, 0.452, 0.926),
    128: (0.118, 0.326, 0.835, 0.949),
    256: (0.118, 0.658, 0.939, 0.944),
}
#: Of the artifact's plot: share of best-effort jobs -> the six, for deadlines and for completion times.
MIXES = {
    10: ((0.09, 0.25, 0.46, 0.41, 0.42, 0.74), (0.05, 1.0, 1.44, 1.37, 1.50, 1.60)),
    20: ((0.10, 0.24, 0.46, 0.40, 0.42, 0.67), (0.05, 1.0, 1.39, 1.36, 1.45, 1.37)),
    30: ((0.15, 0.20, 0.44, 0.37, 0.40, 0.67), (0.05, 1.0, 1.33, 1.34, 1.40, 1.18)),
    40: ((0.15, 0.18, 0.42, 0.34, 0.37, 0.69), (0.05, 1.0, 1.31, 1.32, 1.38, 1.11)),
    50: ((0.23, 0.19, 0.43, 0.36, 0.40, 0.68), (0.07, 1.0, 1.26, 1.26, 1.29, 1.27)),
    60: ((0.28, 0.17, 0.41, 0.34, 0.39, 0.76), (0.07, 1.0, 1.27, 1.27, 1.29, 1.24)),
    70: ((0.44, 0.18, 0.44, 0.35, 0.42, 0.82), (0.08, 1.0, 1.28, 1.29, 1.28, 1.19)),
    80: ((0.79, 0.18, 0.50, 0.42, 0.50, 0.92), (0.08, 1.0, 1.30, 1.29, 1.29, 1.16)),
    90: ((0.95, 0.16, 0.53, 0.37, 0.53, 0.95), (0.10, 1.0, 1.45, 1.46, 1.44, 1.31)),
}


#: Figures that run policies on logs -> their cases.
LOG_CASES: Mapping[str, tuple[LogCase, ...]] = {
    "6a": (_case("4x8", "195job.csv", (4, 8), (*BASELINES, "pollux", *OURS), SMALL_TESTBED, num_jobs=25),),
    "6b": (
        _case("16x8", "195job.csv", (16, 8), TESTBED_POLICIES, TESTBED),
        *(_case(f"{nodes}x8", "195job.csv", (nodes, 8), ("edf", "tiresias", *OURS)) for nodes in (8, 4)),
    ),
    "7": (_case("16x8", "195job.csv", (16, 8), (*BASELINES, *OURS)),),
    "8a": (
        _case(
            "16x4",
            "elasticVpollux_e.csv",
            (16, 4),
            POLLUX_POLICIES,
            POLLUX_PAPER,
            profiles=T4,
        ),
        _case(
            "16x4, any batch",
            "elasticVpollux_e.csv",
            (16, 4),
            ("tiresias", "pollux", *OURS),
            POLLUX_PAPER,
            profiles=POLLUX,
        ),
    ),
    "8b": tuple(
        _case(
            name,
            file,
            (nodes, 8),
            (*BASELINES, *BESIDE, *OURS),
            _printed(*figures),
        )
        for name, (file, nodes, figures) in PRODUCTION.items()
    ),
    "9": tuple(
        _case(
            f"{devices}",
            "1000job_1500lam.csv",
            (devices // 8, 8),
            ("edf_largest", *HALVES, *OURS),
            dict(zip(("edf_largest", *HALVES, "elasticflow"), figures, strict=True)),
        )
        for devices, figures in SOURCES.items()
    ),
    "10": (_case("16x8", "100jobs_1500lam.csv", (16, 8), (*BASELINES, *OURS)),),
    "11": tuple(
        _case(
            f"{percent} %",
            f"200jobs_900lam_{percent / 100:g}.csv",
            (8, 8),
            (*BASELINES, *OURS),
            _printed(*deadlines),
            speed_ups=_printed(*times),
        )
        for percent, (deadlines, times) in MIXES.items()
    ),
}

FIGURE_12 = of_records(
    "12",
    "Figure 12: trial runs and resizes",
    "seconds: trial runs, and what resizes take from training, in all and for each of our models",
    overheads,
    printed={
        "trial run, ResNet50": "549.76",
        "trial run, VGG16": "550.01",
        "trial run, InceptionV3": "366.84",
        "trial run, GPT2": "336.05",
        "trial run, BERT": "305.46",
        "trial run, DeepSpeech2": "337.73",
        "pause, 1->2": "1.82 to 3.90",
        "pause, 2->1": "1.10 to 3.10",
        "pause, 8->16": "1.67 to 4.24",
        "pause, 16->8": "1.73 to 4.22",
        "pause, 8->8": "0.69 to 3.21",
    },
)


def _figure(name: str, title: str, **more: Any) -> Study[LogRun]:
    return log_study(name=name, title=f"Figure {title}", cases=LOG_CASES[name], **more)


FIGURES = (
    _figure(
        "6a",
        "6(a): 25 jobs on 4 nodes of 8 devices, with Pollux",
        ratios=dict(zip((*BASELINES, "pollux"), (8.0, 2.7, 2.0, 2.3, 1.6, 2.0), strict=True)),
        baselines=BASELINES,
        pictures=(BY_POLICY,),
    ),
    _figure(
        "6b",
        "6(b): the testbed's trace, 195 jobs",
        to_reach={("16x8",): 0.88, ("8x8",): 0.84, ("4x8",): 0.44},
        ratios=dict(zip(BASELINES, (7.65, 3.17, 1.46, 1.71, 1.62), strict=True)),
        pictures=(BY_POLICY,),
    ),
    _figure(
        "7",
        "7: devices that jobs hold, and jobs submitted and admitted, over time",
        more=(UTILISATION, MAKESPAN),
        over_time="devices",
    ),
    _figure(
        "8a",
        "8(a): the same jobs with Pollux's profiles, 64 T4",
        to_reach={("16x4",): 0.75},
        pictures=(BY_POLICY,),
    ),
    _figure(
        "8b",
        "8(b): seven production clusters, and Philly",
        to_reach={tuple(name for name in PRODUCTION if name != "Philly"): 0.955},
        ratios=dict(zip(BASELINES, (12.95, 2.58, 2.15, 1.76, 1.68), strict=True)),
        baselines=BASELINES,
        interval_min=23.0,
        case_label=CASE_NAMES["8b"],
        pictures=(_by_case("8b"),),
    ),
    _figure(
        "9",
        "9: sources of improvement, 1,000 jobs on 64, 128 and 256 devices",
        baselines=("edf_largest", *HALVES),
        case_label=CASE_NAMES["9"],
        pictures=(_by_case("9"),),
    ),
    _figure(
        "10",
        "10: cluster efficiency over time, 100 jobs, deadlines at 1.5 durations",
        more=(MAKESPAN, EFFICIENCY),
        over_time="efficiency",
    ),
    _figure(
        "11",
        "11: jobs with and without deadlines, 200 jobs, 64 devices",
        more=SPEED_UP,
        baselines=BASELINES,
        case_label=CASE_NAMES["11"],
        pictures=(
            _by_case("11"),
            _by_case("11", *(measure.name for measure in SPEED_UP), name="-best-effort"),
        ),
    ),
    FIGURE_12,
)
PAPER = Paper.with_page(
    "elasticflow",
    "ElasticFlow",
    "they are traces and throughput tables of ElasticFlow's public artifact, as "
    "elasticflow/traces/*.csv[.gz] and elasticflow/throughputs_{A100,T4}/MODEL.csv, and Pollux's "
    "measurements, as pollux/profiles/MODEL/",
    *FIGURES,
)
