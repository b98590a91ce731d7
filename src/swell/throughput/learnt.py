"""What running has taught of one job: its curve, corrected where it has trained."""

from __future__ import annotations

import math
from typing import cast

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray, each
from swell.model.job import BatchProfile
from swell.script_facts import BetweenSteps
from swell.throughput import open_batches
from swell.throughput.batch_table import BatchTable, efficiency, worth
from swell.throughput.curve import SHORTEST_STEP_S, Curve
from swell.throughput.estimate_margins import OTHER_SIZES, SAME_SIZE, TRIAL

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
#: Batches of a job, besides those that its sizes have anyway, at which its speed is remembered.
NUM_BATCHES = 32


class Measured(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Step time of a job at one size: what it took over what it did, recent reports first."""

    predicted_s: float  #: what was believed when the first report came
    time_s: float  #: faded sum of the time reported on, the prior's included
    steps: float  #: faded sum of the steps made in it
    prior_steps: float = 0.0  #: of `steps`, those of the prediction
    others: float | None = None  #: log(measured / trial run's) of the job's other sizes by then, if any
    settled_s: float | None = None  #: what a step took when that was first known well
    slower_s: float = 0.0  #: trained since the latest report at smaller sizes that were no slower

    @classmethod
    def predicted(cls, step_s: float, others: float | None = None) -> Measured:
        """The state before any report: a prior of `NUM_PRIOR_STEPS` steps at the predicted speed."""
        return cls(
            predicted_s=step_s,
            time_s=NUM_PRIOR_STEPS * step_s,
            steps=NUM_PRIOR_STEPS,
            prior_steps=NUM_PRIOR_STEPS,
            others=others,
        )

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
    measured: dict[int, Measured] = {}  #: by workers, at their standing batch
    at_batch: dict[int, dict[int, Measured]] = {}  #: by batch and workers, at others; the latest last
    #: By hosts and workers, of gangs on several hosts; the two above are of gangs on one. Steps at another
    #: batch count as those of the standing one that would have taken as long.
    crossing: dict[int, dict[int, Measured]] = {}
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
        self._forget_answers()
        self._forget_table()

    def _forget_table(self) -> None:
        self._table: BatchTable | None = None
        self._best: tuple[IntArray, bytes, tuple[FloatArray, IntArray]] | None = None

    def _forget_answers(self) -> None:
        self._known_ratio: float | None = None
        self._known_crossing_ratio: float | None = None
        self._rates: dict[tuple[bytes, bytes], FloatArray] = self.curve.rates if self._is_untaught else {}

    def share(self, curve: Curve) -> None:
        """The one of all jobs with an equal curve."""
        self.curve = curve
        self._forget_answers()

    @property
    def _is_untaught(self) -> bool:
        """Nothing but the curve is known: all jobs with this curve have the same rates."""
        return not (self.measured or self.at_batch or self.crossing or self.batches or self.seen_between)

    @property
    def depends_on_hosts(self) -> bool:
        """Whether anything is known of gangs on several hosts."""
        return bool(self.crossing or self.curve.crossing_s)

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
        self._forget_table()

    def learn_noise(self, noise_scale: float) -> None:
        """It is this from now on."""
        self.noise_scale = noise_scale
        if self.batches is not None:
            self._forget_answers()  # rates of samples stay what they are
            self._forget_table()

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
    def slowdown_share(self) -> float:
        """Share by which steps take longer than was believed before any report, >= 0, at the worst size."""
        tables = (self.measured, *self.at_batch.values(), *self.crossing.values())
        known = (one.measured_s / one.predicted_s - 1.0 for table in tables for one in table.values())
        return max(0.0, max(known, default=0.0))

    def bases(self, workers: IntArray, hosts: IntArray | None = None) -> IntArray:
        """(K,) what the estimate for each size is made from; see `estimate_margins`."""
        if not (self.measured or self.at_batch or self.crossing):
            return np.full(workers.shape, TRIAL)
        on = np.ones_like(workers) if hosts is None else hosts
        is_settled = map(self._is_settled, workers.tolist(), on.tolist())
        return np.array([SAME_SIZE if settled else OTHER_SIZES for settled in is_settled], dtype=np.int64)

    def _is_settled(self, size: int, num_hosts: int) -> bool:
        """Whether the time of its steps at this size is known well, at any batch."""
        if num_hosts > 1:
            measured = self.crossing.get(num_hosts, {}).get(size)
            return measured is not None and measured.settled_s is not None
        tables = (self.measured, *self.at_batch.values())
        return any(size in table and table[size].settled_s is not None for table in tables)

    def learn(
        self, num_workers: int, global_batch: int, step_s: float, num_steps: float, num_hosts: int = 1
    ) -> Measured | None:
        """Learn from steps at this size and batch.

        Returns what is known there; None: the job's trial run is believed instead.
        """
        is_standing = global_batch == self.curve.standing_batch(num_workers)
        if not is_standing and self.batches is not None:
            return None
        if num_hosts > 1:
            known = self._learn_crossing(num_workers, global_batch, step_s, num_steps, num_hosts)
        else:
            known = self._learn_within(num_workers, global_batch, step_s, num_steps)
        self._forget_answers()
        return known

    def doubt_larger(
        self, num_workers: int, global_batch: int, num_hosts: int, elapsed_s: float
    ) -> tuple[int, ...]:
        """It has trained for so long at this size: forget larger ones that were no faster, in time.

        Returns the forgotten numbers of workers. See `RETRY_RATIO`.
        """
        tables = [(None, 1, self.measured), *((batch, 1, table) for batch, table in self.at_batch.items())]
        tables += [(None, hosts, table) for hosts, table in self.crossing.items()]
        larger = [
            (table, size, batch or self.curve.standing_batch(size), hosts)
            for batch, hosts, table in tables
            for size in table
            if size > num_workers
        ]
        if not larger:
            return ()
        rate_per_s, forgotten = self.rate_at_batch(num_workers, global_batch, num_hosts), dict[int, float]()
        for table, size, batch, hosts in larger:
            if self.rate_at_batch(size, batch, hosts) > rate_per_s:
                continue
            table[size].slower_s += elapsed_s
            counts_s = RETRY_RATIO * min(table[size].reported_s, MEMORY_S)
            counts_s = max(counts_s, self.doubt_s.get(size, 0.0))
            if table[size].slower_s >= counts_s:
                del table[size]
                forgotten[size] = 2.0 * counts_s
        if forgotten:
            self.doubt_s.update(forgotten)
            self.at_batch = {batch: table for batch, table in self.at_batch.items() if table}
            self.crossing = {hosts: table for hosts, table in self.crossing.items() if table}
            self._forget_answers()
        return tuple(sorted(forgotten))

    def _learn_within(self, num_workers: int, global_batch: int, step_s: float, num_steps: float) -> Measured:
        is_standing = global_batch == self.curve.standing_batch(num_workers)
        by_workers = self.measured if is_standing else self.at_batch.get(global_batch, {})
        if num_workers not in by_workers:
            sizes, batches = np.array([num_workers]), np.array([global_batch])
            estimate_s = float(self.batch_step_s(sizes, batches)[0])
            by_workers[num_workers] = Measured.predicted(estimate_s, self._mean_error())
        by_workers[num_workers].add(step_s, num_steps)
        if not is_standing:
            self.at_batch.pop(global_batch, None)
            self.at_batch[global_batch] = by_workers  # the latest last
            if len(self.at_batch) > NUM_BATCHES:
                del self.at_batch[next(iter(self.at_batch))]
        return by_workers[num_workers]

    def _learn_crossing(
        self, num_workers: int, global_batch: int, step_s: float, num_steps: float, num_hosts: int
    ) -> Measured:
        by_workers = self.crossing.setdefault(num_hosts, {})
        workers, hosts = np.array([num_workers]), np.array([num_hosts])
        if num_workers not in by_workers:
            estimate_s = float(self.step_s(workers, hosts)[0])
            by_workers[num_workers] = Measured.predicted(estimate_s, self._mean_crossing_error())
        at_batch_s = float(self.curve.step_s(workers, np.array([global_batch]), hosts)[0])
        share = at_batch_s / self.curve.one_step_s(num_workers, num_hosts)
        by_workers[num_workers].add(step_s / share, num_steps * share)
        return by_workers[num_workers]

    def step_s(self, workers: IntArray, hosts: IntArray | None = None) -> FloatArray:
        """(K,) at the standing batch: measured where there are reports, else predicted and corrected.

        Of steps alone: `between_s` comes on top.

        Args:
            hosts: (K,) that so many workers are on; None: one.
        """
        believed_s = self.curve.step_s(workers) * self._ratio()
        for index, size in enumerate(workers.tolist()):
            if size in self.measured:
                believed_s[index] = self.measured[size].step_s
        return self._crossed(believed_s, workers, None, hosts)

    def batch_step_s(self, workers: IntArray, batches: IntArray, hosts: IntArray | None = None) -> FloatArray:
        """(..., K) seconds of a step at (K,) sizes and (..., K) batches, in the same way."""
        believed_s: FloatArray = self.curve.step_s(workers, batches) * self._ratio()
        for size, batch, step_s in self._points():
            believed_s[(batches == batch) & (workers == size)] = step_s
        return self._crossed(believed_s, workers, batches, hosts)

    def _crossed(
        self, within_s: FloatArray, workers: IntArray, batches: IntArray | None, hosts: IntArray | None
    ) -> FloatArray:
        """(..., K) seconds of a step: `within_s` of gangs on one host, others in the place of the rest."""
        if hosts is None or not self.depends_on_hosts:
            return within_s
        time_s = self.curve.step_s(workers, batches, hosts)
        corrected_s = time_s * self._crossing_ratio()
        for num_hosts, by_workers in self.crossing.items():
            for size, measured in by_workers.items():
                is_measured = (workers == size) & (hosts == num_hosts)
                if is_measured.any():
                    slower = measured.step_s / self.curve.one_step_s(size, num_hosts)
                    corrected_s = np.where(is_measured, time_s * slower, corrected_s)
        return np.where(hosts > 1, corrected_s, within_s)

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
        spread = b"" if hosts is None or not self.depends_on_hosts else hosts.tobytes()
        key = (workers.tobytes(), spread)
        rates = self._rates.get(key)
        if rates is None:
            rates = self._rates[key] = self._rates_per_s(workers, hosts)
            rates.setflags(write=False)
        return rates

    def _rates_per_s(self, workers: IntArray, hosts: IntArray | None) -> FloatArray:
        curve, time_s = self.curve, self.step_s(workers, hosts)
        if self._apart_s:
            time_s = time_s + self.between_s(curve.standing_batches(workers) * np.ones_like(workers))
        rates = np.where(curve.allows(workers), 1.0 / time_s, 0.0)
        return (
            rates if curve.batch_per_worker is None else rates * self.worth(curve.batch_per_worker * workers)
        )

    def rate_at_batch(self, num_workers: int, global_batch: int, num_hosts: int = 1) -> float:
        """Steps/s of the own batch."""
        workers, batches, hosts = np.array([num_workers]), np.array([global_batch]), np.array([num_hosts])
        return float((self.worth(batches) / self._time_s(workers, batches, hosts))[0])

    def rates_at_batch(self, sizes: IntArray, global_batch: int, hosts: IntArray | None = None) -> FloatArray:
        """(K,) steps/s of the own batch; 0 where that batch is not possible."""
        batches = np.full_like(sizes, global_batch)
        rates = self.worth(batches) / self._time_s(sizes, batches, hosts)
        return np.where(open_batches.is_possible(self.curve, sizes, batches), rates, 0.0)

    def best_batches(
        self, sizes: IntArray, kept: int, hosts: IntArray | None = None, by_goodput: bool = False
    ) -> tuple[FloatArray, IntArray]:
        """See `open_batches.best`."""
        batches = open_batches.candidates(self.curve, sizes, kept)
        time_s = self._time_s(sizes, batches, hosts)
        weights = self.efficiency(batches) if by_goodput else None
        return open_batches.best(self.curve, sizes, batches, time_s, kept, weights)

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

    def best_of_table(self, sizes: IntArray, hosts: IntArray | None) -> tuple[FloatArray, IntArray]:
        """As `best_batches`, by `table`, in which steps count what they are worth."""
        spread = b"" if hosts is None else hosts.tobytes()
        if self._best is None or self._best[0] is not sizes or self._best[1] != spread:
            table = cast(BatchTable, self.table)
            best = table.best(sizes, self.noise_scale, self.slowdown(sizes, hosts))
            self._best = sizes, spread, best
        return self._best[2]

    def _time_s(self, workers: IntArray, batches: IntArray, hosts: IntArray | None = None) -> FloatArray:
        """(..., K) seconds that a step takes of the job's time, with its part of what is between epochs."""
        return self.batch_step_s(workers, batches, hosts) + self.between_s(batches)

    def worth(self, batches: IntArray) -> FloatArray:
        """Steps of the own batch that one at each batch counts as."""
        noise_scale = math.inf if self.batches is None else self.noise_scale
        return worth(batches.astype(np.float64), self.curve.global_batch, noise_scale)

    def efficiency(self, batches: IntArray) -> FloatArray:
        """What steps do not count of how far a sample gets training at each batch; see `Options`."""
        if self.batches is not None or math.isinf(self.noise_scale):
            return np.ones(batches.shape)
        own = self.curve.global_batch
        return efficiency(np.where(batches > 0, batches, own).astype(np.float64), own, self.noise_scale)

    def _crossing_ratio(self) -> float:
        """The same as `_ratio` of gangs on several hosts."""
        if self._known_crossing_ratio is None:
            self._known_crossing_ratio = math.exp(self.carried_share * (self._mean_crossing_error() or 0.0))
        return self._known_crossing_ratio

    def _mean_crossing_error(self) -> float | None:
        """The same as `_mean_error` of gangs on several hosts; if there was none, that of one host."""
        ratios = [
            measured.step_s / self.curve.one_step_s(size, num_hosts)
            for num_hosts, by_workers in self.crossing.items()
            for size, measured in by_workers.items()
        ]
        return _mean_log(np.array(ratios)) if ratios else self._mean_error()

    def _ratio(self) -> float:
        """Steps of sizes that were not measured are taken to take so much longer than the trial run's."""
        if self._known_ratio is None:
            self._known_ratio = math.exp(self.carried_share * (self._mean_error() or 0.0))
        return self._known_ratio

    def _mean_error(self) -> float | None:
        """Mean of log(measured / trial run's) over all that was measured on one host; None: nothing was."""
        if not (points := self._points()):
            return None
        sizes, batches, measured_s = zip(*points, strict=True)
        trial_s = self.curve.step_s(np.array(sizes), np.array(batches))
        return _mean_log(np.array(measured_s) / trial_s)

    def _points(self) -> list[tuple[int, int, float]]:
        """(workers, batch, seconds a step) of all that was measured."""
        batch_of = self.curve.standing_batch
        points = [(size, batch_of(size), self.measured[size].step_s) for size in sorted(self.measured)]
        for batch, by_workers in self.at_batch.items():
            points += [(size, batch, each.step_s) for size, each in by_workers.items()]
        return points


def _mean_log(ratios: FloatArray) -> float:
    """`np.mean` would take longer than all the rest, and there are few."""
    return float(np.add.reduce(each(math.log, ratios)) / len(ratios))
