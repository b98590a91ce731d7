"""What gangs are told of how often to save, and what their stories say of it."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.bench import Bench, only
from tests.core.fakes import core_of, profile, spec

from swell.checkpoint_interval import best_interval_s
from swell.core.core_settings import CoreSettings
from swell.core.platform_core import PlatformCore
from swell.core.setbacks import OWNED_NODE_S
from swell.model.command import LaunchGang
from swell.model.event import JobProfiled, StepsReported
from swell.model.job import JobSpec


class ChoosingBench(Bench):
    """Its platform fixes no interval."""

    def _new_core(self) -> PlatformCore:
        settings = CoreSettings(min_hold_s=2.0, report_plan_s=1.0, checkpoint_interval_s=0.0)
        return PlatformCore(lambda: core_of(self.policy, self._placer, settings=settings))


def launched(bench: Bench, job: JobSpec | None = None) -> LaunchGang:
    bench.want(a=2)
    bench.submit("a", job)
    return only(bench.profiled("a"), LaunchGang)


def test_a_gang_is_told_how_soon_its_training_may_be_lost() -> None:
    told_s = launched(ChoosingBench()).target.mean_time_to_loss_s
    assert told_s == pytest.approx(OWNED_NODE_S, rel=1e-4)


def test_it_is_told_nothing_where_the_interval_is_fixed() -> None:
    assert launched(Bench()).target.mean_time_to_loss_s is None
    named = msgspec.structs.replace(spec(1000), checkpoint_interval_s=60.0)
    bench = ChoosingBench()
    assert launched(bench, named).target.mean_time_to_loss_s is None
    (view,) = bench.core.views()
    assert (view.checkpoint_interval_s, view.save_s) == (60.0, None)


def test_the_interval_follows_what_checkpoints_take() -> None:
    bench = ChoosingBench()
    mean_s = launched(bench).target.mean_time_to_loss_s
    assert mean_s is not None
    bench.started(1)
    for steps, save_s in enumerate((0.5, 0.5, 0.6, 0.5, 8.0), 1):
        bench.say(
            StepsReported(
                at_s=bench.now_s, job_id="a", generation=1, steps=10 * steps, num_workers=2, save_s=save_s
            )
        )
        (view,) = bench.core.views()
        assert view.checkpoint_interval_s == best_interval_s(save_s, mean_s) and view.save_s == save_s
    (again,) = bench.reborn().views()
    assert (again.checkpoint_interval_s, again.save_s) == (view.checkpoint_interval_s, view.save_s)


def test_until_a_checkpoint_was_made_what_the_trial_run_says_of_it_counts() -> None:
    bench = ChoosingBench()
    bench.want(a=2)
    bench.submit("a")
    tried = msgspec.structs.replace(profile(), save_s=0.5)
    bench.say(JobProfiled(at_s=bench.now_s, job_id="a", profile=tried))
    (view,) = bench.core.views()
    assert view.mean_time_to_loss_s is not None and view.save_s is None
    assert view.checkpoint_interval_s == best_interval_s(0.5, view.mean_time_to_loss_s)
