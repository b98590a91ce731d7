"""Measurements whose figures are made up."""

from __future__ import annotations

from swell.measure.measurement import DeviceMeasure, DeviceMeasurement
from swell.model.job import Profile

PROFILE = Profile(
    device_kind="cpu",
    compute_s={64: 0.05},
    allreduce_s={1: 0.0, 2: 0.02},
    grad_bytes=16_000_000,
    state_bytes=48_000_000,
    samples_per_epoch=4096,
    start_s=0.2,
)


def measurement(num_workers: int = 2, **versions: str) -> DeviceMeasurement:
    return DeviceMeasurement(
        num_workers=num_workers,
        measures=[
            DeviceMeasure("step of 1 worker", 0.06, 0.05),
            DeviceMeasure("kill -9 of one worker: until the next step of the others", 0.004, None),
        ],
        versions={"torch": "2.13.0", "cuda": "", **versions},
        profile=PROFILE,
        num_repeated=1,
    )
