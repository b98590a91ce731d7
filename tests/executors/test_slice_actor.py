"""The host of a slice of Ray: its words and variables."""

from __future__ import annotations

import pytest

from swell.executors.node.options import NodeOptions, read_options
from swell.executors.ray.slice_actor import about_host
from swell.executors.slices.order import SliceOrder, host_environ, host_words

ORDER = SliceOrder(host=NodeOptions(join="h:1", devices="cpu:1", name="n1-1"), token="t")


def options_on(labels: dict[str, str]) -> NodeOptions:
    words = host_words(ORDER.with_host(**about_host(labels, ORDER.host)), "t")
    return read_options(words[words.index("-m") + 2 :])[1]


def test_what_a_node_says_of_itself_its_host_says() -> None:
    labels = {"rack": "r1", "kind": "h100", "ray.io/market-type": "spot", "ray.io/availability-zone": "z"}
    options = options_on(labels)
    assert (options.name, options.rack, options.kind, options.is_borrowed) == ("n1-1", "r1", "h100", True)
    options = options_on({"ray.io/availability-zone": "z"})
    assert (options.rack, options.kind, options.is_borrowed) == ("z", "", False)


def test_a_label_that_can_be_no_rack_is_left_out_and_told(capfd: pytest.CaptureFixture[str]) -> None:
    assert options_on({"rack": "row 3"}).rack == ""
    assert "rack 'row 3' is left out" in capfd.readouterr().err


def test_a_host_sees_the_gpus_of_its_slice_and_nothing_that_is_rays() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "3,5", "OMP_NUM_THREADS": "1", "RAY_JOB_ID": "1", "HOME": "/h"}
    cuda = ORDER.with_host(devices="cuda:2")
    assert host_environ(cuda, environ) == {
        "CUDA_VISIBLE_DEVICES": "3,5",
        "HOME": "/h",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    assert "CUDA_VISIBLE_DEVICES" not in host_environ(ORDER, environ), "they only pretend to be GPUs"
