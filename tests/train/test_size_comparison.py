"""What a trial run finds out about idioms that depend on the number of workers, and about others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.fake_agent import FakeAgent

from swell.script_facts import ScriptFinding
from swell.wire import environ, messages

IDIOMS = Path(__file__).parent / "scripts" / "idioms.py"
RIGHT = ("plain", "half_precision", "deterministic_dropout")


def findings(start_agent: Callable[..., FakeAgent], *args: str) -> list[ScriptFinding]:
    agent = start_agent(mode="profile", global_batch=24, total_steps=None, compares=True)
    agent.start(0, IDIOMS, *args)
    found = agent.wait(0, messages.Profiled).findings
    assert agent.exit_status(0) == 0
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_of_a_right_script_in_single_precision_nothing_is_found(
    start_agent: Callable[..., FakeAgent], name: str
) -> None:
    assert findings(start_agent, name, "float32") == []


@pytest.mark.slow
def test_a_loss_in_single_precision_of_a_model_in_double_is_right(
    start_agent: Callable[..., FakeAgent],
) -> None:
    assert findings(start_agent, "single_precision_logits") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("dropout", "random-draws"),
        ("noise_in_the_loop", "random-draws"),
        ("batch_norm", "batch-statistics"),
    ],
)
def test_a_known_difference_is_named_and_does_not_hold(
    start_agent: Callable[..., FakeAgent], name: str, cause: str
) -> None:
    [found] = findings(start_agent, name)
    assert (found.name, found.holds) == (cause, False)
    assert str(IDIOMS) in found.place


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("sum_loss", "sum-loss"),
        ("class_weights", "weighted-mean"),
        ("class_weights_scaled_by_hand", "weighted-mean"),
    ],
)
def test_what_differs_between_sizes_is_found_with_the_line_of_the_step(
    start_agent: Callable[..., FakeAgent], name: str, cause: str
) -> None:
    [found] = findings(start_agent, name, "float32")
    assert (found.name, found.holds) == (cause, True)
    file, _, line = found.place.rpartition(":")
    assert file == str(IDIOMS) and "run.backward(" in IDIOMS.read_text().splitlines()[int(line) - 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cause", "known"),
    [
        ("sum_loss_with_dropout", "sum-loss", "random-draws"),
        ("class_weights_with_norm", "weighted-mean", "batch-statistics"),
    ],
)
def test_a_known_difference_hides_no_other(
    start_agent: Callable[..., FakeAgent], name: str, cause: str, known: str
) -> None:
    found = {finding.name: finding.holds for finding in findings(start_agent, name)}
    assert found == {known: False, cause: True}


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["weighs"]])
def test_what_counts_passes_holds_a_job_whose_gradients_depend_on_it(
    start_agent: Callable[..., FakeAgent], words: list[str]
) -> None:
    [found] = findings(start_agent, "counted_passes", *words)
    assert (found.name, found.holds) == ("each-pass", bool(words))
    assert "`counted_passes().count`" in found.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cause", "holds"),
    [
        ("wants_even_batches", "part-of-batch", True),
        ("skips_small_batches", "part-of-batch", True),
        ("leaves_early", "not-compared", False),
    ],
)
def test_a_script_that_fails_in_a_comparison_is_to_be_run_again_without(
    start_agent: Callable[..., FakeAgent], name: str, cause: str, holds: bool
) -> None:
    agent = start_agent(mode="profile", global_batch=24, total_steps=None, compares=True)
    agent.start(0, IDIOMS, name)
    found = agent.wait(0, messages.NotCompared).finding
    assert (found.name, found.holds) == (cause, holds)
    assert agent.exit_status(0) == environ.EXIT_STOPPED
    assert not agent.all_said(messages.Failed)


def test_measuring_goes_on_after_a_comparison(start_agent: Callable[..., FakeAgent]) -> None:
    agent = start_agent(
        mode="profile", global_batch=24, total_steps=None, compares=True, local_batches=(24, 12)
    )
    agent.start(0, IDIOMS, "class_weights")
    told = agent.wait(0, messages.Profiled, lambda message: not message.goes_on)
    assert list(told.compute_s) == [24, 12]
    assert [found.name for found in told.findings] == ["weighted-mean"]
