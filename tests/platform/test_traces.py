"""Real jobs are traces in a collector, also if the daemon is killed while they train."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.live.tracing.collector import Collector, collecting
from tests.platform.program import DEVICES, ENDLESS, Program, eventually, kill

from swell.executors.local.agent.address import read_address
from swell.live.tracing.span import trace_id_of

STAGES = ("waiting", "trial run", "launch", "train", "repair")


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as one:
        yield one


@pytest.mark.slow
def test_a_job_is_one_trace_although_its_daemon_is_killed(tmp_path: Path, collector: Collector) -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
    environ["OTEL_EXPORTER_OTLP_HEADERS"] = "authorization=Bearer%20sesame"
    program = Program(tmp_path / "state", environ)
    try:
        program.ok("up", "--devices", DEVICES, "--set", "slow_turn_s=0")
        job = program.submit(tmp_path, "--epochs", ENDLESS, "--workers", "4")
        program.await_training(job, 4, tmp_path)
        eventually(lambda: "launch" in collector.names, "the launch is told")
        daemon = program.daemon_pid
        assert daemon is not None
        check_no_job_has_the_token(program.state)
        kill(daemon)
        program.ok("up")
        view = program.finish(job, tmp_path)
    finally:
        program("down")
    spans = [span for span in collector.spans if span.trace_id == trace_id_of(job).to_bytes(16)]
    (root,) = [span for span in spans if not span.parent_span_id]
    assert root.name == "job" and {"trial run", "launch", "train"} <= {span.name for span in spans}
    seconds = [(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9 for span in (root, *spans)]
    stages = [second for second, span in zip(seconds[1:], spans, strict=True) if span.name in STAGES]
    assert sum(stages) == pytest.approx(seconds[0], abs=1e-3)
    assert view.finished_s is not None
    assert root.end_time_unix_nano / 1e9 == pytest.approx(view.finished_s, abs=0.01)
    assert {"turn", "commit", "decide"} <= collector.names


def check_no_job_has_the_token(state: Path) -> None:
    """Neither the agent nor its zygote nor any worker."""
    address = read_address(state)
    assert address is not None
    agent = psutil.Process(address.pid)
    of_platform = [agent, *agent.children(recursive=True)]
    assert len(of_platform) >= 6
    names = {name for process in of_platform for name in process.environ()}
    assert "SWELL_STATE" in names and not {name for name in names if name.startswith("OTEL_")}
