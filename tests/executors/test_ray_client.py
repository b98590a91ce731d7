"""The helper that has Ray: what the agent hears of one that hangs, ends or refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from swell.executors.node.options import NodeOptions
from swell.executors.ray import ray_client
from swell.executors.ray.engine import RayEngine
from swell.executors.ray.ray_client import RayClient
from swell.executors.slices.order import SliceOrder
from swell.executors.slices.port import ClusterError, ClusterRead

ORDER = SliceOrder(host=NodeOptions(join="h:1"), token="t")
Result = TypeVar("Result")

#: In place of the helper: connects, and answers each line by what the file `orders` says.
HELPER = """
import json, sys, time
from pathlib import Path
orders = Path(__file__).with_name("orders")
if orders.read_text() == "refuse":
    print(json.dumps({"refusal": "there is no Ray"}), flush=True)
    sys.exit()
for line in sys.stdin:
    asked = json.loads(line)
    with Path(__file__).with_name("asked").open("a") as file:
        file.write(json.dumps(asked) + "\\n")
    if orders.read_text() == "end":
        sys.exit()
    if orders.read_text() == "hang":
        time.sleep(1000)
    print(json.dumps({"read": {"jobs": [], "num_fit": 3, "address": "10.0.0.1"}}), flush=True)
"""


class Ray:
    """A client, and what its helper does."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        package = folder / "ray_helper"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "program.py").write_text(HELPER)
        self._orders = package / "orders"
        self.do("answer")
        monkeypatch.setattr(ray_client, "MODULE", "ray_helper.program")
        monkeypatch.setenv("PYTHONPATH", str(folder))
        self.client = self.next_client()

    def next_client(self) -> RayClient:
        return RayClient("p", RayEngine().encoded(), "h:6379", self._folder / "last")

    def do(self, what: str) -> None:
        self._orders.write_text(what)

    @property
    def asked(self) -> list[str]:
        return self._orders.with_name("asked").read_text().splitlines()


@pytest.fixture
def ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ray:
    return Ray(tmp_path, monkeypatch)


def run(ray: Ray, work: Coroutine[Any, Any, Result]) -> Result:
    async def done() -> Result:
        try:
            return await work
        finally:
            await ray.client.close()

    return asyncio.run(done())


def test_without_a_word_slices_are_gpus_where_a_node_has_one() -> None:
    engine = RayEngine()
    assert engine.num_devices == 1
    assert engine.on([{"CPU": 8.0}, {"CPU": 8.0, "GPU": 4.0}]).resource == "GPU"
    assert engine.on([{"CPU": 8.0}]).slice_devices == "cpu:1"
    named = RayEngine(slice_devices="paced:2@200")
    assert named.on([{"GPU": 4.0}]) == named


def test_a_look_says_what_there_is_and_where_this_machine_is(ray: Ray) -> None:
    assert run(ray, ray.client.read()) == ClusterRead(jobs=(), num_fit=3, address="10.0.0.1")


def test_no_slice_has_the_number_of_another_one_of_this_or_an_earlier_agent(ray: Ray) -> None:
    async def submit(client: RayClient) -> list[int]:
        numbers = [await client.submit(ORDER), await client.submit(ORDER)]
        await client.close()
        return numbers

    assert run(ray, submit(ray.client)) == [1, 2]
    assert run(ray, submit(ray.next_client())) == [3, 4]
    assert [json.loads(line)["id"] for line in ray.asked] == [1, 2, 3, 4]


def test_a_helper_that_has_ended_is_started_again(ray: Ray) -> None:
    async def look() -> None:
        ray.do("end")
        with pytest.raises(ClusterError, match=r"has ended, .* see agent\.log"):
            await ray.client.read()
        ray.do("answer")
        await ray.client.read()

    run(ray, look())


def test_a_helper_that_hangs_is_ended_and_the_next_one_answers(
    ray: Ray, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look() -> None:
        await ray.client.read()
        monkeypatch.setattr(ray_client, "ANSWER_S", 0.2)
        ray.do("hang")
        with pytest.raises(ClusterError, match=r"'h:6379' did not answer within 0.2 s; .*"):
            await ray.client.read()
        monkeypatch.setattr(ray_client, "ANSWER_S", 25.0)
        ray.do("answer")
        await ray.client.read()

    run(ray, look())


def test_an_answer_to_a_question_that_was_given_up_is_not_taken_for_the_next_one(ray: Ray) -> None:
    async def look() -> None:
        await ray.client.read()
        given_up = asyncio.create_task(ray.client.cancel([1]))
        await asyncio.sleep(0)  # it is asked
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert (await ray.client.read()).num_fit == 3

    run(ray, look())


def test_a_ray_that_is_not_there_is_refused_in_its_words(ray: Ray) -> None:
    ray.do("refuse")
    with pytest.raises(ClusterError, match="there is no Ray"):
        run(ray, ray.client.read())


def test_a_cluster_of_another_version_is_told_with_both_versions_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray compares them when a driver connects, as the helper does."""
    real = pytest.importorskip("ray", reason="Ray is not installed; `pip install 'swell[ray]'` installs it")
    from ray._private.utils import check_version_info

    from swell.executors.ray.helper import connect

    def refuse(**_: object) -> None:
        of_cluster = {"ray_version": "2.40.0", "python_version": "3.9.1"}
        check_version_info(of_cluster, "node 10.9.0.10", python_version_match_level="patch")

    monkeypatch.setattr(real, "init", refuse)
    with pytest.raises(ClusterError) as raised:
        connect("auto")
    told = str(raised.value)
    assert "Ray: 2.40.0 Python: 3.9.1" in told and f"Ray: {real.__version__}" in told
    assert "the versions of Ray and of Python that are here" in told
