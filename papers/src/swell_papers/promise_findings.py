"""Tables, charts and sentences on deadlines met by policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from swell.model.job import AfterRefusal
from swell.sim.conditions import SETTINGS
from swell_papers.experiment import Paper
from swell_papers.findings import Cell as Value
from swell_papers.findings import Chart, Findings, Missed, Part, Table, Values, chart, findings, table
from swell_papers.page_texts import page_texts
from swell_papers.program_version import program_version
from swell_papers.promise_cells import Cell, CellOutcome
from swell_papers.promise_inputs import PromiseInput
from swell_papers.promises import GATES, KIN, LEAST_LIMIT_S, MOST_TIMES, OURS, Compared

PAPER = Paper(
    name="promises",
    title="Deadlines met, by policy",
    inputs="they are traces and throughput tables of ElasticFlow's public artifact, as "
    "elasticflow/traces/*.csv[.gz] and elasticflow/throughputs_{A100,T4}/MODEL.csv, and Philly's log, as "
    "philly/philly.csv.gz",
    introduction=page_texts("promises").introduction,
    experiments=(),
)
#: A difference in deadline satisfaction that is no difference.
FORGIVEN = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Outcomes on one input: ours, and the best of other policies.

    An outcome whose `met` is None was not run to its end.
    """

    on: PromiseInput
    ours: CellOutcome | None
    soft: CellOutcome | None  #: ours where refused jobs are tried without a promise
    best_gate: tuple[str, float] | None  #: its label, and the share it meets
    best: tuple[str, float] | None  #: of all but ours and its kin

    @property
    def over_gates(self) -> float | None:
        return _over(self.ours, self.best_gate)

    @property
    def over_all(self) -> float | None:
        return _over(self.soft, self.best)


def _over(ours: CellOutcome | None, other: tuple[str, float] | None) -> float | None:
    if ours is None or ours.met is None or other is None:
        return None
    return ours.met - other[1]


def scores_of(compared: Compared) -> list[Score]:
    return [_score(on, compared.of(on)) for on in compared.inputs]


def _score(on: PromiseInput, outcomes: dict[Cell, CellOutcome]) -> Score:
    met = {cell: outcome.met for cell, outcome in outcomes.items() if outcome.met is not None}
    gates = {cell.label: share for cell, share in met.items() if cell.policy in GATES and _ends(cell)}
    others = {cell.label: share for cell, share in met.items() if cell.policy not in (OURS, *KIN)}
    return Score(
        on=on,
        ours=outcomes.get(Cell(input=on.name, policy=OURS)),
        soft=outcomes.get(Cell(input=on.name, policy=OURS, refused=AfterRefusal.SOFT)),
        best_gate=_best(gates),
        best=_best(others),
    )


def _ends(cell: Cell) -> bool:
    return cell.refused is AfterRefusal.END


def _best(met: dict[str, float]) -> tuple[str, float] | None:
    return max(met.items(), key=lambda item: item[1]) if met else None


def findings_of(compared: Compared, seed: int) -> Findings:
    """The comparison without noise."""
    scores = scores_of(compared)
    parts: tuple[Part, ...] = (
        *(_table(scores), _policy_table(compared), _cell_table(compared), _chart(scores)),
        *(*_notes(compared, scores), *map(Missed, _missed(scores))),
    )
    told = (truth(seed), *(f"{on.name}: {on.title}" for on in compared.inputs))
    return findings("promises", "Deadlines met on every input", told, parts)


def truth(seed: int) -> str:
    """What the runs have in common."""
    settings = ", ".join(f"{name}={value:g}" for name, value in SETTINGS.items())
    return (
        "resize cost changed; noise 0, no node fails, profiles are the truth; "
        f"seed {seed}; settings {settings}; {program_version()}"
    )


def _table(scores: Sequence[Score]) -> Table:
    gate, other = ("best gate", "it meets", "over it"), ("best other", "meets", "over")
    return table(
        "promises",
        f"deadline satisfaction: `{OURS}` and the best gate; then with `--refused soft` (soft), and "
        "the best of all other policies, those with `--refused soft` too",
        ("input", OURS, "late", *gate, "soft", *other),
        map(_row, scores),
    )


def _row(score: Score) -> tuple[Value, ...]:
    gate, best = score.best_gate or (None, None), score.best or (None, None)
    return (
        score.on.name,
        None if score.ours is None else score.ours.met,
        None if score.ours is None else score.ours.admitted_late,
        *gate,
        score.over_gates,
        None if score.soft is None else score.soft.met,
        *best,
        score.over_all,
    )


def _policy_table(compared: Compared) -> Table:
    """One line for each policy, over the inputs on which it was run to the end."""
    ours = {score.on.name: score for score in scores_of(compared)}
    labels = dict.fromkeys(cell.label for cell in compared.outcomes)
    rows = []
    for label in labels:
        found = {cell: outcome for cell, outcome in compared.outcomes.items() if cell.label == label}
        done = {cell.input: outcome for cell, outcome in found.items() if outcome.met is not None}
        leads = [_lead(outcome, ours[name]) for name, outcome in done.items()]
        met = fmean(outcome.met or 0.0 for outcome in done.values()) if done else None
        late = sum(outcome.admitted_late for outcome in done.values())
        num_cut = sum(outcome.is_cut for outcome in found.values())
        rows.append((label, len(done), met, sum(lead > FORGIVEN for lead in leads), late, num_cut))
    return table(
        "promises-policies",
        f"mean over inputs, inputs on which the policy is ahead of `{OURS}` with or without "
        "`--refused soft`, late jobs that were admitted, and runs that were cut off",
        ("policy", "inputs", "met", "ahead on", "late", "cut off"),
        rows,
    )


def _lead(outcome: CellOutcome, score: Score) -> float:
    """Share of deadlines that a policy meets, less our share; the better one of our two runs counts."""
    ours = max((one.met or 0.0 for one in (score.ours, score.soft) if one is not None), default=0.0)
    return (outcome.met or 0.0) - ours


def _cell_table(compared: Compared) -> Table:
    names = ("input", "policy", "met", "met h", "admitted", "late", "met unpromised", "jobs", "cpu_s")
    rows = (
        (
            *(cell.input, cell.label, outcome.met, outcome.met_device_h),
            *(outcome.admitted, outcome.admitted_late),
            *(outcome.met_unpromised, outcome.num_jobs, outcome.cpu_s),
        )
        for cell, outcome in compared.outcomes.items()
    )
    return table("promises-cells", "all runs; without a figure: cut off", names, rows)


def _chart(scores: Sequence[Score]) -> Chart:
    x = ("input: log and size of the cluster", (score.on.name for score in scores))
    met: dict[str, Values] = {
        OURS: [None if one.ours is None else one.ours.met for one in scores],
        "best gate": [one.best_gate[1] if one.best_gate else None for one in scores],
        f"{OURS} --refused soft": [one.soft.met if one.soft else None for one in scores],
        "best other policy": [one.best[1] if one.best else None for one in scores],
    }
    title = "Deadline satisfaction on every input"
    return chart("promises", title, "lines", x, "deadline satisfaction", met)


def _notes(compared: Compared, scores: Sequence[Score]) -> Iterator[str]:
    yield _against("every gate", [(one.on.name, one.over_gates, one.best_gate) for one in scores])
    yield _against(
        "every other policy, with `--refused soft`,",
        [(one.on.name, one.over_all, one.best) for one in scores],
    )
    broken = [one.on.name for one in scores if one.ours is not None and one.ours.admitted_late]
    yield f"It breaks promises on {', '.join(broken)}." if broken else "It breaks no promise on any input."
    cut = [cell for cell, outcome in compared.outcomes.items() if outcome.is_cut]
    if cut:
        by_policy = ", ".join(dict.fromkeys(cell.label for cell in cut))
        yield (
            f"{len(cut)} runs were cut off, for they took more than {MOST_TIMES:g} times the CPU time of "
            f"`{OURS}`, and {LEAST_LIMIT_S:g} s: of {by_policy}."
        )
    if compared.num_missing:
        yield f"{compared.num_missing} runs are still to be made; the command goes on where it stopped."


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


def _missed(scores: Sequence[Score]) -> Iterator[str]:
    for score in scores:
        if score.ours is not None and score.ours.admitted_late:
            yield f"{score.on.name}: {score.ours.admitted_late} broken promises of {OURS}"
        for over, best in ((score.over_gates, score.best_gate), (score.over_all, score.best)):
            if over is not None and best is not None and over < -FORGIVEN:
                yield f"{score.on.name}: {-over:.3f} below {best[0]}"
