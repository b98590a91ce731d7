"""Numbers of devices and workers in words."""

from __future__ import annotations


def told_devices(num: int) -> str:
    """1 device, 2 devices."""
    return _told(num, "device")


def told_workers(num: int) -> str:
    """1 worker, 2 workers."""
    return _told(num, "worker")


def _told(num: int, thing: str) -> str:
    return f"{num} {thing}" if num == 1 else f"{num} {thing}s"
