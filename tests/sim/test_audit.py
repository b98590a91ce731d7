"""A recorded run is worked out again, and one that was falsified is found out."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick
from tests.sim.worlds import head

from swell.cli import main
from swell.model.share_mode import ShareMode
from swell.sim.audit.run import Audit, audit
from swell.sim.conditions import Conditions, set_up, truth_of
from swell.sim.contention import RULES
from swell.sim.epoch_ends import EpochEnds
from swell.sim.injected_faults import FaultRates
from swell.sim.metrics import metrics_of
from swell.sim.profiles.load import load
from swell.sim.report import PolicyResult
from swell.sim.run_files import JOBS, SEGMENTS, read_run, write_run
from swell.sim.segments import SegmentLog
from swell.sim.shared_cores import CoreDivision
from swell.sim.simulate import simulate
from swell.sim.traces.arrivals import Poisson
from swell.sim.traces.fill import fill
from swell.sim.traces.generate import Demand, generate
from swell.sim.traces.rules import FillRules

POLICY = "elasticflow"
PLAIN = Conditions(nodes=2, devices_per_node=4)
EPOCHS = Conditions(nodes=2, devices_per_node=4, epoch_ends=EpochEnds(7.0, 50))
#: Everything that can go otherwise than a plan says.
ROUGH = Conditions(
    nodes=2,
    devices_per_node=4,
    resize_cost="profile",
    noise_share=0.2,
    profile_error_share=0.2,
    node_mtbf_s=20_000.0,
    fault_rates=FaultRates(launch=0.1, resize=0.3, suspend=0.3, loss=0.3),
    seed=5,
)

#: Neighbours that take each other's cores, and more; pauses in which they do not.
CROWDED = Conditions(
    nodes=2,
    devices_per_node=4,
    cores=2.5,
    sharing=CoreDivision(interference_share=0.1),
    resize_cost="profile",
)


def record(
    folder: Path,
    conditions: Conditions,
    policy: str = POLICY,
    profiles: str = "law",
    losses: Literal["given", "drawn"] = "given",
) -> None:
    """Twenty jobs of a quarter of an hour each, every two minutes one."""
    trace = generate(Poisson(1 / 120), 20, Demand(median_s=900.0, spread=1.0), seed=2)
    known = load(profiles)
    rules = FillRules(seed=1, soft_share=0.2, best_effort_share=0.2, buggy_share=0.1, cancelled_share=0.1)
    workload = fill(trace, known, msgspec.structs.replace(rules, losses=losses))
    outcome = simulate(head(policy), set_up(workload, known, conditions), log=SegmentLog())
    result = PolicyResult(
        policy=policy,
        cluster=conditions.shape,
        truth=truth_of(workload, conditions, {}),
        metrics=metrics_of(outcome),
    )
    write_run(folder, result, outcome.jobs)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    record(folder, PLAIN)
    return folder


def looked_at(folder: Path, policy: str = POLICY, profiles: str | None = "law") -> Audit:
    return audit(read_run(folder, policy), None if profiles is None else load(profiles))


def told(folder: Path) -> str:
    return "\n".join(f"{found.where}: {found.what}" for found in looked_at(folder).differences)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [POLICY, "gandiva", "edf"])
@pytest.mark.parametrize(
    "conditions", [PLAIN, EPOCHS, ROUGH, CROWDED], ids=["plain", "epochs", "rough", "crowded"]
)
def test_an_honest_run_has_no_difference(policy: str, conditions: Conditions, tmp_path: Path) -> None:
    record(tmp_path, conditions, policy)
    found = looked_at(tmp_path, policy)
    assert found.differences == ()
    assert found.num_jobs == 20 and found.num_segments > 20 and found.num_devices == 8


def test_an_honest_run_whose_batches_are_open_has_no_difference(tmp_path: Path) -> None:
    record(tmp_path, PLAIN, "saxena", "saxena")
    assert looked_at(tmp_path, "saxena", "saxena").differences == ()


@pytest.mark.parametrize("cpu_shares", RULES)
def test_gangs_are_as_fast_as_their_neighbours_let_them_be(cpu_shares: ShareMode, tmp_path: Path) -> None:
    """And not as they would be with other shares, or other neighbours."""
    conditions = msgspec.structs.replace(CROWDED, sharing=CoreDivision(cpu_shares=cpu_shares))
    record(tmp_path, conditions)
    assert looked_at(tmp_path).differences == ()
    falsify(tmp_path, SEGMENTS, lambda lines: [line.update(share="0.3") for line in training(lines)[::2]])
    assert "by the profiles and its neighbours" in told(tmp_path)


@pytest.mark.slow
def test_shares_are_recorded_to_the_last_digit(tmp_path: Path) -> None:
    """`flowcon` gives some of six jobs a twelfth."""
    conditions = msgspec.structs.replace(CROWDED, nodes=1, devices_per_node=6, report_s=30.0)
    record(tmp_path, conditions, "flowcon", losses="drawn")
    shares = {line["share"] for line in read_run(tmp_path, "flowcon").segments}
    assert any(len(share) > len("0.123") for share in shares)
    assert looked_at(tmp_path, "flowcon").differences == ()


# ---------------------------------------------------------------- falsified
Lines = list[dict[str, str]]


def falsify(folder: Path, kind: str, change: Callable[[Lines], object]) -> None:
    file = folder / f"{POLICY}{kind}"
    with file.open(newline="") as text:
        lines = list(csv.DictReader(text))
    change(lines)
    with file.open("w", newline="") as text:
        writer = csv.DictWriter(text, lines[0])
        writer.writeheader()
        writer.writerows(lines)


def falsified(sound: Path, tmp_path: Path, kind: str, change: Callable[[Lines], object]) -> str:
    folder = tmp_path / "false"
    shutil.copytree(sound, folder, dirs_exist_ok=True)
    falsify(folder, kind, change)
    return told(folder)


def training(lines: Lines) -> Lines:
    return [line for line in lines if line["trains_from_s"] != "inf"]


def ended(lines: Lines) -> dict[str, str]:
    return next(line for line in lines if line["phase"] == "succeeded" and line["deadline_s"])


def half_rate(lines: Lines) -> None:
    """Consistent within itself: only the profile knows."""
    for line in training(lines):
        line["rate_per_s"] = repr(float(line["rate_per_s"]) / 2)


def shorter_pauses(lines: Lines) -> None:
    """Consistent in steps and lists: the job trains at once, and slower."""
    for line in training(lines):
        from_s, until_s, begins_s = (float(line[name]) for name in ("from_s", "until_s", "trains_from_s"))
        if from_s < begins_s < until_s:
            line["trains_from_s"] = line["from_s"]
            line["rate_per_s"] = repr(float(line["rate_per_s"]) * (until_s - begins_s) / (until_s - from_s))


def one_device(lines: Lines) -> None:
    for line in lines:
        line["devices"] = "n0.0"


LIES: dict[str, tuple[str, Callable[[Lines], object], str]] = {
    "more steps": (
        SEGMENTS,
        lambda lines: training(lines)[3].update(until_step="9999999.000"),
        "by the record",
    ),
    "another rate": (SEGMENTS, half_rate, "by the profiles"),
    "no pause": (SEGMENTS, lambda lines: lines.pop(2), "job "),
    "shorter pauses": (SEGMENTS, shorter_pauses, " is due"),
    "one device": (SEGMENTS, one_device, "is held by jobs"),
    "unknown device": (SEGMENTS, lambda lines: lines[0].update(devices="n9.9"), "is none of the cluster"),
    "an earlier end": (JOBS, lambda lines: ended(lines).update(end_s="1.0"), "ended at"),
    "an earlier start": (JOBS, lambda lines: ended(lines).update(start_s="1.0"), "began to train at"),
    "a kept deadline": (
        JOBS,
        lambda lines: ended(lines).update(is_kept=str(ended(lines)["is_kept"] != "True")),
        "the record denies it",
    ),
    "fewer device-seconds": (
        JOBS,
        lambda lines: ended(lines).update(device_s="1.0"),
        "device-seconds by its",
    ),
    "no pauses": (JOBS, lambda lines: [line.update(pauses="") for line in lines], "pause is"),
    "another size": (JOBS, lambda lines: [line.update(sizes="0.000:3") for line in lines], "size is"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_falsified_run_is_found_out(lie: str, sound: Path, tmp_path: Path) -> None:
    kind, change, part = LIES[lie]
    assert part in falsified(sound, tmp_path, kind, change)


NUMBERS = ("from_s", "until_s", "from_step", "until_step", "rate_per_s")


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=fewer_if_quick(40),
    deadline=None,
)
@given(drawn=st.data())
def test_any_number_of_a_segment_that_trains_is_held_to_account(
    drawn: st.DataObject, sound: Path, tmp_path: Path
) -> None:
    name, share = drawn.draw(st.sampled_from(NUMBERS)), drawn.draw(st.floats(0.01, 2.0))

    def change(lines: Lines) -> None:
        longest = [line for line in training(lines) if float(line["until_s"]) > float(line["from_s"]) + 60.0]
        line = drawn.draw(st.sampled_from(longest))
        line[name] = repr(float(line[name]) * (1.0 + share) + 1.0)

    assert falsified(sound, tmp_path, SEGMENTS, change)


@pytest.mark.parametrize(
    "name", ["deadline_satisfaction", "admitted_late", "completed", "avg_jct_s", "makespan_s", "resizes"]
)
def test_a_figure_that_its_jobs_do_not_give_is_found_out(name: str, sound: Path, tmp_path: Path) -> None:
    folder = tmp_path / "false"
    shutil.copytree(sound, folder)
    file = folder / f"{POLICY}.json"
    figures = json.loads(file.read_text())
    figures["metrics"][name] += 1
    file.write_text(json.dumps(figures))
    assert told(folder).startswith(f"figures: {name} is")


# ---------------------------------------------------------------- as a user runs it
def test_the_command_tells_each_difference_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(
        "submit_s,id,num_devices,duration_s,deadline_s\n0,a,4,600,900\n60,b,8,600,1e5\n"
    )
    words = ["simulate", "log.csv", "--cluster", "1x8", "--stories", "run", "--policy", "elasticflow,fifo"]
    assert main.run(words) == 0
    capsys.readouterr()
    assert main.run(["audit", "run", "--profiles", "law"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in said] == ["elasticflow", "fifo"]
    assert all(line.endswith("8 devices: no difference") for line in said)
    falsify(Path("run"), JOBS, lambda lines: ended(lines).update(end_s="1.0"))
    assert main.run(["audit", "run"]) == 1
    out = capsys.readouterr().out
    assert "  job a: ended at" in out and "fifo: 2 jobs" in out


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (
            ("nowhere",),
            "nowhere holds no record of a run; write one with `swell simulate ... --stories FOLDER`",
        ),
        (("run", "--policy", "edf"), "has no policy 'edf'; it has elasticflow"),
        (("run",), "is damaged"),
    ],
)
def test_what_is_no_record_is_one_clear_error(
    words: tuple[str, ...],
    part: str,
    sound: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(sound, "run")
    falsify(Path("run"), SEGMENTS, lambda lines: lines[0].update(from_s="soon"))
    assert main.run(["audit", *words]) == 2
    err = capsys.readouterr().err
    assert err.startswith("swell: ") and part in err and err.count("\n") == 1


def test_stories_tell_devices_pauses_and_the_first_step_to_a_millisecond(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text("submit_s,id,num_devices,duration_s\n0,long,4,6000\n0.5,short,4,600\n")
    words = ["simulate", "log.csv", "--cluster", "1x8", "--policy", "equal_share", "--stories", "run"]
    assert main.run([*words, "--deadlines", "none"]) == 0
    capsys.readouterr()
    assert main.run(["explain", "long", "--run", "run", "--json"]) == 0
    lines = {line["code"]: line["text"] for line in json.loads(capsys.readouterr().out)}
    assert lines["launched"].startswith("launched at 0.000 s for ")
    assert "n0.0 n0.1 n0.2 n0.3 n0.4 n0.5 n0.6 n0.7" in lines["trains"]
    assert " after a pause of " in lines["trains"]
    assert lines["gone"].startswith("succeeded at ")
