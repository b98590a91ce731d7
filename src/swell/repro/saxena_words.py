"""Explanatory texts on the page of Saxena et al.'s evaluation."""

from __future__ import annotations

#: The meaning of the columns of its tables.
COLUMNS = {
    "line": "`elastic` is the paper's method; `Random-BS`, `Max-BS` and `Min-BS` are its baselines: the same "
    "optimizer for jobs that keep one batch (drawn, largest, smallest)",
    "policy": "our name, for `swell simulate --policy` and `swell up --policy`",
    "cost": "seconds that each change of a job takes; `none` is how the paper's simulator counts",
    "SJS efficiency": "run times on one device over the device time used, of all scheduled jobs",
    "drop ratio": "jobs dropped over jobs submitted; 0 where jobs queue",
    "completion [min]": "average time from submission to the end, of the jobs that were completed",
}
INTRODUCTION = "\n".join(
    (
        "Saxena, Jayaram, Basu, Sabharwal, Verma, *Effective Elastic Scaling of Deep Learning Workloads*,",
        "MASCOTS 2020, section IV. A job may be trained with any batch within a range. The method gives each",
        "job a number of devices, and the batch that is best for it, so that the total of the jobs'",
        "speed-ups over one device is the highest possible one.",
        "",
        "The paper publishes neither its jobs nor its measurements. We assume:",
        "",
        "* **Speed.** A step of `s` samples on a device takes `overhead + (1 - overhead) s / B` of the time",
        "  of a step with a full device of `B` samples, plus a ring all-reduce, which is slower over the",
        "  network than within a machine of two devices. The parameters are fitted once, to all that the",
        "  paper prints of speed: Table II, 1.6 times as fast on 5 devices (IV-D), and 1.3 times between two",
        "  categories (IV-E). The line `Truth` below each figure has them.",
        "* **Memory.** Table II ends at 32 samples a device for category 1. That is the least power of two",
        "  with which its largest batch fits on 10 devices. By this rule category 2 has 32 and category 3",
        "  has 128. Category 4 runs on one device.",
        "* **Load.** A load of 1 is one device for each job and all devices busy. The printed high rate is",
        "  `k_max` jobs in the run time of one, a load of a quarter on 40 devices. Nothing would be dropped",
        "  then, so the paper's rates must have been others. In Figures 5, 6 and 8 the low rate is a load of",
        "  0.75, with which jobs at their smallest batch take as long as printed (IV-D), and the high rate",
        "  is four times that, as printed. The very high and very low rates of Figures 7 and 9 and of the",
        "  tables are not printed.",
        "* **Decisions.** The paper names three ways: at every arrival and end (III-E), every 10 to 15",
        "  minutes (III-D), and every 10 minutes or when 5 % of the running jobs have ended (V-B). `saxena`",
        "  does the last by default. Figures 7 and 9 and the tables have two cases: this, with very high and",
        "  very low loads of 1 and 0.1, and decisions every 10 minutes only, with 0.9 and 0.3. The tables of",
        "  models and of loads show what other loads and other parameters of the scaling model lead to.",
        "",
        "| column | meaning |",
        "|---|---|",
        *(f"| {name} | {meaning} |" for name, meaning in COLUMNS.items()),
        "",
        "The scheduler is the one that runs live. `swell repro saxena --docs docs` writes this page,",
        "`swell repro saxena table4` runs one table. [From the papers to the",
        "code](../papers.md#saxena-et-al) maps the equations and the corrected algorithm.",
    )
)

#: Why a claim does not come out.
WHY = {
    "max batch": "By the fitted model a job of category 1 with its largest batch is 3.1 times as fast on 8 "
    "devices as on one, so that five such jobs at once complete 0.39 of what 40 jobs on one device each do. "
    "A factor of 10 needs jobs that are slower on 8 devices than on one. The printed speed-up of 1.6 on 5 "
    "devices excludes that.",
    "random batch": "How much the baseline loses depends on the speed on 5 to 8 devices, of which the paper "
    "prints one figure, and on the load.",
    "min batch": "The elastic jobs gain more from idle devices than the paper's.",
    "kept": "Most jobs of the baseline have five devices or more, and on these the fitted model makes them "
    "two to three times as fast. With a slower all-reduce they take as long as printed, but then more of "
    "them are dropped than printed (table of models).",
    "queue": "The queue of an overloaded baseline grows for as long as jobs arrive, so the load decides how "
    "long they wait. At higher loads it is as long as printed (tables of models and of loads).",
    "elastic": "The paper does not print the load, which decides this (table of loads).",
}
