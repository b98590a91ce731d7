"""FlowCon's evaluation (Zheng et al., ICPP 2019, section 5), on real processes of this machine."""

from __future__ import annotations

import msgspec

from swell.repro.colocated_experiment import ColocatedExperiment
from swell.repro.colocated_run import Contender
from swell.repro.experiment import Paper
from swell.repro.flowcon_schedule import FIXED, FIXED_SCALE, RANDOM_SCALE, drawn
from swell.repro.page_texts import page_texts

#: Of figure 7: a threshold in percent, and an interval in seconds.
ALPHA, INTERVAL_S = 5.0, 20.0
#: The same of figures 9 and 12; of figure 17 the paper tells none.
OF_FIVE, OF_TEN = (3.0, 30.0), (10.0, 20.0)
#: Figures 3 to 6, table 2.
ALPHAS, INTERVALS_S = (1.0, 3.0, 5.0, 10.0, 15.0), (20.0, 30.0, 40.0, 50.0, 60.0)
#: Of our own policy; jobs report no more often than `REPORT_S`.
FIT_INTERVAL_S, REPORT_S = 5.0, 0.5
NONE = Contender("none", "fifo")


def _flowcon(
    scale: float, alpha: float = ALPHA, interval_s: float = INTERVAL_S, label: str = ""
) -> Contender:
    parameters = (("alpha", alpha / 100.0), ("interval_s", interval_s / scale))
    return Contender(label or "flowcon", "flowcon", parameters)


def _contenders(scale: float, alpha: float = ALPHA, interval_s: float = INTERVAL_S) -> tuple[Contender, ...]:
    fit_s = max(FIT_INTERVAL_S / scale, REPORT_S)
    fit = Contender("flowcon_fit", "flowcon_fit", (("interval_s", fit_s),))
    return (NONE, _flowcon(scale, alpha, interval_s), fit)


def _fixed(
    name: str, title: str, contenders: tuple[Contender, ...], is_bar: bool = False
) -> ColocatedExperiment:
    return ColocatedExperiment(
        name=name,
        title=title,
        draw=lambda seed: FIXED,
        contenders=contenders,
        late_job=FIXED[-1].name,
        is_bar=is_bar,
    )


def _random(num: int, figure: str, parameters: tuple[float, float] = OF_TEN) -> ColocatedExperiment:
    alpha, interval_s = parameters
    return ColocatedExperiment(
        name=f"random{num}",
        title=f"Figure {figure}: {num} jobs at random moments, alpha {alpha:g} %, interval {interval_s:g} s",
        draw=lambda seed: drawn(num, seed),
        contenders=_contenders(RANDOM_SCALE, alpha, interval_s),
        is_bar=num == 10,
    )


WEIGHTS, QUOTAS = (_flowcon(FIXED_SCALE, label=f"flowcon, {limits}") for limits in ("weights", "quotas"))
OTHER_ALPHAS = (_flowcon(FIXED_SCALE, alpha, label=f"alpha {alpha:g} %") for alpha in ALPHAS)
OTHER_INTERVALS = (
    _flowcon(FIXED_SCALE, 10.0, interval_s, f"interval {interval_s:g} s") for interval_s in INTERVALS_S
)
PAPER = Paper(
    name="flowcon",
    title="FlowCon",
    inputs="",
    introduction=page_texts("flowcon").introduction,
    experiments=(
        _fixed(
            "fixed", "Figures 3 and 7: three jobs at 0, 40 and 80 s", _contenders(FIXED_SCALE), is_bar=True
        ),
        _fixed(
            "cpu",
            "Figures 7 and 8: weights and hard limits",
            (NONE, WEIGHTS, msgspec.structs.replace(QUOTAS, limits="quota")),
        ),
        _random(5, "9", OF_FIVE),
        _random(10, "12"),
        _random(15, "17"),
        _fixed("alpha", "Table 2: the fixed schedule at other thresholds", (NONE, *OTHER_ALPHAS)),
        _fixed("interval", "Table 2: the fixed schedule at other intervals", (NONE, *OTHER_INTERVALS)),
    ),
)
