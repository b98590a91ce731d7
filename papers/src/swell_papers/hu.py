"""The evaluation of Hu et al., section 5."""

from __future__ import annotations

import msgspec

from swell_papers.experiment import Paper
from swell_papers.hu_experiment import (
    AHEAD,
    MORE,
    QUEUE,
    QUEUE_MIN,
    TOTAL,
    TOTAL_MIN,
    Printed,
    allocator_study,
    decision_times,
)
from swell_papers.hu_runs import Allocator, HuCase
from swell_papers.hu_workload import Assumed, Disturbed
from swell_papers.page_texts import page_texts
from swell_papers.platform_records import estimate_errors, of_records, start_delays

#: Section 5.2: "ranging from 70 to 190 nodes with an interval of 20".
NODES = (70, 90, 110, 130, 150, 170, 190)
HU = Allocator(policy="hu")
HU_AWARE = Allocator(policy="hu_aware")
HU_OVERDUE = Allocator(policy="hu", parameters=(("overdue_share", 0.05),), label="hu, overdue_share=0.05")
#: Of the variants, besides.
OTHERS = (
    Allocator(policy="hu", parameters=(("period_s", 60),), label="hu, period_s=60"),
    Allocator(policy="hu_end"),
    Allocator(policy="hu", parameters=(("may_wait", 1),), label="hu, may_wait=1"),
    HU_AWARE,
    Allocator(policy="hu_greedy", parameters=(("most_halved", 100),), label="hu_greedy, most_halved=100"),
    *(Allocator(policy=name) for name in ("fifo", "equal_share", "srtf")),
)
DISTURBED = HuCase(nodes=0, disturbed=Disturbed(eta_share=0.1))
ALL_DISTURBED = HuCase(nodes=0, disturbed=Disturbed(eta_share=0.1, buggy_share=0.15, cancelled_share=0.1))


def _over(base: HuCase = HuCase(nodes=0)) -> tuple[tuple[str, HuCase], ...]:  # noqa: B008 - never changed
    """The case with each number of nodes, by that number."""
    return tuple((str(nodes), msgspec.structs.replace(base, nodes=nodes)) for nodes in NODES)


PAPER = Paper(
    name="hu",
    title="Hu et al.",
    inputs="its jobs are not public; they are generated",
    introduction=page_texts("hu").introduction,
    experiments=(
        allocator_study(
            name="fig9",
            title="Figure 9: queueing time",
            cases=_over(),
            allocators=(HU,),
            measures=(QUEUE, QUEUE_MIN),
            printed=(
                Printed("largest decrease of the queueing time, at 150 nodes, %", -32.0, QUEUE, 150),
                Printed("the same at the best number of nodes, %", -32.0, QUEUE),
            ),
        ),
        allocator_study(
            name="fig10",
            title="Figure 10: total time",
            cases=_over(),
            allocators=(HU,),
            measures=(TOTAL, TOTAL_MIN),
        ),
        allocator_study(
            name="fig11",
            title="Figure 11: jobs done in addition",
            cases=_over(),
            allocators=(HU,),
            measures=(TOTAL_MIN, MORE, AHEAD),
            printed=(
                Printed("most jobs in addition while the other does 100, at 110 nodes", 17.4, nodes=110),
                Printed("the same at the best number of nodes", 17.4),
            ),
        ),
        allocator_study(
            name="fig12",
            title="Figure 12: all 1,252 jobs, most of them shorter than 5 minutes",
            cases=_over(HuCase(nodes=0, is_all=True)),
            allocators=(HU,),
            printed=(Printed("most jobs in addition while the other does 100", 24.1),),
        ),
        allocator_study(
            name="fig13",
            title="Figure 13: estimates that are wrong by up to 10 %",
            cases=_over(DISTURBED),
            allocators=(HU, HU_OVERDUE),
            printed=(Printed("most jobs in addition: 0.6 to 2.4 fewer than 17.4", 15.0),),
        ),
        allocator_study(
            name="fig14",
            title="Figure 14: wrong estimates, 15 % buggy jobs and 10 % that users give up",
            cases=_over(ALL_DISTURBED),
            allocators=(HU, HU_OVERDUE),
            printed=(Printed("most jobs in addition", 15.0),),
        ),
        allocator_study(
            name="fig15",
            title="Figure 15: 15 s until a start or a growth takes place",
            cases=_over(HuCase(nodes=0, resize_cost="delay:15")),
            allocators=(HU, HU_AWARE),
            printed=(Printed("most jobs in addition: 0.9 more to 1.8 fewer than 17.4", 15.6),),
        ),
        decision_times(
            name="fig16",
            title="Figure 16: time of a decision, 70 nodes",
            case=HuCase(nodes=70),
            allocator=HU,
        ),
        of_records(
            "delays",
            "Section 5.5: delays of starts and growths, measured and assumed",
            "seconds until a decision takes place",
            start_delays,
            printed={"latest start": "15", "growth, during which the old gang trains": "15"},
        ),
        of_records(
            "estimates",
            "Section 5.4: errors of estimates, measured and assumed",
            "error of estimates, % of the measured time, by kind of job",
            estimate_errors,
            printed={"live": "uniform, up to 10", "restart": "uniform, up to 10"},
        ),
        allocator_study(
            name="variants",
            title="Other allocators on the same jobs, and a resize that takes 60 s from training",
            cases=(("110", HuCase(nodes=110)), ("110, 60 s a resize", HuCase(nodes=110, resize_cost="60"))),
            allocators=(HU, *OTHERS),
            measures=(TOTAL_MIN, MORE, TOTAL, QUEUE),
            num_seeds=2,
        ),
        allocator_study(
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
        ),
    ),
)
