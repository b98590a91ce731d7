"""Which policy meets how many deadlines, on published logs and on made-up ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from swell.core.platform_core import PlatformCore
from swell.model.errors import InvalidInput
from swell.model.job import AfterRefusal
from swell.sim.conditions import SETTINGS, Conditions, set_up
from swell.sim.metrics import metrics_of
from swell.sim.simulate import simulate
from swell_papers.experiment import Context, Paper, Study
from swell_papers.findings import Cell, Missed, Part, Values, chart, table
from swell_papers.page_texts import page_texts
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
    num_jobs: int
    cpu_s: float
    met_device_h: float = 0.0  #: device-hours that the jobs take on one device each that met their deadlines
    admitted: int = 0
    admitted_late: int = 0
    met_unpromised: int = 0


#: By the names of input and line.
Found = Mapping[tuple[str, str], PromiseOutcome]


class _TooSlow(Exception):
    """The run has taken as long as it may."""


def chosen_inputs(names: Sequence[str]) -> list[PromiseInput]:
    """Those whose name begins so; all for none. Raises InvalidInput for one with which no name begins."""
    for name in names:
        if not any(on.name.startswith(name) for on in INPUTS):
            known = ", ".join(on.name for on in INPUTS)
            raise InvalidInput(f"--only names {name!r}, and no input begins so; there are {known}")
    return [on for on in INPUTS if not names or on.name.startswith(tuple(names))]


def lines_of(policies: Iterable[str]) -> Iterator[str]:
    """Ours is always among them, for others are compared with it."""
    for policy in dict.fromkeys((OURS, *policies)):
        yield policy
        if policy in REFUSING:
            yield policy + SOFT


def _cases(context: Context) -> dict[tuple[str, str], Callable[[], PromiseOutcome]]:
    inputs = chosen_inputs(context.only)
    PAPER.check_files((name for on in inputs for name in on.files), context.data)
    policies = COMPARED if context.policies is None else sorted(context.policies)
    return {
        (on.name, line): partial(outcome, on, line, context.data, context.seed)
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
        return PromiseOutcome(met=None, num_jobs=len(scenario.jobs), cpu_s=limit_s)
    return PromiseOutcome(
        met=metrics.deadline_satisfaction,
        num_jobs=len(scenario.jobs),
        cpu_s=time.process_time() - begun_s,
        met_device_h=metrics.met_device_h,
        admitted=metrics.admitted,
        admitted_late=metrics.admitted_late,
        met_unpromised=metrics.met_unpromised,
    )


# What is told of it


class Score(NamedTuple):
    """Outcomes on one input: ours, with and without `--refused soft`, and the best of the others."""

    name: str
    ours: PromiseOutcome
    soft: PromiseOutcome
    best_gate: tuple[str, float] | None
    best: tuple[str, float] | None  #: of all but ours and its kin

    @property
    def over_gates(self) -> float | None:
        return _over(self.ours, self.best_gate)

    @property
    def over_all(self) -> float | None:
        return _over(self.soft, self.best)


def _over(ours: PromiseOutcome, other: tuple[str, float] | None) -> float | None:
    return None if ours.met is None or other is None else ours.met - other[1]


def scores_of(found: Found) -> list[Score]:
    """A score for each input."""

    def score(name: str) -> Score:
        of = {line: one for (on, line), one in found.items() if on == name}
        met = {line: one.met for line, one in of.items() if one.met is not None}
        others = {line: share for line, share in met.items() if line.removesuffix(SOFT) not in (OURS, *KIN)}
        gates = {line: share for line, share in met.items() if line in GATES}
        return Score(name, of[OURS], of[OURS + SOFT], _best(gates), _best(others))

    return [score(name) for name in dict.fromkeys(name for name, _ in found)]


def _best(met: dict[str, float]) -> tuple[str, float] | None:
    return max(met.items(), key=lambda item: item[1]) if met else None


def tell(context: Context, found: Found) -> Iterator[Part]:
    """The comparison without noise."""
    scores = scores_of(found)
    yield table(
        "promises",
        f"deadline satisfaction: `{OURS}` and the best gate; then with `--refused soft` (soft), and "
        "the best of all other policies, those with `--refused soft` too",
        ("input", OURS, "late", "best gate", "it meets", "over it", "soft", "best other", "meets", "over"),
        (
            (
                *(one.name, one.ours.met, one.ours.admitted_late, *(one.best_gate or (None, None))),
                *(one.over_gates, one.soft.met, *(one.best or (None, None)), one.over_all),
            )
            for one in scores
        ),
    )
    yield _by_policy(found, {one.name: one for one in scores})
    columns = ("met", "met_device_h", "admitted", "admitted_late", "met_unpromised", "num_jobs", "cpu_s")
    rows = ((*key, *(getattr(one, column) for column in columns)) for key, one in found.items())
    yield table("promises-cells", "all runs; without a figure: cut off", ("input", "policy", *columns), rows)
    met: dict[str, Values] = {
        OURS: [one.ours.met for one in scores],
        "best gate": [one.best_gate[1] if one.best_gate else None for one in scores],
        OURS + SOFT: [one.soft.met for one in scores],
        "best other policy": [one.best[1] if one.best else None for one in scores],
    }
    x = ("input: log and size of the cluster", (one.name for one in scores))
    title = "Deadline satisfaction on every input"
    yield chart("promises", title, "lines", x, "deadline satisfaction", met)
    yield from _notes(found, scores)


def _by_policy(found: Found, scores: Mapping[str, Score]) -> Part:
    """One row for each policy, over the inputs on which it was run to the end."""
    rows: list[tuple[Cell, ...]] = []
    for line in dict.fromkeys(line for _, line in found):
        some = {on: one for (on, of), one in found.items() if of == line}
        done = {on: one for on, one in some.items() if one.met is not None}
        leads = [
            (one.met or 0.0) - max(scores[on].ours.met or 0.0, scores[on].soft.met or 0.0)
            for on, one in done.items()
        ]
        met = fmean(one.met or 0.0 for one in done.values()) if done else None
        late = sum(one.admitted_late for one in done.values())
        rows.append(
            (line, len(done), met, sum(lead > FORGIVEN for lead in leads), late, len(some) - len(done))
        )
    return table(
        "promises-policies",
        f"mean over inputs, inputs on which the policy is ahead of `{OURS}` with or without "
        "`--refused soft`, late jobs that were admitted, and runs that were cut off",
        ("policy", "inputs", "met", "ahead on", "late", "cut off"),
        rows,
    )


def _notes(found: Found, scores: Sequence[Score]) -> Iterator[str]:
    yield _against("every gate", [(one.name, one.over_gates, one.best_gate) for one in scores])
    everyone = "every other policy, with `--refused soft`,"
    yield _against(everyone, [(one.name, one.over_all, one.best) for one in scores])
    broken = [one.name for one in scores if one.ours.admitted_late]
    yield f"It breaks promises on {', '.join(broken)}." if broken else "It breaks no promise on any input."
    if cut := [line for (_, line), one in found.items() if one.met is None]:
        yield (
            f"{len(cut)} runs were cut off, for they took more than {MOST_TIMES:g} times the CPU time of "
            f"`{OURS}`, and {LEAST_LIMIT_S:g} s: of {', '.join(dict.fromkeys(cut))}."
        )
    for one in scores:
        if one.ours.admitted_late:
            yield Missed(f"{one.name}: {one.ours.admitted_late} broken promises of {OURS}")
        for over, best in ((one.over_gates, one.best_gate), (one.over_all, one.best)):
            if over is not None and best is not None and over < -FORGIVEN:
                yield Missed(f"{one.name}: {-over:.3f} below {best[0]}")


def _against(whom: str, told: Sequence[tuple[str, float | None, tuple[str, float] | None]]) -> str:
    known = [(name, over, best) for name, over, best in told if over is not None and best is not None]
    lost = [f"{name} ({over:+.3f} against {best[0]})" for name, over, best in known if over < -FORGIVEN]
    won = [name for name, over, _ in known if over > FORGIVEN]
    equal = [name for name, over, _ in known if abs(over) <= FORGIVEN]
    parts = [
        f"Compared with {whom} `{OURS}` meets more deadlines on {len(won)} of {len(known)} inputs",
        f": {', '.join(won)}" if won else "",
        f"; as many, within {FORGIVEN:g}, on {', '.join(equal)}" if equal else "",
        f"; fewer on {', '.join(lost)}" if lost else "; fewer on none",
    ]
    return "".join(parts) + "."


def _truth(context: Context, found: Found) -> Iterator[str]:
    settings = ", ".join(f"{name}={value:g}" for name, value in SETTINGS.items())
    told = f"seed {context.seed}; settings {settings}"
    yield f"resize cost changed; noise 0, no node fails, profiles are the truth; {told}"
    known = {name for name, _ in found}
    yield from (f"{on.name}: {on.title}" for on in INPUTS if on.name in known)


PAPER = Paper(
    name="promises",
    title="Deadlines met, by policy",
    inputs="they are traces and throughput tables of ElasticFlow's public artifact, as "
    "elasticflow/traces/*.csv[.gz] and elasticflow/throughputs_{A100,T4}/MODEL.csv, and Philly's log, as "
    "philly/philly.csv.gz",
    introduction=page_texts("promises").introduction,
    experiments=(
        Study(name="promises", title="Deadlines met on every input", cases=_cases, tell=tell, truth=_truth),
    ),
)
