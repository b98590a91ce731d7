"""Made-up jobs, as the platform would show them."""

from __future__ import annotations

from typing import Any

from swell.model.job import JobClass, Phase
from swell.model.view import JobView


def make_view(name: str = "cnn", **changes: Any) -> JobView:
    fields: dict[str, Any] = {
        "id": f"id-{name}",
        "name": name,
        "job_class": JobClass.BEST_EFFORT,
        "phase": Phase.SUCCEEDED,
        "entry": "/scripts/cnn.py",
        "args": (),
        "global_batch": 96,
        "min_workers": 1,
        "max_workers": None,
        "devices_per_worker": 1,
        "submitted_s": 1000.0,
        "deadline_s": None,
        "is_promised": False,
        "counter_offer_s": None,
        "started_s": 1002.0,
        "finished_s": 1030.0,
        "estimated_finish_s": None,
        "kept": None,
        "workers": 0,
        "devices": (),
        "generation": 1,
        "sizes": ((1002.0, 4), (1010.0, 8), (1030.0, 0)),
        "pids": (11, 12, 13, 14),
        "resizes": 1,
        "resize_pause_s": 0.25,
        "steps": 150,
        "total_steps": 150,
        "step_s": 0.1,
        "loss": 0.05,
        "metrics": {"accuracy": 0.97},
        "reason_code": "",
        "reason": "",
        "message": "",
    }
    return JobView(**(fields | changes))
