"""The manifests for Kubernetes: what they refer to is there, and what they run does what the page says.

No cluster is at hand: schemas are those of Kubernetes, and commands are run as processes of this machine.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.cli.conftest import ROOT
from tests.deploy.kubernetes_pod import FOLDER, VARIABLE, Pod, manifest, manifests
from tests.eventually import eventually
from tests.test_docs import options_of

from swell.api.client import Client, connect
from swell.executors.remote.host_address import DEFAULT_PORT
from swell.model.names import is_plain_name

OBJECTS = [*manifests()]
WORKLOADS = [one for _, one in OBJECTS if one["kind"] in ("Deployment", "StatefulSet")]
CONTAINERS = [
    (workload, container)
    for workload in WORKLOADS
    for spec in [workload["spec"]["template"]["spec"]]
    for container in [*spec.get("initContainers", ()), *spec["containers"]]
]
PAGE = (ROOT / "docs" / "how-to" / "run-on-kubernetes.md").read_text()


def label_of(pair: tuple[str, dict[str, Any]]) -> str:
    return f"{pair[0]}-{pair[1]['kind']}"


# ------------------------------------------------------------ what is written
@pytest.mark.parametrize("version", ["1.29", "1.37"])
@pytest.mark.parametrize("pair", OBJECTS, ids=label_of)
def test_an_object_fits_the_schema_of_kubernetes(pair: tuple[str, dict[str, Any]], version: str) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    validate.validate(pair[1], version, strict=True)


def test_selectors_select_the_pods_that_they_are_about() -> None:
    labels = {one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"] for one in WORKLOADS}
    for workload in WORKLOADS:
        wanted = workload["spec"]["selector"]["matchLabels"]
        chosen = [name for name, own in labels.items() if wanted.items() <= own.items()]
        assert chosen == [workload["metadata"]["name"]], "no workload takes the pods of another"
    service = manifest("Service", "swell-head")["spec"]["selector"]
    assert [name for name, own in labels.items() if service.items() <= own.items()] == ["swell-head"]
    budget = manifest("PodDisruptionBudget", "swell-hosts")["spec"]["selector"]["matchLabels"]
    assert {name for name, own in labels.items() if budget.items() <= own.items()} == {
        "swell-hosts",
        "swell-hosts-gpu",
    }


@pytest.mark.parametrize(
    "pair", CONTAINERS, ids=lambda pair: f"{pair[0]['metadata']['name']}-{pair[1]['name']}"
)
def test_a_command_has_what_it_refers_to(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    workload, container = pair
    volumes = {one["name"] for one in workload["spec"]["template"]["spec"].get("volumes", ())}
    volumes |= {one["metadata"]["name"] for one in workload["spec"].get("volumeClaimTemplates", ())}
    mounts = [one["mountPath"] for one in container["volumeMounts"]]
    assert {one["name"] for one in container["volumeMounts"]} <= volumes
    variables = {one["name"]: one.get("value", "") for one in container.get("env", ())}
    words = [*container["args"], *container.get("startupProbe", {}).get("exec", {}).get("command", ())]
    assert {name for word in words for name in VARIABLE.findall(word)} <= variables.keys()
    for word in [*words, *variables.values()]:
        if word.startswith("/") and word not in mounts:
            assert any(word.startswith(f"{mount}/") for mount in mounts), f"{word} is on no volume"
    if words[0] == "swell":
        options = {word for word in words if word.startswith("--")}
        assert options <= options_of()[words[1]] | {"--state"}
    assert "command" not in container, "tini of the image is the first process"


def test_ports_are_those_of_the_commands() -> None:
    head = manifest("StatefulSet", "swell-head")["spec"]["template"]
    (container,) = head["spec"]["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    metrics = container["args"][container["args"].index("--metrics-port") + 1]
    assert ports == {"join": DEFAULT_PORT, "metrics": int(metrics)}
    service = manifest("Service", "swell-head")
    assert {one["name"]: one["port"] for one in service["spec"]["ports"]} == ports
    assert head["metadata"]["annotations"]["prometheus.io/port"] == metrics
    assert manifest("StatefulSet", "swell-head")["spec"]["serviceName"] == service["metadata"]["name"]
    for name in ("swell-hosts", "swell-hosts-gpu"):
        arguments = argument_of(manifest("Deployment", name))
        assert arguments["--join"] == f"{service['metadata']['name']}:{ports['join']}"


def argument_of(workload: Mapping[str, Any]) -> dict[str, str]:
    """Options of the command, and their values."""
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    words = container["args"]
    return {word: value for word, value in zip(words, [*words[1:], ""], strict=True) if word.startswith("--")}


@pytest.mark.parametrize("name", ["swell-hosts", "swell-hosts-gpu"])
def test_a_host_asks_for_the_devices_that_it_offers(name: str) -> None:
    workload = manifest("Deployment", name)
    spec = workload["spec"]["template"]["spec"]
    options, resources = argument_of(workload), spec["containers"][0]["resources"]
    kind, _, number = options["--devices"].partition(":")
    asked = resources["requests"]["cpu"] if kind == "cpu" else resources["limits"]["nvidia.com/gpu"]
    assert int(number) == int(asked)
    assert int(options["--grace"].removesuffix("s")) < spec["terminationGracePeriodSeconds"]
    longest = f"{name}-{'f' * 10}-{'x' * 5}"  # of a pod of a Deployment
    assert is_plain_name(longest), "a node is called as its pod is"
    assert {"secretName": "swell-join-token", "defaultMode": 0o440} in [
        volume.get("secret") for volume in spec["volumes"]
    ]


def test_the_page_names_each_file_and_the_secret() -> None:
    for file in FOLDER.iterdir():
        assert file.name in PAGE
    assert "create secret generic swell-join-token --from-literal=join-token=" in PAGE


# ------------------------------------------------------------ what it does
@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Callable[..., Pod]]:
    """Makes pods, each at an address of loopback that no other run of this test has."""
    number, made = os.getpid() % 60000, list[Pod]()
    addresses = [f"127.{100 + number // 250 % 100}.{number % 250}.{last}" for last in range(1, 9)]

    def make(kind: str, workload: str, name: str, **secrets: dict[str, bytes]) -> Pod:
        address = addresses[0 if workload == "swell-head" else len(made)]
        services = {"swell-head": addresses[0]}
        own = {key.replace("_", "-"): value for key, value in secrets.items()}
        pod = Pod(manifest(kind, workload), name, address, tmp_path / name, services, own)
        made.append(pod)
        return pod

    yield make
    for pod in reversed(made):
        pod.kill()


def await_probe(pod: Pod, probe: str) -> None:
    eventually(lambda: pod.answers(probe), f"{probe} of {pod.name}: {pod.log}")


@pytest.mark.soak  # a minute of CPU time: five processes import torch
def test_pods_make_a_platform_and_a_host_that_is_deleted_loses_nothing(
    pods: Callable[..., Pod], tmp_path: Path
) -> None:
    """Head, token, two hosts and a job; then SIGTERM to the host with its workers, and to the head."""
    head = pods("StatefulSet", "swell-head", "swell-head-0")
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        await_probe(head, probe)
    told = head.exec("swell", "admin", "tokens", "add", "pool", "--out", str(tmp_path / "token"))
    assert f"swell node --join {head.address}:{DEFAULT_PORT}" in told.stdout, told
    secret = {"join-token": (tmp_path / "token").read_bytes()}
    hosts = {
        name: pods("Deployment", "swell-hosts", name, swell_join_token=secret)
        for name in ("swell-hosts-7c9d-aaaaa", "swell-hosts-7c9d-bbbbb")
    }
    for host in hosts.values():
        await_probe(host, "startupProbe")
    with client_in(head) as client:
        eventually(lambda: {node.name for node in client.cluster().nodes} == hosts.keys(), "two nodes")
    script = ROOT / "tests" / "executors" / "train_tiny.py"
    words = ["--global-batch", "64", "--epochs", "100000", "--workers", "2", "--no-wait", "--json"]
    done = head.exec("swell", "submit", "--script", str(script), *words, "--", "0.2")
    job = json.loads(done.stdout)[0]["id"]
    with client_in(head) as client:
        node = client.wait(job, lambda view: view.steps > 0, 90.0).devices[0].partition("/")[0]
        before = client.job(job)
        assert hosts.pop(node).delete() == 0
        (rest,) = hosts
        moved = client.wait(job, lambda view: view.devices == (f"{rest}/0", f"{rest}/1"), 90.0)
        assert moved.steps >= before.steps and moved.resizes == 1, "it has moved in live processes"
        saved = client.wait(job, lambda view: view.steps > moved.steps, 90.0)
    assert metric(head, "swell_jobs") == 1

    assert (head.delete(), [*head.processes()]) == (0, []), "jobs are saved"
    head = pods("StatefulSet", "swell-head", "swell-head-0")  # with the same volume
    await_probe(head, "startupProbe")
    with client_in(head) as client:
        assert client.job(job).steps >= saved.steps
        client.wait(job, lambda view: view.steps > saved.steps, 90.0)


def client_in(head: Pod) -> Client:
    """A client in the pod."""
    return connect(head.volume("state") / "state")


def metric(head: Pod, name: str) -> float:
    """The sum of a metric, where the annotations say that Prometheus reads it."""
    annotations = manifest("StatefulSet", "swell-head")["spec"]["template"]["metadata"]["annotations"]
    url = f"http://{head.address}:{annotations['prometheus.io/port']}{annotations['prometheus.io/path']}"
    token = (head.volume("state") / "state" / "metrics-token").read_text()
    text = httpx.get(url, headers={"Authorization": f"Bearer {token}"}, trust_env=False).text
    return sum(float(line.split()[-1]) for line in text.splitlines() if re.match(rf"{name}[{{ ]", line))
