"""What is sound and what is not on a machine that has joined a platform as a host."""

from __future__ import annotations

from pathlib import Path

from swell.api.machine_findings import machine_findings
from swell.executors.node.options import find_host, options_of
from swell.executors.node.state import read_record
from swell.executors.storage import why_not_shared
from swell.model.finding import Finding, bad, ok, warn
from swell.wire.lease_end import LEASE_FILE, LeaseWatch


def host_findings(folder: Path) -> list[Finding]:
    """Findings about the host process of a state folder, and about the machine as it holds for this host."""
    pid = find_host(folder)
    if pid is None:
        text = "none runs with this folder: this machine works for no platform"
        return [warn("host", text, "start `swell node`"), *machine_findings(folder)]
    try:
        options = options_of(pid)
    except (OSError, ValueError) as error:
        text = f"runs (pid {pid}), and its options cannot be read: {error}"
        remedy = "run the `swell doctor` of its version of Swell, as the user who runs `swell node`"
        return [warn("host", text, remedy), *machine_findings(folder)]
    text = f"runs (pid {pid}), as {options.name} of the head at {options.head}"
    return [
        ok("host", text),
        _lease(folder),
        *_storage(folder),
        *machine_findings(folder, options.devices, options.sharing.mode, pid, options.kind),
    ]


def _lease(folder: Path) -> Finding:
    """Whether the head has let it in, and has answered lately."""
    try:
        has_lease = not LeaseWatch(str(folder / LEASE_FILE)).is_over
    except (OSError, ValueError):  # it has not begun, or is about to
        has_lease = False
    if has_lease:
        return ok("lease", "the head has given one: workers can run here")
    remedy = "it goes on trying; the output of `swell node` says what the head answers"
    return bad("lease", "the head has given none, or it is over: no worker can run here", remedy)


def _storage(folder: Path) -> list[Finding]:
    """Whether this machine still sees the folder that the head has, once it was let in with it."""
    seen = read_record(folder)
    if seen is None or not seen.storage:
        return []
    if why := why_not_shared(Path(seen.storage), seen.mark):
        return [bad("storage", why, "mount it again, as it was when the host joined: its jobs wait for it")]
    return [ok("storage", f"{seen.storage} is the one of the head, and can be written")]
