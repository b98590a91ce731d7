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

#: Why we differ from the published simulator's own runs: read off its records and its rules.
WHY = {
    "gandiva": "there, slices end and devices come free only when the next job arrives: its records note "
    "ends 1,577 s after they were, on average, on the testbed's trace, and 1,433 s on that of Figure 8(a) "
    "(columns time and end_time); and a node serves jobs of one size only. Here a slice is a minute, and "
    "devices are free at once.",
    "edf_elastic": "it puts nothing by for slots and overheads, so jobs that were given just what they need "
    "end a little late (table of jobs). `edf_elastic_unaware` plans for no costs either.",
    "edf_elastic_unaware": "as far as a plan without costs does not explain it, it is not explained: sizes "
    "change at slots there and at once here, and either way a little decides who is a little late.",
    "elasticflow": "it admits or declines all jobs that come within a slot together, however easy one of "
    "them is: of those that it declined and Swell keeps, 28 of 28 on the testbed's trace and 27 of 28 on "
    "that of Figure 8(a) came within a slot of another one; and it puts nothing by for slots and overheads, "
    "so others end a little late (table of jobs). `elasticflow_unaware` plans for no costs either.",
    "elasticflow_unaware": "it plans for no costs, as this one, but decides on a slot's jobs together, and "
    "changes sizes at slots only, so it pays for fewer changes.",
}
