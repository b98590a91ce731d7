"""The board and the rules that are shipped, on a real Prometheus that scrapes a real platform."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.api.stage import Stage, on_stage
from tests.deploy.prometheus_server import CONFIG, DEPLOY, Prometheus, prometheus, why_not
from tests.live.parts import NODE
from tests.live.test_platform import until

from swell.api.connections import ApiServer, bind
from swell.api.prometheus import create_metrics_app, described
from swell.api.user_list import TenantLimits, UserList
from swell.api.verbs import PROMETHEUS_TEXT
from swell.live.counters import MetricEntry
from swell.model.event import NodeLost, Outcome, StepsReported
from swell.model.job import Phase
from swell.model.usage import DeviceReading
from swell.settings import Settings

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]

BOARD = json.loads((DEPLOY / "grafana" / "swell.json").read_text())
RULES = CONFIG.parent / "swell-alerts.yml"
#: What Grafana puts in their place.
VARIABLES = {"$__rate_interval": "10s", "$__range": "1m", "$instance": ".*"}
GPU = DeviceReading(use=0.5, memory_bytes=2**30, total_memory_bytes=2**34, power_w=300.0, temperature_c=60)
#: Of a platform of which nothing is to be warned, these have nothing to show.
EMPTY_WHERE_ALL_IS_WELL = ("swell_warnings", "swell_stale_reports_total")


def board_queries() -> list[str]:
    return [target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", ())]


def in_prometheus(query: str) -> str:
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    assert "$" not in query
    return query


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    settings = Settings(given={"min_hold_s": 0.5})  # one job grows
    with on_stage(tmp_path_factory.mktemp("stage") / "state", settings=settings) as stage:
        yield stage


@pytest.fixture(scope="module")
def metrics(stage: Stage) -> Iterator[ApiServer]:
    """The platform's port for Prometheus."""
    api = ApiServer(create_metrics_app(stage.platform, stage.folder), bind())
    api.start()
    yield api
    api.stop()


@pytest.fixture(scope="module")
def server(
    stage: Stage, metrics: ApiServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """It has seen the platform before, during and after a few jobs: 5 s."""
    folder = tmp_path_factory.mktemp("prometheus")
    with prometheus(folder / "prometheus", stage.folder, metrics.port) as server:
        until(lambda: server.value('up{job="swell"}') == 1)
        play(stage, folder)
        until(lambda: server.value("sum(swell_promises_made_total)") == 2)
        until(lambda: (server.value('count_over_time(up{job="swell"}[1m])') or 0) >= 3)
        until(lambda: server.value("count(ALERTS)") is not None)
        yield server


def play(stage: Stage, folder: Path) -> None:
    """One promise is kept, one refused, a job resized, a node lost, a device read, a tenant gets a quota."""
    UserList(stage.folder.path).limit("vision", TenantLimits(devices=4))
    stage.hands.readings[NODE.devices[0]] = GPU
    script = folder / "train.py"
    script.write_text("print('training')\n")
    kept = stage.run(script, name="kept", job_class="strict", deadline="now+1h", workers="1:1")
    grown = stage.run(script, name="grown", steps=10_000)
    report(stage, kept, 60)
    until(lambda: stage.platform.job(kept).steps >= 60)
    stage.hands.deliver(stage.hands.ended(kept, Outcome.SUCCEEDED))
    until(lambda: stage.platform.job(kept).phase is Phase.SUCCEEDED)
    until(lambda: stage.platform.job(grown).workers == 2)
    report(stage, grown, 100, pause_s=0.2)
    until(lambda: stage.platform.job(grown).steps >= 100)
    stage.hands.deliver(stage.hands.ended(grown, Outcome.FAILED))
    stage.hands.deliver(NodeLost(at_s=0.0, name="elsewhere", cause="its machine is gone"))
    refused = stage.client.submit(
        script=script, name="refused", global_batch=8, steps=10**6, deadline="now+10s", or_nothing=True
    )
    until(lambda: stage.platform.job(refused).phase is Phase.REJECTED)
    stage.run(script, name="open", job_class="strict", deadline="now+1h", workers="1:1")


def report(stage: Stage, job_id: str, steps: int, pause_s: float | None = None) -> None:
    stage.hands.deliver(
        StepsReported(
            at_s=0.0,
            job_id=job_id,
            generation=stage.hands.gangs[job_id],
            steps=steps,
            num_workers=len(stage.hands.devices[job_id]),
            step_s=0.1,
            pause_s=pause_s,
        )
    )


def test_every_query_of_the_board_is_answered(server: Prometheus) -> None:
    found = {query: server.query(in_prometheus(query)) for query in board_queries()}
    empty = [query for query, samples in found.items() if not samples]
    assert [query for query in empty if not any(name in query for name in EMPTY_WHERE_ALL_IS_WELL)] == []


def test_the_board_shows_what_was_played(server: Prometheus) -> None:
    for query, value in {
        "sum(swell_promises_made_total)": 2,
        "sum(swell_promises_kept_total)": 1,
        "sum(swell_promises_missed_total)": 0,
        'sum(swell_promises_refused_total{then="ended"})': 1,
        'sum(swell_jobs_ended_total{phase="failed"})': 1,
        'sum(swell_jobs{phase="running", class="strict"})': 1,
        "sum(swell_promises_open)": 1,
        "swell_finish_error_seconds_count": 1,
        'sum(swell_resizes_total{verdict!="made room"})': 1,
        'sum(swell_node_losses_total{warned="no"})': 1,
        "sum(swell_devices)": 2,
        'sum(swell_events_total{event="JobSubmitted"})': 4,
        "process_resident_memory_bytes > bool 1e6": 1,
    }.items():
        assert server.value(query) == value, query


def test_what_tenants_with_quotas_hold_is_told_by_kind(server: Prometheus) -> None:
    for name, value in (("held", "0"), ("quota", "4")):
        (sample,) = server.query(f"swell_tenant_devices_{name}")
        assert (sample["metric"]["tenant"], sample["metric"]["kind"]) == ("vision", "cpu")
        assert sample["value"][1] == value


def test_every_metric_is_there_and_no_query_names_another(server: Prometheus) -> None:
    names = {name for metric in described() for name in series_of(metric)}
    used = {name for query in (*board_queries(), RULES.read_text()) for name in named(query)}
    assert used <= names | {metric.name for metric in described()}
    present = {sample["metric"]["__name__"] for sample in server.query('{__name__=~"swell_.+"}')}
    assert names - present <= {"swell_warnings"}


def series_of(metric: MetricEntry) -> list[str]:
    parts = ("_bucket", "_count", "_sum") if metric.kind == "histogram" else ("",)
    return [metric.name + part for part in parts]


def named(text: str) -> set[str]:
    return set(re.findall(r"\bswell_[a-z_]+", text))


def test_every_rule_is_evaluated_and_none_fires_without_a_reason(server: Prometheus) -> None:
    rules = server.rules()
    assert {rule["health"] for rule in rules} == {"ok"}
    firing = {rule["name"] for rule in rules if rule["state"] != "inactive"}
    assert firing == {"SwellNodeLost"}


def test_prometheus_finds_no_fault_with_names_and_types(stage: Stage) -> None:
    answer = asked(f"{stage.client.endpoint.url}/metrics", stage.folder.read_token())
    assert answer.headers["content-type"] == PROMETHEUS_TEXT
    linted = subprocess.run(["promtool", "check", "metrics"], input=answer.content, capture_output=True)
    assert (linted.returncode, linted.stdout, linted.stderr) == (0, b"", b"")


def test_the_port_for_prometheus_opens_nothing_else(stage: Stage, metrics: ApiServer) -> None:
    """And its token opens that port alone."""
    token, url = stage.folder.ensure_metrics_token(), f"http://127.0.0.1:{metrics.port}"
    assert asked(f"{url}/metrics", token).status_code == 200
    assert asked(f"{url}/metrics", stage.folder.read_token()).status_code == 401
    assert "`metrics-token`" in asked(f"{url}/metrics", "guessed").json()["error"]
    assert asked(f"{url}/metrics", token, Host="rebound.example").status_code == 403
    assert asked(f"{url}/v1/jobs", token).status_code == 404
    assert asked(f"{stage.client.endpoint.url}/metrics", token).status_code == 401


def asked(url: str, token: str, **headers: str) -> httpx.Response:
    return httpx.get(url, headers={"Authorization": f"Bearer {token}", **headers}, trust_env=False)


def test_rules_fire_when_they_should() -> None:
    for words in (("check", "rules", RULES.name), ("test", "rules", "swell-alerts-test.yml")):
        done = subprocess.run(["promtool", *words], cwd=CONFIG.parent, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
