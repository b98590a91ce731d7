"""The ways in which jobs could run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.model.option_loops import NO_FASTER_SHARE as NO_FASTER_SHARE
from swell.model.option_loops import find, list_useful
from swell.model.target import PLAIN_CONFIGURATION, Configuration

#: In place of an option: nothing at all.
NO_OPTION = -1


class Sizes(Enum):
    """Which numbers of workers there are."""

    POWERS_OF_TWO = "powers of two"  #: only these always fit on nodes (ElasticFlow, section 4.3)
    EVERY = "every number"

    def up_to(self, most: int) -> IntArray:
        """Ascending, at least one of them; read-only."""
        return _up_to(max(most, 1), self is Sizes.POWERS_OF_TWO)


@lru_cache(maxsize=128)
def _up_to(most: int, are_powers: bool) -> IntArray:
    exponents = np.arange(most.bit_length(), dtype=np.int64)
    sizes = 2**exponents if are_powers else np.arange(1, most + 1, dtype=np.int64)
    sizes.setflags(write=False)
    return sizes


class FixedBatch(Enum):
    """One batch at every size, for a job that leaves its batch open."""

    LARGEST = "largest"
    SMALLEST = "smallest"
    DRAWN = "drawn"  #: uniformly from its range, by its id: always the same one

    def of(self, job_id: str, least: int, most: int) -> int:
        """Samples of a step of the job with this range."""
        match self:
            case FixedBatch.LARGEST:
                return most
            case FixedBatch.SMALLEST:
                return least
        digest = hashlib.sha256(job_id.encode()).digest()
        return least + int.from_bytes(digest[:8], "big") * (most - least + 1) // 2**64


@dataclass(frozen=True, kw_only=True)
class Domain:
    """What a policy may choose from. The snapshot offers it nothing else."""

    sizes: Sizes = Sizes.POWERS_OF_TWO
    ends_at_peak: bool = False  #: without sizes that a smaller one equals or beats in speed
    opens_batches: bool = False  #: jobs that leave their batch open are offered the best one of each size
    #: But a strict job whose samples change their worth while it trains is offered its own batch alone: a
    #: promise counts on rates that last.
    lasting_rates: bool = False
    fixed_batch: FixedBatch | None = None  #: or, if `opens_batches`, this one at all sizes
    weighs_efficiency: bool = False  #: the best one is that of the highest goodput, not of the highest speed
    shares_cores: bool = False  #: it divides the cores of nodes, and is told what jobs have learnt with them
    #: It is told so, and may divide cores, while devices share fewer cores and no promise is at stake.
    shares_crowded_cores: bool = False

    def is_told_learning(self, is_crowded: bool) -> bool:
        """Whether the policy is told what jobs learn, where devices share fewer cores or do not."""
        return self.shares_cores or (self.shares_crowded_cores and is_crowded)


class SizeOptions(NamedTuple):
    """Options as a table: a job's are the first `num` of its row, by ascending size. Read-only."""

    option: IntArray  #: (J, L) index of the option
    workers: IntArray  #: (J, L)
    devices: IntArray  #: (J, L)
    rates: FloatArray  #: (J, L) steps/s, strictly ascending
    num: IntArray  #: (J,)


#: (O,) columns.
OF_OPTIONS = ("workers", "devices", "global_batch", "rate_per_s", "efficiency")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Ways to run each of J jobs: a run of rows of flat columns for each, by ascending size.

    A job that fits nowhere has none, and no job has two of one size. Arrays are read-only.
    """

    starts: IntArray  #: (J + 1,) a job's options are those from starts[row] to starts[row + 1]
    workers: IntArray  #: (O,)
    devices: IntArray  #: (O,)
    global_batch: IntArray  #: (O,) samples of a step; 0: the job's own batch
    rate_per_s: FloatArray  #: (O,) believed, in steps of the job's own batch, > 0
    #: (O,) how far a sample gets training at the option's batch, over what it does at the own one, as far as
    #: steps do not count that; 1 where no noise of gradients was measured. See `batches.efficiency`.
    efficiency: FloatArray

    def in_goodput(self) -> Options:
        """The same with goodputs as rates: steps of the own batch that would get training as far in a second.

        References: Qiao et al., "Pollux", OSDI 2021, section 3 (throughput times statistical efficiency).
        """
        if (self.efficiency == 1.0).all():
            return self
        return replace(self, rate_per_s=self.rate_per_s * self.efficiency)

    @cached_property
    def num(self) -> IntArray:
        """(J,) options of each job."""
        return np.diff(self.starts)

    @cached_property
    def rows(self) -> IntArray:
        """(O,) the job of each option."""
        return np.repeat(np.arange(len(self.starts) - 1), self.num)

    @cached_property
    def has_configured(self) -> bool:
        """Whether the configuration of any option is not the plain one."""
        return bool((self.global_batch > 0).any())

    @cached_property
    def useful(self) -> SizeOptions:
        """Those that no smaller one of their job equals or beats in speed."""
        num_jobs, width = len(self.num), int(self.num.max(initial=1))
        table = np.zeros((3, num_jobs, width), dtype=np.int64)
        rates, num = np.zeros((num_jobs, width)), np.zeros(num_jobs, dtype=np.int64)
        list_useful(
            self.starts, self.starts[1:], self.workers, self.devices, self.rate_per_s, table, rates, num
        )
        for array in (table, rates, num):
            array.setflags(write=False)
        option, workers, devices = table
        return SizeOptions(option, workers, devices, rates, num)

    def at(self, workers: IntArray) -> IntArray:
        """(J,) the option of each job with the most workers that are no more than these, or NO_OPTION."""
        chosen = np.zeros(len(workers), dtype=np.int64) + NO_OPTION
        find(self.starts, self.workers, workers, chosen)
        return chosen

    def workers_of(self, option: IntArray) -> IntArray:
        """(J,) of these options, one for each job; 0 for NO_OPTION."""
        if not len(self.workers):
            return np.zeros_like(option)
        return self.workers[option] * (option >= 0)

    def rates_at(self, workers: IntArray) -> FloatArray:
        """(J,) of the options of `at`; 0 where there is none."""
        return self.rates_of(self.at(workers))

    def configuration(self, option: int) -> Configuration:
        """Configuration of a gang that runs at this option."""
        global_batch = int(self.global_batch[option])
        return Configuration(global_batch=global_batch) if global_batch else PLAIN_CONFIGURATION

    def rates_of(self, option: IntArray) -> FloatArray:
        """(J,) of these options, one for each job; 0 for NO_OPTION."""
        if not len(self.workers):
            return np.zeros(len(option))
        return self.rate_per_s[option] * (option >= 0)

    def only(self, is_kept: BoolArray) -> Options:
        """Without the others, by (O,) option: for a policy that narrows its choice."""
        starts = np.concatenate([[0], np.cumsum(is_kept)])[self.starts]
        return self._taken(starts, is_kept)

    def places_of(self, rows: IntArray) -> IntArray:
        """(P,) places of the options of these jobs, one job after the other."""
        num = self.num[rows]
        firsts = self.starts[rows] - np.cumsum(num) + num
        return np.repeat(firsts, num) + np.arange(num.sum())

    def of_jobs(self, rows: IntArray) -> Options:
        """Those of these jobs, in this order."""
        return self._taken(np.concatenate([[0], np.cumsum(self.num[rows])]), self.places_of(rows))

    def _taken(self, starts: IntArray, places: IntArray | BoolArray) -> Options:
        """Those at these places, of other jobs or of as many."""
        return Options(starts=starts, **{name: getattr(self, name)[places] for name in OF_OPTIONS})
