"""What running has taught of one job: its curve, corrected where it has trained."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray, read_only
from swell.model.job import BatchProfile
from swell.script_facts import BetweenSteps
from swell.throughput.batches import BatchTable, best_candidates, candidates, efficiency, is_possible, worth
from swell.throughput.curve import SCALING_EXPONENT, SHORTEST_STEP_S, Curve
from swell.throughput.estimate_margins import GUESS, OTHER_SIZES, SAME_SIZE, TRIAL, class_of

#: Reports fade with this time constant: seldom pauses (a checkpoint) count with their share of the time, and
#: a machine that has become slower is noticed.
MEMORY_S = 20.0
#: The prediction counts as so many steps already made at its speed.
NUM_PRIOR_STEPS = 2.0
#: A step's time is known well once the prediction counts for no more than this.
SETTLED_SHARE = 0.05
#: What was measured of a larger size that was no faster is forgotten once its job has trained at smaller ones
#: for so many times as long as it was measured (`MEMORY_S` at most): no policy would try that size, and
#: perhaps its machine was busy. Each further time that takes twice as long at least.
RETRY_RATIO = 30.0
#: Epochs after which what followed an epoch has faded: a script may evaluate after every fifth only.
MEMORY_EPOCHS = 10.0
#: Sizes and batches of a job at which its speed is remembered.
NUM_MEASURED = 256


class Measured(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Step time of a job at one size and batch: what it took over what it did, recent reports first."""

    workers: int
    batch: int = 0  #: samples of a step; 0: the standing batch of so many workers
    hosts: int = 1  #: that they are on
    predicted_s: float  #: what was believed when the first report came
    time_s: float  #: faded sum of the time reported on, the prior's included
    steps: float  #: faded sum of the steps made in it
    prior_steps: float = 0.0  #: of `steps`, those of the prediction
    others: float | None = None  #: log(measured / trial run's) of the job's other sizes by then, if any
    settled_s: float | None = None  #: what a step took when that was first known well
    slower_s: float = 0.0  #: trained since the latest report at smaller sizes that were no slower

    def add(self, step_s: float, num_steps: float) -> None:
        """Add `num_steps` steps of `step_s` seconds each; earlier reports decay with `MEMORY_S`."""
        elapsed_s = max(step_s, SHORTEST_STEP_S) * num_steps
        kept_share = math.exp(-elapsed_s / MEMORY_S)
        counted_s = MEMORY_S * (1.0 - kept_share)  # the report's own beginning has faded by its end
        self.time_s = kept_share * self.time_s + counted_s
        self.steps = kept_share * self.steps + num_steps * counted_s / elapsed_s
        self.prior_steps *= kept_share
        self.slower_s = 0.0

    @property
    def step_s(self) -> float:
        """Exponentially weighted mean of seconds a step."""
        return self.time_s / self.steps

    @property
    def measured_s(self) -> float:
        """The same of the reports alone."""
        return self.reported_s / (self.steps - self.prior_steps)

    @property
    def reported_s(self) -> float:
        """Faded sum of the time reported on."""
        return self.time_s - self.prior_steps * self.predicted_s

    @property
    def is_settled(self) -> bool:
        """Whether a step's time is known well."""
        return self.prior_steps <= SETTLED_SHARE * self.steps


class TimeBetweenEpochs(msgspec.Struct, kw_only=True):
    """Time between epochs as running has shown it, recent epochs first."""

    time_s: float = 0.0  #: faded sum
    steps: float = 0.0  #: faded sum of the own steps of these epochs
    epochs: float = 0.0  #: faded number of them

    def add(self, seen: BetweenSteps) -> None:
        """Add what was seen; earlier epochs decay with `MEMORY_EPOCHS`."""
        kept_share = math.exp(-seen.num_epochs / MEMORY_EPOCHS)
        self.time_s = kept_share * self.time_s + seen.time_s
        self.steps = kept_share * self.steps + seen.num_steps
        self.epochs = kept_share * self.epochs + seen.num_epochs

    @property
    def mean(self) -> BetweenSteps:
        """Mean time between two epochs, with the number of steps of an epoch."""
        steps = max(1, round(self.steps / self.epochs))
        return BetweenSteps(time_s=self.time_s / self.steps * steps, num_steps=steps)


class Learnt(msgspec.Struct, kw_only=True, omit_defaults=True, dict=True):
    """A job's curve and its corrections. What was worked out of them is remembered until it learns again."""

    curve: Curve
    #: In the order in which they were measured first. On several hosts, steps at another batch count as those
    #: of the standing one that would have taken as long.
    measured: list[Measured] = []
    #: Step times of a job whose batch is open, if its trial run told any. Then a step counts as what it is
    #: worth; else steps count samples.
    batches: BatchProfile | None = None
    noise_scale: float = math.inf  #: of the gradients, in samples; inf: not known, or nothing but noise
    seen_between: TimeBetweenEpochs | None = None  #: takes the place of what a trial run has shown
    kind: int = 0  #: of its estimates; see `estimate_margins`
    carried_share: float = 1.0  #: by which the error of the sizes that were measured corrects the others
    #: By workers, of sizes whose measurement was forgotten: how long the next one counts at least.
    doubt_s: dict[int, float] = {}

    def __post_init__(self) -> None:
        self._table: BatchTable | None = None
        self._forget_answers()

    def _forget_answers(self) -> None:
        self._known_ratios: dict[bool, float] = {}
        #: Something is known of gangs on several hosts; else rates are those of one.
        self.depends_on_hosts = bool(self.curve.crossing_s) or any(one.hosts > 1 for one in self.measured)
        is_untaught = not (self.measured or self.batches or self.seen_between)
        #: All jobs with this curve have the same, as long as nothing else is known.
        self._rates: dict[tuple[bytes, bytes], FloatArray] = self.curve.rates if is_untaught else {}

    def share(self, curve: Curve) -> None:
        """The one of all jobs with an equal curve."""
        self.curve = curve
        self._forget_answers()

    @property
    def between(self) -> BetweenSteps | None:
        """Time between two epochs, whatever the size; None: not known."""
        return self.curve.between if self.seen_between is None else self.seen_between.mean

    def learn_between(self, seen: BetweenSteps) -> None:
        """Learn the time between epochs from epochs that have ended in a run."""
        if self.seen_between is None:
            self.seen_between = TimeBetweenEpochs()
        self.seen_between.add(seen)
        self._forget_answers()
        self._table = None

    def learn_noise(self, noise_scale: float) -> None:
        """It is this from now on."""
        self.noise_scale = noise_scale
        if self.batches is not None:
            self._forget_answers()  # rates of samples stay what they are
            self._table = None

    @property
    def _apart_s(self) -> float:
        """Seconds without steps for each step of the own batch."""
        between = self.between
        return self.curve.end_per_step_s + (0.0 if between is None else between.per_step_s)

    def between_s(self, batches: IntArray) -> FloatArray:
        """What each step at these batches (any shape) bears of the time without steps, in seconds.

        That is what follows each epoch, and what follows the last step. Both are the same at every size, and
        there are fewer steps of a larger batch.
        """
        return self._apart_s / self.curve.global_batch * batches.astype(np.float64)

    @property
    def changes_worth(self) -> bool:
        """Whether rates of `best_batches` count what a sample is worth, which changes as training goes on."""
        return self.batches is not None and not math.isinf(self.noise_scale)

    @property
    def num_known(self) -> int:
        """Sizes and batches at which the time of its steps is known well."""
        return sum(one.settled_s is not None for one in self.measured)

    @property
    def slowdown_share(self) -> float:
        """Share by which steps take longer than was believed before any report, >= 0, at the worst size."""
        is_guess = self.curve.is_guess  # no promise was made by it
        before = ((one, one.settled_s if is_guess else one.predicted_s) for one in self.measured)
        known = (one.measured_s / before_s - 1.0 for one, before_s in before if before_s is not None)
        return max(0.0, max(known, default=0.0))

    def margin_classes(self, workers: IntArray, hosts: IntArray | None = None) -> IntArray:
        """(K,) which of `FittedBelief.margins` hold at these sizes, until it learns again.

        That depends on what the estimate for each size is made from; see `estimate_margins`.
        """
        if not self.measured:
            return np.full(workers.shape, class_of(self.kind, GUESS if self.curve.is_guess else TRIAL))
        on = np.ones_like(workers) if hosts is None else hosts
        settled = {(one.workers, one.hosts) for one in self.measured if one.settled_s is not None}
        places = zip(workers.tolist(), on.tolist(), strict=True)
        others = GUESS if self.curve.is_guess else OTHER_SIZES
        bases = [SAME_SIZE if place in settled else others for place in places]
        return class_of(self.kind, np.array(bases, dtype=np.int64))

    def at(self, num_workers: int, global_batch: int, num_hosts: int = 1) -> Measured | None:
        """What was measured there; None: nothing."""
        batch = self._batch(num_workers, global_batch, num_hosts)
        for one in self.measured:
            if one.workers == num_workers and one.batch == batch and one.hosts == num_hosts:
                return one
        return None

    def _batch(self, num_workers: int, global_batch: int, num_hosts: int) -> int:
        """See `Measured.batch`."""
        is_standing = num_hosts > 1 or global_batch == self.curve.standing_batch(num_workers)
        return 0 if is_standing else global_batch

    def learn(
        self, num_workers: int, global_batch: int, step_s: float, num_steps: float, num_hosts: int = 1
    ) -> Measured | None:
        """Learn from steps at this size and batch.

        Returns what is known there; None: the job's trial run is believed instead.
        """
        standing = self.curve.standing_batch(num_workers)
        if global_batch != standing and self.batches is not None:
            return None
        share, batch = 1.0, global_batch
        if num_hosts > 1:
            self.depends_on_hosts = True
            at_batch_s = self.curve.one_step_s(num_workers, num_hosts, global_batch)
            share, batch = at_batch_s / self.curve.one_step_s(num_workers, num_hosts), standing
        known = self.at(num_workers, global_batch, num_hosts)
        if known is None:
            estimate_s = self._one_step_s(num_workers, batch, num_hosts)
            if self.curve.is_guess and not self.measured:  # an estimate may be wrong by any factor
                estimate_s = max(step_s, SHORTEST_STEP_S)
            known = Measured(
                workers=num_workers,
                batch=self._batch(num_workers, global_batch, num_hosts),
                hosts=num_hosts,
                predicted_s=estimate_s,
                time_s=NUM_PRIOR_STEPS * estimate_s,
                steps=NUM_PRIOR_STEPS,
                prior_steps=NUM_PRIOR_STEPS,
                others=self._mean_error(num_hosts > 1),
            )
            self.measured = [*self.measured, known][-NUM_MEASURED:]
        known.add(step_s / share, num_steps * share)
        self._forget_answers()
        return known

    def doubt_larger(
        self, num_workers: int, elapsed_s: float, global_batch: int | None, num_hosts: int
    ) -> tuple[int, ...]:
        """It has trained for so long at this size: that larger ones were no faster is believed
        only for a time, for no policy would let them run and be measured again. See `RETRY_RATIO`.

        Returns sizes of which nothing that was measured is believed any more.
        """
        larger = [one for one in self.measured if one.workers > num_workers]
        if not larger:
            return ()
        own_batch, forgotten = global_batch or self.curve.global_batch, dict[int, float]()
        rate_per_s = self._rate_per_s(num_workers, own_batch, num_hosts)
        for one in larger:
            batch = one.batch or self.curve.standing_batch(one.workers)
            if self._rate_per_s(one.workers, batch, one.hosts) > rate_per_s:
                continue
            one.slower_s += elapsed_s
            counts_s = RETRY_RATIO * min(one.reported_s, MEMORY_S)
            counts_s = max(counts_s, self.doubt_s.get(one.workers, 0.0))
            if one.slower_s >= counts_s:
                self.measured = [other for other in self.measured if other is not one]
                forgotten[one.workers] = 2.0 * counts_s
        if forgotten:
            self.doubt_s.update(forgotten)
            self._forget_answers()
        return tuple(sorted(forgotten))

    def step_s(self, workers: IntArray, batches: IntArray, hosts: IntArray | None = None) -> FloatArray:
        """(..., K) seconds of a step at (K,) sizes and (..., K) batches; `between_s` comes on top.

        They are measured where there are reports, else predicted and corrected.

        Args:
            hosts: (K,) that so many workers are on; None: one.
        """
        on = 1 if hosts is None or not self.depends_on_hosts else hosts
        places = np.stack(np.broadcast_arrays(workers, batches, on))
        asked = list(map(tuple, places.reshape(3, -1).T.tolist()))
        self.curve.remember(asked)
        return np.array([self._one_step_s(*one) for one in asked]).reshape(places.shape[1:])

    def _one_step_s(self, num_workers: int, global_batch: int, num_hosts: int) -> float:
        """One of `step_s`, without an array."""
        curve, is_crossing = self.curve, num_hosts > 1 and self.depends_on_hosts
        time_s = curve.one_step_s(num_workers, num_hosts if is_crossing else 1, global_batch)
        for one in reversed(self.measured):
            if one.workers == num_workers and one.hosts == (num_hosts if is_crossing else 1):
                if is_crossing:
                    return time_s * (one.step_s / curve.one_step_s(num_workers, num_hosts))
                if global_batch == (one.batch or curve.standing_batch(num_workers)):
                    return one.step_s
        return time_s * self._ratio(is_crossing)

    def slowdown(self, workers: IntArray, hosts: IntArray | None) -> FloatArray:
        """(K,) times that a step takes longer there than on one host, by the trial run alone."""
        if hosts is None:
            return np.ones(workers.shape)
        slower: FloatArray = self.curve.step_s(workers, None, hosts) / self.curve.step_s(workers)
        return slower

    def rates_per_s(self, workers: IntArray, hosts: IntArray | None = None) -> FloatArray:
        """(K,) steps/s of the own batch at the standing one; 0 where the job may not have that size.

        Read-only.
        """
        on = np.ones_like(workers) if hosts is None or not self.depends_on_hosts else hosts
        key = workers.tobytes(), on.tobytes()
        rates = self._rates.get(key)
        if rates is None:
            asked = list(zip(workers.tolist(), on.tolist(), strict=True))
            self.curve.remember([(num, self.curve.standing_batch(num), spread) for num, spread in asked])
            rates = self._rates[key] = read_only(np.array([self.rate_per_s(*one) for one in asked]))
        return rates

    def rate_per_s(self, num_workers: int, num_hosts: int = 1) -> float:
        """One of `rates_per_s`, without an array."""
        if not self.curve.allows_one(num_workers):
            return 0.0
        batch = self.curve.standing_batch(num_workers)
        rate_per_s = 1.0 / self._one_time_s(num_workers, batch, num_hosts)
        return rate_per_s if self.curve.batch_per_worker is None else rate_per_s * self._worth(batch)

    def _rate_per_s(self, num_workers: int, global_batch: int, num_hosts: int) -> float:
        """Steps/s of the own batch, as measured and as the curve has it."""
        return self._worth(global_batch) / self._one_time_s(num_workers, global_batch, num_hosts)

    def _one_time_s(self, num_workers: int, global_batch: int, num_hosts: int) -> float:
        """One of `_time_s`, without an array."""
        step_s = self._one_step_s(num_workers, global_batch, num_hosts)
        return step_s + self._apart_s / self.curve.global_batch * float(global_batch)

    def rate_at_batch(self, num_workers: int, global_batch: int, num_hosts: int = 1) -> float:
        """Steps/s at one size and batch, in steps of the own batch. Only of jobs whose batch may change."""
        if self.table is not None:
            rate_per_s = self.table.rate_per_s(num_workers, global_batch, self.noise_scale)
            return rate_per_s / float(self.slowdown(np.array([num_workers]), np.array([num_hosts]))[0])
        if self.curve.may_change_batch:
            return self._rate_per_s(num_workers, global_batch, num_hosts)
        return self.rate_per_s(num_workers, num_hosts)

    def rates_at_batch(
        self, sizes: IntArray, global_batch: int, hosts: IntArray | None = None
    ) -> FloatArray | None:
        """(K,) rates with this global batch; None if nothing is known but the own one's.

        In steps of the own batch; 0 where so many workers cannot have it.
        """
        if self.curve.range_of_batches is None:
            return None
        if self.table is not None:
            return self.table.rates_at(sizes, global_batch, self.noise_scale) / self.slowdown(sizes, hosts)
        batches = np.full_like(sizes, global_batch)
        rates = self.worth(batches) / self._time_s(sizes, batches, hosts)
        return np.where(is_possible(self.curve, sizes, batches), rates, 0.0)

    def best_batches(
        self, sizes: IntArray, kept: int, hosts: IntArray | None = None, by_goodput: bool = False
    ) -> tuple[FloatArray, IntArray] | None:
        """(K,) rates and the global batches that they are of; None if nothing is known but the own one's.

        Rates are in steps of the own batch; 0 where no batch has so many workers. `kept` is the batch that
        the job has now: another one must be better by more than what is known of either.

        Args:
            by_goodput: the best one has the highest rate times efficiency, else the highest rate.
        """
        if self.curve.range_of_batches is None:
            return None
        if self.table is not None:
            return self.table.best(sizes, self.noise_scale, self.slowdown(sizes, hosts))
        batches = candidates(self.curve, sizes, kept)
        time_s = self._time_s(sizes, batches, hosts)
        weights = self.efficiency(batches) if by_goodput else None
        return best_candidates(self.curve, sizes, batches, time_s, kept, weights)

    @property
    def table(self) -> BatchTable | None:
        """`batches`, with the time between epochs shared out among the steps by what each is worth."""
        if self._table is None and self.batches is not None:
            step_s = {
                batch: {size: time_s + share_s for size, time_s in times.items()}
                for batch, times in self.batches.step_s.items()
                for share_s in (self.worth(np.array([batch])) * self._apart_s).tolist()
            }
            self._table = BatchTable(step_s, self.curve.global_batch)
        return self._table

    def _time_s(self, workers: IntArray, batches: IntArray, hosts: IntArray | None = None) -> FloatArray:
        """(..., K) seconds that a step takes of the job's time, with its part of what is between epochs."""
        return self.step_s(workers, batches, hosts) + self.between_s(batches)

    def worth(self, batches: IntArray) -> FloatArray:
        """Steps of the own batch that one at each batch counts as."""
        noise_scale = math.inf if self.batches is None else self.noise_scale
        return worth(batches.astype(np.float64), self.curve.global_batch, noise_scale)

    def _worth(self, global_batch: int) -> float:
        """The same of one."""
        return float(self.worth(np.array([global_batch]))[0])

    def efficiency(self, batches: IntArray) -> FloatArray:
        """What steps do not count of how far a sample gets training at each batch, 0 being the own one; see
        `Options`.
        """
        if self.batches is not None or math.isinf(self.noise_scale):
            return np.ones(batches.shape)
        own = self.curve.global_batch
        return efficiency(np.where(batches > 0, batches, own).astype(np.float64), own, self.noise_scale)

    def _ratio(self, is_crossing: bool) -> float:
        """Steps of sizes that were not measured are taken to take so much longer than the trial run's.

        Args:
            is_crossing: of gangs on several hosts, else on one.
        """
        if is_crossing not in self._known_ratios:
            error = self._mean_error(is_crossing) or 0.0
            self._known_ratios[is_crossing] = math.exp(self.carried_share * error)
        return self._known_ratios[is_crossing]

    def _mean_error(self, is_crossing: bool) -> float | None:
        """Mean of log(measured / trial run's) over all that was measured so; None: nothing was.

        Where no gang on several hosts was measured, those on one tell of them.
        """
        points = [one for one in self.measured if (one.hosts > 1) == is_crossing]
        if not points:
            return self._mean_error(False) if is_crossing else None
        points.sort(key=lambda one: (one.hosts, one.batch, one.workers))
        errors = [
            math.log(one.step_s / self.curve.one_step_s(one.workers, one.hosts, one.batch)) for one in points
        ]
        # `np.mean` would take longer than all the rest, and there are few.
        return float(np.add.reduce(errors) / len(errors))


class Unprofiled(Learnt, kw_only=True, omit_defaults=True, dict=True):
    """What is believed of a job without a profile, whose script Swell cannot see into (a restart job):
    its work is counted in seconds on one worker, of which `w` workers do `w ** 0.8` a second.
    """

    def rate_per_s(self, num_workers: int, num_hosts: int = 1) -> float:
        return float(num_workers**SCALING_EXPONENT)

    def learn_between(self, seen: BetweenSteps) -> None:
        """There is nothing to correct."""

    def learn_noise(self, noise_scale: float) -> None:
        """The same."""


UNPROFILED = Unprofiled(
    curve=Curve(global_batch=1, min_workers=1, max_workers=None, compute_s={1: 1.0}, allreduce_s={})
)
