"""The page of a measurement says what was measured, with what, and what was not."""

from __future__ import annotations

import getpass
import math
import socket
from pathlib import Path

import pytest
from tests.measure.measurements import PROFILE, measurement

from swell.core.cost_table import CostTable
from swell.executors.local.devices import parse_devices
from swell.measure.expectations import JobExpectations
from swell.measure.page import cells_of, conditions, markdown, not_measured, outcome
from swell.model.job import EndCondition, JobSpec

(NODE,) = parse_devices("paced:2@200")
SPEC = JobSpec(name="measured", entry="train.py", workdir=".", global_batch=64, end=EndCondition(steps=9))


def test_rows_have_the_ratio_where_something_was_expected() -> None:
    first, second = measurement().measures
    assert cells_of(first) == ("step of 1 worker", "0.060 s", "0.050 s", "1.20")
    assert cells_of(second) == (second.what, "4.000 ms", "-", "-")


def test_the_page_has_all_that_was_measured_and_names_no_machine() -> None:
    found = measurement()
    page = markdown(found, conditions(found, NODE.node, 0.5))
    assert "| step of 1 worker | 0.060 s | 0.050 s | 1.20 |" in page
    assert "a model of 4.0 million parameters" in page
    assert "* devices: 2 of kind paced@200, 2 of them measured" in page
    assert "1 steps were made again after the kill, and 0 steps were lost" in page
    assert "* CUDA" not in page.split("## Not measured")[0], "there is none to name"
    for private in (socket.gethostname(), str(Path.home()), f"user {getpass.getuser()}"):
        assert private not in page


@pytest.mark.parametrize(
    ("num_workers", "versions", "told"),
    [
        (2, {}, "CUDA and NCCL were not measured: no worker had a GPU."),
        (1, {"gpu": "NVIDIA H200"}, "NCCL was not measured: there was one GPU."),
        (1, {}, "Resizes, kills and all-reduces were not measured: they take two devices."),
    ],
)
def test_what_was_not_measured_is_told(num_workers: int, versions: dict[str, str], told: str) -> None:
    found = measurement(num_workers, **versions)
    sentences = [*not_measured(found)]
    assert told in sentences and any(sentence.startswith("Several hosts") for sentence in sentences)
    assert all(f"* {sentence}" in markdown(found, {}) for sentence in sentences)
    assert ("after the kill" in outcome(found)) == (num_workers > 1)


def test_nothing_is_missing_of_cuda_where_several_gpus_were_measured() -> None:
    assert not any("NCCL" in sentence for sentence in not_measured(measurement(2, gpu="NVIDIA H200")))


def test_expectations_are_those_of_a_platform_after_the_trial_run() -> None:
    expected, costs = JobExpectations(SPEC, PROFILE), CostTable()
    assert expected.cost_s("growth", 2) >= costs.profiled_s("growth", PROFILE, SPEC, 2)
    assert expected.cost_s("start", 1) > PROFILE.start_s
    assert expected.cost_s("start", 2) > expected.cost_s("start", 1)
    assert expected.cost_s("wait", 2) == expected.cost_s("start", 2)
    assert expected.step_s(1) == pytest.approx(0.05)
    assert (expected.all_reduce_s(2), expected.all_reduce_s(4)) == (0.02, None)
    assert math.isfinite(expected.step_s(2))
