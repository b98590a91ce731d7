"""Earliest deadline first behind a gate: ElasticFlow's admission control without its elastic scaling."""

from __future__ import annotations

import numpy as np

from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.policy import Policy
from swell_papers.policies.edf import Largest, levels_of
from swell_papers.policies.edf_feasibility import EdfForecast


class EdfAdmission(Policy):
    """A job is admitted only if it and all that were admitted before it would end in time under EDF.

    Those admitted are served as `edf` serves them, then jobs with soft deadlines, then best-effort ones.

    References: Gu et al., ElasticFlow, ASPLOS 2023, section 6.4, Figure 9: "EDF + Admission Control".
    Deviates: sizes are cut at the peak of a curve, as in `edf`; one job at a time is admitted, where the
        published simulator decides on all that came in a slot together. `largest` follows the published
        simulator (as in `edf`), whose gate expects no costs of starts and resizes, and so breaks promises.
    """

    name = "edf_admission"
    makes_promises = True

    largest: Largest = 0

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = levels_of(snapshot, self.largest)
        gate = EdfForecast(snapshot, levels)
        gate.admit()
        order = np.concatenate([gate.kept, snapshot.by_deadline(gate.others)])
        return gate.serve(
            order,
            levels.highest,
            "the most useful workers that jobs with earlier deadlines leave free",
            "jobs with earlier deadlines come first",
        )
