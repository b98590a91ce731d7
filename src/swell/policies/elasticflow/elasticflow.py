"""ElasticFlow: deadlines that are promises, and what they leave to whom it serves best."""

from __future__ import annotations

from swell.model.options import Domain
from swell.policies.unified import SAVINGS, GainName, OpenBatches, ShareCores, Unified


class ElasticFlow(Unified):
    """Admission by plans that keep all promises, then devices by marginal return.

    1. Each undecided job is promised its deadline, if there are plans that keep it and all promises made
       before, or refused with the earliest one that could be promised (`admission.admit`). In a plan every
       start and every resize takes the time that it takes at most at that size (`promises.PromisePlanner`).
    2. Promised jobs get their floor: the share of their plan that is needed now. One that is late has a plan
       to take as much as is useful. One whose plan stops it for less time than a start takes keeps what it
       has until then, if that is free.
    3. Soft jobs that can still be on time, if all goes as believed, get the share of their own plan, which is
       kept like that of a promise as long as it holds. Plans are made by priority, then by deadline.
    4. Jobs that have nothing yet get their smallest size: first promised and soft ones that run now,
       which would otherwise be suspended only to be started again; then best-effort ones, by priority, the
       shortest remaining time over the weight first.
    5. What is left goes where it is used best, one size at a time (Algorithm 2), savings of a job times its
       weight; what these leave, to soft
       jobs that will be late, by priority, then by deadline.
    6. A change of steps 4 and 5 that no plan needs is made to a promised job only if its plan holds with that
       change paid for, and the change back, too.

    A late fill leaves no slack: each plan ends at its deadline. Step 5 undoes that where it is free. Work
    done now saves a promised job the device-seconds of its highest level later, and running at its
    smallest size costs the fewest, so a promise that needs nothing yet has a return of at least 0,
    where a boost of others mostly has a negative one: it starts early on idle devices.

    References: Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep
        Learning", ASPLOS 2023, sections 4.1, 4.2 and 4.4.
    Deviates:
        large jobs that fit are refused where the cluster is crowded (`objective.ManyJobs`); the paper admits
        each job that fits, as `promises_by` = work and `elasticflow_paper` do;
        a refusal names a deadline that would be accepted;
        continuous time, no slots; a plan's steps are events (`wake_s`);
        Algorithm 1, line 15, sums over jobs of earlier deadline, not over slots; sizes are powers of two;
        plans pay for their changes, and remaining steps are inflated by the belief's margin and by one step;
        plans are kept from one decision to the next, and made again where they do not hold; a newcomer is
        tried in the gaps they leave, and with all plans as late and as early as can be;
        promises count quotas, stand on owned nodes only, and survive the loss of `survive_nodes` nodes
        (`reserve.keep_promises`);
        a promise that can no longer be kept is never dropped (`promises.PromisePlanner.keep` says when it is
        served in its turn, and when behind those that can), and does not forbid newcomers;
        Algorithm 2 raises by one size, in closed form (`solvers.marginal.boost`), and makes only changes that
        plans can pay for (step 6); a job may keep what it has between two steps of its plan (step 2);
        soft jobs have plans of their own (step 3), and those that will be late come last (step 5);
        best-effort and soft jobs enter Algorithm 2 at their smallest size (step 4), because from nothing at
        all their return would be the same for all of them: 0.
    """

    name = "elasticflow"
    domain = Domain()
    gains_by: GainName = SAVINGS
    open_batches: OpenBatches = 0
    share_cores: ShareCores = 0
