"""ElasticFlow's evaluation (Gu, Zhao, Zhong et al., ASPLOS 2023, section 6).

Printed figures are the paper's; where it draws without printing numbers, they are those that its public
artifact plots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from swell_papers.elasticflow_scaling import ScalingCurves
from swell_papers.elasticflow_summary import summary_of
from swell_papers.experiment import Paper
from swell_papers.log_cases import Bar, Case, CasePolicy
from swell_papers.log_experiment import LogExperiment
from swell_papers.measures import (
    BEST_EFFORT_SPEED_UP,
    EFFICIENCY,
    MAKESPAN,
    SATISFACTION,
    UTILISATION,
    Measure,
)
from swell_papers.page_texts import page_texts
from swell_papers.platform_records import overheads

#: Its remarks are why we differ from the published simulator's own runs: read off its records and its rules,
#: then tried, by following one rule of it after the other in our simulator, resize cost everyone.
TEXTS = page_texts("elasticflow")
A100, T4 = "elasticflow/throughputs_A100", "elasticflow/throughputs_T4"
POLLUX = "pollux/profiles"
#: As the paper lists them in section 6.1.
BASELINES = ("edf_largest", "gandiva", "tiresias", "themis", "chronus")
#: The default, and the printed one.
OURS = ("elasticflow", "elasticflow_paper")
HALVES = ("edf_admission_largest", "edf_elastic")
#: Policies that the paper does not compare with in Figure 8(b), and that are hard to beat.
BESIDE = ("equal_share", "edf_elastic", "edf_admission")
#: Our policy -> the name of its schedule in files of published runs.
SCHEDULES = {
    "edf_largest": "edf",
    "gandiva": "gandiva",
    "tiresias": "dlas-gpu",
    "themis": "themis",
    "edf_admission_largest": "edf-accessctrl",
    "edf_elastic": "ef",
    "elasticflow": "ef-accessctrl",
    "edf_elastic_unaware": "ef",
    "elasticflow_paper": "ef-accessctrl",
}
ALL_BUT_THEMIS = frozenset(SCHEDULES) - {"themis"}


def _lines(
    policies: tuple[str, ...],
    paper: Mapping[str, Mapping[str, float]],
    runs: str | None = None,
    with_runs: frozenset[str] = frozenset(),
    slot_s: float = 0.0,
) -> tuple[CasePolicy, ...]:
    """A line for each policy.

    Args:
        paper: measure -> policy -> figure.
        runs: beginning of the files of published runs, which there are for `with_runs`; their slots are
            `slot_s` long, which only ElasticFlow's own count leaves out.
    """
    return tuple(
        CasePolicy(
            policy=policy,
            paper={name: figures[policy] for name, figures in paper.items() if policy in figures},
            run=f"elasticflow/published-simulator-runs/{runs}-{SCHEDULES[policy]}-job.csv"
            if policy in with_runs
            else None,
            slot_s=slot_s if policy.startswith("elasticflow") else 0.0,
        )
        for policy in policies
    )


def _printed(measure: Measure, figures: Sequence[float]) -> dict[str, dict[str, float]]:
    """Printed figures by measure and policy.

    Args:
        figures: of EDF, Gandiva, Tiresias, Themis, Chronus, ElasticFlow.
    """
    return {measure.name: dict(zip((*BASELINES, "elasticflow"), figures, strict=True))}


def _over_baselines(*ratios: float) -> dict[str, float]:
    """Deadlines that ElasticFlow meets over those of EDF, Gandiva, Tiresias, Themis, Chronus, in print."""
    return dict(zip(BASELINES, ratios, strict=True))


def _satisfaction(*figures: float) -> dict[str, dict[str, float]]:
    return _printed(SATISFACTION, figures)


def _case(
    name: str,
    trace: str,
    cluster: tuple[int, int],
    lines: tuple[CasePolicy, ...],
    profiles: str = A100,
    num_jobs: int | None = None,
) -> Case:
    trace = f"elasticflow/traces/{trace}"
    return Case(name=name, trace=trace, profiles=profiles, cluster=cluster, lines=lines, num_jobs=num_jobs)


FIGURE_2 = ScalingCurves(
    name="2",
    title="Figure 2: throughput by number of GPUs, and by placement",
    tables=A100,
    measurements=POLLUX,
    linear_shares={("vgg16", 256, 8): 0.7607},
    placed={"imagenet": 256, "bert": 96},
)

#: As the artifact plots it; the text prints ElasticFlow's over each of the others'.
SMALL_TESTBED = _satisfaction(0.08, 0.24, 0.32, 0.28, 0.40, 0.64)
SMALL_TESTBED[SATISFACTION.name]["pollux"] = 0.32
FIGURE_6A = LogExperiment(
    name="6a",
    title="Figure 6(a): 25 jobs on 4 nodes of 8 devices, with Pollux",
    cases=(
        _case("4x8", "195job.csv", (4, 8), _lines((*BASELINES, "pollux", *OURS), SMALL_TESTBED), num_jobs=25),
    ),
    why=TEXTS.reasons,
    measures=(SATISFACTION,),
    ratios=_over_baselines(8.0, 2.7, 2.0, 2.3, 1.6) | {"pollux": 2.0},
    remarks=(
        "The paper's trace of 25 jobs is not public. Ours are the first 25 jobs of the trace of 195, so only "
        "compare the policies with each other.",
        "Pollux has each job's own batch here: nothing is known of the gradients of these models. The paper "
        "had them, for its jobs ran on GPUs. Figure 8(a) has Pollux with any batch.",
    ),
)


TESTBED = _satisfaction(0.087, 0.210, 0.456, 0.390, 0.410, 0.667)
TESTBED_POLICIES = (*BASELINES, "edf", "edf_admission", *HALVES, *OURS, "edf_elastic_unaware")
FIGURE_6B = LogExperiment(
    name="6b",
    title="Figure 6(b): the testbed's trace, 195 jobs",
    cases=(
        _case(
            "16x8", "195job.csv", (16, 8), _lines(TESTBED_POLICIES, TESTBED, "job195", ALL_BUT_THEMIS, 240.0)
        ),
        *(
            _case(f"{nodes}x8", "195job.csv", (nodes, 8), _lines(("edf", "tiresias", *OURS), {}))
            for nodes in (8, 4)
        ),
    ),
    why=TEXTS.reasons,
    measures=(SATISFACTION,),
    bars=(
        Bar(policy="elasticflow", cases=("16x8",), at_least=0.88),
        Bar(policy="elasticflow", cases=("8x8",), at_least=0.84),
        Bar(policy="elasticflow", cases=("4x8",), at_least=0.44),
    ),
    ratios=_over_baselines(7.65, 3.17, 1.46, 1.71, 1.62),
    remarks=(
        "The paper's figures are from its testbed; the published simulator runs the same "
        "trace. We added the smaller clusters 8x8 and 4x8.",
    ),
)

FIGURE_7 = LogExperiment(
    name="7",
    title="Figure 7: devices that jobs hold, and jobs submitted and admitted, over time",
    cases=(_case("16x8", "195job.csv", (16, 8), _lines((*BASELINES, *OURS), {})),),
    measures=(UTILISATION, MAKESPAN),
    remarks=(
        "The paper draws curves and prints no numbers. It leaves out Pollux, as the testbed's trace has no "
        "gradients.",
    ),
    picture="allocation",
)

POLLUX_POLICIES = (*BASELINES, "pollux", "edf", "edf_admission", *HALVES, *OURS, "edf_elastic_unaware")
POLLUX_PAPER = _satisfaction(0.118, 0.09, 0.287, 0.312, 0.262, 0.728)
POLLUX_PAPER[SATISFACTION.name]["pollux"] = 0.523
FIGURE_8A = LogExperiment(
    name="8a",
    title="Figure 8(a): the same jobs with Pollux's profiles, 64 T4",
    cases=(
        _case(
            "16x4",
            "elasticVpollux_e.csv",
            (16, 4),
            _lines(POLLUX_POLICIES, POLLUX_PAPER, "fig8a", ALL_BUT_THEMIS, 60.0),
            T4,
        ),
        _case(
            "16x4, any batch",
            "elasticVpollux_e.csv",
            (16, 4),
            _lines(("tiresias", "pollux", *OURS), POLLUX_PAPER),
            POLLUX,
        ),
    ),
    why=TEXTS.reasons,
    measures=(SATISFACTION,),
    bars=(Bar(policy="elasticflow", cases=("16x4",), at_least=0.75),),
    remarks=(
        "With the tables of case 16x4 a job has one batch, and Pollux chooses sizes alone. Case 16x4, any "
        "batch, has Pollux's own measurements of the same models (step times by placement, and statistics of "
        "the gradients), so that Pollux chooses batches, too. The log names models, batches, steps and "
        "deadlines, but no range of batches: it is that of the measurements. Other policies keep the log's "
        "batch there.",
    ),
)

#: Trace -> (file, nodes of 8 devices, printed figures).
PRODUCTION = {
    "1": ("cluster01.csv", 64, (0.182, 0.246, 0.478, 0.464, 0.474, 0.788)),
    "2": ("cluster02.csv.gz", 64, (0.228, 0.286, 0.470, 0.431, 0.445, 0.822)),
    "4": ("cluster04.csv.gz", 128, (0.007, 0.228, 0.120, 0.432, 0.450, 0.631)),
    "5": ("cluster05.csv.gz", 64, (0.375, 0.228, 0.420, 0.430, 0.453, 0.832)),
    "7": ("cluster07.csv.gz", 128, (0.046, 0.351, 0.346, 0.437, 0.460, 0.665)),
    "8": ("cluster08.csv.gz", 128, (0.252, 0.325, 0.373, 0.423, 0.447, 0.896)),
    "10": ("cluster10.csv", 32, (0.769, 0.354, 0.473, 0.431, 0.454, 0.981)),
}
#: Of the others the figures that the artifact plots.
NOT_PUBLIC = {
    trace: _satisfaction(*figures)[SATISFACTION.name]
    for trace, figures in {
        "3": (0.095, 0.314, 0.401, 0.389, 0.426, 0.455),
        "6": (0.105, 0.381, 0.466, 0.425, 0.432, 0.607),
        "9": (0.800, 0.329, 0.468, 0.456, 0.466, 0.938),
    }.items()
}
#: Of which of them there are published runs.
PUBLISHED = {"10": ALL_BUT_THEMIS, "Philly": ALL_BUT_THEMIS - {"edf_elastic"}}
FIGURE_8B = LogExperiment(
    name="8b",
    title="Figure 8(b): seven production clusters, and Philly",
    cases=tuple(
        _case(
            name,
            file,
            (nodes, 8),
            _lines(
                (*BASELINES, *BESIDE, *OURS),
                _satisfaction(*figures),
                "philly" if name == "Philly" else "cluster10",
                PUBLISHED.get(name, frozenset()),
                60.0,
            ),
        )
        for name, (file, nodes, figures) in (
            *PRODUCTION.items(),
            ("Philly", ("philly_103959.csv", 32, (0.01, 0.15, 0.32, 0.33, 0.324, 0.87))),
        )
    ),
    why=TEXTS.reasons,
    measures=(SATISFACTION,),
    bars=(Bar(policy="elasticflow", cases=tuple(PRODUCTION), at_least=0.955),),
    ratios=_over_baselines(12.95, 2.58, 2.15, 1.76, 1.68),
    interval_min=23.0,
    remarks=(
        "Traces 3, 6 and 9 of the paper's ten are not public, so printed means over all ten are of others.",
    ),
    not_public=NOT_PUBLIC,
    picture="cases",
    case_label="trace",
)

#: Devices -> figures for EDF, EDF + admission control, EDF + elastic scaling, ElasticFlow.
SOURCES = {
    64: (0.026, 0.203, 0.452, 0.926),
    128: (0.118, 0.326, 0.835, 0.949),
    256: (0.118, 0.658, 0.939, 0.944),
}
HALF_POLICIES = ("edf_largest", *HALVES, "elasticflow")
FIGURE_9 = LogExperiment(
    name="9",
    title="Figure 9: sources of improvement, 1,000 jobs on 64, 128 and 256 devices",
    cases=tuple(
        _case(
            f"{devices}",
            "1000job_1500lam.csv",
            (devices // 8, 8),
            (
                *(
                    CasePolicy(
                        policy=policy,
                        paper={SATISFACTION.name: figure},
                        counts=(924, 789) if (devices, policy) == (64, "elasticflow") else None,
                    )
                    for policy, figure in zip(HALF_POLICIES, figures, strict=True)
                ),
                CasePolicy(policy="elasticflow_paper"),
            ),
        )
        for devices, figures in SOURCES.items()
    ),
    why=TEXTS.reasons,
    measures=(SATISFACTION,),
    picture="cases",
    case_label="devices",
)

FIGURE_10 = LogExperiment(
    name="10",
    title="Figure 10: cluster efficiency over time, 100 jobs, deadlines at 1.5 durations",
    cases=(
        _case(
            "16x8",
            "100jobs_1500lam.csv",
            (16, 8),
            _lines((*BASELINES, *OURS), {}, "fig10", frozenset(SCHEDULES), 240.0),
        ),
    ),
    why=TEXTS.reasons,
    measures=(SATISFACTION, MAKESPAN, EFFICIENCY),
    remarks=(
        "The paper draws curves and prints no numbers; it says that ElasticFlow has the smallest makespan.",
    ),
    picture="time",
)

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


FIGURE_11 = LogExperiment(
    name="11",
    title="Figure 11: jobs with and without deadlines, 200 jobs, 64 devices",
    cases=tuple(
        _case(
            f"{percent} %",
            f"200jobs_900lam_{percent / 100:g}.csv",
            (8, 8),
            _lines(
                (*BASELINES, *OURS),
                _satisfaction(*deadlines) | _printed(BEST_EFFORT_SPEED_UP, times),
            ),
        )
        for percent, (deadlines, times) in MIXES.items()
    ),
    measures=(SATISFACTION, BEST_EFFORT_SPEED_UP),
    remarks=(
        "The inputs are another random draw than those of the paper's own runs, so only "
        "compare the policies with each other.",
    ),
    picture="lines",
    case_label="share of best-effort jobs",
)

FIGURE_12 = overheads(
    name="12",
    title="Figure 12: trial runs and resizes",
    profiling_s={
        "ResNet50": 549.759,
        "VGG16": 550.011,
        "InceptionV3": 366.84,
        "GPT2": 336.054,
        "BERT": 305.462,
        "DeepSpeech2": 337.726,
    },
    resizes_s={  # of the six models in that order
        "1->2": (1.884, 1.820, 1.819, 2.344, 3.904, 3.904),
        "2->1": (1.659, 1.629, 1.099, 3.101, 2.611, 2.611),
        "8->16": (1.666, 2.407, 1.738, 3.203, 4.239, 4.239),
        "16->8": (1.787, 2.354, 1.733, 3.198, 4.222, 4.222),
        "8->8": (0.887, 3.209, 0.690, 2.119, 3.191, 3.191),
    },
    remarks=(
        (
            "The paper's figures are from A100s and six models of up to hundreds of millions of "
            "parameters; ours are from the jobs of the platform named below. They show how each "
            "system works, not which is faster."
        ),
        (
            "Trial runs are made one after the other. Ours count from the request and include "
            "the wait for earlier ones. Scripts with a cached profile are not counted."
        ),
    ),
)

PAPER = Paper(
    name="elasticflow",
    title="ElasticFlow",
    inputs="they are traces and throughput tables of ElasticFlow's public artifact, as "
    "elasticflow/traces/*.csv[.gz] and elasticflow/throughputs_{A100,T4}/MODEL.csv, and Pollux's "
    "measurements, as pollux/profiles/MODEL/",
    introduction=TEXTS.introduction,
    experiments=(
        FIGURE_2,
        FIGURE_6A,
        FIGURE_6B,
        FIGURE_7,
        FIGURE_8A,
        FIGURE_8B,
        FIGURE_9,
        FIGURE_10,
        FIGURE_11,
        FIGURE_12,
    ),
    summary=partial(summary_of, baselines=BASELINES, beside=BESIDE),
)
