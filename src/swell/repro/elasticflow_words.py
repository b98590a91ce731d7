"""What the page of ElasticFlow's evaluation says beside its figures."""

from __future__ import annotations

#: What the columns of its page are.
COLUMNS = {
    "paper": "the figure that the paper prints, or, where it only draws, that its artifact plots",
    "own": "the published simulator's own runs on the same input, as it counts them: a job "
    "of ElasticFlow is in time if its end, less the last slot's rounding and overhead, is; one that it "
    "admitted and that is late after all it moves to those it declined",
    "strict": "the same runs: in time is who ended at or before the deadline",
    "everyone": "Swell with that simulator's resize costs: whoever runs pays 2 s (7 s on 256 devices and "
    "more) whenever a job comes or ends, and 2 (log2 n + 1) s for n devices that are new to it. Admission "
    "cannot foresee what the arrivals of others will cost, so promises can break, which is told below",
    "points": "everyone less strict, in hundredths",
    "changed": "Swell with the same amounts, paid by the gang that changes: the honest cost, and what counts",
    "adm, rej, late": "of `changed`, jobs admitted and rejected; late: admitted and not in time, which is a "
    "broken promise if the policy makes promises. It is always shown",
}
INTRODUCTION = "\n".join(
    (
        "Gu, Zhao, Zhong et al., *ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep",
        "Learning*, ASPLOS 2023, section 6, on the inputs of its public artifact. Side by side stand:",
        "",
        "| column | is |",
        "|---|---|",
        *(f"| {name} | {meaning} |" for name, meaning in COLUMNS.items()),
        "",
        "Jobs that are refused count as missed, everywhere. The head that decides is the one that runs live.",
        "Our names for the paper's baselines are in [the map](../papers.md#baselines); `edf_largest` is its",
        "EDF as its simulator has it, `edf` as its text has it.",
        "",
        "`swell repro elasticflow --data FOLDER --docs docs` makes this page; `swell repro elasticflow 8b",
        "--policy elasticflow` one figure with one policy. The truth below a figure says if only some ran.",
    )
)

#: What was counted and tried before promises came to be planned otherwise.
WITH_HEAD = (
    " This was counted and tried with the head of 2026-11-20 before ADR 5's last change (commit b9e670b); "
    "the tables may differ from it by some jobs."
)

#: Why we differ from the published simulator's own runs: read off its records and its rules, then tried, by
#: following one rule of it after the other in our simulator, resize cost everyone. `its 47` is its count.
WHY = {
    "gandiva": "there, nodes serve jobs of one size, and where a size has more devices than its jobs need, "
    "a whole node, or set of nodes, is taken for each device too many: again and again all jobs of a size "
    "wait for each other on one node while others are idle. They take turns only at arrivals on a whole "
    "minute, and devices come free only at arrivals. With these rules, and idle devices left idle, Swell "
    "keeps 46 deadlines for its 47 on the testbed's trace, 18 for its 18 on that of Figure 8(a), 85 for 86 "
    "on trace 10, 361 for 362 on Philly and 79 for 79 on Figure 10; with the same but for the taking of "
    "nodes that are needed 83, 38, 119, 384 and 97. Here a slice is a minute, of the whole cluster, and "
    "devices are free at once.",
    "tiresias": "it promotes nobody (column promote is 0 throughout), where Tiresias's paper and Swell "
    "promote who has starved: without, Swell keeps 55 deadlines for its 56 on the trace of Figure 8(a). And "
    "who sinks to a queue is its last there, behind those who wait: with both, 58, and 8 jobs differ "
    "instead of 20.",
    "edf_elastic": "what decides is by how little jobs are late (table of jobs): on the trace of Figure "
    "8(a) 188 of its 195 end at most 240 s late, and 190 of Swell's at most 30 s. It lets a job end, and "
    "free its devices, only at the end of a slot: doing so Swell keeps 138 for its 130, and 129 if sizes "
    "change at slots only, too. On the testbed's trace, where slots are of 240 s, doing so gives 67 for its "
    "40: it also gives what is left to those whom it helps least (the return of Algorithm 2, line 9, with "
    "the other sign), so all others end just at their deadlines. With ends at slots and this return, 52, "
    "and 40 if sizes change at slots only (on Figure 8(a) 133 and 110)." + WITH_HEAD,
    "edf_elastic_unaware": "its plans hold a size to their next step; Swell's change it so as to end at the "
    "deadline to the second, and then each cost makes late what was planned for none. On the trace of "
    "Figure 8(a) 190 of Swell's 195 end at most 60 s late; with the least size that suffices held instead, "
    "169 are in time, and with ends at slots, 109 if sizes are looked at each minute and 148 if at arrivals "
    "and ends, for its 130. On the testbed's trace ends at slots and its return (see edf_elastic) give 36 "
    "for its 40.",
    "elasticflow": "it admits or declines all jobs that come within a slot together: of those that it "
    "declined and Swell keeps, 28 of 28 on the testbed's trace came within a slot of one that both decline, "
    "and 5 of the 147 that it admitted. It also declines whoever comes while one that it admitted does not "
    "fit any more: on the trace of Figure 8(a) 12 of 29 came within a slot of one that both decline, and 19 "
    "did that or came while one was there that it ended late. And it puts nothing by for slots and "
    "overheads, so others end a little late (table of jobs); on Figure 9 that makes .789 of its own .924. "
    "Swell with these rules (jobs of a slot together or not at all, none if one admitted does not fit, the "
    "least size that suffices with nothing put by, ends at slots, and the return of edf_elastic) admits 148 "
    "on the testbed's trace, all of its 147, and keeps 133 for its 134; on Figure 8(a) 153, all of its 145, "
    "and keeps 135 for its 127: of the 12 that then only Swell keeps it declined 5 and ended 7 late, by 3 "
    "to 31 s." + WITH_HEAD,
    "elasticflow_unaware": "deciding on a slot's jobs together it admits 148 on the testbed's trace, all of "
    "the published 147 among them, and keeps 148; of the published 147, 134 end in time and 12 more within "
    "a slot of it, by which ends are rounded up. On the trace of Figure 8(a) it is lower because its plans "
    "end at the deadline to the second, which no cost was put by for (see edf_elastic_unaware): with the "
    "rules named at elasticflow it keeps 152, and 135 with ends at slots, too.",
}
