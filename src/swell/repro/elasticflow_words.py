"""Explanatory texts on the page of ElasticFlow's evaluation."""

from __future__ import annotations

#: The meaning of the columns of its tables.
COLUMNS = {
    "paper": "the figure that the paper prints; if the paper only draws it, the figure that its artifact "
    "plots",
    "own": "the published simulator's own runs on the same input, by its own count: a job of ElasticFlow "
    "meets its deadline if its end minus the last slot's rounding and overhead does; an admitted job that is "
    "late even so is moved to the declined ones",
    "strict": "the same runs: a job meets its deadline if it ended at or before it",
    "everyone": "Swell with that simulator's resize costs: each running job pays 2 s (7 s on 256 devices or "
    "more) in each round of arrivals and ends, and 2 (log2 n + 1) s for n devices new to each other; "
    "in every 60th round those on new devices pay 27 s (47 s) more. Admission "
    "cannot know what later arrivals will cost, so promises can break; broken ones are listed",
    "points": "everyone minus strict, in hundredths",
    "changed": "Swell with the same amounts, paid only by the resized job. This is the realistic cost",
    "adm, rej, late": "of `changed`: jobs admitted, jobs rejected, and admitted jobs that missed their "
    "deadline, which are broken promises if the policy makes promises",
}
INTRODUCTION = "\n".join(
    (
        "Gu, Zhao, Zhong et al., *ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep",
        "Learning*, ASPLOS 2023, section 6, on the inputs of its public artifact. The tables compare:",
        "",
        "| column | meaning |",
        "|---|---|",
        *(f"| {name} | {meaning} |" for name, meaning in COLUMNS.items()),
        "",
        "Refused jobs count as missed in all columns. The scheduler is the one that runs live.",
        "[From the papers to the code](../papers.md#baselines) lists our names for the paper's baselines.",
        "`edf_largest` is EDF as in the paper's simulator, `edf` is EDF as in its text.",
        "",
        "`swell repro elasticflow --data FOLDER --docs docs` writes this page. `swell repro elasticflow 8b",
        "--policy elasticflow` runs one figure with one policy. The line `Truth` below a figure says if only",
        "some policies were run.",
    )
)

#: What was counted and tried before promises came to be planned otherwise.
WITH_HEAD = (
    " These numbers are from the scheduler of 2026-11-20 before ADR 5's last change (commit b9e670b), so the "
    "tables may differ by some jobs."
)

#: Why we differ from the published simulator's own runs: read off its records and its rules, then tried, by
#: following one rule of it after the other in our simulator, resize cost everyone. `its 47` is its count.
WHY = {
    "gandiva": "In the published simulator a node serves jobs of one size only, and more nodes than needed "
    "are taken for a size. So jobs of one size often wait for each other on one node while others are idle. "
    "Jobs take turns only at arrivals on a whole minute, and devices become free only at arrivals. With "
    "these rules, with slices of a minute and with idle devices left idle, Swell kept 46 deadlines for its "
    "47 on the testbed's trace, 18 for its 18 on that of Figure 8(a), 85 for 86 on trace 10, 361 for 362 on "
    "Philly and 79 for 79 on Figure 10. With these rules except the taking of needed nodes, it kept 83, 38, "
    "119, 384 and 97. "
    "Swell's policy has slices of 20 minutes on the whole cluster, and devices are free at once.",
    "tiresias": "The published simulator promotes no job (column promote is 0 throughout); Tiresias's paper "
    "and Swell promote starved jobs. Without promotion, Swell keeps 55 deadlines for its 56 on the trace of "
    "Figure 8(a). The published simulator also puts a job that sinks to a queue behind the waiting jobs of "
    "that queue. With both rules Swell keeps 58, and 8 jobs differ instead of 20.",
    "edf_elastic": "Many jobs are late by little (table of jobs): on the trace of Figure 8(a) 188 of the "
    "published simulator's 195 end at most 240 s late, and 190 of Swell's at most 30 s. In the published "
    "simulator a job ends, and frees its devices, only at the end of a slot. With this rule Swell keeps 138 "
    "for its 130, and 129 if sizes also change at slots only. On the testbed's trace, with slots of 240 s, "
    "this rule gives 67 for its 40. The published simulator also gives remaining devices to the jobs that "
    "gain least (the return of Algorithm 2, line 9, with the other sign), so all other jobs end just at "
    "their deadlines. With ends at slots and this return Swell keeps 52, and 40 if sizes change at slots "
    "only (on Figure 8(a) 133 and 110)." + WITH_HEAD,
    "edf_elastic_unaware": "Plans of the published simulator keep a size to their next step. Swell's plans "
    "change it to end at the deadline to the second, so each cost that was not planned makes a job late. On "
    "the trace of Figure 8(a) 190 of Swell's 195 end at most 60 s late. If Swell keeps the least size that "
    "suffices, 169 meet their deadlines; with ends at slots, 109 if sizes change each minute and 148 if they "
    "change at arrivals and ends, for its 130. On the testbed's trace ends at slots and its return (see "
    "edf_elastic) give 36 for its 40.",
    "elasticflow": "The published simulator admits or declines all jobs of a slot together. Of the jobs that "
    "it declined and Swell keeps, 28 of 28 on the testbed's trace came within a slot of a job that both "
    "decline; of the 147 that it admitted, 5 did. It also declines every new job while an admitted job no "
    "longer fits: on the trace of Figure 8(a) 12 of 29 came within a slot of a job that both decline, and 19 "
    "did that or came while it had a job that it ended late. It has no safety margin for slots and "
    "overheads, so other jobs end a little late (table of jobs); on Figure 9 that makes .789 of its own "
    ".924. With these rules (jobs of a slot together or not at all, none if an admitted one does not fit, "
    "the least size that suffices without margins, ends at slots, and the return of edf_elastic) Swell "
    "admits 148 on the testbed's trace, including all of its 147, and keeps 133 for its 134. On Figure 8(a) "
    "Swell admits 153, including all of its 145, and keeps 135 for its 127: of the 12 that then only Swell "
    "keeps, it declined 5 and ended 7 late, by 3 to 31 s." + WITH_HEAD,
    "elasticflow_unaware": "If Swell decides on a slot's jobs together, it admits 148 on the testbed's "
    "trace, including all of the published 147, and keeps 148. Of the published 147, 134 end in time, and 12 "
    "more within a slot of it, by which ends are rounded up. On the trace of Figure 8(a) Swell keeps fewer "
    "because its plans end at the deadline to the second, without a margin for costs (see "
    "edf_elastic_unaware). With the rules named at elasticflow it keeps 152, and 135 with ends at slots as "
    "well.",
}
