"""Whether this machine could join a platform as a host, or why not; and the state of one that has."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from swell import __version__
from swell.api.doctor import about_folder
from swell.api.machine_findings import machine_findings
from swell.executors.local.devices import DeviceError
from swell.executors.local.machine_probe import nearest_folder, probe_machine
from swell.executors.node.introduction import ask_to_join
from swell.executors.node.options import NodeOptions
from swell.executors.node.running_host import find_host, options_of
from swell.executors.node.state import UnusableHostState, refuse_platform
from swell.executors.remote.join_token import InvalidToken
from swell.executors.remote.join_warnings import CLOCK_SKEW_S
from swell.executors.remote.joining import CannotJoin
from swell.executors.remote.opening import JoinAccepted, JoinJudged, python_version
from swell.model.finding import Finding, bad, ok, warn
from swell.model.lengths import span


def running_host(folder: Path) -> tuple[list[Finding], NodeOptions | None]:
    """What is said of the host process of a state folder; and its options, if it runs."""
    findings = [about_folder(folder)]
    pid = find_host(folder)
    if pid is None:
        text = "none runs with this folder: this machine works for no platform"
        return [*findings, warn("host", text, "start `swell node`")], None
    try:
        options = options_of(pid)
    except OSError as error:
        text = f"runs (pid {pid}), and its options cannot be read ({error.strerror})"
        return [*findings, warn("host", text, "run `swell doctor` as the user who runs `swell node`")], None
    except ValueError as error:
        text = f"runs (pid {pid}), and its options cannot be read: {error}"
        remedy = "if it is of another version of Swell than this one: run the `swell doctor` of that version"
        return [*findings, warn("host", text, remedy)], None
    return [
        *findings,
        ok("host", f"runs (pid {pid}), as {options.name} of the head at {options.head}"),
    ], options


def host_machine_findings(options: NodeOptions) -> list[Finding]:
    """Findings about this machine, as they hold for a host with these options."""
    pid = find_host(options.state_dir)
    facts = probe_machine(options.state_dir, options.devices, options.sharing.mode, pid, options.kind)
    return machine_findings(msgspec.structs.replace(facts, devices_problem=""))  # told by `_own`


def joining_findings(options: NodeOptions) -> Iterator[Finding]:
    """Whether a host with these options could join, or has: the head is asked, and lets none in by that."""
    yield from _own(options)
    try:
        accepted, judged = asyncio.run(ask_to_join(options))
    except InvalidToken as error:
        yield bad("token", str(error), "`swell admin tokens add NAME` on the head writes a new one")
        return
    except CannotJoin as error:
        remedy = "" if error.is_final else "it may be over soon: `swell node` goes on trying"
        yield bad("joining", str(error), remedy)
        return
    yield from _judged(options, accepted, judged)


def _own(options: NodeOptions) -> Iterator[Finding]:
    """What this machine itself stops at."""
    try:
        options.node()
    except DeviceError as error:
        yield bad("devices", str(error), "name others with --devices")
    try:
        refuse_platform(options.state_dir)
    except UnusableHostState as error:
        yield bad("folder", str(error), "")
    nearest = nearest_folder(options.state_dir)
    if not os.access(nearest, os.W_OK | os.X_OK):
        yield bad("folder", f"{nearest} cannot be written by this user", "choose another one with --state")


def _judged(options: NodeOptions, accepted: JoinAccepted, judged: JoinJudged) -> Iterator[Finding]:
    if judged.is_joined:
        yield ok("joining", f"this machine has joined the head at {options.head} as {options.name}")
    else:
        yield ok("joining", f"the head at {options.head} would let this machine in as {options.name}")
    yield _about_skew(time.time() - judged.clock_s)
    yield _about_way(options.advertise, judged.way_problem)
    if judged.seen_at not in ("", options.advertise):
        text = f"the head sees this machine at {judged.seen_at}, and it would advertise {options.advertise}"
        yield ok("way", text, "if workers of other nodes do not reach it there: --advertise ADDRESS")
    if accepted.version != __version__:
        text = f"Swell {__version__}, and {accepted.version} on the head: a job may behave otherwise here"
        yield warn("versions", text, f"install Swell {accepted.version} here")
    if judged.python != python_version():
        yield ok("versions", f"Python {python_version()}, and {judged.python} on the head")


def _about_skew(ahead_s: float) -> Finding:
    """`ahead_s`: the clock of a host, of the head's."""
    which = "ahead of" if ahead_s > 0 else "behind"
    text = f"is {span(abs(ahead_s))} {which} the head's"
    if abs(ahead_s) < CLOCK_SKEW_S:
        return ok("clock", text)
    why = "leases and deadlines do not depend on it, times in files and logs there do"
    return warn("clock", f"{text}; {why}", "set it: run chrony or systemd-timesyncd")


def _about_way(address: str, problem: str | None) -> Finding:
    """Finding about the network path from the head to a host. `problem` is None where it was not tried."""
    if problem is None:
        text = f"{address} is no address of the host: it cannot be tried whether workers are reached there"
        return warn(
            "way", text, "unless it is translated on the way: correct `swell node --advertise ADDRESS`"
        )
    if problem:
        text = f"the head cannot reach it at {address} ({problem}); gangs that span nodes need that"
        return warn("way", text, "correct `swell node --advertise ADDRESS`, or open the way there")
    return ok("way", f"the head reaches it at {address}")
