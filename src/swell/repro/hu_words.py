"""Explanatory texts on the page of the evaluation of Hu et al."""

from __future__ import annotations

INTRODUCTION = "\n".join(
    (
        "Hu, Zhu, Zhou, Cheng, Bai and Zhang, *An Optimal Resource Allocator of Elastic Training for Deep",
        "Learning Jobs on Cloud*, 2021, section 5. Every five minutes `hu` plans the next five steps of",
        "five minutes and carries out the first one. `hu_greedy` is the rule-based allocator that the paper",
        "compares with, under the same period. The scheduler is the one that runs live. A worker is a node",
        "of the paper.",
        "",
        "**The jobs are generated.** The paper's log is not public. The generated jobs have each statistic",
        "that the paper gives: 1,252 jobs within 49 h 41 min 38 s, 447 of which train for 5 minutes or",
        "more, a mean training time of 84.3 min of all and of 232.6 min of the 447. What the paper does not",
        "give is assumed:",
        "",
        "| assumed | value |",
        "|---|---|",
        "| nodes on which training times were measured, which fixes the work of a job | 2 |",
        "| what a job trains beyond 5 minutes | lognormal, standard deviation of the logarithm 1.2 |",
        "| training times below 5 minutes | beta distribution |",
        "| arrivals | uniform over the span |",
        "",
        "The first value is chosen so that the gain in total time is largest at about the number of nodes",
        "where the paper has it, 110. The last section varies the first two values.",
        "",
        "**Jobs in addition.** The paper says: when the greedy allocator has trained 100 jobs, the optimal",
        "one can train more, up to 17.4. Its numbers have decimals, and its conclusion calls them 17.4 % of",
        "training efficiency. `jobs more per 100` takes it by the mean total times: 100 x (greedy / ours -",
        "1). `jobs more at its 100th` takes it by the letter: jobs done at the moment when the greedy",
        "allocator has done its 100th, minus 100. Jobs arrive over two days, so that at this moment no",
        "allocator can be far ahead.",
        "",
        "The paper draws its figures without numbers, except for the best ones: these are in the tables of",
        "claims. `swell repro hu --docs docs` writes this page, `swell repro hu fig9` runs one figure.",
        "[From the papers to the code](../papers.md#hu-et-al) lists the equations and the departures.",
    )
)
#: By experiment.
REMARKS: dict[str, tuple[str, ...]] = {
    "fig9": (
        "Jobs wait because all nodes are in use when they arrive. At the next decision `hu` has a node "
        "for every job, `hu_greedy` halves one job a period. With 190 nodes few jobs wait at all, and "
        "the change depends on single jobs: see the interval.",
    ),
    "fig10": (
        "With 70 nodes most jobs have their minimum under either allocator, and with 190 most have all "
        "they may have; in between `hu` gives nodes to the jobs that are soon done with them.",
    ),
    "fig11": (
        "As in the paper the gain is bell-shaped, with its top at 110 nodes. By the letter (jobs more "
        "at its 100th) the paper's 17.4 does not come out at any number of nodes: see above.",
    ),
    "fig12": (
        "The paper's heterogeneous jobs are jobs of unequal lengths; nodes are all alike. The gain at "
        "the best number of nodes is larger than in Figure 11, as in the paper, but by less than there. "
        "How the lengths below 5 minutes are spread, and when these jobs come, is not known.",
    ),
    "fig13": (
        "A job states a number of steps that is wrong by a random share of up to 10 %. The paper's "
        "figure is the smaller end of what it prints as the loss by the disturbance.",
        "A job that states too little is believed to be about to end when it has done that, and a plan "
        "gives it its minimum for as long as it goes on; the paper does not say what remains of such a "
        "job. `overdue_share=0.05` takes 5 % of what it has done to be left, half of the largest error.",
    ),
    "fig14": (
        "Buggy jobs fail within 5 minutes of training, other jobs are given up at a random time within "
        "what they would take. Total times are of jobs that succeeded.",
    ),
    "fig15": (
        "A start or a growth takes place 15 s after the decision, and until then the job trains on as "
        "it is. `hu_aware` expects this delay of growths and a restart after a stop.",
    ),
    "fig16": (
        "The paper's times are walls of a general solver (CBC) on an i7-8700K. Swell's decision "
        "includes all that the policy does. `make bench-solvers` compares the solver alone with HiGHS "
        "on the paper's model.",
    ),
    "variants": (
        "`hu_end` counts only what is done at the end of the horizon. `may_wait=1` lets a plan keep any "
        "job waiting: jobs in progress get as far, and jobs in the queue wait longer. `most_halved=100` "
        "lets the greedy allocator halve jobs until the queue is served. `fifo`, `equal_share` and "
        "`srtf` decide at every arrival and end, not once in five minutes; `srtf` gives every job the "
        "two nodes that it asked for.",
        "`equal_share` is ahead of `hu`. Where resizes are free the reason is the period: it acts at "
        "once, and with a decision a minute (`period_s=60`) `hu` is ahead. Where a resize takes 60 s, "
        "the scheduler makes only those changes of `equal_share` that save twice their cost; `hu` makes "
        "every change, and `hu_aware` those that pay within its plan, although the next plan may take "
        "them back.",
        "`hu_aware` is `hu` where resizes are free, job by job. Two seeds: intervals are wide.",
    ),
    "assumed": (
        "What is not known of the paper's jobs decides how large the gain is, and where: more work "
        "(times measured on more nodes) moves it to more nodes, a larger spread makes it larger. Two "
        "seeds: intervals are wide.",
    ),
}
