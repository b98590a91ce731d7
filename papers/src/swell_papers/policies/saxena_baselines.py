"""What Saxena et al. compare with: the same optimizer for jobs whose batch never changes."""

from __future__ import annotations

from swell.model.options import Domain, FixedBatch, Sizes
from swell.policies.saxena import Saxena


class SaxenaMaxBatch(Saxena):
    """Every job has its largest batch at every size (Max-BS).

    References: Saxena et al., MASCOTS 2020, sections IV-A, IV-B and IV-D.
    """

    name = "saxena_max_batch"
    domain = Domain(sizes=Sizes.EVERY, ends_at_peak=True, opens_batches=True, fixed_batch=FixedBatch.LARGEST)


class SaxenaMinBatch(Saxena):
    """Every job has its smallest batch at every size (Min-BS).

    References: Saxena et al., MASCOTS 2020, sections IV-A, IV-B and IV-D.
    """

    name = "saxena_min_batch"
    domain = Domain(sizes=Sizes.EVERY, ends_at_peak=True, opens_batches=True, fixed_batch=FixedBatch.SMALLEST)


class SaxenaRandomBatch(Saxena):
    """Every job has a batch of its own at every size, drawn uniformly from its range (Random-BS).

    References: Saxena et al., MASCOTS 2020, sections IV-A and IV-B.
    Deviates: the draw is a function of the job's id, so that a journal leads to the same decisions again.
    """

    name = "saxena_random_batch"
    domain = Domain(sizes=Sizes.EVERY, ends_at_peak=True, opens_batches=True, fixed_batch=FixedBatch.DRAWN)
