"""The evaluation of Hu et al., section 5."""

from __future__ import annotations

import msgspec

from swell_papers.experiment import Paper
from swell_papers.hu_experiment import (
    AHEAD,
    MORE,
    QUEUE,
    TOTAL,
    HuClaim,
    allocator_study,
    decision_times,
)
from swell_papers.hu_runs import Allocator, HuCase
from swell_papers.hu_workload import Assumed, Disturbed
from swell_papers.page_texts import page_texts
from swell_papers.platform_records import start_delays, user_estimates

#: Section 5.2: "ranging from 70 to 190 nodes with an interval of 20".
NODES = (70, 90, 110, 130, 150, 170, 190)
HU = Allocator(policy="hu")
HU_END = Allocator(policy="hu_end")
HU_AWARE = Allocator(policy="hu_aware")
HU_WAITING = Allocator(policy="hu", parameters=(("may_wait", 1),), label="hu, may_wait=1")
HU_MINUTE = Allocator(policy="hu", parameters=(("period_s", 60),), label="hu, period_s=60")
HU_OVERDUE = Allocator(policy="hu", parameters=(("overdue_share", 0.05),), label="hu, overdue_share=0.05")
HALVING = Allocator(
    policy="hu_greedy", parameters=(("most_halved", 100),), label="hu_greedy, most_halved=100"
)
BASELINES = tuple(Allocator(policy=name) for name in ("fifo", "equal_share", "srtf"))


def _over(nodes: tuple[int, ...], case: HuCase | None = None) -> tuple[tuple[str, HuCase], ...]:
    """The case with so many nodes, by their number."""
    base = case or HuCase(nodes=0)
    return tuple((str(one), msgspec.structs.replace(base, nodes=one)) for one in nodes)


DISTURBED = HuCase(nodes=0, disturbed=Disturbed(eta_share=0.1))
ALL_DISTURBED = HuCase(nodes=0, disturbed=Disturbed(eta_share=0.1, buggy_share=0.15, cancelled_share=0.1))

FIGURE_9 = allocator_study(
    name="fig9",
    title="Figure 9: queueing time",
    cases=_over(NODES),
    allocators=(HU,),
    value=("queueing time, min", lambda run: run.queue_min),
    leads=(QUEUE,),
    drawn=None,
    claims=(
        HuClaim("largest decrease of the queueing time, at 150 nodes, %", -32.0, QUEUE, 150),
        HuClaim("the same at the best number of nodes, %", -32.0, QUEUE),
    ),
)
FIGURE_10 = allocator_study(
    name="fig10",
    title="Figure 10: total time",
    cases=_over(NODES),
    allocators=(HU,),
    leads=(TOTAL,),
    drawn=None,
)
FIGURE_11 = allocator_study(
    name="fig11",
    title="Figure 11: jobs done in addition",
    cases=_over(NODES),
    allocators=(HU,),
    leads=(MORE, AHEAD),
    claims=(
        HuClaim("most jobs in addition while the other does 100, at 110 nodes", 17.4, nodes=110),
        HuClaim("the same at the best number of nodes", 17.4),
    ),
)
FIGURE_12 = allocator_study(
    name="fig12",
    title="Figure 12: all 1,252 jobs, most of them shorter than 5 minutes",
    cases=_over(NODES, HuCase(nodes=0, is_all=True)),
    allocators=(HU,),
    claims=(HuClaim("most jobs in addition while the other does 100", 24.1),),
)
FIGURE_13 = allocator_study(
    name="fig13",
    title="Figure 13: estimates that are wrong by up to 10 %",
    cases=_over(NODES, DISTURBED),
    allocators=(HU, HU_OVERDUE),
    claims=(HuClaim("most jobs in addition: 0.6 to 2.4 fewer than 17.4", 15.0),),
)
FIGURE_14 = allocator_study(
    name="fig14",
    title="Figure 14: wrong estimates, 15 % buggy jobs and 10 % that users give up",
    cases=_over(NODES, ALL_DISTURBED),
    allocators=(HU, HU_OVERDUE),
    claims=(HuClaim("most jobs in addition", 15.0),),
)
FIGURE_15 = allocator_study(
    name="fig15",
    title="Figure 15: 15 s until a start or a growth takes place",
    cases=_over(NODES, HuCase(nodes=0, resize_cost="delay:15")),
    allocators=(HU, HU_AWARE),
    claims=(HuClaim("most jobs in addition: 0.9 more to 1.8 fewer than 17.4", 15.6),),
)
FIGURE_16 = decision_times(
    name="fig16", title="Figure 16: time of a decision, 70 nodes", case=HuCase(nodes=70), allocator=HU
)
DELAYS = start_delays(
    name="delays", title="Section 5.5: delays of starts and growths, measured and assumed", assumed_s=15.0
)
ESTIMATES = user_estimates(
    name="estimates", title="Section 5.4: errors of estimates, measured and assumed", assumed_share=0.1
)
VARIANTS = allocator_study(
    name="variants",
    title="Other allocators on the same jobs, and a resize that takes 60 s from training",
    cases=(("110", HuCase(nodes=110)), ("110, 60 s a resize", HuCase(nodes=110, resize_cost="60"))),
    allocators=(HU, HU_MINUTE, HU_END, HU_WAITING, HU_AWARE, HALVING, *BASELINES),
    leads=(MORE, TOTAL, QUEUE),
    num_seeds=2,
)
ASSUMED = allocator_study(
    name="assumed",
    title="What the generated jobs assume: nodes on which the times were measured, and their spread",
    cases=tuple(
        (f"{measured} nodes, spread {spread:g}: {nodes}", HuCase(nodes=nodes, assumed=assumed))
        for measured, spread in ((1, 1.2), (2, 0.8), (2, 1.2), (2, 1.6), (4, 1.2))
        for nodes in (110, 150)
        for assumed in (Assumed(nodes=measured, spread=spread),)
    ),
    allocators=(HU,),
    num_seeds=2,
    x_label="jobs, and nodes",
)

PAPER = Paper(
    name="hu",
    title="Hu et al.",
    inputs="its jobs are not public; they are generated",
    introduction=page_texts("hu").introduction,
    experiments=(
        *(FIGURE_9, FIGURE_10, FIGURE_11, FIGURE_12, FIGURE_13, FIGURE_14, FIGURE_15, FIGURE_16),
        *(DELAYS, ESTIMATES, VARIANTS, ASSUMED),
    ),
)
