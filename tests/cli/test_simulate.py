"""`swell simulate`, as a user runs it."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from swell.cli import main

Run = Callable[..., subprocess.CompletedProcess[str]]

#: One job alone, one with no time to spare, one that can wait.
TRACE = """\
submit_s,id,num_devices,duration_s,deadline_s
0,early,4,3600,9000
600,hopeless,4,3600,700
700,late,8,7200,40000
"""
TWO_ON_ONE_NODE = ("log.csv", "--cluster", "8", "--profiles", "law")


@pytest.fixture
def swell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """The program in this process, in a folder with a small trace."""
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(TRACE)

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        status = main.run(["simulate", *map(str, words)])
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess([str(word) for word in words], status, out, err)

    return run


def test_policies_stand_side_by_side(swell: Run) -> None:
    done = swell(*TWO_ON_ONE_NODE, "--policy", "elasticflow,fifo", "--refused", "end")
    assert done.returncode == 0, done.stderr
    title, _, headings, *rows = [line for line in done.stdout.splitlines() if not line.startswith("  ")]
    assert title.startswith("log.csv: 3 jobs on 1x8 devices (law") and ", refused jobs end" in title
    assert headings.split()[:7] == ["POLICY", "DEADLINES", "HOURS", "ADMITTED", "REFUSED", "LATE", "DONE"]
    assert rows[0].split()[:6] == ["elasticflow", "0.667", "13.6", "2", "1", "0"]
    assert rows[1].split()[:6] == ["fifo", "0.667", "13.6", "3", "0", "1"]


def test_refused_jobs_are_tried_without_a_promise(swell: Run) -> None:
    done = swell(*TWO_ON_ONE_NODE, "--json", "out.json", "--jobs", "jobs.csv")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert " ".join(lines[-3:-1]).split() == ["POLICY", "UNPROMISED", "UNPROMISED", "MET"]
    assert lines[-1].split() == ["unified", "1", "0"]
    (result,) = json.loads(Path("out.json").read_text())
    metrics = result["metrics"]
    assert (metrics["admitted"], metrics["rejected"], metrics["completed"]) == (2, 0, 3)
    assert (metrics["unpromised"], metrics["met_unpromised"]) == (1, 0)
    assert result["truth"]["refused"] == "soft"
    with Path("jobs.csv").open() as file:
        jobs = {row["id"]: row for row in csv.DictReader(file)}
    assert [jobs[name]["is_unpromised"] for name in ("early", "hopeless", "late")] == [
        "False",
        "True",
        "False",
    ]
    assert jobs["hopeless"]["job_class"] == "strict" and float(jobs["hopeless"]["counter_offer_s"]) > 700


def test_where_a_log_tells_whose_jobs_are_it_is_said_how_tenants_fared(swell: Run) -> None:
    """A virtual cluster's name comes before a user's; two have ten deadlines each, and one has two."""
    whose = ["lab,ann", ",ann"] * 10 + [","] * 2
    jobs = [f"{600 * number},1,3600,{names}" for number, names in enumerate(whose)]
    Path("shared.csv").write_text("\n".join(["submit_s,num_devices,duration_s,tenant,user", *jobs]))
    done = swell(
        "shared.csv",
        *TWO_ON_ONE_NODE[1:],
        "--policy",
        "elasticflow",
        "--set",
        "elasticflow.promises_by=tenants",
        "--json",
        "out.json",
    )
    (result,) = json.loads(Path("out.json").read_text())
    groups = {group["name"]: group for group in result["metrics"]["by_tenant"]}
    assert {name: group["jobs"] for name, group in groups.items()} == {"ann": 10, "lab": 10, "": 2}
    worst = min(("ann", "lab"), key=lambda name: groups[name]["deadline_satisfaction"])
    *_, headings, below, row = done.stdout.splitlines()
    assert headings.split() == ["POLICY", "FAIRNESS", "WORST-SERVED", "DEADLINES"]
    assert below.split() == ["TENANT", "MET"]
    policy, index, name, met = row.split()
    assert (policy, name) == ("elasticflow", worst)
    assert float(met) == pytest.approx(groups[worst]["deadline_satisfaction"], abs=5e-4)
    assert float(index) == pytest.approx(result["metrics"]["fairness"]["jain_index"], abs=5e-4)
    assert sum(group["jobs"] for group in result["metrics"]["by_size"]) == 22


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("--quota", "eve=1"), "no job of log.csv is of tenant 'eve'; tenants there are (no tenant)"),
        (("--quota", "=150%"), "up to 100%"),
        (("--quota", "=1", "--policy", "fifo,flowcon"), "policy flowcon cannot keep quotas"),
    ],
)
def test_quotas_that_cannot_be_are_named(swell: Run, words: tuple[str, ...], rule: str) -> None:
    done = swell(*TWO_ON_ONE_NODE, *(("--policy", "fifo") if "--policy" not in words else ()), *words)
    assert done.returncode == 2 and rule in done.stderr and done.stdout == ""


def test_the_truth_is_told_with_all_its_faults(swell: Run) -> None:
    title = "resize cost none, noise 0.1, profile error 0.2, a node fails every 10 days for 1 h, seed 3"
    words = (
        "--noise",
        0.1,
        "--profile-error",
        0.2,
        "--node-mtbf",
        "10d",
        "--seed",
        3,
        "--resize-cost",
        "none",
    )
    assert swell(*TWO_ON_ONE_NODE, *words).stdout.splitlines()[0].endswith(title)


def test_json_has_an_object_a_policy_and_comes_out_again_to_the_byte(swell: Run) -> None:
    words = (*TWO_ON_ONE_NODE, "--policy", "elasticflow,equal_share", "--seed", 3, "--noise", 0.1)
    assert swell(*words, "--json", "one.json").returncode == 0
    assert swell(*words, "--json", "two.json").returncode == 0
    assert Path("one.json").read_bytes() == Path("two.json").read_bytes()
    found = json.loads(Path("one.json").read_text())
    assert [result["policy"] for result in found] == ["elasticflow", "equal_share"]
    assert found[0]["cluster"] == {"nodes": 1, "devices_per_node": 8, "devices": 8}
    assert found[0]["truth"]["resize_cost"] == "changed" and found[0]["truth"]["seed"] == 3
    assert found[0]["metrics"]["admitted_late"] == 0


def test_a_job_that_is_too_large_for_the_cluster_is_refused_and_counted(swell: Run) -> None:
    Path("tables").mkdir()
    Path("tables/large.csv").write_text("global_batch_size,8,16\n64,,5.0\n")
    Path("log.csv").write_text("submit_s,id,num_devices,duration_s,model,global_batch\n0,a,16,60,large,64\n")
    words = ("log.csv", "--cluster", "1x8", "--profiles", "tables", "--deadlines", "none")
    found = json.loads(swell(*words, "--jobs", "jobs.csv", "--json", "-").stdout)
    assert found[0]["metrics"]["rejected"] == 1
    (row,) = csv.DictReader(Path("jobs.csv").read_text().splitlines())
    assert row["why"] == "needs 16 devices or more, and the cluster has 8"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("log.csv", "--cluster", "1x8", "--buggy", "2"), "--buggy is 2; it must be between 0 and 1"),
        (("log.csv", "--cluster", "1x8", "--soft", "nan"), "--soft is nan; it must be between 0 and 1"),
        (("nothing.csv",), "cannot read nothing.csv: there is no such file"),
        (("log.csv", "--cluster", "big"), "--cluster is 'big'; write NODESxDEVICES, such as 16x8"),
        (("log.csv", "--cluster", "2x2x2x8"), "or RACKSxNODESxDEVICES, and islands behind it"),
        (("log.csv", "--cluster", "0x2x8"), "there is at least one rack"),
        (("log.csv", "--cluster", "2x8/3"), "8 devices are no whole number of islands of 3"),
        (("log.csv", "--cluster", "2x8/"), "write numbers of devices, the outermost level first"),
        (("log.csv", "--cluster", "0x8"), "a cluster of 0x8 has no devices; both must be at least 1"),
        (
            ("log.csv", "--cluster", "99999999x8"),
            "a cluster of 99999999x8 has 799,999,992 devices; at most 100,000 can be simulated",
        ),
        (("log.csv", "--cluster", "a=2x8,a=1x8"), "kind 'a' stands there twice, name each once"),
        (("log.csv", "--cluster", "a=2x8,b"), "write KIND=NODESxDEVICES for each kind"),
        (("log.csv", "--cluster", "a=2x2x8"), "write KIND=NODESxDEVICES for each kind"),
        (("log.csv", "--cluster", "a=0x8"), "gives kind 'a' 0x8, which has no devices; leave it out"),
        (("log.csv", "--cluster", "a=2x8*0"), "gives kind 'a' the speed '0'; write a number above 0"),
        (("log.csv", "--cluster", "a=2x8*nan"), "gives kind 'a' the speed 'nan'; write a number above 0"),
        (("log.csv", "--cluster", "any=2x8"), "names a kind 'any'; a kind has"),
        (("log.csv", "--cluster", "=2x8"), "names a kind ''; a kind has"),
        (("log.csv", "--cluster", "a=99999x8,b=1x8"), "at most 100,000 can be simulated"),
        (("log.csv", "--cluster", "1x8", "--policy", "best"), "there is no policy 'best'; choose one of"),
        (("log.csv", "--cluster", "1x8", "--resize-cost", "much"), "'much' is no resize cost; give one of"),
        (("log.csv", "--cluster", "1x8", "--resize-cost", "1e9"), "or a number of seconds from 0 to 86400"),
        (("log.csv", "--cluster", "1x8", "--noise", "-1"), "--noise is -1; it must be between 0 and 2"),
        (("none.csv", "--cluster", "1x8"), "none.csv"),
        (("log.csv", "--cluster", "1x8", "--cores", "0"), "--cores is 0; a node has more than 0 cores"),
        (("log.csv", "--cluster", "1x8", "--cores", "nan"), "--cores is nan; a node has more than 0 cores"),
        (
            ("log.csv", "--cluster", "1x8", "--cores", "2", "--cpu-shares", "nice"),
            "--cpu-shares: 'nice' is not known; choose one of weight, quota",
        ),
        (
            ("log.csv", "--cluster", "1x8", "--cpu-shares", "quota"),
            "--cpu-shares is about the cores of a node; give --cores",
        ),
    ],
)
def test_wrong_options_are_named_with_the_remedy(swell: Run, words: tuple[str, ...], text: str) -> None:
    done = swell(*words)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and text in done.stderr


# ---------------------------------------------------------------- why
def tell(capsys: pytest.CaptureFixture[str], *words: object) -> subprocess.CompletedProcess[str]:
    status = main.run([*map(str, words)])
    out, err = capsys.readouterr()
    return subprocess.CompletedProcess([str(word) for word in words], status, out, err)


def test_a_simulated_job_is_explained_as_a_live_one_is(
    swell: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (*TWO_ON_ONE_NODE, "--refused", "end", "--json", "-")
    plain = swell(*words).stdout
    assert swell(*words, "--stories", "why").stdout == plain
    told = tell(capsys, "explain", "hopeless", "--run", "why").stdout.splitlines()
    assert told[0].startswith("hopeless  rejected: ")
    told = told[told.index("") + 1 :]
    assert told[0].split() == ["AT", "WHAT", "WHY"]
    assert told[1].split()[:2] == ["00:10:00", "submitted"] and "  refused  " in "".join(told)
    late = tell(capsys, "explain", "late", "--run", "why", "--json")
    codes = [story["code"] for story in json.loads(late.stdout)]
    assert (
        codes[0] == "submitted" and codes[-1] == "succeeded" and {"promised", "decided", "started"} < {*codes}
    )
    shown = tell(capsys, "show", "late", "--run", "why").stdout
    assert re.search(r"^class +strict, promised", shown, re.MULTILINE) and "finished" in shown


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (("early", "--run", "none"), 1, "none holds no record of a run; write one with `swell simulate"),
        (("nobody", "--run", "why"), 2, "no job has the id or name 'nobody'; the run in why has 3 others"),
        (("early", "--policy", "fifo"), 2, "--policy needs --run FOLDER"),
        (("early", "--run", "why", "--state", "x"), 2, "--run and --state exclude each other"),
    ],
)
def test_a_run_that_is_none_is_named(
    swell: Run, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], status: int, text: str
) -> None:
    swell(*TWO_ON_ONE_NODE, "--stories", "why")
    done = tell(capsys, "explain", *words)
    assert (done.returncode, done.stdout) == (status, "") and text in done.stderr


# ---------------------------------------------------------------- where it writes to
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ("--json", "nowhere/a.json"),
            "--json: there is no folder nowhere to write a.json to; create it first",
        ),
        (
            ("--jobs", "nowhere/a.csv"),
            "--jobs: there is no folder nowhere to write a.csv to; create it first",
        ),
        (("--json", "."), "--json: . is a folder; name a file"),
        (("--jobs", "-"), "--jobs writes a file; name one"),
        (("--json", "log.csv"), "--json: log.csv is what is read; choose another file"),
        (("--json", "a", "--jobs", "a"), "--jobs: a is what --json writes; choose another file"),
        (("--stories", "log.csv"), "--stories: log.csv is a file; name a folder"),
        (("--stories", "log.csv/why"), "--stories: cannot write log.csv/why: Not a directory"),
        (("--set", "colour=1"), "--set: there is no setting 'colour'; choose from min_hold_s"),
        (("--set", "min_hold_s=-5"), "--set: min_hold_s=-5 is not between 0 and 3600"),
    ],
)
def test_what_cannot_be_written_is_said_before_anything_runs(
    swell: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], text: str
) -> None:
    monkeypatch.setattr("swell.cli.simulate._run", None)
    done = swell(*TWO_ON_ONE_NODE, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"swell: {text}") and done.stderr.count("\n") == 1
    assert Path("log.csv").read_text() == TRACE


def test_jobs_run_on_nodes_that_a_log_says_are_idle(swell: Run) -> None:
    Path("pool.csv").write_text("node,start_s,end_s,devices\na,0,5000,8\nb,900,-1,8\nc,0,99,1\n")
    Path("names.txt").write_text("a\nb\nz\n")
    options = ("--pool", "pool.csv", "--deadlines", "none", "--policy", "equal_share", "--json", "out.json")
    done = swell("log.csv", *options, "--pool-nodes", "names.txt", "--pool-window", "500:9000")
    assert done.returncode == 0, done.stderr
    assert "log.csv: 3 jobs on borrowed nodes of pool.csv (3 nodes) from 500 s to 9000 s" in done.stdout
    assert "NODE-HOURS  EQUIVALENT" in done.stdout
    assert "1 of the 3 nodes of names.txt are never idle in pool.csv" in done.stderr
    (result,) = json.loads(Path("out.json").read_text())
    assert result["cluster"] == {"nodes": 0, "devices_per_node": 0, "devices": 0}
    assert result["metrics"]["kept_device_s"] == 0.0
    assert result["metrics"]["resource_integral_node_h"] > 1.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "there are no nodes; give --cluster NODESxDEVICES, --pool INTERVALS.csv, or both"),
        (("--pool-nodes", "x"), "--pool-nodes is about a pool"),
        (("--pool-window", "0:1"), "--pool-window is about a pool"),
        (("--pool-warning", "5s"), "--pool-warning is about a pool"),
        (("--pool", "pool.csv", "--pool-warning", "soon"), "--pool-warning: 'soon' is not a duration"),
        (("--pool", "missing.csv"), "cannot read missing.csv"),
        (("--pool", "pool.csv", "--pool-window", "9:3"), "--pool-window is '9:3'; write FROM:UNTIL"),
        (("--pool", "pool.csv", "--pool-window", "10:inf"), "--pool-window is '10:inf'"),
        (("--pool", "pool.csv", "--pool-window", "100:200"), "has no idle node between 100 s and 200 s"),
        (("--pool", "pool.csv", "--pool-nodes", "names.txt"), "has none of the nodes of names.txt"),
        (("--pool", "pool.csv", "--cluster", "1x8"), "node 'n0' has the name of a node of --cluster"),
        (("--pool", "pool.csv", "--cluster", "a=1x8"), "--pool lends nodes of one kind, and --cluster names"),
    ],
)
def test_options_about_borrowed_nodes_that_cannot_be_are_refused(
    swell: Run, words: tuple[str, ...], message: str
) -> None:
    Path("pool.csv").write_text("node,start_s,end_s\nn0,0,50\n")
    Path("names.txt").write_text("z\n")
    done = swell("log.csv", *words)
    assert done.returncode != 0
    assert message in done.stderr


def test_several_kinds_of_device(swell: Run) -> None:
    """A strict job is promised by the kind that can; another one waits for the kind that it names."""
    Path("kinds.csv").write_text(
        "submit_s,id,num_devices,duration_s,is_best_effort,deadline_s,kind\n"
        '0,busy,8,3600,yes,,a100\n1,one,8,3600,no,9000,"a100,v100"\n2,two,8,3600,yes,,any\n'
    )
    words = ("kinds.csv", "--cluster", "a100=1x8*2.5,v100=1x8", "--policy", "fifo")
    shown = swell(*words).stdout
    assert "3 jobs on a100=1x8*2.5,v100=1x8 devices" in shown
    (found,) = json.loads(swell(*words, "--json", "-").stdout)
    cluster = found["cluster"]
    assert [kind["kind"] for kind in cluster["kinds"]] == ["a100", "v100"]


def test_a_parameter_of_a_policy_that_does_not_decide_is_told(swell: Run) -> None:
    words = ("--set", "elasticflow.survive_nodes=1", "--set", "unified.gains_by=samples")
    done = swell(*TWO_ON_ONE_NODE, *words)
    assert done.returncode == 0
    assert done.stderr == "swell: without effect, because unified decides: elasticflow.survive_nodes=1\n"
    assert swell(*TWO_ON_ONE_NODE, *words, "--policy", "elasticflow,unified").stderr == ""


def test_a_scenario_file_says_what_the_command_line_leaves_out(swell: Run) -> None:
    said = {"cluster": "1x8", "profiles": "law", "noise": 0.1, "node-mtbf": "10d", "strict": True}
    said |= {"set": {"min_hold_s": 30}, "tightness": "0.5:1.5"}
    Path("scenario.yaml").write_text(json.dumps(said))
    words = ("--noise", 0.1, "--node-mtbf", "10d", "--set", "min_hold_s=30", "--strict", "--json", "-")
    assert (
        swell("log.csv", "--scenario", "scenario.yaml", "--json", "-").stdout
        == swell(*TWO_ON_ONE_NODE, *words).stdout
    )
    other = swell("log.csv", "--noise", 0, "--scenario", "scenario.yaml", "--json", "-")
    assert json.loads(other.stdout)[0]["truth"]["noise"] == 0.0


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("nois: 1", "'nois' is no option; write OPTION: VALUE"),
        ("- noise", "it is no mapping"),
        ("noise: {", "cannot be read"),
        ("noise: much", "--noise"),
        ("node-mttr: long", "--node-mttr: 'long' is not a duration"),
    ],
)
def test_a_scenario_file_that_cannot_be_is_refused(text: str, rule: str, swell: Run) -> None:
    Path("scenario.yaml").write_text(text)
    done = swell(*TWO_ON_ONE_NODE, "--scenario", "scenario.yaml")
    assert done.returncode == 2 and rule in done.stderr and done.stderr.count("\n") == 1


def test_fixed_jobs_and_bookings_stand_apart(swell: Run) -> None:
    Path("mixed.csv").write_text(
        "submit_s,id,num_devices,duration_s,job_kind,time_limit_s\n0,a,8,3600,,\n10,b,4,600,fixed,300\n"
        "20,c,1,60,session,\n"
    )
    Path("booked.csv").write_text("id,begin_s,end_s,num_devices\nlate,100,90000,8\nnow,7200,9000,8\n")
    done = swell(
        "mixed.csv", "--cluster", "8", "--deadlines", "none", "--bookings", "booked.csv", "--json", "out.json"
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    place = next(at for at, words in enumerate(lines) if words[:2] == ["POLICY", "KIND"])
    rows = {words[1]: words[2:7] for words in lines[place:] if words[:1] == ["unified"]}
    assert rows == {
        "elastic": ["1", "0", "0", "1", "0"],
        "fixed": ["1", "0", "0", "0", "1"],
        "session": ["1", "0", "0", "1", "0"],
    }
    assert "unified: booking now is refused" in done.stderr
    (result,) = json.loads(Path("out.json").read_text())
    assert (result["metrics"]["timed_out"], result["metrics"]["refused_bookings"]) == (1, 1)
