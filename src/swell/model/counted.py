"""Numbers of devices, workers and jobs in words."""

from __future__ import annotations


def told_devices(num: int) -> str:
    """1 device, 2 devices."""
    return _told(num, "device")


def told_workers(num: int) -> str:
    """1 worker, 2 workers."""
    return _told(num, "worker")


def told_jobs(num: int) -> str:
    """1 job, 2 jobs."""
    return _told(num, "job")


def told_other_jobs(num: int) -> str:
    """1 other job, 2 other jobs."""
    return _told(num, "other job")


def _told(num: int, thing: str) -> str:
    return f"{num} {thing}" if num == 1 else f"{num} {thing}s"
