"""Tables over what Saxena et al. do not print: how speed grows with devices, and how much load there was."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from swell.sim.profiles.saxena import TABLE_II, ScalingModel, fitted
from swell_papers.experiment import Context
from swell_papers.findings import Cell, Table, table
from swell_papers.saxena_cases import DROP, JCT, SJS, SaxenaCase, SaxenaLine, run_once

#: The baseline comes out if both its shares are as close as this to the printed ones, in points ...
CLOSE_POINTS = 5.0
#: ... and its completion times by this share.
CLOSE_SHARE = 0.25
BASELINE, ELASTIC = "saxena_random_batch", "saxena"
#: Pairs of very high and very low.
FEW_LOADS = ((1.0, 0.1), (0.9, 0.3), (0.8, 0.5))
MANY_LOADS = tuple((high, low) for high in (0.75, 0.9, 1.0, 1.25, 1.5) for low in (0.1, 0.3, 0.5))
#: What `ended_share` is called: the option of section V-B, and the period alone of section III-D.
DECISIONS = {0.05: "10 min or 5 %", 1.0: "10 min"}


def table_2(name: str, context: Context) -> Table:
    """The fit of the scaling model."""
    model = fitted()
    return table(
        f"{name}-table2",
        "Table II: scaling factor of category 1 on two devices, to which the model is fitted",
        ("samples of each device", ("paper", 2), ("model", 2)),
        (
            (samples, printed, model.factor(0, 2, samples / max(TABLE_II)))
            for samples, printed in TABLE_II.items()
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Runs of the case with and without a queue, over what the paper does not say.

    Args:
        networks: by how much an all-reduce over the network is slower than within a machine.
        spreads: the all-reduce of category 2 over that of category 1; category 3 is between.
        loads: pairs of very high and very low.
    """

    case: SaxenaCase
    networks: Sequence[float] = ()
    spreads: Sequence[float] = ()
    loads: Sequence[tuple[float, float]] = FEW_LOADS

    def of_models(self, name: str, context: Context) -> Table:
        """The baseline, for each way to decide, each load and each model, the fitted one first."""
        heading = (*_NAMES, ("network", 2), ("spread", 2), *_columns(("baseline",)), "comes out")
        printed = self._printed(BASELINE)
        rows: list[tuple[Cell, ...]] = [("paper", *[None] * 4, *printed, None)]
        models = (fitted(), *self._models())
        points = [(share, load, model) for share in DECISIONS for load in self.loads for model in models]
        if context.is_run(BASELINE):
            runs = (partial(self._figures, BASELINE, *point, context.seed) for point in points)
            found = context.run_all(f"{name} models", runs)
            for (share, load, model), figures in zip(points, found, strict=True):
                spread = model.pair_shares[1] / model.pair_shares[0]
                way = (DECISIONS[share], *load, model.network, spread)
                rows.append((*way, *figures, _verdict(figures, printed)))
        title = (
            "the baseline over the free parameters of the scaling model (the fitted one first), loads and "
            f"decisions; a share comes out within {CLOSE_POINTS:g} points, a time within {CLOSE_SHARE:.0%}"
        )
        return table(f"{name}-models", title, heading, rows)

    def of_loads(self, name: str, context: Context) -> Table:
        """Both policies by the fitted model, for each way to decide and each load."""
        printed = (*self._printed(ELASTIC), *self._printed(BASELINE))
        rows: list[tuple[Cell, ...]] = [("paper", None, None, *printed)]
        points = [(share, load) for share in DECISIONS for load in self.loads]
        if context.policies is None:
            runs = (
                partial(self._figures, policy, *point, None, context.seed)
                for point in points
                for policy in (ELASTIC, BASELINE)
            )
            found = context.run_all(f"{name} loads", runs)
            for (share, load), ours, theirs in zip(points, found[::2], found[1::2], strict=True):
                rows.append((DECISIONS[share], *load, *ours, *theirs))
        title = "both policies over the loads that the paper calls very high and very low; the fitted model"
        return table(f"{name}-loads", title, (*_NAMES, *_columns(("elastic", "baseline"))), rows)

    def _models(self) -> Iterator[ScalingModel]:
        fit = fitted()
        first = fit.pair_shares[0]
        for network in self.networks:
            for spread in self.spreads:
                shares = (first, spread * first, math.sqrt(spread) * first, spread * first)
                yield replace(fit, network=network, pair_shares=shares)

    def _printed(self, policy: str) -> tuple[float, float, float, float]:
        """Return the printed figures of a policy, in the order of `_columns`."""
        dropping, queueing = (
            next(line.paper for line in self.case.lines if (line.policy, line.drops) == (policy, drops))
            for drops in (True, False)
        )
        return dropping[SJS], dropping[DROP], dropping[JCT], queueing[JCT]

    def _figures(
        self,
        policy: str,
        ended_share: float,
        load: tuple[float, float],
        model: ScalingModel | None,
        seed: int,
    ) -> tuple[float, float, float, float]:
        high, low = load
        case = replace(self.case, pattern=replace(self.case.pattern, high=high, low=low))
        line = SaxenaLine(label=policy, policy=policy, parameters={"ended_share": ended_share})
        dropping, queueing = (
            run_once(case, replace(line, drops=drops), seed, model) for drops in (True, False)
        )
        return dropping.value(SJS), dropping.value(DROP), dropping.value(JCT), queueing.value(JCT)


_NAMES: tuple[str | tuple[str, int], ...] = ("decisions", ("very high", 2), ("very low", 2))


def _columns(labels: Sequence[str]) -> Iterator[tuple[str, int]]:
    for label in labels:
        for measure, digits in (("SJS", 3), ("drop", 3), ("min, drop", 1), ("min, queue", 1)):
            yield f"{label}: {measure}", digits


def _verdict(ours: Sequence[float], printed: Sequence[float]) -> str:
    """Which of the four figures come out."""
    shares = [
        100.0 * abs(one - other) <= CLOSE_POINTS for one, other in zip(ours[:2], printed[:2], strict=True)
    ]
    times = [
        abs(one - other) <= CLOSE_SHARE * other for one, other in zip(ours[2:], printed[2:], strict=True)
    ]
    num = sum((*shares, *times))
    return "yes" if num == len(printed) else f"{num} of {len(printed)}"
