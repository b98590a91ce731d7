"""The evaluation of Hu et al., section 5."""

from __future__ import annotations

from typing import Any

import msgspec

from swell_papers.experiment import Paper, Study
from swell_papers.hu_experiment import (
    AHEAD,
    MORE,
    QUEUE,
    QUEUE_MIN,
    TOTAL,
    TOTAL_MIN,
    Allocator,
    BesideGreedy,
    HuCase,
    Printed,
    allocator_study,
    decision_times,
)
from swell_papers.hu_workload import Disturbed
from swell_papers.platform_records import estimate_errors, of_records, start_delays

#: Section 5.2: "ranging from 70 to 190 nodes with an interval of 20".
NODES = (70, 90, 110, 130, 150, 170, 190)
HU = Allocator(policy="hu")
HU_OVERDUE = Allocator(policy="hu", parameters=(("overdue_share", 0.05),))
ANY = HuCase(nodes=0)
DISTURBED = HuCase(nodes=0, disturbed=Disturbed(eta_share=0.1))
ALL_DISTURBED = HuCase(nodes=0, disturbed=Disturbed(eta_share=0.1, buggy_share=0.15, cancelled_share=0.1))


def _figure(
    number: int,
    title: str,
    *printed: Printed,
    base: HuCase = ANY,
    beside: tuple[Allocator, ...] = (),
    **more: Any,
) -> Study[BesideGreedy]:
    """The case with each number of nodes, by that number."""
    return allocator_study(
        name=f"fig{number}",
        title=f"Figure {number}: {title}",
        cases=tuple((str(nodes), msgspec.structs.replace(base, nodes=nodes)) for nodes in NODES),
        allocators=(HU, *beside),
        printed=printed,
        **more,
    )


PAPER = Paper.with_page(
    "hu",
    "Hu et al.",
    "its jobs are not public; they are generated",
    _figure(
        9,
        "queueing time",
        Printed("largest decrease of the queueing time, at 150 nodes, %", -32.0, QUEUE, 150),
        Printed("the same at the best number of nodes, %", -32.0, QUEUE),
        measures=(QUEUE, QUEUE_MIN),
    ),
    _figure(10, "total time", measures=(TOTAL, TOTAL_MIN)),
    _figure(
        11,
        "jobs done in addition",
        Printed("most jobs in addition while the other does 100, at 110 nodes", 17.4, nodes=110),
        Printed("the same at the best number of nodes", 17.4),
        measures=(TOTAL_MIN, MORE, AHEAD),
    ),
    _figure(
        12,
        "all 1,252 jobs, most of them shorter than 5 minutes",
        Printed("most jobs in addition while the other does 100", 24.1),
        base=HuCase(nodes=0, is_all=True),
    ),
    _figure(
        13,
        "estimates that are wrong by up to 10 %",
        Printed("most jobs in addition: 0.6 to 2.4 fewer than 17.4", 15.0),
        base=DISTURBED,
        beside=(HU_OVERDUE,),
    ),
    _figure(
        14,
        "wrong estimates, 15 % buggy jobs and 10 % that users give up",
        Printed("most jobs in addition", 15.0),
        base=ALL_DISTURBED,
        beside=(HU_OVERDUE,),
    ),
    _figure(
        15,
        "15 s until a start or a growth takes place",
        Printed("most jobs in addition: 0.9 more to 1.8 fewer than 17.4", 15.6),
        base=HuCase(nodes=0, resize_cost="delay:15"),
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
)
