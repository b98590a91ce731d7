"""A real Prometheus that scrapes one platform."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml
from tests.eventually import PATIENCE_S
from tests.live.test_platform import until

from swell.api.connections import bind
from swell.store.folder import StateFolder

DEPLOY = Path(__file__).parents[2] / "deploy"
CONFIG = DEPLOY / "prometheus" / "prometheus.yml"


def why_not() -> str:
    """Why these tests cannot run here; empty: they can."""
    lacking = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
    return (
        f"this machine has no {' and no '.join(lacking)} (Debian: the package prometheus)" if lacking else ""
    )


@dataclass(frozen=True, slots=True)
class Prometheus:
    http: httpx.Client

    def query(self, expression: str) -> list[dict[str, Any]]:
        """An instant vector. Raises AssertionError if the expression is wrong."""
        answer = self.http.get("/api/v1/query", params={"query": expression}).json()
        assert answer["status"] == "success", (expression, answer)
        assert not answer.get("warnings"), (expression, answer)
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def value(self, expression: str) -> float | None:
        """Of the only sample; None: there is none yet."""
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None

    def rules(self) -> list[dict[str, Any]]:
        groups = self.http.get("/api/v1/rules").json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def is_ready(self) -> bool:
        try:
            return self.http.get("/-/ready").status_code == 200
        except httpx.TransportError:
            return False


@contextmanager
def prometheus(folder: Path, state: StateFolder, metrics_port: int) -> Iterator[Prometheus]:
    """With our own configuration and rules, but for the ports, the file of the token and the pace."""
    folder.mkdir()
    config = yaml.safe_load(CONFIG.read_text())
    (scrape,) = config["scrape_configs"]
    scrape["authorization"]["credentials_file"] = str(state.metrics_token)
    scrape["static_configs"] = [{"targets": [f"127.0.0.1:{metrics_port}"]}]
    config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
    config["rule_files"] = [str(CONFIG.parent / name) for name in config["rule_files"]]
    (folder / "prometheus.yml").write_text(json.dumps(config))
    with bind() as held:
        port = held.getsockname()[1]
    words = (
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["prometheus", *words], stdout=log, stderr=log)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S, trust_env=False) as http:
            server = Prometheus(http)
            until(server.is_ready)
            yield server
    finally:
        process.kill()
        process.wait()
