"""FlowCon's evaluation (Zheng et al., ICPP 2019, section 5), on real processes of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from swell_papers.colocated_experiment import ColocatedExperiment
from swell_papers.colocated_growth import growth_over_time, training_progress
from swell_papers.colocated_overlap import overlap_of_jobs
from swell_papers.colocated_run import REPORT_S, Contender, Detail
from swell_papers.experiment import Paper
from swell_papers.flowcon_schedule import FIXED, FIXED_SCALE, RANDOM_SCALE, drawn
from swell_papers.page_texts import page_texts

#: Of figure 7: a threshold in percent, and an interval in seconds.
ALPHA, INTERVAL_S = 5.0, 20.0
#: The same of figure 12; of figure 17 the paper tells none.
OF_TEN = (10.0, 20.0)
#: The four settings of figure 9.
OF_FIVE = ((3.0, 30.0), (3.0, 60.0), (5.0, 30.0), (5.0, 60.0))
#: Figures 3 to 6.
ALPHAS, INTERVALS_S = (1.0, 3.0, 5.0, 10.0, 15.0), (20.0, 30.0, 40.0, 50.0, 60.0)
#: By how much the late job ends sooner, in percent, in the order of `INTERVALS_S` and of `ALPHAS`: table 2.
#: Section 5.3 tells of figure 3 the one with an interval of 30 s.
BY_INTERVAL, BY_ALPHA, OF_FIGURE_3 = (
    (26.2, 32.4, 14.3, 15.3, 3.1),
    (32.1, 31.0, 21.4, 19.0, 19.8),
    {30.0: 31.9},
)
#: Figures 13 and 14: growth efficiency of the second and of the sixth job of ten.
GROWTH_OF = (2, 6)
#: Of our own policy.
FIT_INTERVAL_S = 5.0
NONE = Contender("none", "fifo")


def _flowcon(
    scale: float, alpha: float = ALPHA, interval_s: float = INTERVAL_S, label: str = ""
) -> Contender:
    parameters = (("alpha", alpha / 100.0), ("interval_s", interval_s / scale))
    return Contender(label or "flowcon", "flowcon", parameters)


def _fit(scale: float) -> Contender:
    return Contender("flowcon_fit", "flowcon_fit", (("interval_s", max(FIT_INTERVAL_S / scale, REPORT_S)),))


def _contenders(scale: float, alpha: float = ALPHA, interval_s: float = INTERVAL_S) -> tuple[Contender, ...]:
    return (NONE, _flowcon(scale, alpha, interval_s), _fit(scale))


def _fixed(name: str, title: str, contenders: tuple[Contender, ...], **further: Any) -> ColocatedExperiment:
    return ColocatedExperiment(
        name=name,
        title=title,
        draw=lambda seed: FIXED,
        contenders=contenders,
        late_job=FIXED[-1].name,
        details=(overlap_of_jobs,),
        **further,
    )


def _by_interval(figure: int, alpha: float, reductions: Mapping[float, float]) -> ColocatedExperiment:
    swept = {at_s: _flowcon(FIXED_SCALE, alpha, at_s, f"interval {at_s:g} s") for at_s in INTERVALS_S}
    return _swept(figure, f"alpha {alpha:g} %, the fixed schedule at other intervals", swept, reductions)


def _by_alpha(figure: int, interval_s: float, reductions: Mapping[float, float]) -> ColocatedExperiment:
    swept = {alpha: _flowcon(FIXED_SCALE, alpha, interval_s, f"alpha {alpha:g} %") for alpha in ALPHAS}
    title = f"interval {interval_s:g} s, the fixed schedule at other thresholds"
    return _swept(figure, title, swept, reductions)


def _swept(
    figure: int, title: str, swept: Mapping[float, Contender], reductions: Mapping[float, float]
) -> ColocatedExperiment:
    """The late job ends by so many percent sooner in print, by the value that is swept."""
    return _fixed(
        f"fig{figure}",
        f"Figure {figure}: {title}",
        (NONE, *swept.values()),
        late_reductions={swept[value].label: percent / 100.0 for value, percent in reductions.items()},
    )


def _random(
    num: int, title: str, contenders: tuple[Contender, ...], details: tuple[Detail, ...] = ()
) -> ColocatedExperiment:
    return ColocatedExperiment(
        name=f"random{num}",
        title=title,
        draw=lambda seed: drawn(num, seed),
        contenders=contenders,
        is_bar=num == 10,
        details=details,
    )


WEIGHTS, QUOTAS = (_flowcon(FIXED_SCALE, label=f"flowcon, {limits}") for limits in ("weights", "quotas"))
FOUR_SETTINGS = (
    _flowcon(RANDOM_SCALE, alpha, interval_s, f"alpha {alpha:g} %, interval {interval_s:g} s")
    for alpha, interval_s in OF_FIVE
)
PAPER = Paper(
    name="flowcon",
    title="FlowCon",
    inputs="",
    introduction=page_texts("flowcon").introduction,
    experiments=(
        _fixed("fixed", "Figure 7: three jobs at 0, 40 and 80 s", _contenders(FIXED_SCALE), is_bar=True),
        _fixed(
            "cpu",
            "Figures 7 and 8: weights and hard limits",
            (NONE, WEIGHTS, msgspec.structs.replace(QUOTAS, limits="quota")),
        ),
        _by_interval(3, 5.0, OF_FIGURE_3),
        _by_interval(4, 10.0, dict(zip(INTERVALS_S, BY_INTERVAL, strict=True))),
        _by_alpha(5, 20.0, dict(zip(ALPHAS, BY_ALPHA, strict=True))),
        _by_alpha(6, 30.0, {}),
        _random(
            5,
            "Figures 1 and 9: 5 jobs at random moments, four settings",
            (NONE, *FOUR_SETTINGS, _fit(RANDOM_SCALE)),
            (training_progress,),
        ),
        _random(
            10,
            "Figures 12 to 14: 10 jobs at random moments, alpha 10 %, interval 20 s",
            _contenders(RANDOM_SCALE, *OF_TEN),
            (partial(growth_over_time, places=GROWTH_OF),),
        ),
        _random(
            15,
            "Figure 17: 15 jobs at random moments, alpha 10 %, interval 20 s",
            _contenders(RANDOM_SCALE, *OF_TEN),
        ),
    ),
)
