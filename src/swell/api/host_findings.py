"""What the joined hosts of a platform offer and lack, and what each has in common with the head, or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from swell import __version__
from swell.api.machine_findings import machine_findings
from swell.executors.local.examination_order import examine_hosts
from swell.executors.local.launch import AgentError
from swell.executors.local.machine_facts import MachineFacts
from swell.executors.local.protocol import HostExamined
from swell.executors.remote.join_warnings import CLOCK_SKEW_S
from swell.model.finding import Finding, ok, warn
from swell.model.lengths import span

#: How a remedy is made by users.
START_AGAIN = "start `swell node` there again"


def hosts_findings(state_dir: Path, head: MachineFacts) -> Iterator[Finding]:
    """Ask all hosts, and yield the findings of each in alphabetical order.

    There are none if no agent of this folder runs.
    """
    try:
        reports = sorted(examine_hosts(state_dir), key=lambda report: report.name)
    except AgentError as error:
        yield warn("hosts", f"cannot be asked: {error}", f"see {state_dir / 'agent.log'}")
        return
    for report in reports:
        yield from host_findings(report, head)


def host_findings(report: HostExamined, head: MachineFacts) -> list[Finding]:
    """Findings about one host, each with the host's name. `head`: the machine of the platform."""
    facts = report.facts
    if facts is None:
        text = f"is silent: {report.why_silent}"
        remedy = "look there whether `swell node` runs, and at what it prints"
        found = [warn("host", text, remedy)]
    else:
        found = [
            *machine_findings(facts),
            about_skew(report.ahead_s),
            *_versions(report, facts, head),
        ]
    found += (
        [about_way(report.advertise, report.way_problem)] if facts is not None or report.way_problem else []
    )
    return [msgspec.structs.replace(finding, node=report.name) for finding in found]


def about_skew(ahead_s: float) -> Finding:
    """`ahead_s`: the clock of a host, of the head's."""
    which = "ahead of" if ahead_s > 0 else "behind"
    text = f"is {span(abs(ahead_s))} {which} the head's"
    if abs(ahead_s) < CLOCK_SKEW_S:
        return ok("clock", text)
    why = "leases and deadlines do not depend on it, times in files and logs there do"
    return warn("clock", f"{text}; {why}", "set it: run chrony or systemd-timesyncd")


def about_way(address: str, problem: str | None) -> Finding:
    """Finding about the network path from the head to a host. `problem`: see `HostExamined.way_problem`."""
    if problem is None:
        text = f"{address} is no address of the host: it cannot be tried whether workers are reached there"
        return warn(
            "way", text, "unless it is translated on the way: correct `swell node --advertise ADDRESS`"
        )
    if problem:
        text = f"the head cannot reach it at {address} ({problem}); gangs that span nodes need that"
        return warn("way", text, "correct `swell node --advertise ADDRESS`, or open the way there")
    return ok("way", f"the head reaches it at {address}")


def _versions(report: HostExamined, facts: MachineFacts, head: MachineFacts) -> Iterator[Finding]:
    """Findings about versions of Swell, torch and Python that differ between a host and the head.

    When a host joins, its torch and its minor version of Python have been compared already.
    """
    if report.version != __version__:
        text = f"Swell {report.version}, and {__version__} on the head: a job may behave otherwise there"
        yield warn("versions", text, f"install Swell {__version__} there, and {START_AGAIN}")
    there = _release(facts)
    if there != report.torch:
        text = (
            f"torch {there or 'is gone'}, and {report.torch or 'none'} when it joined: workers may mix both"
        )
        yield warn("versions", text, START_AGAIN)
    if facts.python != head.python:
        yield ok("versions", f"Python {facts.python}, and {head.python} on the head")
    if facts.torch is not None and head.torch is not None and facts.torch.version != head.torch.version:
        yield ok("versions", f"torch {facts.torch.version}, and {head.torch.version} on the head")


def _release(facts: MachineFacts) -> str:
    """Release of torch without the build suffix; empty: torch is not installed."""
    return "" if facts.torch is None else facts.torch.version.partition("+")[0]
