"""The limit of a container's network: a token bucket on each of its interfaces, set by tc(8)."""

from __future__ import annotations

import subprocess

#: The kernel hands on up to 512 KiB in one piece. A smaller bucket would never let through such a piece that
#: waits in it already when its size is changed, nor anything behind it.
LEAST_BURST_BYTES = 640 << 10
#: A bucket is filled up so often, so that bursts are short.
FILLS_PER_S = 100
#: A packet that would wait longer is dropped.
LATENCY = "100ms"
ANSWER_WITHIN_S = 10.0


def limit_network(pid: int, rate_bytes_per_s: int | None) -> str:
    """Limit what the interfaces of a process's network namespace send; None: no limit.

    Loopback devices carry all that the workers of a container say to each other. Returns why it cannot be
    done; empty: it is done. Waits for the programs: it is for threads.
    """
    listed, trouble = _run(pid, "ip", "-brief", "link", "show", "up")
    if trouble:
        return trouble
    names = [line.split()[0].partition("@")[0] for line in listed.splitlines() if line.strip()]
    if not names:
        return "its container has no network interface that is up"
    for name in names:
        if rate_bytes_per_s is None:
            _run(pid, "tc", "qdisc", "del", "dev", name, "root")  # it may have none
        elif trouble := _run(pid, "tc", "qdisc", "replace", "dev", name, *bucket_words(rate_bytes_per_s))[1]:
            return trouble
    return ""


def bucket_words(rate_bytes_per_s: int) -> tuple[str, ...]:
    """Words of tc for a bucket that is filled at this rate."""
    burst = max(LEAST_BURST_BYTES, rate_bytes_per_s // FILLS_PER_S)
    return ("root", "tbf", "rate", f"{8 * rate_bytes_per_s}bit", "burst", f"{burst}b", "latency", LATENCY)


def _run(pid: int, *words: str) -> tuple[str, str]:
    """Output, and what went wrong."""
    command = ["nsenter", "--target", str(pid), "--net", *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"its network cannot be limited: {error}"
    if done.returncode:
        told = done.stderr.strip().splitlines()
        return "", f"its network cannot be limited: {words[0]}: {told[-1] if told else 'no answer'}"
    return done.stdout, ""
