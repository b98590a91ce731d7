"""Snapshots of schedulers become a pool; what cannot be read is an error with its place."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.model.errors import InvalidInput
from swell.sim.node_snapshots import hostlist, moments
from swell.sim.node_snapshots.read import are_snapshots, pool_of_snapshots

T0 = 1764020000
SINFO = """PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
batch*       up 1-00:00:00      4   idle n[1-3,7]
batch*       up 1-00:00:00      1  idle* n4
batch*       up 1-00:00:00      1  idle~ n5
batch*       up 1-00:00:00      1    mix n6
debug        up 1-00:00:00      2   idle n[7-8]
debug        up 1-00:00:00      1   plnd n9
none         up 1-00:00:00      0    n/a n/a
"""
BSLOTS = """SLOTS: 15
RUNTIME: 1 hour 12 minutes
HOSTS: 1*hostB 2*hostC
       12*hostD

SLOTS: 1
RUNTIME: UNLIMITED
HOSTS: 1*hostB
"""
PBSNODES = """x1
     Mom = x1.site
     state = free
     resources_available.ngpus = 4
     comment = waits = for none

x2
     state = free
     jobs = 17.server/0
x3
     state = job-exclusive
     jobs =
x4
     state = free
     jobs =
"""
NODELIST = """Host    Queue    State    Backfill
==================================
nid001  default  idle     -
nid002  default  busy     -
nid003  default  idle     -
"""
SINFO_JSON = {
    "sinfo": [
        {"node": {"state": ["IDLE"]}, "nodes": {"nodes": ["n[1-2]"]}, "gres": {"total": "gpu:a100:4(S:0-1)"}},
        {"node": {"state": ["IDLE", "PLANNED"]}, "nodes": {"nodes": ["n3"]}},
        {"node": {"state": ["IDLE", "DRAIN"]}, "nodes": {"nodes": ["n4"]}},
        {"node": {"state": "allocated"}, "nodes": {"nodes": ["n5"]}},
    ]
}
SCONTROL_JSON = {
    "nodes": [
        {"name": "n1", "state": "idle", "gres": "gpu:2"},
        {"name": "n2", "state": ["MIXED"], "gres": ""},
    ],
    "last_update": {"number": T0},
}
PBS_JSON = {
    "timestamp": T0,
    "nodes": {
        "x1": {"state": "free", "resources_available": {"ngpus": 4}},
        "x2": {"state": "free", "jobs": ["17.server"]},
        "x3": {"state": "offline"},
    },
}


def text_of(*snapshots: str) -> str:
    """Ten seconds apart."""
    return "".join(f"{T0 + 10 * at}\n{one}" for at, one in enumerate(snapshots))


def idle_in(file: Path) -> dict[str, int]:
    return {one.node: one.num_devices for one in pool_of_snapshots(file).intervals}


@pytest.mark.parametrize(
    ("snapshot", "idle"),
    [
        (SINFO, dict.fromkeys(("n1", "n2", "n3", "n7", "n8", "n9"), 1)),
        (
            "GRES STATE NODELIST\ngpu:a100:4(S:0-1),gpu:2 idle r[01-02]n1\n(null) idle c1\n",
            {"r01n1": 6, "r02n1": 6, "c1": 1},
        ),
        ("NODELIST NODES PARTITION STATE\nn1 1 batch* idle\nn2 1 batch* allocated\n", {"n1": 1}),
        (BSLOTS, {"hostB": 1, "hostC": 1, "hostD": 1}),
        (PBSNODES, {"x1": 4, "x4": 1}),
        (NODELIST, {"nid001": 1, "nid003": 1}),
    ],
    ids=["sinfo", "sinfo-gres", "sinfo-N", "bslots", "pbsnodes", "nodelist"],
)
def test_a_snapshot_has_the_idle_nodes_that_its_scheduler_names(
    snapshot: str, idle: dict[str, int], tmp_path: Path
) -> None:
    (tmp_path / "idle.txt").write_text(text_of(snapshot, snapshot))
    assert are_snapshots(tmp_path / "idle.txt")
    assert idle_in(tmp_path / "idle.txt") == idle


@pytest.mark.parametrize(
    ("told", "idle"),
    [(SINFO_JSON, {"n1": 4, "n2": 4, "n3": 1}), (SCONTROL_JSON, {"n1": 2}), (PBS_JSON, {"x1": 4})],
    ids=["sinfo", "scontrol", "pbsnodes"],
)
def test_json_has_them_too(told: dict[str, Any], idle: dict[str, int], tmp_path: Path) -> None:
    for at in range(2):
        own = {
            key: {"number": T0 + at} if key == "last_update" else T0 + at
            for key in ("timestamp", "last_update")
        }
        words = told | {key: value for key, value in own.items() if key in told}
        (tmp_path / f"{T0 + at}.json").write_text(json.dumps(words, indent=1))
    assert are_snapshots(tmp_path) and idle_in(tmp_path) == idle


@given(st.lists(st.frozensets(st.sampled_from("abc")), min_size=2, max_size=8))
def test_a_node_is_idle_from_the_first_snapshot_that_shows_it_to_the_first_that_does_not(
    tmp_path_factory: pytest.TempPathFactory, shown: list[frozenset[str]]
) -> None:
    """Twin: minute by minute; a node of one snapshot alone is left out."""
    file = tmp_path_factory.mktemp("idle") / "idle.txt"
    header = "STATE NODELIST\n"
    file.write_text(text_of(*(header + "".join(f"idle {one}\n" for one in sorted(idle)) for idle in shown)))
    expected = set()
    for node in "abc":
        runs = "".join("x" if node in idle else " " for idle in shown)
        at = 0
        for run in runs.split(" "):
            if len(run) >= 2:
                end_s = math.inf if at + len(run) == len(runs) else 10.0 * (at + len(run))
                expected.add((node, 10.0 * at, end_s, 1))
            at += len(run) + 1
    if not expected:
        with pytest.raises(InvalidInput, match="no node is idle in 2 snapshots in a row"):
            pool_of_snapshots(file)
    else:
        assert {tuple(one) for one in pool_of_snapshots(file).intervals} == expected


def test_a_file_of_a_folder_is_of_the_time_in_its_name_else_of_its_last_change(tmp_path: Path) -> None:
    for name, own in (
        ("sinfo-20251124-213320.txt", 0),
        ("b.2025-11-24T21:33:30", 0),
        (f"{T0 + 20}.txt", 0),
        ("last", T0 + 30),
    ):
        (tmp_path / name).write_text("STATE NODELIST\nidle n1\n")
        if own:
            os.utime(tmp_path / name, (own, own))
    (tmp_path / "later.txt").write_text(f"{T0 + 40}\nSTATE NODELIST\nalloc n1\n")
    (only,) = pool_of_snapshots(tmp_path).intervals
    assert tuple(only) == ("n1", 0.0, 40.0, 1)


@pytest.mark.parametrize(
    "line",
    [
        f"{T0}",
        f"# {T0}.5",
        "2025-11-24T21:33:20",
        "2025-11-24 22:33:20+01:00",
        "Mon Nov 24 21:33:20 UTC 2025",
        "Mon Nov 24 21:33:20 2025",
    ],
)
def test_a_line_of_its_own_is_a_time(line: str) -> None:
    at_s = moments.of_line(line)
    assert at_s is not None and at_s == pytest.approx(T0, abs=1.0)


@pytest.mark.parametrize(
    "line", ["n1", "12", "Mon Nov 44 21:33:20 2025", "2025-13-24T21:33:20", "x1 idle", ""]
)
def test_no_other_line_is(line: str) -> None:
    assert moments.of_line(line) is None


def test_nodes_of_a_list_are_named_in_order() -> None:
    assert hostlist.expanded("n[1-3,7],login1,r[09-10]n[0-1]") == (
        "n1", "n2", "n3", "n7", "login1", "r09n0", "r09n1", "r10n0", "r10n1",
    )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["n[1-3", "n1]", "n[[1]]", "n[3-1]", "n[a]", "", "a,,b", "n[1-9999999]", "n[]", "n[0-1999][0-1999]"],
)
def test_a_list_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"write for example|is a number misspelt"):
        hostlist.expanded(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{T0}\nSTATE NODELIST\nidle n[1-\n", "line 3: 'n[1-' has a bracket without its other one"),
        (f"{T0}\nSTATE NODELIST\nidle n1 n2\n", "line 3: has 3 columns where the first line has 2"),
        (f"{T0}\nSLOTS RUNTIME\n4 UNLIMITED\n", "line 2: names no hosts; take the snapshot with `bslots -l`"),
        (f"{T0}\nSLOTS: 4\nHOSTS: hostB\n", "line 3: 'hostB' is no host with its slots; write"),
        (f"{T0}\nSLOTS: 4\nnews\n", "line 3: is neither SLOTS:, RUNTIME: nor HOSTS:"),
        (f"{T0}\nx1\n  state = free\n  broken\n", "line 4: is not `NAME = VALUE`"),
        (f"{T0}\nx1\n  ntype = PBS\n", "line 2: node 'x1' has no state"),
        (f"{T0}\nx1\n  state = free\nx1\n  state = free\n", "line 4: node 'x1' stands twice in one snapshot"),
        (f"{T0}\nx1\n  state = free\n  gpus = some\n", "line 2: has 'some' GPUs"),
        (f"{T0}\nHost State\nn1\n", "line 3: has 1 columns where the first line has 2"),
        (f"{T0}\nJob id  Name  User\n17  a  b\n", "line 2: qstat lists jobs and names no idle nodes"),
        (f"{T0}\nslurm_load_partitions: Unable to contact\n", "line 2: begins no snapshot that can be read"),
        (f"STATE NODELIST\nidle n1\n{T0}\nSTATE NODELIST\n", "line 3: is a time, and the snapshot before it"),
        (text_of(SINFO), "holds 1 snapshots; take them again and again"),
        (f"{T0}\n{SINFO}{T0}\n{SINFO}", "two snapshots are of the same time, 1.76402e+09"),
        ('{"sinfo": [', "line 1: is no JSON"),
        ('{"jobs": []}', "line 1: is JSON, but no list of nodes"),
        ('{"sinfo": [{"node": {}}]}', "line 1: entry 1 has no state or no names of nodes"),
        ('{"nodes": {"x": {}}}', "line 1: node 'x' has no state"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_an_error_with_its_place(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "idle.txt"
    file.write_text(text)
    with pytest.raises(InvalidInput) as error:
        pool_of_snapshots(file)
    assert str(file) in str(error.value) and why in str(error.value)


def test_two_snapshots_without_an_idle_node_between_them_are_apart(tmp_path: Path) -> None:
    empty = "No backfill window exists at this time\n"
    (tmp_path / "idle.txt").write_text(text_of(BSLOTS, BSLOTS, empty, BSLOTS, BSLOTS))
    spans = [(one.start_s, one.end_s) for one in pool_of_snapshots(tmp_path / "idle.txt").intervals]
    assert sorted(set(spans)) == [(0.0, 20.0), (30.0, math.inf)]


def test_an_ordinary_log_of_idle_nodes_is_no_snapshot(tmp_path: Path) -> None:
    (tmp_path / "idle.csv").write_text("node,start_s,end_s\nn1,0,5\n")
    assert not are_snapshots(tmp_path / "idle.csv")
