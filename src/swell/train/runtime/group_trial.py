"""A part of a trial run in which several workers make steps together, as a gang of so many would."""

from __future__ import annotations

import statistics
from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING

from swell.train.collective.group import check_no_group
from swell.train.link.agent_link import exit_now
from swell.train.runtime.calibrate import in_group
from swell.train.runtime.host import Task
from swell.train.runtime.step_comparison import ShareOf
from swell.train.runtime.trial_run import NUM_WARM_UPS, Profiling
from swell.wire import environ, messages

if TYPE_CHECKING:  # most jobs need none of it
    from swell.train.sharding.shard_group import ShardGroup


class GroupProfiling(Profiling):
    """One of several workers that make `Welcome.group_steps` steps together and tell how long these took.

    Each has as many samples as the fullest worker of a gang. All make the same number of steps, so that none
    waits for another one at the end.

    References: ElasticFlow, section 5, "Throughput profiling": a pre-run with different numbers of devices.
    """

    is_amid_epoch = False  #: it makes as many steps as it is asked for, whatever an epoch has
    _shards: ShardGroup | None = None

    def enter(self, task: Task) -> None:
        check_no_group()
        self._tell_ready(task)
        in_group(self._link, self._group, lambda: self._divide(task))

    def _divide(self, task: Task) -> None:
        """Take this worker's part of a state that is divided. Raises GroupBroken."""
        if task.state.shard is not None:
            from swell.train.sharding.layout import FailureDomains
            from swell.train.sharding.shard_group import ShardGroup

            self._shards = ShardGroup(self._group, task.state.shard, task.is_mirrored)
            cards = [self._shards.card(has_state=rank == 0) for rank in range(self._group.num_workers)]
            self._shards.settle(cards, [FailureDomains()] * len(cards))

    def _trial(self) -> Generator[ShareOf | None, None, None]:
        share_of = partial(self._share_of_size, next(iter(self._sizes), self._least_size))
        for _ in range(NUM_WARM_UPS + self.welcome.group_steps):
            yield share_of
            if self._shards is not None:
                self._shards.spread()
            self._time_step()
        if self.rank == 0:
            self._link.send(messages.GroupStepped(step_s=statistics.median(self._timed[NUM_WARM_UPS:])))
        exit_now(0)

    def finish(self, is_early: bool) -> None:
        """The script left its loop before all steps were made: nothing is told."""
        exit_now(environ.EXIT_STOPPED)
