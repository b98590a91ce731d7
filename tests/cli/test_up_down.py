"""`swell up` and `down` as processes: a real daemon over a fake platform."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import msgspec
import pytest
from tests.cli.conftest import FAKES, Run, run_swell
from tests.cli.test_program import fails

from swell.cli import main
from swell.cli.up import choose
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.launch import start_agent
from swell.platform_options import PlatformOptions
from swell.settings import Settings
from swell.store.folder import StateFolder
from swell.store.journal import SqlJournal
from swell.store.lock import lock_state

PACED = ("--devices", "paced:8@200")
EVERYWHERE = "0.0.0.0"  # noqa: S104 - what a user asks for


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "state"
    yield path
    endpoint = StateFolder(path).read_endpoint()
    if endpoint is not None:
        with suppress(ProcessLookupError):  # it was ended, and could not say so
            os.kill(endpoint.pid, signal.SIGKILL)


@pytest.fixture
def up(state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The same as the program inside this process, where the daemon is what matters: it is a real one."""
    for name in [name for name in os.environ if name.startswith("SWELL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", FAKES)

    def run(*words: object, **environ: str) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            for name, value in environ.items():
                patch.setenv(name, value)
            status = main.run(["up", "--state", str(state), *map(str, words)])
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(["up", *map(str, words)], status, out, err)

    return run


def end(state: Path) -> None:
    """The platform, which remembers how it was started."""
    os.kill(pid_of(state), signal.SIGTERM)
    wait_for_lock(state)


def pid_of(state: Path) -> int:
    endpoint = StateFolder(state).read_endpoint()
    assert endpoint is not None
    return endpoint.pid


def is_running(pid: int) -> bool:
    """Not even on its way out; who has ended but was not yet waited for by its parent is not running."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def wait_for_lock(state: Path) -> None:
    lock_state(StateFolder(state).lock, 20.0).close()


def test_up_and_down_connect_as_the_owner_whatever_token_is_set(
    up: Run, state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "swu_" + "x" * 40  # of another platform
    done = up(*PACED, SWELL_TOKEN=token)
    assert (done.returncode, done.stderr) == (0, "")
    pid = pid_of(state)
    monkeypatch.setenv("SWELL_TOKEN", token)
    assert main.run(["down", "--state", str(state)]) == 0
    assert f"stopped the platform (pid {pid})" in capsys.readouterr().out
    assert not is_running(pid)


@pytest.mark.slow
def test_up_serves_and_down_ends_it(state: Path) -> None:
    up = run_swell("up", "--state", state, *PACED)
    assert (up.returncode, up.stderr) == (0, "")
    assert re.search(
        rf"8 devices \(paced@200\), policy elasticflow\nstate {state}, pid {pid_of(state)}\n", up.stdout
    )
    assert run_swell("nodes", "--state", state).returncode == 0
    assert oct(state.stat().st_mode & 0o777) == "0o700"

    fails(
        run_swell("up", "--state", state),
        2,
        f"in use by a running platform (pid {pid_of(state)})",
        "swell down",
    )
    pid = pid_of(state)
    down = run_swell("down", "--state", state)
    assert (down.returncode, down.stderr) == (0, "")
    assert f"stopped the platform (pid {pid})" in down.stdout
    assert not is_running(pid)
    assert "nothing to stop" in run_swell("down", "--state", state).stdout


def test_without_torch_up_and_submit_say_at_once_how_to_get_it(state: Path, script: Path) -> None:
    hidden = {"HIDDEN_MODULES": "torch"}
    up = run_swell("up", "--state", state, *PACED, **hidden)
    remedy = f"`{sys.executable} -m pip install 'swell[torch]'`"
    assert up.returncode == 0
    assert "torch is not installed" in up.stderr and remedy in up.stderr
    job = ("--script", script, "--workdir", script.parent, "--global-batch", 8, "--steps", 1)
    fails(run_swell("submit", "--state", state, *job), 2, "torch is not installed", remedy, "--python")
    assert "no jobs yet" in run_swell("jobs", "--state", state).stdout
    demo = run_swell("demo", HIDDEN_MODULES="torch,sklearn")
    fails(demo, 2, "needs torch and scikit-learn", f"`{sys.executable} -m pip install 'swell[demo]'`")


def test_up_remembers_how_it_was_started(state: Path, up: Run) -> None:
    def up_and_down(*options: str) -> str:
        done = up(*options)
        assert (done.returncode, done.stderr) == (0, "")
        end(state)
        return done.stdout

    def remembered() -> PlatformOptions | None:
        return StateFolder(state).read_options(PlatformOptions)

    first = up_and_down(*PACED, "--preload", "json", "--preload", "csv")
    assert "as last time" not in first
    second = up_and_down("--policy", "fifo", "--workdirs", "/a", "--workdirs", "/b/c")
    assert "\nas last time: --devices paced:8@200, --preload json, --preload csv\n" in second
    known = PlatformOptions(devices="paced:8@200", policy="fifo", preload=("json", "csv"))
    assert remembered() == msgspec.structs.replace(known, workdirs=("/a", "/b/c"))
    third = up_and_down("--preload", "", "--workdirs", "")
    assert "\nas last time: --devices paced:8@200, --policy fifo\n" in third
    assert remembered() == PlatformOptions(devices="paced:8@200", policy="fifo")


def test_a_module_that_is_nowhere_is_not_left_to_the_first_job_to_find(state: Path, up: Run) -> None:
    fails(up("--preload", "nowhere.at_all"), 2, "--preload", "'nowhere.at_all'")
    assert not state.exists()


def test_devices_that_an_engine_has_by_default_are_neither_told_nor_kept_for_another(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    folder.create()
    folder.write_options(PlatformOptions(devices="none", engine="ray"))
    assert choose(folder, {}, {})[1] == ["--engine ray"]
    options, remembered = choose(folder, {"engine": "local"}, {})
    assert (options.devices, remembered) == ("auto", [])
    folder.write_options(PlatformOptions(devices="none"))
    assert choose(folder, {}, {})[1] == ["--devices none"]


def started(state: Path, up: Run, *options: str) -> str:
    """What `up` said; what it was started with is remembered from then on."""
    done = up(*options)
    assert (done.returncode, done.stderr) == (0, "")
    end(state)
    return done.stdout


def test_settings_are_remembered_one_by_one(state: Path, up: Run) -> None:
    def remembered() -> dict[str, int | float | str]:
        options = StateFolder(state).read_options(PlatformOptions)
        assert options is not None
        return options.settings

    first = started(state, up, *PACED, "--set", "ready_s=300", "--set", "keep_checkpoints=3")
    assert "as last time" not in first
    second = started(state, up, "--set", "min_hold_s=2.5")
    told = "as last time: --devices paced:8@200, --set ready_s=300, --set keep_checkpoints=3"
    assert f"\n{told}\n" in second
    assert remembered() == {"ready_s": 300, "keep_checkpoints": 3, "min_hold_s": 2.5}
    started(state, up, "--set", f"ready_s={Settings()['ready_s']:g}")
    assert remembered() == {"keep_checkpoints": 3, "min_hold_s": 2.5}
    assert "\nas last time: --devices paced:8@200\n" in started(state, up, "--set", "", "--set", "stop_s=9")
    assert remembered() == {"stop_s": 9}


@pytest.mark.parametrize(
    ("setting", "part"),
    [
        ("redy_s=3", "there is no setting 'redy_s'; did you mean ready_s?"),
        ("ready_s=0.5", "ready_s=0.5 is not between 1 and 86400"),
        ("ready_s=nan", "ready_s=nan is not between"),
        ("ready_s", "'ready_s' is not NAME=VALUE; write for example ready_s=300"),
        ("ready_s=soon", "'soon' is not a number"),
        ("keep_checkpoints=1.5", "'1.5' is not a whole number"),
        ("heartbeat_s=20", "silence_s=60 is too short for heartbeat_s=20"),
    ],
)
@pytest.mark.parametrize("how", [(), ("--foreground",)])
def test_settings_that_cannot_be(
    state: Path, capsys: pytest.CaptureFixture[str], setting: str, part: str, how: tuple[str, ...]
) -> None:
    assert main.run(["up", "--state", str(state), *PACED, "--set", setting, *how]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("swell: --set: ")
    assert part in err
    assert not state.exists()


@pytest.mark.parametrize("how", [(), ("--foreground",)])
def test_remembered_options_that_cannot_be_met_are_refused(state: Path, how: tuple[str, ...]) -> None:
    folder = StateFolder(state)
    folder.create()
    folder.log.touch()
    folder.write_options(PlatformOptions(devices="paced:8@200", policy="astrology"))
    fails(run_swell("up", "--state", state, *how), 2, "'astrology'")
    wait_for_lock(state)
    assert folder.read_options(PlatformOptions) == PlatformOptions(devices="paced:8@200", policy="astrology")


def test_a_killed_daemon_leaves_a_folder_that_can_be_used(state: Path, up: Run) -> None:
    assert up(*PACED).returncode == 0
    os.kill(pid_of(state), signal.SIGKILL)
    wait_for_lock(state)
    read = run_swell("jobs", "--state", state)
    assert read.returncode == 0
    assert "start one with `swell up`; shown is what the state folder keeps" in read.stderr
    assert up(*PACED).returncode == 0
    end(state)
    assert StateFolder(state).read_endpoint() is None


def test_the_foreground_ends_with_an_interrupt(state: Path) -> None:
    environ = dict(os.environ, PYTHONPATH=FAKES)
    daemon = subprocess.Popen(
        [sys.executable, "-m", "swell.cli.main", "up", "--foreground", "--state", str(state), *PACED],
        env=environ,
        stderr=subprocess.PIPE,
        text=True,
    )
    give_up_s = time.monotonic() + 20
    while StateFolder(state).read_endpoint() is None:
        assert daemon.poll() is None
        assert time.monotonic() < give_up_s
        time.sleep(0.02)
    daemon.send_signal(signal.SIGINT)
    _, complaint = daemon.communicate(timeout=20)
    assert (daemon.returncode, complaint) == (0, "")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--policy", "astrology"), ("'astrology'", "elasticflow")),
        (("--devices", "abacus:3"), ("'abacus:3'", "paced:DEVICES@RATE")),
        (("--port", "70000"), ("port 70000 is not between",)),
        (("--metrics-port", "-1"), ("--metrics-port: port -1 is not between",)),
        (("--cores", "4096"), ("--cores 4096: this process may use", "0 for all of them")),
        (("--cores", "-1"), ("--cores -1: this process may use",)),
        (("--cores", "inf"), ("--cores: inf is no number of cores; name one, or 0 for all of them",)),
        (("--cores", "nan"), ("--cores: nan is no number",)),
        (("--cpu-shares", "half"), ("--cpu-shares: 'half' is not known; choose one of weight, quota, off",)),
        (("--advertise", "head"), ("--advertise: workers cannot be reached at 'head'",)),
        (("--rack", "a rack"), ("a rack cannot be called 'a rack'", "choose one with --rack")),
        (("--metrics-address", EVERYWHERE), ("--metrics-address goes with --metrics-port PORT",)),
        (("--metrics-port", "0", "--metrics-address", "here"), ("here is no IP address", EVERYWHERE)),
        (("--metrics-port", "0", "--metrics-address", "192.0.2.9"), ("192.0.2.9", "choose another")),
        (
            ("--containers", "lxc"),
            ("--containers: 'lxc' is not known; choose one of auto, docker",),
        ),
    ],
)
def test_options_that_cannot_be_met(
    state: Path, up: Run, options: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    fails(up(*PACED, *options), 2, *parts)
    if state.exists():
        wait_for_lock(state)  # no process is left behind


def test_http_is_answered_where_it_was_asked_for(state: Path, up: Run) -> None:
    done = up(*PACED, "--port", 0, "--metrics-port", 0, "--metrics-address", "::1")
    (url,) = re.findall(rf"pid {pid_of(state)}, (http://127\.0\.0\.1:\d+)\n", done.stdout)
    token = StateFolder(state).read_token()
    for headers, status in (({"Authorization": f"Bearer {token}"}, 200), ({}, 401)):
        assert httpx.get(f"{url}/v1/jobs", headers=headers, trust_env=False).status_code == status
    ((metrics_url, token_file),) = re.findall(r"\nmetrics (http://\S+), token in (\S+)\n", done.stdout)
    headers = {"Authorization": f"Bearer {Path(token_file).read_text()}"}
    assert "swell_info{" in httpx.get(metrics_url, headers=headers, trust_env=False).text
    assert run_swell("down", "--state", state).returncode == 0
    assert not StateFolder(state).socket.exists()
    assert "http:" not in up(*PACED).stdout, "a port is not remembered"


def test_a_folder_from_a_newer_version(state: Path, up: Run) -> None:
    folder = StateFolder(state)
    folder.create()
    SqlJournal(folder.journal).close()
    with sqlite3.connect(folder.journal) as raw:
        raw.execute("PRAGMA user_version=99")
    raw.close()
    fails(up(*PACED), 2, "another version of Swell (schema 99; ", "install that version")


def test_a_mistake_of_ours_is_shown_whole(state: Path) -> None:
    up = run_swell("up", "--state", state, *PACED, FAKE_PLATFORM="dies")
    # It may have answered before it died: then `up` was right, and the log has the rest.
    wait_for_lock(state)
    assert "RuntimeError: a mistake of ours" in (state / "daemon.log").read_text()
    if up.returncode:
        assert "RuntimeError: a mistake of ours" in up.stderr


def test_up_says_so_only_when_the_agent_answers(state: Path, up: Run) -> None:
    fails(up(*PACED, FAKE_PLATFORM="no_agent"), 2, "the agent ended", "no room")
    assert StateFolder(state).read_endpoint() is None
    wait_for_lock(state)


@pytest.mark.parametrize("has_endpoint", [True, False])
def test_a_daemon_that_hangs_is_named_and_ended_by_force(state: Path, up: Run, has_endpoint: bool) -> None:
    assert up(*PACED).returncode == 0
    pid = pid_of(state)
    os.kill(pid, signal.SIGSTOP)
    if not has_endpoint:  # as it is while it starts
        StateFolder(state).remove_endpoint()
    fails(run_swell("down", "--state", state), 5, f"pid {pid}", "`swell down --force`")
    forced = run_swell("down", "--state", state, "--force")
    assert forced.returncode == 0, forced
    assert f"killed the platform (pid {pid})" in forced.stderr
    assert "stopped the killed platform" in forced.stdout
    assert not is_running(pid)
    wait_for_lock(state)


def test_down_names_the_jobs_that_were_not_saved(state: Path, up: Run) -> None:
    assert up(*PACED).returncode == 0
    jobs = "a-1:running:7:8 b-2:queued c-3:stopping:9 d-4:starting"
    down = run_swell("down", "--state", state, FAKE_JOBS=jobs)
    assert (down.returncode, down.stderr) == (1, "")
    said = r"stopped the platform \(.+\nnot saved, continuing from their last checkpoints: a-1, c-3, d-4\n"
    assert re.fullmatch(said, down.stdout), down.stdout


@pytest.fixture
def left_agent(state: Path) -> subprocess.Popen[bytes]:
    """What a killed platform leaves."""
    folder = StateFolder(state)
    folder.create()
    folder.journal.touch()
    agent, _ = start_agent(AgentOptions(state_dir=state, preload=("json",)))
    return agent


LEFT = "stopped the workers that a killed platform had left"


def test_down_ends_what_a_killed_platform_left(state: Path, left_agent: subprocess.Popen[bytes]) -> None:
    down = run_swell("down", "--state", state)
    assert (down.returncode, down.stderr) == (0, "")
    assert re.fullmatch(rf"{LEFT} running for {state}\n", down.stdout)
    assert left_agent.wait(10) is not None


def test_a_shared_folder_is_remembered_and_serves_a_user_with_a_token(
    up: Run, state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o750)
    refused = up(*PACED, "--share", tmp_path / "absent")
    assert refused.returncode == 2
    assert "install -d" in refused.stderr
    words = ["admin", "users", "add", "ana", "--role", "view"]
    assert main.run([*words, "--state", str(state)]) == 0  # before there is a platform
    token = capsys.readouterr().out.strip()
    assert up(*PACED, "--share", shared).returncode == 0
    end(state)
    assert list(shared.iterdir()) == []
    assert f"--share {shared}" in up().stdout
    capsys.readouterr()
    monkeypatch.setenv("SWELL_TOKEN", token)
    assert main.run(["jobs", "--state", str(shared)]) == 0
    assert main.run(["admin", "prune", "--older-than", "1d", "--state", str(shared)]) == 1
    assert "needs role operate" in capsys.readouterr().err
    monkeypatch.delenv("SWELL_TOKEN")
    assert main.run(["admin", "users", "--state", str(shared)]) == 1
    assert "shares with its users, who are kept in its state folder" in capsys.readouterr().err
    end(state)
    assert "--share" not in up("--share", "").stdout
    end(state)
