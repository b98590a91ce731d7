"""`swell nodes` and its commands, against a real server over a fake platform."""

from __future__ import annotations

import json
import re

import pytest
from tests.api.fake_control import FakeControl
from tests.cli.conftest import Run

from swell.model.view import LostNode, NodeLeaving, NodeView


def joined(name: str = "far", job: str | None = None, leaving: NodeLeaving | None = None) -> NodeView:
    return NodeView(
        name=name,
        rack="rack0",
        kind="paced@200",
        is_borrowed=True,
        devices={f"{name}/0": job, f"{name}/1": None},
        is_joined=True,
        address="10.9.0.11",
        leaving=leaving,
    )


@pytest.fixture
def far(control: FakeControl) -> FakeControl:
    """With a node of another machine, on which a job runs."""
    control.joined, control.lost, control.removed = (joined(job="vae-0001"),), (), []
    return control


def test_joined_nodes_are_shown_with_their_address(here: Run, far: FakeControl) -> None:
    shown = here("nodes").stdout
    assert "paced@200, borrowed" in shown and "far/0" in shown and "vae-0001" in shown
    assert "\nfar: joined from 10.9.0.11\n" in shown
    assert "\nnode0: joined" not in shown


def test_it_says_which_nodes_are_to_be_left_until_when_and_which_were_lost(
    here: Run, far: FakeControl
) -> None:
    now_s = far.now_s()
    soon = NodeLeaving(since_s=now_s, until_s=now_s + 90.5, why="it is wanted back")
    drained = NodeLeaving(since_s=now_s, until_s=None, why="")
    far.joined = (joined("spot", "vae-0001", soon), joined("old", None, drained))
    far.lost = (LostNode(name="gone", lost_s=now_s - 61.0, cause="its lease is over"),)
    shown = here("nodes").stdout
    assert "spot: gets no more work (it is wanted back; gone at " in shown
    assert re.search(r", in (89|90) s\b", shown) and "yet to move: vae-0001" in shown
    assert "old: gets no more work (no reason was given); no job is left on it" in shown
    assert "paced@200, borrowed, leaving" in shown
    assert "lost: gone, 61 s ago" in shown and "ago: its lease is over" in shown
    found = json.loads(here("nodes", "--json").stdout)
    assert [node["leaving"] is not None for node in found["nodes"]] == [False, True, True]
    assert found["lost_nodes"][0]["name"] == "gone" and found["hosts_may_join"]


def test_the_result_of_a_test_is_told_and_its_exit_status_says_whether_the_node_passed(
    here: Run, far: FakeControl
) -> None:
    refused = here("nodes", "test", "far")
    assert refused.returncode == 1 and "jobs may be placed on it" in refused.stderr
    here("nodes", "drain", "far")
    passed = here("nodes", "test", "far")
    assert re.search(r"far/0 +2e\+03 GFLOP/s +- +- +passed", passed.stdout) and passed.returncode == 0
    assert "node far gets no more work (drained)" in passed.stdout
    far.fault = "memory has not kept what was written"
    failed = here("nodes", "test", "far")
    assert failed.returncode == 1 and f"  {far.fault}\n" in failed.stdout
    assert json.loads(here("nodes", "test", "far", "--json").stdout)["tests"][0]["fault"] == far.fault


def test_a_node_is_drained_and_that_is_undone(here: Run, far: FakeControl) -> None:
    done = here("nodes", "drain", "far")
    assert done.stdout == "node far gets no more work; to be moved: vae-0001\n"
    assert far.joined[0].leaving is not None
    done = here("nodes", "drain", "far", "--undo")
    assert done.stdout == "jobs may be placed on node far again\n" and far.joined[0].leaving is None
    far.joined = (joined(),)
    assert here("nodes", "drain", "far").stdout == "node far gets no more work, and has none\n"
    assert json.loads(here("nodes", "drain", "far", "--json").stdout)["leaving"]["until_s"] is None


def test_a_kind_is_allowed(here: Run, far: FakeControl) -> None:
    done = here("nodes", "allow-kind", "paced@200")
    assert done.stdout.startswith("jobs may have devices of kind 'paced@200'; there are ")
    assert far.allowed == ["paced@200"]
    done = here("nodes", "allow-kind", "<b>")
    assert (
        done.returncode == 2 and "cannot be a kind of device" in done.stderr and far.allowed == ["paced@200"]
    )


def test_a_node_with_workers_is_removed_only_by_force(here: Run, far: FakeControl) -> None:
    done = here("nodes", "remove", "far")
    assert done.returncode == 1 and done.stdout == ""
    assert "node 'far' has workers of vae-0001" in done.stderr and far.removed == []
    done = here("nodes", "remove", "far", "--force")
    assert done.stdout == "node far is told to leave; it takes workers of these with it: vae-0001\n"
    assert far.removed == ["far"]
    far.joined = (joined(),)
    assert here("nodes", "remove", "far").stdout == "node far is told to leave\n"


@pytest.mark.parametrize("words", [("drain", "nowhere"), ("drain", "a/b"), ("remove", "nowhere")])
def test_a_node_that_is_not_there_is_one_clear_error(here: Run, far: FakeControl, words: tuple[str]) -> None:
    done = here("nodes", *words)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("swell: ")


def test_options_of_the_group_are_not_taken_for_those_of_its_command(here: Run, far: FakeControl) -> None:
    done = here("nodes", "--json", "drain", "far")
    assert done.returncode == 2 and "options come after 'drain'" in done.stderr
    assert far.joined[0].leaving is None
