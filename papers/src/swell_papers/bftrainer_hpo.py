"""BFTrainer, section 5.1: a thousand equal trainers, as in hyperparameter optimisation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from swell.arrays import FloatArray
from swell.sim.pool import HOUR_S
from swell_papers.bftrainer_experiment import figure, lines
from swell_papers.bftrainer_inputs import DIVERSE, HPO, MODELS, Trainer, read_trainers
from swell_papers.bftrainer_replay import Replayed
from swell_papers.bftrainer_runs import (
    CORRECTED,
    FORWARD_S,
    FROM_S,
    HEURISTIC,
    OPTIMISER,
    USUAL_FORWARD_S,
    USUAL_TRAINERS,
    ReplayOutcome,
    Setting,
    at_begin,
    both_ways,
    by_window,
    outcomes,
    outcomes_of,
    static_per_s,
    windows,
)
from swell_papers.experiment import Context
from swell_papers.findings import Part, Values, table

SWEEP = tuple(Setting(forward_s=float(forward_s)) for forward_s in FORWARD_S)
BASELINE = Setting(policy=HEURISTIC)
#: Shares of nodes that are reclaimed within T_fwd, where that follows from what the pool has shown so far.
RECLAIM_SHARES = (0.1, 0.2, 0.3)
#: What the paper has not.
OTHER_WAYS = {
    **{f"learnt, reclaim_share {share:g}": Setting(reclaim_share=share) for share in RECLAIM_SHARES},
    **{
        f"{CORRECTED}, {forward_s:g} s": Setting(policy=CORRECTED, forward_s=forward_s)
        for forward_s in (60.0, USUAL_FORWARD_S)
    },
}


Swept = list[tuple[str, ReplayOutcome, ReplayOutcome]]


def _sweep(context: Context) -> Swept:
    """Printed and strict at each T_fwd, and the heuristic both ways."""
    both = both_ways(context, "T_fwd", SWEEP)
    heuristic = (HEURISTIC, outcomes(context, BASELINE), outcomes(context, BASELINE.strictly))
    return [*((str(at), *one) for at, one in zip(FORWARD_S, both, strict=True)), heuristic]


def _curves(swept: Swept, tell: Callable[[ReplayOutcome], float | None]) -> dict[str, Values]:
    """What is told of the replays at each T_fwd, as series of a picture."""
    some = swept[:-1]
    return {"printed": [tell(one) for _, one, _ in some], "strict": [tell(other) for *_, other in some]}


# Figure 7


def preempted_share(found: Replayed, forward_s: float) -> float:
    """Share of decisions after which some trainer loses a node within that time."""
    losses_s = found.at_s[found.is_preempted > 0]
    decided_s = found.at_s[found.is_decided > 0]
    following = np.searchsorted(losses_s, decided_s, side="right")
    next_s = np.append(losses_s, np.inf)[following]
    return float(np.mean(next_s <= decided_s + forward_s)) if len(decided_s) else 0.0


def cost_per_decision(found: Replayed) -> float:
    """Thousands of images lost by the policy's changes, starts apart: equation 16 counts them as free."""
    return float((found.rescale_lost - found.start_lost).sum()) / max(found.num_decisions, 1) / 1e3


def _cost_and_start(found: Replayed) -> tuple[float, float]:
    """Thousands of images lost at each decision, by other changes and by starts."""
    return cost_per_decision(found), float(found.start_lost.sum()) / max(found.num_decisions, 1) / 1e3


@figure("fig7", "Figure 7: forward-looking time, preemption and the cost of changes")
def fig7(context: Context) -> Iterator[Part]:
    swept = _sweep(context)
    shares = [
        100.0 * preempted_share(one.found, forward_s)
        for forward_s, (_, one, _) in zip(FORWARD_S, swept, strict=False)
    ]
    yield table(
        "fig7",
        "how often a trainer loses a node within T_fwd, and 1,000 images lost at each decision",
        (
            *("T_fwd, s", ("preempted within T_fwd, %", 1)),
            *(("by changes, printed", 1), ("by starts, printed", 1)),
            *(("by changes, strict", 1), ("by starts, strict", 1)),
        ),
        (
            (label, share, *_cost_and_start(one.found), *_cost_and_start(other.found))
            for (label, one, other), share in zip(swept, [*shares, None], strict=True)
        ),
    )
    x = ("T_fwd, s", FORWARD_S)
    label = "decisions after which a trainer loses a node"
    costs = _curves(swept, lambda one: cost_per_decision(one.found))
    yield lines(
        "fig7a", "Figure 7a: preemption within T_fwd", x, "preempted within T_fwd, %", {label: shares}
    )
    title = "Figure 7b: what changes cost, starts apart"
    yield lines("fig7b", title, x, "cost of a decision, 1,000 images", costs)
    base_cost, least_cost = cost_per_decision(swept[-1][1].found), costs["printed"][0]
    yield (
        f"Paper: 90 % at 170 s and above. Here {shares[-1]:.0f} % at {FORWARD_S[-1]} s: the nodes and the "
        "week are others. The cost rises with T_fwd in both."
    )
    yield (
        "Paper: the heuristic's changes cost 1,030 thousand images each, 76 times those of the optimiser at "
        f"10 s. Here they cost {base_cost:.0f} thousand, {base_cost / least_cost if least_cost else 0.0:.0f} "
        "times as many. Starts are free in equation 16 and shown apart."
    )


# Figures 8 and 9


def mean_return(found: Replayed) -> float:
    """Thousands of images from one decision to the next."""
    return float(found.made.sum()) / max(found.num_decisions, 1) / 1e3


@figure("fig8", "Figure 8: return on investment")
def fig8(context: Context) -> Iterator[Part]:
    swept = _sweep(context)
    yield table(
        "fig8",
        "return on investment, and images from one decision to the next (1,000)",
        (
            *("T_fwd, s", ("ROI, printed", 1), ("ROI, strict", 1)),
            *(("return, printed", 0), ("return, strict", 0)),
        ),
        (
            (label, *(one.return_on_investment for one in both), *(mean_return(one.found) for one in both))
            for label, *both in swept
        ),
    )
    returns = _curves(swept, lambda one: one.return_on_investment)
    x = ("T_fwd, s", FORWARD_S)
    yield lines("fig8", "Figure 8: return on investment", x, "return on investment", returns)
    first, last = swept[0][1], swept[-2][1]
    yield (
        "Paper: the return on investment falls as T_fwd rises, and the return itself saturates. Here the "
        f"first goes from {first.return_on_investment or 0.0:.1f} to {last.return_on_investment or 0.0:.1f}, "
        f"and the second from {mean_return(first.found):,.0f} to {mean_return(last.found):,.0f}."
    )


@figure("fig9", "Figure 9: utilization efficiency of 1,000 equal trainers")
def fig9(context: Context) -> Iterator[Part]:
    swept = _sweep(context)
    others = [(name, *both_ways(context, name, [setting])[0]) for name, setting in OTHER_WAYS.items()]
    yield table(
        "fig9",
        "utilization efficiency U in %, mean over the whole time",
        ("T_fwd, s", ("U, printed", 1), ("U, strict", 1)),
        (
            (label, one.utilization_percent, other.utilization_percent)
            for label, one, other in (*swept[:-1], *others, swept[-1])
        ),
    )
    curves = _curves(swept, lambda one: one.utilization_percent)
    base, shares = swept[-1][1].utilization_percent, [one.utilization_percent for _, one, _ in swept[:-1]]
    yield lines(
        "fig9",
        "Figure 9: utilization efficiency over T_fwd",
        ("T_fwd, s", FORWARD_S),
        "U, %",
        {**curves, "heuristic, printed": (base,) * len(FORWARD_S)},
    )
    yield (
        "Paper: U is about 79 % at 10 s, rises, and saturates at about 84 % from 120 s on; the heuristic has "
        f"75 %. Here it goes from {shares[0]:.1f} % to {max(shares):.1f} % (at "
        f"{FORWARD_S[int(np.argmax(shares))]} s); the heuristic has {base:.1f} %."
    )


# Figures 10 and 11


def _hours(edges_s: FloatArray) -> list[int]:
    """When windows begin."""
    hours: list[int] = ((edges_s[:-1] - FROM_S) / HOUR_S).round().astype(int).tolist()
    return hours


def _efficiencies(context: Context, found: Replayed, edges_s: FloatArray) -> FloatArray:
    """U in % of each window."""
    made = by_window(found.made, found, edges_s)
    lost = at_begin(found.rescale_lost + found.preempt_lost, found, edges_s) * found.counts_images
    nodes = by_window(found.num_nodes * found.length_s, found, edges_s) / np.diff(edges_s)
    trainer = read_trainers(context.data, HPO)[0]
    per_s = np.array([static_per_s([trainer] * USUAL_TRAINERS, float(number)) for number in nodes])
    shares: FloatArray = 100.0 * (made - lost) / np.maximum(per_s * np.diff(edges_s), 1.0)
    return shares


@figure("fig10", "Figure 10: utilization efficiency over a week")
def fig10(context: Context) -> Iterator[Part]:
    ways = {
        f"{label}, {how}": one
        for label, setting in (("bftrainer", Setting()), ("heuristic", BASELINE))
        for how, one in (("printed", setting), ("strict", setting.strictly))
    }
    found = {name: outcomes(context, one).found for name, one in ways.items()}
    edges_s = windows(list(found.values()), 6.0)
    shares = {name: _efficiencies(context, one, edges_s) for name, one in found.items()}
    yield table(
        "fig10",
        f"U in %, of each six hours, at T_fwd {USUAL_FORWARD_S:.0f} s",
        ("policy and costs", ("mean", 1), ("least", 1), ("most", 1), "windows of 88 % and more", "windows"),
        (
            (name, *map(float, (some.mean(), some.min(), some.max())), int((some >= 88.0).sum()), len(some))
            for name, some in shares.items()
        ),
    )
    curves: dict[str, Values] = {name: some.tolist() for name, some in shares.items()}
    title = "Figure 10: utilization efficiency every six hours"
    yield lines("fig10", title, ("hours", _hours(edges_s)), "U, %", curves)
    mine, theirs = shares["bftrainer, printed"], shares["heuristic, printed"]
    times, fives, worse, mean = _speed_ups(found["bftrainer, printed"], found["heuristic, printed"])
    yield (
        "Paper: 80 % on average, about 90 % in three windows, up to 32 % more than the heuristic. Here "
        f"{mine.mean():.1f} % on average, and up to "
        f"{100.0 * (mine / np.maximum(theirs, 1.0) - 1.0).max():.0f} % more than the heuristic."
    )
    yield (
        "Paper: between two events the optimiser makes less than the heuristic in 6.9 % of all cases, twice "
        f"as much in 11 %, five times as much in 3 %, and 2.9 times as much on average. Here {worse:.1f} %, "
        f"{times:.1f} % and {fives:.1f} %, and {mean:.1f} times as much, over those in which the heuristic "
        "gains anything."
    )


def _speed_ups(ours: Replayed, theirs: Replayed) -> tuple[float, float, float, float]:
    """Compare the net images of two replays between changes of the pool.

    Returns:
        The % of them in which `ours` makes at least twice as many, at least five times as many, and fewer;
        the mean of how many times as many, over those in which `theirs` makes more than it loses.
    """
    edges_s = np.intersect1d(ours.at_s, theirs.at_s)
    made, others = (by_window(one.made, one, edges_s) for one in (ours, theirs))
    lost, others_lost = (at_begin(one.rescale_lost, one, edges_s) for one in (ours, theirs))
    net, others_net = made - lost, others - others_lost
    is_told = (others > 0.0) & (made > 0.0)
    mine, base = net[is_told], others_net[is_told]
    shares = [
        float(100.0 * np.mean(some)) for some in (mine >= 2.0 * base, mine >= 5.0 * base, mine < 0.999 * base)
    ]
    gains = base > 0.0
    mean = float(np.mean(mine[gains] / base[gains])) if gains.any() else 0.0
    return shares[0], shares[1], shares[2], mean


@figure("fig11", "Figure 11: what preemption and changes cost")
def fig11(context: Context) -> Iterator[Part]:
    found = {
        OPTIMISER: outcomes(context, Setting()).found,
        HEURISTIC: outcomes(context, BASELINE).found,
    }
    edges_s = windows(list(found.values()), 12.0)
    preempt = {name: at_begin(one.preempt_lost, one, edges_s) / 1e6 for name, one in found.items()}
    rescale = {name: at_begin(one.rescale_lost, one, edges_s) / 1e6 for name, one in found.items()}
    yield table(
        "fig11",
        "million images lost in all, printed",
        (
            *("policy", ("by nodes that left", 0)),
            *(("by its own changes", 0), ("most in twelve hours", 0)),
        ),
        (
            (name, float(preempt[name].sum()), float(some.sum()), float(some.max(initial=0.0)))
            for name, some in rescale.items()
        ),
    )
    for name, title, values in (
        ("fig11a", "Figure 11a: lost by nodes that left", preempt),
        ("fig11b", "Figure 11b: lost by changes of the policy", rescale),
    ):
        curves: dict[str, Values] = {policy: some.tolist() for policy, some in values.items()}
        yield lines(name, title, ("hours", _hours(edges_s)), "million images in twelve hours", curves)
    yield (
        "Paper: little difference in what preemption costs, and far smaller costs of rescaling. Here the "
        f"optimiser loses {_ratio_of(preempt):.2f} times as much by preemption as the heuristic, and "
        f"{_ratio_of(rescale):.2f} times as much by its own changes."
    )


def _ratio_of(lost: Mapping[str, FloatArray]) -> float:
    """The optimiser's over the heuristic's."""
    whole = float(lost[HEURISTIC].sum())
    return float(lost[OPTIMISER].sum()) / whole if whole else 0.0


# Figures 15 and 16


def _percents(context: Context, label: str, settings: Iterable[Setting]) -> dict[str, list[float]]:
    """U in %, with costs as printed and in time."""
    both = both_ways(context, label, settings)
    return {
        "printed": [one.utilization_percent for one, _ in both],
        "strict": [other.utilization_percent for _, other in both],
    }


@figure("fig15", "Figure 15: models that scale differently")
def fig15(context: Context) -> Iterator[Part]:
    """The first 60 hours, as in the paper."""
    until_s = FROM_S + 60.0 * HOUR_S
    shares = _percents(
        context, "models", (Setting(model=model, until_s=until_s, trainers=HPO) for model in MODELS)
    )
    samples = (_sample(context, model) for model in MODELS)
    scaling = [100.0 * float(one.rates[64] / one.rates[1] / 64.0) for one in samples]
    yield table(
        "fig15",
        "U in % over the first 60 hours, all trainers of one model",
        ("model", ("scaling efficiency at 64 nodes, %", 0), ("U, printed", 1), ("U, strict", 1)),
        zip(MODELS.values(), scaling, *shares.values(), strict=True),
    )
    title = "Figure 15: utilization efficiency by model"
    yield lines("fig15", title, ("model", MODELS.values()), "U, %", dict(shares))
    yield (
        "Paper: from 75 % (AlexNet) to 83 % (DenseNet), slightly more for models that scale better. Here "
        f"from {min(shares['printed']):.1f} % to {max(shares['printed']):.1f} %."
    )


def _sample(context: Context, model: str) -> Trainer:
    return next(one for one in read_trainers(context.data, DIVERSE) if one.model == model)


@figure("fig16", "Figure 16: changes that cost more")
def fig16(context: Context) -> Iterator[Part]:
    shares = _percents(context, "costs", (Setting(cost_factor=float(factor)) for factor in range(1, 11)))
    chosen = [Setting(cost_factor=float(factor), are_losses_dearer=False) for factor in range(1, 11)]
    shares["printed, preemption as before"] = [
        one.utilization_percent for one in outcomes_of(context, "costs of changes alone", chosen)
    ]
    labels = [f"{factor}x" for factor in range(1, 11)]
    yield table(
        "fig16",
        f"U in % where changes cost more, at T_fwd {USUAL_FORWARD_S:.0f} s",
        ("cost", *((f"U, {how}", 1) for how in shares)),
        zip(labels, *shares.values(), strict=True),
    )
    title = "Figure 16: utilization efficiency by the cost of changes"
    yield lines("fig16", title, ("cost of changes", labels), "U, %", dict(shares))
    printed, strict = shares["printed"], shares["strict"]
    yield (
        "Paper: U falls slightly, much less than in proportion. Here, from once to ten times the cost, it "
        f"falls from {printed[0]:.1f} % to {printed[-1]:.1f} %, and where time is counted from "
        f"{strict[0]:.1f} % to {strict[-1]:.1f} %. The paper does not say whether preemption costs more, "
        f"too: where it costs what it did, U falls to {shares['printed, preemption as before'][-1]:.1f} %."
    )
    base = [
        outcomes(context, replace(BASELINE.strictly, cost_factor=factor)).utilization_percent
        for factor in (1.0, 10.0)
    ]
    yield f"The heuristic, strict, falls from {base[0]:.1f} % to {base[1]:.1f} %."


FIGURES = (fig7, fig8, fig9, fig10, fig11)
LATER_FIGURES = (fig15, fig16)
