"""Programs of each kind name links, and know one id of their run, also when they are submitted again."""

from __future__ import annotations

import json
from email.message import Message
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.live.http_server import Reply, serving
from tests.platform.program import Program, job_id

URL = "https://curves.example.org/run?a=1&b=<2>"
PLAIN = f"""
import os, swell
swell.link("curves", {URL!r})
print("run", os.environ["SWELL_RUN_ID"])
"""
LIVE = f"""
import os, torch
from torch.utils.data import DataLoader, TensorDataset
from swell import train

model = torch.nn.Linear(1, 1)
loader = DataLoader(TensorDataset(torch.randn(64, 1)), batch_size=64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
run = train.elastic(model, optimizer, loader, epochs=3)
run.link("curves", {URL!r})
print("run", os.environ["SWELL_RUN_ID"])
for epoch in run.epochs():
    for (x,) in run.batches():
        optimizer.zero_grad()
        run.backward(model(x).square().mean())
        run.step()
"""
LINE = json.dumps({"swell.link": "curves", "url": URL})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["live", "restart", "fixed"])
def test_a_link_is_shown_and_the_id_of_a_run_stays(swell: Program, tmp_path: Path, kind: str) -> None:
    script = tmp_path / "tells.py"
    script.write_text(LIVE if kind == "live" else PLAIN)
    if kind == "fixed":
        words = ("sh", "-c", 'echo "$0"; echo run $SWELL_RUN_ID; exit 3', LINE)
        job = job_id(swell.ok("submit", "--time", "1m", "--workdir", tmp_path, "--", *words))
    else:
        options = ("--elasticity", "restart") if kind == "restart" else ()
        job = swell.submit(tmp_path, "--workers", 1, *options, script=script)
    view = swell.await_job(job, lambda view: view.phase.is_end, "its end")
    assert (view.links, view.phase) == ({"curves": URL}, "failed" if kind == "fixed" else "succeeded")
    assert f"run {job}" in swell.ok("logs", job)
    if kind == "fixed":
        again = job_id(swell.ok("retry", job))
        swell.await_end(again, "failed")
        assert f"run {job}" in swell.ok("logs", again)
        assert URL in swell.ok("show", again)


@pytest.mark.slow
def test_a_service_of_the_owner_is_told_of_all_jobs_and_one_of_a_job(swell: Program, tmp_path: Path) -> None:
    sent: dict[str, list[str]] = {"/mine": [], "/job": []}

    def answer(_method: str, path: str, _headers: Message, body: bytes) -> Reply:
        sent[path].append(json.loads(body)["title"])
        return Reply(200, {})

    with serving(answer) as address:
        service = address.replace("http", "json")
        assert swell.ok("notify", f"{service}/mine") == "your jobs are told to json\n"
        words = ("submit", "--time", "1m", "--name", "a", "--notify", f"{service}/job", "--on", "failed")
        job = job_id(swell.ok(*words, "--workdir", tmp_path, "--", "false"))
        eventually(lambda: all("a has failed" in titles for titles in sent.values()), "two texts")
        assert swell.ok("notify", "--off") == "your jobs are told to no service\n"
        assert sent["/job"] == ["a has failed"] and {*sent["/mine"]} <= {"a has started", "a has failed"}
        assert "/mine" not in json.dumps(swell.json("show", job)) + swell.ok("explain", job)
