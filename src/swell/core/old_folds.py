"""Folds of earlier versions: the fields of a record lay side by side, and a gang was five booleans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Part of a record -> its fields that an earlier version had.
PARTS: Mapping[str, tuple[str, ...]] = {
    "commanded": ("launched_s", "changed_s", "asked_s"),
    "progress": (
        "total_steps",
        "done_steps",
        "as_of_s",
        "rate_per_s",
        "attained_device_s",
        "first_step",
        "reported",
        "first_reported",
    ),
    "backoff": ("until_s", "num_setbacks", "num_failed_changes", "cause"),
    "sizes": ("changes", "most_workers", "num_changes"),
    "admission": ("is_decided", "is_promised", "counter_offer_s"),
    "status": (
        "started_s",
        "finished_s",
        "estimated_finish_s",
        "pids",
        "live_pids",
        "step_s",
        "loss",
        "metrics",
        "reason_code",
        "reason",
        "message",
        "warnings",
    ),
    "resizes": ("num_done", "pause_s", "pauses"),
}
#: Those of them that had another name.
FORMER_NAMES: Mapping[str, str] = {
    "until_s": "held_back_until_s",
    "cause": "setback",
    "changes": "sizes",
    "num_done": "num_resizes",
    "pause_s": "resize_pause_s",
}
#: Fields that are as they were.
KEPT = (
    "id",
    "spec",
    "submitted_s",
    "calendar_offset_s",
    "tenant",
    "continues",
    "profile",
    "is_profiling",
    "is_distributed",
    "is_cancelled",
    "generation",
    "tenure",
)


def record_of(old: Mapping[str, Any]) -> dict[str, Any]:
    """One record as it is kept now."""
    record: dict[str, Any] = {name: old[name] for name in KEPT if name in old}
    for part, fields in PARTS.items():
        former = {field: FORMER_NAMES.get(field, field) for field in fields}
        record[part] = {field: old[name] for field, name in former.items() if name in old}
    record["resizes"] = {**old.get("resizes", {}), **record["resizes"]}
    phase = old.get("phase", "queued")
    if phase in ("starting", "running", "stopping"):
        record["gang"] = _gang(old, phase)
    elif phase != "queued":
        record["ended"] = phase
    return record


def _gang(old: Mapping[str, Any], phase: str) -> dict[str, Any]:
    goal = {"devices": old.get("target", []), "configuration": old.get("target_configuration", {})}
    if old.get("is_changing") and not old.get("gang"):
        gang: dict[str, Any] = {"type": "LaunchingGang", "goal": goal}
    else:
        gang = _formed(old, phase, goal)
    is_ending = phase == "stopping" and not old.get("is_saving")
    return {"type": "EndingGang", "of": gang} if is_ending else gang


def _formed(old: Mapping[str, Any], phase: str, goal: dict[str, Any]) -> dict[str, Any]:
    formed = {
        "generation": old.get("formed", 0),
        "members": {"devices": old.get("gang", []), "configuration": old.get("configuration", {})},
        "losses": old.get("losses", []),
    }
    is_broken, is_saving = old.get("is_broken"), phase == "stopping" and old.get("is_saving")
    if is_saving:
        return {"type": "BrokenSavingGang" if is_broken else "SavingGang", **formed}
    if old.get("is_changing"):
        return {"type": "ChangingGang", **formed, "goal": goal}
    return {"type": "BrokenGang" if is_broken else "SteadyGang", **formed}
