"""Which policy meets how many deadlines, on published logs and on made-up ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from swell.core.platform_core import PlatformCore
from swell.model.job import AfterRefusal
from swell.sim.conditions import SETTINGS, Conditions, set_up
from swell.sim.metrics import metrics_of
from swell.sim.simulate import simulate
from swell_papers.experiment import Claim, Context, Key, Measure, Paper, Picture, Results, Study
from swell_papers.findings import Heading, Part, table
from swell_papers.promise_inputs import INPUTS, PromiseInput, inputs_of
from swell_papers.variants import variant_core

OURS = "elasticflow"
#: Policies that promise deadlines by a simpler rule.
GATES = ("edf_admission", "edf_admission_largest", "chronus")
#: Policies that refuse jobs; those that they refuse are also tried without a promise.
REFUSING = (OURS, *GATES)
#: Every rule that promises nothing, once: not the variants that its paper compares it with.
RIVALS = (
    *("fifo", "equal_share", "edf", "edf_elastic", "srtf", "tiresias", "gandiva", "themis"),
    *("pollux", "hu", "bftrainer", "saxena"),
)
#: Policies that promise by the rule of `OURS`, or by that which its paper prints, and are no rivals of it.
KIN = ("unified", "elasticflow_paper")
#: Those that are compared where none are named.
COMPARED = (OURS, *KIN, *GATES, *RIVALS)
#: Behind the name of a policy: jobs that it refuses are tried without a promise.
SOFT = f" --refused {AfterRefusal.SOFT.value}"
#: A run that takes so many times the CPU time of ours, and so many seconds at least, is cut off.
MOST_TIMES, LEAST_LIMIT_S = 3.0, 20.0
#: A difference in deadline satisfaction that is no difference.
FORGIVEN = 0.005


class PromiseOutcome(NamedTuple):
    """What came of one policy on one log; `met` is None for a run that took too long and was cut off."""

    met: float | None  #: deadline satisfaction
    cpu_s: float
    met_device_h: float = 0.0  #: device-hours that the jobs take on one device each that met their deadlines
    admitted: int = 0
    admitted_late: int = 0
    met_unpromised: int = 0


class _TooSlow(Exception):
    """The run has taken as long as it may."""


def lines_of(policies: Iterable[str]) -> Iterator[str]:
    """Ours is always among them, for others are compared with it."""
    for policy in dict.fromkeys((OURS, *policies)):
        yield policy
        if policy in REFUSING:
            yield policy + SOFT


def cases(context: Context) -> dict[Key, Callable[[], PromiseOutcome]]:
    """Each chosen policy on each chosen input. Raises InvalidInput."""
    inputs = context.chosen({on.name: on for on in INPUTS}, "input")
    PAPER.check_files((name for on in inputs for name in on.files), context.data)
    policies = COMPARED if context.policies is None else sorted(context.policies)
    return {
        (line, on.name): partial(outcome, on, line, context.data, context.seed)
        for on in inputs
        for line in lines_of(policies)
    }


@cache
def outcome(on: PromiseInput, line: str, data: Path, seed: int) -> PromiseOutcome:
    """Simulate; others than ours are cut off where they take too long beside it."""
    limit_s = float("inf")
    if line != OURS:
        limit_s = max(LEAST_LIMIT_S, MOST_TIMES * outcome(on, OURS, data, seed).cpu_s)
    profiles, workload = inputs_of(on, data, seed)
    refused = AfterRefusal.SOFT if line.endswith(SOFT) else AfterRefusal.END
    nodes, devices = on.cluster
    conditions = Conditions(nodes=nodes, devices_per_node=devices, seed=seed, refused=refused)
    scenario, begun_s = set_up(workload, profiles, conditions), time.process_time()

    def watch(core: PlatformCore) -> None:
        if time.process_time() - begun_s > limit_s:
            raise _TooSlow

    core = variant_core(line.removesuffix(SOFT), SETTINGS)
    try:
        metrics = metrics_of(simulate(core, scenario, listen=watch, with_offers=False))
    except _TooSlow:
        return PromiseOutcome(met=None, cpu_s=limit_s)
    return PromiseOutcome(
        met=metrics.deadline_satisfaction,
        cpu_s=time.process_time() - begun_s,
        met_device_h=metrics.met_device_h,
        admitted=metrics.admitted,
        admitted_late=metrics.admitted_late,
        met_unpromised=metrics.met_unpromised,
    )


def best_of(some: Callable[[str], bool], on: str, found: Results[PromiseOutcome]) -> float:
    """The most deadlines that one of these lines meets on an input. Raises KeyError: none was run."""
    met = [
        one.met
        for (line, name), one in found.items()
        if name == on and one.met is not None and some(str(line))
    ]
    if not met:
        raise KeyError(on)
    return max(met)


def is_rival(line: str) -> bool:
    return line.removesuffix(SOFT) not in (OURS, *KIN)


def claims_of(on: str) -> Iterator[Claim[PromiseOutcome]]:
    """Ours keeps its promises, and meets as many deadlines as the best of the others."""
    beside = (
        (OURS, "the best gate", GATES.__contains__),
        (OURS + SOFT, "the best other policy", is_rival),
    )
    yield Claim(
        text=f"{on}: broken promises",
        figure=0.0,
        of=lambda found: found[OURS, on].admitted_late,
        way="<=",
        is_target=True,
    )
    for line, whom, some in beside:
        yield Claim(
            text=f"{on}: {line}, beside {whom} less {FORGIVEN}",
            figure=lambda found, some=some: best_of(some, on, found) - FORGIVEN,  # type: ignore[misc]
            of=lambda found, line=line: found[line, on].met or 0.0,  # type: ignore[misc]
            way=">=",
            is_target=True,
        )


def _truth(context: Context, found: Results[PromiseOutcome]) -> Iterator[str]:
    settings = ", ".join(f"{name}={value:g}" for name, value in SETTINGS.items())
    told = f"seed {context.seed}; settings {settings}"
    yield f"resize cost changed; noise 0, no node fails, profiles are the truth; {told}"
    known = {name for _, name in found}
    yield from (f"{on.name}: {on.title}" for on in INPUTS if on.name in known)


def _by_input(context: Context, found: Results[PromiseOutcome]) -> Iterator[Part]:
    heading: Heading = ("input", "policy", *((measure.name, measure.digits) for measure in MEASURES))
    rows = ((on, line, *(measure.of(one) for measure in MEASURES)) for (line, on), one in found.items())
    caption = f"without a figure: cut off after {MOST_TIMES:g} times the CPU time of `{OURS}`"
    yield table("promises-inputs", caption, heading, rows)


Column = Measure[PromiseOutcome]
MEASURES = (
    Column("met", lambda one: one.met),
    Column("met, device-hours", lambda one: one.met_device_h, 1),
    Column("admitted", lambda one: one.admitted, 1),
    Column("late", lambda one: one.admitted_late, 1),
    Column("met without a promise", lambda one: one.met_unpromised, 1),
    Column("CPU, s", lambda one: one.cpu_s, 1),
)
PAPER = Paper.with_page(
    "promises",
    "Deadlines met, by policy",
    "they are traces and throughput tables of ElasticFlow's public artifact, as "
    "elasticflow/traces/*.csv[.gz] and elasticflow/throughputs_{A100,T4}/MODEL.csv, and Philly's log, as "
    "philly/philly.csv.gz",
    Study(
        name="promises",
        title="Deadlines met on every input",
        cases=cases,
        keys=("policy",),
        measures=MEASURES,
        caption="means over the inputs",
        pictures=(Picture(measures=("met",), x="policy", y_label="deadline satisfaction"),),
        tell=_by_input,
        claims=[claim for on in INPUTS for claim in claims_of(on.name)],
        truth=_truth,
    ),
)
