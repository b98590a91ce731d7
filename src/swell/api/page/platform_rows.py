"""What the page shows of nodes, of tenants, of the platform, and of what happened."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from swell.model.quota import TenantDevices
from swell.model.view import ClusterView, LostNode, NodeView, Story


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One node, and who holds its devices."""

    name: str
    kind: str
    rack: str
    num_devices: int
    num_free: int
    holders: tuple[tuple[str, int], ...]  #: (job id, devices)
    marks: tuple[str, ...]
    warnings: tuple[str, ...]
    is_lost: bool = False
    islands: str = ""  #: see `NodeView`


def node_row(node: NodeView) -> NodeRow:
    held: dict[str, int] = {}
    for holder in node.devices.values():
        if holder is not None:
            held[holder] = held.get(holder, 0) + 1
    marks = [mark for mark, is_so in (("borrowed", node.is_borrowed), ("joined", node.is_joined)) if is_so]
    if node.until_s is not None:
        marks.append(time.strftime("until %H:%M", time.localtime(node.until_s)))
    leaving = () if node.leaving is None else (node.leaving.why,)
    return NodeRow(
        name=node.name,
        kind=node.kind,
        rack=node.rack,
        num_devices=len(node.devices),
        num_free=len(node.devices) - sum(held.values()),
        holders=tuple(held.items()),
        marks=tuple(marks),
        warnings=(*leaving, *node.lacks),
        islands=node.islands,
    )


def lost_row(node: LostNode) -> NodeRow:
    """A node that was lost lately."""
    warning = f"lost: {node.cause}" if node.cause else "lost"
    return NodeRow(
        name=node.name,
        kind="",
        rack="",
        num_devices=0,
        num_free=0,
        holders=(),
        marks=(),
        warnings=(warning,),
        is_lost=True,
    )


class TenantRow(msgspec.Struct, frozen=True, kw_only=True):
    """How many devices of a kind the jobs of a tenant with a quota hold, and may hold."""

    tenant: str
    kind: str  #: empty where all are of one kind
    num_held: int
    most: int

    @property
    def is_over(self) -> bool:
        """It may be for a while: promises outlast a quota that is lowered."""
        return self.num_held > self.most


BLANK_TENANT = TenantRow(tenant="", kind="", num_held=0, most=0)


def tenant_rows(tenants: Mapping[tuple[str, str], TenantDevices]) -> tuple[TenantRow, ...]:
    """Rows of the tenants that have a quota, one for each kind of device."""
    is_one_kind = len({kind for _, kind in tenants}) == 1
    return tuple(
        TenantRow(
            tenant=tenant, kind="" if is_one_kind else kind, num_held=devices.num_held, most=devices.most
        )
        for (tenant, kind), devices in tenants.items()
    )


class StoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened, and why."""

    at_s: int
    job_id: str
    job: str  #: its name
    code: str
    text: str


def story_row(job_id: str, story: Story, name: str) -> StoryRow:
    return StoryRow(at_s=math.floor(story.at_s), job_id=job_id, job=name, code=story.code, text=story.text)


#: Codes of lines that change nothing a job has, or that say that what was decided is done.
NO_CHANGE = frozenset({"checkpoints", "resized", "started"})


def changes_only(
    stories: Iterable[tuple[str, Story]], before: Mapping[str, str] = MappingProxyType({})
) -> list[tuple[str, Story]]:
    """Return one line a change: without those of NO_CHANGE, and without a reason that its decision repeats.

    `swell explain` shows all lines.

    Args:
        before: the text of the last line of each job before these.
    """
    found: dict[int, tuple[str, Story]] = {}  #: by place among the stories
    latest: dict[str, int] = {}  #: place of the last line of each job
    for place, (job_id, story) in enumerate(stories):
        last = latest.get(job_id)
        former = before.get(job_id, "") if last is None else found[last][1].text
        if story.code in NO_CHANGE or story.text in former:
            continue
        if last is not None and former in story.text:
            del found[last]
        latest[job_id] = place
        found[place] = job_id, story
    return list(found.values())


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The platform in a line."""

    facts: dict[str, str]  #: texts by their `data-fact` in `now.html`
    warnings: tuple[str, ...]


def totals(cluster: ClusterView) -> Totals:
    notes = [cluster.clock_note] if cluster.clock_note else []
    num_back = 0 if cluster.borrowed is None else cluster.borrowed.num_given_back
    facts = {
        "devices": f"{cluster.num_devices - cluster.num_free} of {cluster.num_devices} devices in use",
        "given-back": f"{num_back} borrowed node{'s' * (num_back > 1)} given back" if num_back else "",
        "policy": cluster.policy,
    }
    return Totals(
        facts=facts,
        warnings=tuple(notes + [f"{about}: {text}" for about, text in cluster.warnings.items()]),
    )


def node_rows(cluster: ClusterView) -> tuple[NodeRow, ...]:
    """Those that are there, and those lost lately."""
    lost: Sequence[LostNode] = cluster.lost_nodes
    return (*map(node_row, cluster.nodes), *map(lost_row, lost))
