"""What the page of BFTrainer's evaluation says."""

from __future__ import annotations

#: What a change costs in each of them, and when the policy is asked.
WAYS_TO_COUNT = (
    (
        "replayer",
        "images at the speed before the change; a trainer's first start costs its new speed once, later "
        "starts are free",
        "when nodes come or go, and one is idle, as an open replayer of this log does",
    ),
    (
        "printed",
        "the same",
        "also when a trainer comes or ends, as section 3 of the paper says",
    ),
    (
        "strict",
        "time: the trainer stands still for the whole cost, after each start, growth, shrink and loss of a "
        "node",
        "the same",
    ),
)

_ROWS = "\n".join(f"| {' | '.join(way)} |" for way in WAYS_TO_COUNT)

INTRODUCTION = f"""
[BFTrainer](https://arxiv.org/abs/2106.12091) (Liu, Kettimuthu, Papka and Foster, 2021) trains neural
networks on nodes that a supercomputer's queue leaves idle. Such a node may be wanted back at any second. At
every change of the pool BFTrainer solves an integer program: which training jobs (*trainers*) get how many
nodes, so that most images are processed over the next `T_fwd` seconds, less what the changes themselves
cost. The paper replays two weeks of the log of Summit (4,608 nodes) against that.

Here the policy `bftrainer` solves the same problem exactly and in milliseconds, on eight days of that log.
`swell simulate JOBS --pool LOG` does the same with [your own log](../how-to/borrow-idle-nodes.md). The
tables compare the paper with three ways to count, because what a change costs is where evaluations differ:

| name | a change costs | decisions |
|---|---|---|
{_ROWS}

**Utilization efficiency U** is the number of images processed, divided by that of as many node-hours from
nodes that never leave. **Return on investment** is images processed / images lost by the policy's own
changes. The trainers, their costs (a growth takes about 18 s, a shrink about 12 s) and their speeds are the
paper's: Table 2, on straight lines between its columns.

No policy is told how long a node will stay. A test runs two logs that are equal up to a moment and differ
after it, and compares all commands up to then.
"""

CONDITIONS = (
    "eight days of Summit's idle nodes; trainers from 72,743 s of the log on, one each 36 s; equation 16 as "
    "printed, solved exactly; the nodes that came last are given back first",
)
