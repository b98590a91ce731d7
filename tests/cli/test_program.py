"""The program, run as a user runs it, against a real server over a fake platform."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from tests.api.fake_control import FakeControl
from tests.cli.conftest import Run
from tests.store.views import job_view

from swell import __version__
from swell.cli import output
from swell.cli.jobs import row
from swell.model.errors import Unwritable
from swell.model.job import EndCondition, FixedTerms, JobClass, Phase
from swell.model.resize import Resize, Verdict
from swell.model.view import JobView
from swell.store.folder import StateFolder
from swell.wire.checkpoint_files import checkpoint_name

JOB = ("--script", "{script}", "--global-batch", 8, "--steps", 1)


def fails(done: subprocess.CompletedProcess[str], status: int, *parts: str) -> None:
    """It said in one line what is wrong, and nothing else."""
    assert done.returncode == status, done
    assert done.stdout == ""
    assert re.fullmatch(r"swell: [^\n]+\n", done.stderr), done.stderr
    for part in parts:
        assert part in done.stderr


def test_version_and_help(swell: Run) -> None:
    assert swell("--version").stdout == f"swell {__version__}\n"
    for words in ((), ("--help",), ("-h",)):
        done = swell(*words)
        assert done.returncode == 0
        for command in [
            "up",
            "down",
            "submit",
            "jobs",
            "show",
            "logs",
            "cancel",
            "nodes",
            "explain",
            "admin",
            "demo",
        ]:
            assert re.search(rf"^  {command} ", done.stdout, re.MULTILINE), command


def options_in(text: str) -> list[str]:
    return re.findall(r"^  (?:-h, )?(--[a-z-]+)", text, re.MULTILINE)


def test_help_lists_the_options_of_each_day_and_help_all_the_others(swell: Run) -> None:
    for command, most, rare in (
        ("submit", 25, "--on-drift"),
        ("up", 20, "--cpu-shares"),
        ("simulate", 25, "--node-mtbf"),
    ):
        daily, every = (options_in(swell(command, flag).stdout) for flag in ("--help", "--help-all"))
        assert "--help-all" in daily and len(daily) <= most
        assert rare not in daily and {rare, *daily} <= {*every}
    assert all("--notify" in options_in(swell(command, "--help").stdout) for command in ("submit", "run"))
    assert "--partition" in options_in(swell("up", "--engine", "slurm", "--help").stdout)
    assert "--partition" not in options_in(swell("up", "--help").stdout)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("jump",), "jump"),
        (("jobs", "--yaml"), "--yaml"),
        (("show",), "JOB"),
        (("up", "--port", "many", "--foreground"), "--port"),
        (("submit",), "--script"),
        (("submit", "a.yaml", "b.yaml"), "one job file"),
        (("jbos",), "jobs"),
        (("submit", "--steps", "few"), "'few'"),
        (("logs", "x", "--all", "--worker", "0"), "--all excludes --worker"),
    ],
)
def test_wrong_usage(here: Run, words: tuple[str, ...], part: str) -> None:
    fails(here(*words), 2, part, "--help")


# ---------------------------------------------------------------- submit
def submit(swell: Run, script: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return swell("submit", "--script", script, "--global-batch", 64, "--steps", 100, *words)


def test_a_promise_is_printed(swell: Run, script: Path) -> None:
    done = submit(swell, script, "--deadline", "now+3m")
    assert done.returncode == 0
    assert re.match(
        r"train-\d{4}: promised to finish by .+ \(in 3 min\), expected to finish at .+ \(in [56]\d s\)\n",
        done.stdout,
    )


def test_a_full_disk_leaves_nobody_in_doubt_whether_there_is_a_job(
    here: Run, control: FakeControl, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swell.api.client.RETRY_WITHIN_S", 0.0)
    monkeypatch.setattr(control, "is_full", True)
    full = submit(here, script, "--key", "mine")
    assert full.returncode == 5 and "unknown" not in full.stderr
    assert "no folder can be made for the job; submit it again with the key mine (--key)" in full.stderr


def test_a_refusal_is_printed_with_an_option_that_works(swell: Run, script: Path) -> None:
    done = submit(swell, script, "--or-nothing", "--deadline", "now+5s")
    assert done.returncode == 3
    assert "refused: 8 devices cannot finish it before its deadline" in done.stdout
    (offer,) = re.findall(r"^  submit again with (--deadline \S+)$", done.stdout, re.MULTILINE)
    assert submit(swell, script, *offer.split()).returncode == 0


def test_a_job_that_is_tried_without_a_promise_exits_as_one_that_was_refused(
    swell: Run, script: Path
) -> None:
    done = submit(swell, script, "--deadline", "now+5s")
    assert done.returncode == 3
    assert "not promised: 8 devices cannot finish it before its deadline" in done.stdout
    (offer,) = re.findall(r"^  for a promise: swell (promise \S+ --deadline \S+)$", done.stdout, re.MULTILINE)
    assert swell(*offer.split()).returncode == 0


def test_a_job_that_failed_in_its_trial_run_is_no_success(
    here: Run, control: FakeControl, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = job_view(
        id="torn-1",
        phase=Phase.FAILED,
        is_promised=False,
        message="Traceback (most recent call last):\n  ...\nKeyError: 'lr'\n",
    )
    monkeypatch.setattr(control, "_judged", lambda job_id, spec: msgspec.structs.replace(failed, id=job_id))
    done = submit(here, script, "--deadline", "now+3m")
    assert done.returncode == 1
    told = r"(\S+): failed: KeyError: 'lr'\n  see `swell show \1`\n"
    assert re.fullmatch(told, done.stdout), done
    assert submit(here, script, "--deadline", "now+3m", "--json").returncode == 1


@pytest.mark.parametrize("job_class", [JobClass.BEST_EFFORT, JobClass.SOFT, JobClass.STRICT])
def test_the_trial_run_is_waited_for_in_every_class(
    here: Run, control: FakeControl, script: Path, monkeypatch: pytest.MonkeyPatch, job_class: JobClass
) -> None:
    codes = iter(["submitted", "profiling", "profiled"])
    trying = job_view(phase=Phase.QUEUED, job_class=job_class, is_promised=False)
    failed = job_view(
        phase=Phase.FAILED,
        job_class=job_class,
        is_promised=False,
        message="Traceback (most recent call last):\n  ...\nKeyError: 1",
    )

    def look(job_id: str) -> JobView:
        code = next(codes, None)
        view = failed if code is None else msgspec.structs.replace(trying, reason_code=code)
        return msgspec.structs.replace(view, id=job_id)

    monkeypatch.setattr(control, "job", look)
    done = submit(here, script)
    assert done.returncode == 1
    assert re.fullmatch(r"(\S+): failed: KeyError: 1\n  see `swell show \1`\n", done.stdout)


def test_where_policies_promise_nothing_none_is_claimed(
    here: Run, control: FakeControl, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted = job_view(is_promised=False, reason_code="sharing", deadline_s=time.time() + 60)
    monkeypatch.setattr(control, "_judged", lambda job_id, spec: msgspec.structs.replace(accepted, id=job_id))
    cluster = msgspec.structs.replace(control.cluster(), policy="fifo")
    monkeypatch.setattr(control, "cluster", lambda: cluster)
    done = submit(here, script, "--deadline", "now+3m")
    assert done.returncode == 0
    assert ": accepted without a promise: policy fifo makes none, expected to finish at" in done.stdout
    accepted = msgspec.structs.replace(accepted, booking="b-1")
    done = submit(here, script, "--deadline", "now+3m")
    assert ": accepted without a promise: jobs of a booking get none, expected" in done.stdout


def test_arguments_reach_the_script_as_they_are(swell: Run, control: FakeControl, script: Path) -> None:
    arguments = ("--lr", "0.1", "$(touch x); rm -rf *", "", "ü")
    done = submit(swell, script, "--name", "odd", "--json", "--", *arguments)
    (view,) = json.loads(done.stdout)
    assert control.specs[view["id"]].args == arguments
    assert view["job_class"] == JobClass.BEST_EFFORT


def test_a_script_may_stand_where_a_job_file_does(here: Run, control: FakeControl, script: Path) -> None:
    words = ("--global-batch", 64, "--steps", 100, "--no-wait", "--json", "--", "--lr", "0.1")
    (view,) = json.loads(here("submit", script, *words).stdout)
    spec = control.specs[view["id"]]
    assert (spec.entry, spec.args) == (str(script), ("--lr", "0.1"))
    script.chmod(0o755)
    (view,) = json.loads(here("submit", "--time", "20s", "--no-wait", "--json", "--", script, "-v").stdout)
    assert control.specs[view["id"]].args == (str(script), "-v"), "with a time it is a command"


def test_a_strict_job_is_waited_for_unless_told_not_to(
    swell: Run, control: FakeControl, script: Path
) -> None:
    path = script.with_name("two.yaml")
    path.write_text(
        "- {name: kept, script: train.py, global_batch: 8, steps: 1, deadline: now+10m}\n"
        "- {name: late, script: train.py, global_batch: 8, steps: 1, deadline: now+1s}\n"
    )
    done = swell("submit", path, "--json")
    assert done.returncode == 3
    assert [(view["name"], view["is_promised"]) for view in json.loads(done.stdout)] == [
        ("kept", True),
        ("late", False),
    ]
    assert submit(swell, script, "--deadline", "now+9m", "--no-wait").returncode == 0


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (
            ("--script", "absent.py", "--global-batch", 8, "--steps", 1),
            ("script:", "absent.py", "give the path"),
        ),
        ((*JOB, "--deadline", "2001-01-01"), ("in the past",)),
        ((*JOB, "--class", "gold"), ("--class: 'gold'", "best_effort")),
        ((*JOB, "--workers", "8:4"), ("MIN 8", "write 4:8")),
        ((*JOB, "--workers", "16:32"), ("raise global_batch",)),
        ((*JOB, "--class", "strict"), ("need a deadline",)),
        ((*JOB, "--name", "a/b"), ("name:", "letters")),
        (
            ("--script", "{script}", "--global-batch", 8, "--epochs", -3),
            ("--epochs: -3 is not above 0 and at most 1,000 billion; choose a number that is",),
        ),
        (("absent.yaml",), ("absent.yaml cannot be read",)),
    ],
)
def test_a_wrong_job_is_refused_and_not_half_made(
    here: Run, control: FakeControl, script: Path, words: tuple[object, ...], parts: tuple[str, ...]
) -> None:
    before = control.jobs()
    fails(here("submit", *(str(word).format(script=script) for word in words)), 2, *parts)
    assert control.jobs() == before


def test_options_override_the_fields_of_a_job_file(here: Run, script: Path, control: FakeControl) -> None:
    file = script.with_name("two.yaml")
    file.write_text(
        "- {name: over-a, script: train.py, global_batch: 8, epochs: 3, env: {A: 1, B: 1}}\n"
        "- {name: over-b, script: train.py, global_batch: 8, samples: 99, deadline: now+9h}\n"
    )
    options = ("--steps", 5, "--deadline", "now+2h", "--env", "B=2", "--class", "soft")
    done = here("submit", file, *options)
    assert done.returncode == 0, done
    first, second = (control.specs[line.partition(":")[0]] for line in done.stdout.splitlines())
    assert (first.name, second.name) == ("over-a", "over-b")
    assert (first.env, second.env) == ((("A", "1"), ("B", "2")), (("B", "2"),))
    for spec in (first, second):
        assert (spec.end, spec.job_class, spec.workdir) == (
            EndCondition(steps=5),
            JobClass.SOFT,
            str(script.parent),
        )
        assert spec.deadline_s is not None and spec.deadline_s - time.time() < 7201
    fails(here("submit", file, "--deadline", "soon"), 2, f"{file}, line 1: deadline: 'soon' is not a time")


# ---------------------------------------------------------------- listings
@pytest.fixture
def jobs(control: FakeControl) -> None:
    now_s = time.time()
    control.put(job_view(id="vae-11aa", name="vae", submitted_s=now_s - 9, metrics={"loss": float("nan")}))
    control.put(job_view(id="vae-22bb", name="vae", submitted_s=now_s - 5, deadline_s=now_s + 41))
    control.put(
        job_view(
            id="broken-33cc",
            name="broken",
            phase=Phase.FAILED,
            finished_s=now_s,
            estimated_finish_s=None,
            kept=False,
            workers=0,
            message='Traceback (most recent call last):\n  File "[bold]x[/bold].py"\nValueError: [red]no[/]',
        )
    )


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize(
    "words", [("jobs",), ("show", "vae"), ("nodes",), ("explain", "vae"), ("logs", "vae")]
)
def test_every_listing_has_json(here: Run, words: tuple[str, ...]) -> None:
    done = here(*words, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert isinstance(json.loads(done.stdout), list | dict)


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize("words", [("jobs",), ("show", "vae"), ("nodes",), ("explain", "vae")])
@pytest.mark.parametrize("columns", [80, 100])
def test_listings_fit_the_terminal(
    here: Run, words: tuple[str, ...], columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PIPED_WIDTH", columns)
    done = here(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= columns
    assert not re.search(r" $", done.stdout, re.MULTILINE)
    assert "…" not in done.stdout


def test_open_jobs_are_listed_and_ended_ones_counted(here: Run, control: FakeControl) -> None:
    ids = ("ended-a", "ended-b", "open-c")
    for job_id, phase in zip(ids, (Phase.SUCCEEDED, Phase.FAILED, Phase.RUNNING), strict=True):
        control.put(job_view(id=job_id, phase=phase, finished_s=4e9 if phase.is_end else None))
    *listed, last = here("jobs").stdout.splitlines()
    counts = control.count_jobs()
    assert last.startswith(f"ended: {counts[Phase.SUCCEEDED]} succeeded, {counts[Phase.FAILED]} failed")
    assert last.endswith("; `swell jobs --all` lists them")
    names = {line.partition(" ")[0] for line in listed}
    assert "open-c" in names and not names & {"ended-a", "ended-b"}
    for words in (("--all",), ("-a",), ("--limit", 0), ("--phase", "open,ended")):
        rows = [line.partition(" ")[0] for line in here("jobs", *words).stdout.splitlines()]
        assert rows.index("open-c") < rows.index("ended-a") < rows.index("ended-b")
    assert "ended-b" in here("jobs", "--phase", "failed").stdout
    assert {view["id"] for view in json.loads(here("jobs", "--json").stdout)} >= set(ids)


def test_show_names_the_newest_checkpoint(here: Run, control: FakeControl, folder: StateFolder) -> None:
    control.put(job_view(id="old-1", phase=Phase.SUCCEEDED))
    assert not re.search(r"^checkpoint +step", here("show", "old-1").stdout, re.MULTILINE)
    (saved := folder.jobs / "old-1" / "checkpoints").mkdir(parents=True)
    for steps in (512, 660):
        (saved / checkpoint_name(steps, steps, "0" * 64)).touch()
    assert re.search(r"^checkpoint +step 660, in\b", here("show", "old-1").stdout, re.MULTILINE)


def test_a_job_is_submitted_and_shown_with_its_tenant(swell: Run, control: FakeControl, script: Path) -> None:
    assert submit(swell, script, "--tenant", "lab/vision").returncode == 0
    assert [spec.tenant for spec in control.specs.values()][-1] == "lab/vision"
    control.put(job_view(id="mine-1", tenant="lab/vision"))
    assert re.search(r"^tenant +lab/vision$", swell("show", "mine-1").stdout, re.MULTILINE)
    assert json.loads(swell("show", "mine-1", "--json").stdout)["tenant"] == "lab/vision"
    control.put(job_view(id="mine-1", tenant=""))
    assert "tenant" not in swell("show", "mine-1").stdout


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), float("-inf")])
def test_a_loss_that_is_no_number_is_shown_as_it_is(here: Run, control: FakeControl, loss: float) -> None:
    control.put(job_view(id="lost-1", loss=loss, metrics={"accuracy": float("nan"), "f1": 0.5}))
    assert re.search(rf"^lost-1 .* running, loss {loss} ", here("jobs").stdout, re.MULTILINE)
    assert re.search(
        rf"^last +loss {loss}, accuracy nan, f1 0\.5$", here("show", "lost-1").stdout, re.MULTILINE
    )
    told = json.loads(here("show", "lost-1", "--json").stdout)
    assert (told["loss"], told["metrics"]) == (str(loss), {"accuracy": "nan", "f1": 0.5})


@pytest.fixture
def resized(control: FakeControl) -> JobView:
    """It grew, which paid; it made room; it grew again just now."""
    at_s = time.time() - 90
    grown = Resize(
        at_s=at_s,
        before=2,
        after=4,
        verdict=Verdict.PAID,
        reason_code="boosted",
        reason="has 4 workers: minimum 2, plus 2 to finish 12 s sooner",
        expected_cost_s=0.1,
        expected_gain_s=9.14,
        wait_s=0.81,
        cost_s=0.124,
        gain_s=7.31,
        held_s=14.0,
        is_held=False,
        rate_before_per_s=20.0,
        rate_after_per_s=36.0,
    )
    change = msgspec.structs.replace
    gave = change(grown, at_s=at_s + 20, before=4, after=2, verdict=Verdict.MADE_ROOM, gain_s=-21.4)
    now = change(grown, at_s=at_s + 80, gain_s=None, wait_s=None, cost_s=None, verdict=Verdict.UNDER_WAY)
    view = job_view(
        id="sized-1", resizes=2, resize_pause_s=0.25, resize_saved_s=7.31, resize_history=(grown, gave, now)
    )
    control.put(view)
    return view


def test_show_weighs_each_resize(here: Run, resized: JobView) -> None:
    shown = here("show", resized.id).stdout
    assert re.search(r"^resizes +2, took 0\.25 s from training; growing saved 7\.3 s$", shown, re.MULTILINE)
    heading, *rows = shown[shown.index("\nAT ") + 1 :].splitlines()
    assert heading.split() == ["AT", "SIZE", "WAIT", "COST", "KEPT", "GAIN", "EXPECTED", "RESULT", "WHY"]
    assert [re.split("  +", row)[1:] for row in rows] == [
        ["2->4", "0.81 s", "0.12 s", "14 s", "+7.3 s", "+9.1 s", "paid", "boosted"],
        ["4->2", "0.81 s", "0.12 s", "14 s", "-21 s", "+9.1 s", "freed devices", "boosted"],
        ["2->4", "-", "-", "-", "-", "+9.1 s", "under way", "boosted"],
    ]
    assert max(map(len, rows)) <= 80


@pytest.mark.usefixtures("jobs")
def test_explain_tells_the_story(here: Run) -> None:
    told = here("explain", "vae-1").stdout
    assert "vae-11aa" in told
    assert told.index("submitted") < told.index("2 workers keep its promise with 80 s to spare", 100)


def test_nodes_show_who_holds_what(here: Run, control: FakeControl) -> None:
    control.put(job_view(id="holder", submitted_s=0.0))
    shown = here("nodes").stdout
    assert re.search(r"node0 +rack0 +paced@200 +6/8 +node0/0 \.\. node0/1 +holder", shown)
    assert "6 of 8 devices free" in shown
    assert "core" not in shown
    control.cores = 1.0
    assert "\nnode0: 8 devices share 1 core\n" in here("nodes").stdout
    control.cores = 1.5
    assert "\nnode0: 8 devices share 1.5 cores\n" in here("nodes").stdout


# ---------------------------------------------------------------- which job
@pytest.mark.usefixtures("jobs")
def test_a_job_is_found_by_name_and_by_prefix(here: Run) -> None:
    for wanted, found in (("vae", "vae-22bb"), ("vae-1", "vae-11aa"), ("vae-11aa", "vae-11aa")):
        assert json.loads(here("show", wanted, "--json").stdout)["id"] == found
    fails(here("show", "va"), 2, "'va' could be any of vae-11aa, vae-22bb")
    fails(here("show", "nobody"), 2, "'nobody'", "swell jobs")
    fails(here("cancel", ""), 2, "swell jobs")


@pytest.mark.usefixtures("jobs")
def test_cancel(here: Run, control: FakeControl) -> None:
    assert here("cancel", "vae").stdout == "vae-22bb: will be cancelled\n"
    assert control.job("vae-22bb").phase is Phase.CANCELLED
    assert "nothing to cancel" in here("cancel", "broken").stdout


@pytest.mark.usefixtures("jobs")
def test_who_may_not_cancel_is_told_so_of_an_ended_job_too(
    here: Run, control: FakeControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(control, "cancel", asked.append)
    here("cancel", "broken")
    (broken,) = (view for view in control.jobs() if view.name == "broken")
    assert asked == [broken.id], "the platform, which knows who the caller is, is asked"


def test_a_job_is_held_and_resumed(here: Run, control: FakeControl) -> None:
    control.put(job_view(id="a-1", name="a", is_promised=True, phase=Phase.RUNNING))
    control.put(job_view(id="b-1", name="b", is_promised=False, job_class=JobClass.BEST_EFFORT))
    done = here("hold", "a", "b")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "a-1: is held, and its promise is withdrawn; `swell resume a-1` lets it go on",
        "b-1: is held; `swell resume b-1` lets it go on",
    ]
    assert "held  " in here("jobs").stdout
    control.put(job_view(id="c-1", phase=Phase.QUEUED, awaits=("a-1", "b-1")))
    assert "after a-1, ..." in here("jobs").stdout
    assert [view["is_held"] for view in json.loads(here("hold", "a", "--json").stdout)] == [True]
    assert here("resume", "b").stdout.startswith("b-1: running, best_effort")
    told, answer = here("resume", "b").stdout.splitlines()
    assert told == "b-1: was not held, so there is nothing to resume" and answer.startswith("b-1: running")
    control.put(job_view(id="a-1", name="a", is_promised=False, refusal="it is late", deadline_s=None))
    done = here("resume", "a-1")
    assert done.returncode == 3 and "a-1: refused: it is late" in done.stdout
    here("cancel", "a-1")
    fails(here("hold", "a-1"), 1, "is cancelled")


def test_another_deadline_is_promised_or_the_job_keeps_what_it_has(here: Run, control: FakeControl) -> None:
    now_s = time.time()
    control.put(job_view(id="a-1", name="a", is_promised=True, deadline_s=now_s + 90))
    control.put(
        job_view(id="b-1", name="b", is_promised=False, job_class=JobClass.BEST_EFFORT, deadline_s=None)
    )
    done = here("promise", "a", "--deadline", "now+75s")
    assert done.returncode == 0 and done.stdout.startswith("a-1: promised to finish by ")
    refused = here("promise", "a", "--deadline", "now+5s")
    assert refused.returncode == 3
    assert re.fullmatch(
        r"a-1: refused: 8 devices cannot finish it so soon\n"
        r"  keeps its promise to finish by .+ \(in 7\d s\); "
        r"ask again with --deadline 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\n",
        refused.stdout,
    ), refused.stdout
    assert "stays without a deadline; ask again" in here("promise", "b", "--deadline", "now+5s").stdout
    taken = here("promise", "b", "--deadline", "now+5s", "--accept-until", "now+2m")
    assert taken.returncode == 0 and "\n  the counter-offer, for 8 devices" in taken.stdout
    fails(here("promise", "a", "--deadline", "yesterday"), 2, "deadline: 'yesterday' is not a time")
    fails(here("promise", "a", "--deadline", "now+9s", "--accept-until", "now+8s"), 2, "choose a later time")
    fails(here("promise", "nobody", "--deadline", "now+9s"), 2, "swell jobs")
    shown = json.loads(here("promise", "a", "--deadline", "now+5s", "--json").stdout)
    assert shown["refusal"] and shown["counter_offer_s"] > now_s


# ---------------------------------------------------------------- prune
def ended(control: FakeControl, name: str, num_bytes: int) -> Path:
    control.put(job_view(id=f"{name}-1", name=name, phase=Phase.SUCCEEDED, finished_s=1e9))
    folder = control.log_dir(f"{name}-1")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "worker-0.log").write_bytes(b"x" * num_bytes)
    return folder


def test_prune_says_what_it_frees(here: Run, control: FakeControl) -> None:
    ended(control, "big", 100 * 4096)
    done = here("admin", "prune", "big", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(
        r"JOB +ENDED +SIZE\nbig-1 +2001-09-0\d +409.6 kB\n\nwould remove 1 ended job, 409.6 kB\n",
        done.stdout,
    )
    assert control.job("big-1")
    assert "removed 1 ended job, 409.6 kB" in here("admin", "prune", "--older-than", "1d").stdout
    assert here("admin", "prune", "--keep-bytes", "10G").stdout == "removed 0 ended jobs, 0 bytes\n"
    fails(here("admin", "prune", "big"), 2, "no job has the id or name 'big'")


def test_a_platform_that_stands_still_says_so_everywhere(
    here: Run, control: FakeControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = control.cluster()
    stalled = {"journal": "the platform stands still: the disk is full"}
    shown = msgspec.structs.replace(
        cluster, warnings=stalled, disk_free_bytes=5 * 10**8, disk_bytes=25 * 10**10
    )
    monkeypatch.setattr(control, "cluster", lambda: shown)
    assert "\nwarning, journal: the platform stands still" in here("nodes").stdout
    assert "500.0 MB of 250.0 GB free on the disk" in here("nodes").stdout
    assert here("jobs").stderr == "swell: the platform stands still: the disk is full\n"

    def refuse(job_id: str) -> None:
        raise Unwritable("the platform stands still")

    monkeypatch.setattr(control, "cancel", refuse)
    control.put(job_view(id="runs-1", name="runs"))
    fails(here("cancel", "runs"), 5, "the platform stands still")


def test_without_a_platform_the_last_words_of_the_one_before_are_told(tmp_path: Path, here: Run) -> None:
    folder = StateFolder(tmp_path)
    folder.write_notice("the disk is full")
    for words in (("jobs",), ("nodes",), ("down",)):
        done = here(*words, "--state", tmp_path)
        assert re.search(r"it stopped at \d{4}-.*\(the disk is full\): start one|nothing to stop", str(done))


# ---------------------------------------------------------------- logs
@pytest.fixture
def logged(control: FakeControl) -> Path:
    for name in ("logged", "silent"):
        control.put(job_view(id=name, name=name))
    path = control.log_dir("logged")
    path.mkdir(parents=True, exist_ok=True)
    for old in path.iterdir():
        old.unlink()
    (path / "worker-0.log").write_text("epoch 1\nepoch 2")
    (path / "worker-1.log").write_text("hello\n")
    return path


@pytest.mark.usefixtures("logged")
def test_logs_of_all_workers_name_them(here: Run) -> None:
    assert here("logs", "logged", "--all").stdout == "[0] epoch 1\n[1] hello\n[0] epoch 2\n"
    assert here("logs", "logged", "--worker", 0).stdout == "epoch 1\nepoch 2\n"
    assert here("logs", "silent", "--all").stderr == "swell: job silent has printed nothing\n"
    nothing = here("logs", "logged", "--worker", 7)
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "worker 7 of job logged" in nothing.stderr and "its workers are 0, 1" in nothing.stderr


def test_what_a_job_prints_is_obeyed_by_no_terminal_unless_that_is_asked_for(
    here: Run, logged: Path, control: FakeControl
) -> None:
    """OSC 52 would write the clipboard."""
    clipboard, red, others = "\x1b]52;c;cm0gLXJm\x07", "\x1b[31mred\x1b[0m", "\x7f\x9b8m"
    (logged / "worker-0.log").write_text(f"{clipboard}{red}{others} 10%\r20%\tdone\n")
    spelled = r"\x1b]52;c;cm0gLXJm\x07\x1b[31mred\x1b[0m\x7f\x9b8m"
    assert here("logs", "logged").stdout == f"{spelled} 10%\r20%\tdone\n"
    assert here("logs", "logged", "--raw").stdout == f"{clipboard}{red}{others} 10%\r20%\tdone\n"
    assert f"{clipboard}{red}{others}" in json.loads(here("logs", "logged", "--json").stdout)[0]["text"]
    message = f"over\rwritten {clipboard}\x1b[8m{others}"
    control.put(job_view(id="sly", name="sly", phase=Phase.FAILED, message=message))
    for words in (("show", "sly"), ("logs", "sly"), ("show", "sly", "--json")):
        done = here(*words)
        assert not set("\x1b\r\x7f\x9b").intersection(done.stdout + done.stderr)
    assert json.loads(done.stdout)["message"] == message
    assert r"\x1b]52;c;cm0gLXJm" in here("show", "sly").stdout


def test_logs_show_the_trial_run_until_there_is_more(here: Run, control: FakeControl, logged: Path) -> None:
    (logged / "trial-3.log").write_text("tried\n")
    assert here("logs", "logged", "--trial").stdout == "tried\n"
    assert "tried" not in here("logs", "logged").stdout
    for log in logged.glob("worker-*"):
        log.unlink()
    assert here("logs", "logged").stdout == "tried\n"
    assert here("logs", "logged", "--all").stdout == ""
    (logged / "trial-2.log").write_text("a warning\n")
    assert here("logs", "logged").stdout == "[2] a warning\n[3] tried\n"
    assert here("logs", "logged", "--trial", "--worker", 3).stdout == "tried\n"


def test_logs_of_a_failed_job_end_with_how_it_failed(here: Run, control: FakeControl, logged: Path) -> None:
    told = "Traceback (most recent call last):\nKeyError: 'lr'"
    control.put(job_view(id="logged", phase=Phase.FAILED, message=told))
    assert here("logs", "logged").stdout == f"epoch 1\nepoch 2\n{told}\n"
    assert "KeyError" not in here("logs", "logged", "--all").stdout
    (logged / "worker-0.log").write_text(told)
    assert here("logs", "logged").stdout == f"{told}\n", "once is enough"


def test_logs_follow_until_the_job_ends(
    swell: Run, control: FakeControl, logged: Path, folder: StateFolder
) -> None:
    (logged / "worker-1.log").unlink()
    follower = subprocess.Popen(
        [sys.executable, "-m", "swell.cli.main", "logs", "-f", "logged", "--state", str(folder.path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    assert follower.stdout.readline() == "epoch 1\n"
    with (logged / "worker-0.log").open("a") as log:
        log.write(" done\nlast\n")
    assert follower.stdout.readline() == "epoch 2 done\n"
    control.put(job_view(id="logged", name="logged", phase=Phase.SUCCEEDED))
    assert follower.stdout.read() == "last\n"
    assert follower.wait(10) == 0


# ---------------------------------------------------------------- replay, and no platform
def test_replay_compares(swell: Run, folder: StateFolder) -> None:
    folder.journal.touch()
    assert (
        "12 batches since the last fold, 30 commands, 11 batches compared: all equal"
        in swell("admin", "replay").stdout
    )
    assert json.loads(swell("admin", "replay", "--json").stdout)["num_compared"] == 11
    different = swell("admin", "replay", FAKE_DIFFERENCE="7")
    assert different.returncode == 1
    assert "batch 7 leads to other commands now" in different.stdout


@pytest.mark.parametrize(
    "words", [("jobs",), ("show", "x"), ("logs", "x"), ("cancel", "x"), ("nodes",), ("explain", "x")]
)
def test_without_a_platform_the_remedy_is_named(here: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    state = tmp_path / "none"
    expected = f"no platform is running for state folder {state}: start one with `swell up`"
    fails(here(*words, "--state", state), 5, expected)
    assert not state.exists()


def test_sessions_are_marked_in_the_list_of_jobs() -> None:
    terms = FixedTerms(time_s=60.0, is_session=True)
    marked = row(job_view(fixed=terms, job_class=JobClass.BEST_EFFORT), 0.0)
    assert marked["CLASS"] == "best_effort, session"
    assert row(job_view(job_class=JobClass.BEST_EFFORT), 0.0)["CLASS"] == "best_effort"
