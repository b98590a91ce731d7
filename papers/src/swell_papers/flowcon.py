"""FlowCon's evaluation (Zheng et al., ICPP 2019, section 5), on real processes of this machine."""

from __future__ import annotations

import platform
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from swell.api.client import Client
from swell.executors.local.limits.control_groups import limiter_offers
from swell_papers.experiment import Claim, Context, Key, Measure, Paper, Results, Study, Way
from swell_papers.findings import Part, chart, table
from swell_papers.flowcon_measures import REPORT_S, SharedRun
from swell_papers.live_run import LiveRun, PlannedJob, Player, played

#: Slots, more than any schedule has jobs; they share one core.
DEVICES = "cpu:16"
#: A second here stands for so many of the paper's: of the fixed schedule, and of the random ones.
FIXED_SCALE, RANDOM_SCALE = 10.0, 20.0
#: Random jobs start within so many seconds (section 5.4), and are longer or shorter by this share.
WINDOW_S, VARIED_SHARE = 200.0, 0.3


class TrainedModel(NamedTuple):
    """A model with the data that ships with installed packages, and how it is trained here."""

    global_batch: int
    learning_rate: float
    step_s: float  #: of CPU, roughly, on the machine on which the lengths were chosen
    job_s: float  #: CPU seconds of a job, roughly
    is_foreign: bool = False  #: it knows nothing of Swell, counts its steps, and prints its loss


#: Table 1 of the paper: all but `perceptron`, which is in NumPy, in PyTorch. The first five are those of the
#: random schedules of five. Pictures are 8 x 8 digits, text is Python's language reference.
MODELS = {
    "lstm": TrainedModel(64, 1e-2, 0.0040, 7.0),
    "vae": TrainedModel(96, 1e-3, 0.0016, 8.0),
    "perceptron": TrainedModel(96, 2e-3, 0.0002, 6.0, is_foreign=True),
    "cnn": TrainedModel(96, 1e-3, 0.0031, 6.0),
    "gru": TrainedModel(64, 1e-2, 0.0125, 7.0),
    "birnn": TrainedModel(96, 1e-3, 0.0028, 5.0),
    "lstm_crf": TrainedModel(32, 1e-2, 0.0055, 7.0),
}

Schedule = tuple[PlannedJob, ...]


def planned(context: Context, number: int, model: str, at_s: float, cpu_s: float) -> PlannedJob:
    """Return a job of so many CPU seconds, made as much shorter as the context says."""
    found = MODELS[model]
    steps = max(1, round(cpu_s / found.step_s / context.shorter))
    args = ["--batch", str(found.global_batch), "--lr", str(found.learning_rate)]
    further: dict[str, Any] = {"args": args, "image": context.image or None}
    if found.is_foreign:
        further |= {"args": [*args, "--steps", str(steps)], "steps": None, "elasticity": "restart"}
        further |= {"estimate": max(steps * found.step_s, 1.0)}
    return PlannedJob(
        at_s=round(at_s / context.shorter, 3),
        name=f"{model}-{number}",
        script=f"{model}.py",
        steps=steps,
        workers="1",
        global_batch=found.global_batch,
        further=further,
    )


#: Section 5.3: VAE at 0 s, digits at 40 s, and at 80 s digits again, by another framework: the late job.
#: They are as long as Figure 8 shows them.
FIXED = (("vae", 0.0, 261.0), ("cnn", 40.0, 105.0), ("perceptron", 80.0, 28.0))
LATE_JOB = "perceptron-3"


def fixed(context: Context, repetition: int) -> Schedule:
    """Return the three jobs, the same in every repetition."""
    return tuple(
        planned(context, number, model, at_s / FIXED_SCALE, cpu_s / FIXED_SCALE)
        for number, (model, at_s, cpu_s) in enumerate(FIXED, start=1)
    )


def drawn(num: int, context: Context, repetition: int) -> Schedule:
    """Draw so many jobs, the models in turn, submitted at random moments; the first at 0 s."""
    draw = random.Random(context.seed + repetition)
    models = [list(MODELS)[place % len(MODELS)] for place in range(num)]
    draw.shuffle(models)
    at_s = sorted(draw.uniform(0.0, WINDOW_S / RANDOM_SCALE) for _ in models)
    lengths_s = [MODELS[model].job_s * draw.uniform(1 - VARIED_SHARE, 1 + VARIED_SHARE) for model in models]
    return tuple(
        planned(context, number, model, moment_s - at_s[0], cpu_s)
        for number, (model, moment_s, cpu_s) in enumerate(zip(models, at_s, lengths_s, strict=True), start=1)
    )


class Contender(NamedTuple):
    """A policy with its parameters. Times are the paper's, in its own seconds."""

    label: str
    policy: str
    parameters: Mapping[str, float] = {}
    limits: str = "weight"  #: what a share means: see `swell up --cpu-shares`

    def settings(self, scale: float) -> dict[str, float]:
        """Return the settings of the platform; intervals are no shorter than reports are apart."""
        return {
            f"{self.policy}.{name}": max(value / scale, REPORT_S) if name.endswith("_s") else value
            for name, value in self.parameters.items()
        }


def flowcon(alpha: float, interval_s: float, limits: str = "weight") -> Contender:
    """Return FlowCon with a threshold in percent."""
    label = f"alpha {alpha:g} %, interval {interval_s:g} s" + (", quotas" if limits == "quota" else "")
    return Contender(label, "flowcon", {"alpha": alpha / 100.0, "interval_s": interval_s}, limits)


NONE, FIT = Contender("none", "fifo"), Contender("flowcon_fit", "flowcon_fit", {"interval_s": 5.0})


def _time(name: str, of: Callable[[SharedRun], float]) -> tuple[Measure[SharedRun], Measure[SharedRun]]:
    """A time, and its ratio to that without control."""
    ratio = Measure[SharedRun](f"{name}, ratio", lambda one: one.ratio(of), has_interval=True)
    return Measure(f"{name} s", of, 2), ratio


COMPLETION = _time("mean completion", lambda one: one.mean_completion_s)
MAKESPAN = _time("makespan", lambda one: one.makespan_s)
USABLE = _time("usable", lambda one: one.mean_usable_s)
WORST = Measure[SharedRun]("worst job, ratio", lambda one: one.worst)
AT_ONCE = Measure[SharedRun]("all jobs at once s", lambda one: one.all_at_once_s, 2)
CONTROL = Measure[SharedRun]("control", lambda one: one.further_control)
SIMULATED = Measure[SharedRun](
    "error of simulation, %", lambda one: 100.0 * abs(one.simulated.error_together), 1
)
LATE = Measure[SharedRun](
    "late job sooner, %",
    lambda one: one.sooner(LATE_JOB),
    1,
    has_interval=True,
)
MEASURES = (*COMPLETION, *MAKESPAN, *USABLE, WORST, AT_ONCE, CONTROL, SIMULATED)
CAPTION = (
    "means over repetitions; ratios to no control, of the same repetition; worst job: largest ratio of "
    "completion; control: CPU of the daemon more than without control, as a share of a core; simulation: "
    "of the mean completion"
)

Found = Results[SharedRun]
#: A measure, how it is to be, and to which figure. Those near a figure are printed, others to be reached.
Wanted = tuple[Measure[SharedRun], Way, float]
COSTS: tuple[Wanted, ...] = ((MAKESPAN[1], "<=", 1.02), (CONTROL, "<=", 0.01), (SIMULATED, "<=", 5.0))


def _study(
    name: str,
    title: str,
    draw: Callable[[Context, int], Schedule],
    contenders: Sequence[Contender],
    wanted: Mapping[str, Sequence[Wanted]] = {},
) -> Study[SharedRun]:
    """Schedules that are played without control and under several policies.

    Args:
        draw: the schedule of a repetition.
        wanted: of what comes of a policy, by its label.
    """
    scale = FIXED_SCALE if draw == fixed else RANDOM_SCALE
    known = {one.label: one for one in (NONE, *contenders)}

    def cases(context: Context) -> Mapping[Key, Callable[[], SharedRun]]:
        """Policies play the schedule of a repetition in an order that is shuffled each time."""
        order = random.Random(context.seed)

        @cache
        def share(label: str, repetition: int) -> SharedRun:
            run = _played(context, name, draw(context, repetition), scale, known[label], repetition)
            none = share(NONE.label, repetition) if label != NONE.label else None
            return SharedRun(run, none, known[label].limits)

        return {
            (label, repetition): partial(share, label, repetition)
            for repetition in range(context.repetitions)
            for label in order.sample(list(known), len(known))
        }

    return Study(
        name=name,
        title=title,
        truth=_truth,
        cases=cases,
        keys=("policy",),
        measures=(*MEASURES, LATE) if draw == fixed else MEASURES,
        caption=CAPTION,
        claims=[
            Claim(
                text=f"{measure.name}: {label}",
                figure=figure,
                of=measure.at(label),
                way=way,
                is_target=way != "~",
            )
            for label, some in wanted.items()
            for measure, way, figure in some
        ],
        tell=lambda context, found: _told(name, title, found),
    )


def _played(
    context: Context, name: str, schedule: Schedule, scale: float, contender: Contender, repetition: int
) -> LiveRun:
    settings = contender.settings(scale * context.shorter)
    options = ("--devices", DEVICES, "--cores", "1", "--cpu-shares", contender.limits)
    record = f"{name}-{contender.label}-{repetition}".replace(" ", "-")

    def play(client: Client) -> LiveRun:
        return Player(client, DEVICES, settings).measure_and_play(schedule)

    return played(context, record, play, contender.policy, settings, *options)


def _truth(context: Context, found: Found) -> Iterator[str]:
    loads = [one.run.load_before for one in found.values()]
    limiter = next((offer.name for offer in limiter_offers() if offer.is_offered), "nothing")
    shorter = f", jobs and times {context.shorter:g} times shorter" if context.shorter != 1.0 else ""
    yield (
        f"real processes, {context.repetitions} repetitions{shorter}, "
        f"{f'containers of {context.image}' if context.image else limiter}; load of the machine before each "
        f"run {min(loads):.1f} to {max(loads):.1f}; Python {platform.python_version()}"
    )


def _told(name: str, title: str, found: Found) -> Iterator[Part]:
    """How soon each job ended, CPU use, progress and growth over time, and whether losses are equal."""
    all_runs = {str(label): runs for (label,), runs in found.runs.items()}
    first = {label: runs[0] for label, runs in all_runs.items()}
    jobs = list(first[NONE.label].completions_s)
    times_s = {
        label: np.mean([list(one.completions_s.values()) for one in runs], axis=0).tolist()
        for label, runs in all_runs.items()
    }
    told = "completion of each job in seconds, means over repetitions, in order of submission"
    rows = zip(jobs, *times_s.values(), strict=True)
    yield table(f"{name}-jobs", told, ("job, first repetition", *((label, 2) for label in times_s)), rows)
    yield chart(name, title, "bars", ("job", jobs), "completion, s", times_s)
    yield from _over_time(name, title, first)
    equal = sum(one.num_equal for one in found.values())
    num = len(jobs) * len(found)
    yield f"{equal} of {num} jobs ended with the very same loss as without control, to the last bit."


#: What is drawn over time, as `Span` has it, with the end of its picture's name.
OVER_TIME = {"cores": "cpu", "share of the drop": "progress", "growth efficiency": "growth"}
#: Parts of the longest run.
NUM_SPANS = 40


def _over_time(name: str, title: str, first: Mapping[str, SharedRun]) -> Iterator[Part]:
    """Figures 1, 7, 8, 10, 11 and 13 to 16, of the first repetition."""
    edges_s = np.linspace(0.0, max(one.makespan_s for one in first.values()), NUM_SPANS + 1)
    spans = {
        label: {job.part.name: one.spans(job, edges_s) for job in one.run.jobs}
        for label, one in first.items()
    }
    yield table(
        f"{name}-time",
        "each job over time, first repetition: cores, share of the drop of its loss that is done, and share "
        "that a CPU second does (growth efficiency)",
        ("policy", "job", ("until s", 1), *OVER_TIME),
        (
            (label, job, until_s, *span)
            for label, by_job in spans.items()
            for job, some in by_job.items()
            for until_s, span in zip(edges_s[1:].tolist(), some, strict=True)
            if span is not None
        ),
    )
    for at, (what, suffix) in enumerate(OVER_TIME.items()):
        panels = {
            label: {job: [span and span[at] for span in some] for job, some in by_job.items()}
            for label, by_job in spans.items()
        }
        told = f"{title}: {what} over time, first repetition"
        yield chart(
            f"{name}-{suffix}", told, "steps", ("seconds", edges_s[:-1].tolist()), what, panels=panels
        )


ALPHAS, INTERVALS_S = (1.0, 3.0, 5.0, 10.0, 15.0), (20.0, 30.0, 40.0, 50.0, 60.0)


def _swept(figure: int, swept: Sequence[Contender], printed: Mapping[int, float] = {}) -> Study[SharedRun]:
    """The fixed schedule by one parameter; the late job ends by so many percent sooner in print."""
    wanted: dict[str, Sequence[Wanted]] = {
        swept[place].label: ((LATE, "~", percent),) for place, percent in printed.items()
    }
    title = f"Figure {figure}: the fixed schedule, {swept[0].label} to {swept[-1].label}"
    return _study(f"fig{figure}", title, fixed, swept, wanted)


OF_THREE = flowcon(5.0, 20.0)
OF_TEN = flowcon(10.0, 20.0)
PAPER = Paper.with_page(
    "flowcon",
    "FlowCon",
    "",
    _study(
        "fixed",
        "Figure 7: three jobs at 0, 40 and 80 s",
        fixed,
        (OF_THREE, FIT),
        {one.label: (*COSTS, (LATE, ">=", 25.0)) for one in (OF_THREE, FIT)},
    ),
    _study(
        "cpu",
        "Figures 7 and 8: weights and hard limits",
        fixed,
        (OF_THREE, flowcon(5.0, 20.0, limits="quota")),
    ),
    # Table 2, and of figure 3 what section 5.3 tells.
    _swept(3, [flowcon(5.0, at_s) for at_s in INTERVALS_S], {1: 31.9}),
    _swept(4, [flowcon(10.0, at_s) for at_s in INTERVALS_S], {0: 26.2, 1: 32.4, 2: 14.3, 3: 15.3, 4: 3.1}),
    _swept(5, [flowcon(alpha, 20.0) for alpha in ALPHAS], {0: 32.1, 1: 31.0, 2: 21.4, 3: 19.0, 4: 19.8}),
    _swept(6, [flowcon(alpha, 30.0) for alpha in ALPHAS]),
    _study(
        "random5",
        "Figures 1 and 9: 5 jobs at random moments, four settings",
        partial(drawn, 5),
        [*(flowcon(alpha, at_s) for alpha in (3.0, 5.0) for at_s in (30.0, 60.0)), FIT],
    ),
    _study(
        "random10",
        "Figures 12 to 14: 10 jobs at random moments",
        partial(drawn, 10),
        (OF_TEN, FIT),
        {OF_TEN.label: COSTS, FIT.label: (*COSTS, (USABLE[1], "<=", 0.97), (WORST, "<=", 1.3))},
    ),
    _study("random15", "Figure 17: 15 jobs at random moments", partial(drawn, 15), (OF_TEN, FIT)),
)
