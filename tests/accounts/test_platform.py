"""A platform that runs jobs as who submits them: what one user of it can do to another one, and to it."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from tests.accounts.conftest import Lab, reachable
from tests.eventually import PATIENCE_S, eventually
from tests.wheels import uv_environ, write_wheel

from swell.api.role import Role
from swell.api.verbs import VERBS
from swell.executors.local.accounts.client import end_helper
from swell.executors.local.accounts.messages import FOLDER, socket_path
from swell.executors.local.environments import uv_words

pytest.importorskip("torch")

SWELL = str(Path(sys.executable).with_name("swell"))
#: A script that trains nothing: it tells who runs it, leaves a secret, and waits to be ended.
WAITS = """
import os, time
print("runs as", os.getuid(), os.getgroups(), flush=True)
os.makedirs("out", exist_ok=True)
open("out/secret", "w").write("of bob")
print("SECRET of bob", flush=True)
time.sleep(600)
"""
#: A script that looks about from its own file, and leaves a file there that only its user may read.
LOOKS = """
import os, pathlib, tempfile
here = pathlib.Path(__file__).parent
print("found", (here / "data" / "text").read_text(), os.listdir(here.parent), flush=True)
handle, name = tempfile.mkstemp(dir=here, prefix="closed-")
os.write(handle, b"of bob")
"""
#: A request as bytes, as a user who needs no client of ours.
RAW = """
import sys, swell
from swell.api.client import Client
method, path, body = sys.argv[1:]
try:
    print(swell.connect()._transport.call(method, path, content=body.encode() or None).decode())
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


#: The status of each of many requests.
PROBES = """
import json, sys, swell
ask = swell.connect()._transport._request
asked = json.load(sys.stdin)
print(json.dumps([ask(method, path, {}, body.encode() or None, 30).status for method, path, body in asked]))
"""
CONNECTS = (sys.executable, "-c", "import socket, sys; socket.socket(1).connect(sys.argv[1])")


@dataclass
class Site:
    """A platform with accounts, of an account of its own, and a session of bob."""

    lab: Lab
    state: Path
    shared: Path
    owner: pwd.struct_passwd
    daemon: int = 0
    job: str = ""  #: bob's
    worker: int = 0  #: a process of it

    def run(
        self, user: pwd.struct_passwd | None, *words: str, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """As a user of the machine; None: as root."""
        line = self.line(user, *words, **env)
        return subprocess.run(line, cwd="/", capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    def line(self, user: pwd.struct_passwd | None, *words: str, **env: str) -> list[str]:
        become = ["env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"]
        if user is not None:
            ids = ["--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--init-groups"]
            become = ["setpriv", *ids, *become, f"HOME={user.pw_dir}"]
        told = {"SWELL_STATE": str(self.state if user in (None, self.owner) else self.shared)} | env
        return reachable([*become, *(f"{name}={value}" for name, value in told.items()), *words])

    def swell(
        self, user: pwd.struct_passwd | None, *words: str, **env: str
    ) -> subprocess.CompletedProcess[str]:
        return self.run(user, SWELL, *words, **env)

    def ask(self, user: pwd.struct_passwd, method: str, path: str, /, **body: object) -> str:
        """The answer to a request, or the error."""
        asked = self.run(
            user, sys.executable, "-P", "-c", RAW, method, path, json.dumps(body) if body else ""
        )
        return asked.stdout + asked.stderr

    def view(self, job: str) -> dict[str, object]:
        return json.loads(self.ask(self.owner, "GET", f"/v1/jobs/{job}"))  # type: ignore[no-any-return]

    def up(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return self.swell(None, "up", "--accounts", self.lab.group, *words, **env)


def home_file(user: pwd.struct_passwd, name: str, text: str, mode: int = 0o600) -> Path:
    """A file in the home of a user, which is closed to others."""
    path = Path(user.pw_dir, name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    for one in (path, path.parent):
        os.chown(one, user.pw_uid, user.pw_gid)
    path.chmod(mode)
    Path(user.pw_dir).chmod(0o700)
    return path


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[Site]:
    name = f"{lab.platform.pw_name}2"
    subprocess.run(["useradd", "-r", "-U", "-m", "-d", f"{lab.folder}/{name}", name], check=True)
    owner = pwd.getpwnam(name)
    root = Path(tempfile.mkdtemp(dir=lab.folder))
    root.chmod(0o755)
    site = Site(lab, root / "state", root / "shared", owner)
    for path in (site.state, site.shared):
        path.mkdir(mode=0o700)
        os.chown(path, owner.pw_uid, owner.pw_gid)
    shutil.chown(site.shared, group=lab.group)
    site.shared.chmod(0o2750)
    wheels = root / "wheels"
    wheels.mkdir()
    write_wheel(wheels, "laba", "1.0")
    begun = site.up("--share", str(site.shared), "--devices", "cpu:4", **uv_environ(wheels), UV_NO_CACHE="1")
    assert begun.returncode == 0, begun.stderr
    assert f"jobs run as who submitted them, a member of {lab.group}" in begun.stdout
    site.daemon = json.loads((site.state / "endpoint.json").read_text())["pid"]
    script = home_file(lab.bob, "p/work.py", WAITS)
    made = site.swell(
        lab.bob,
        "submit",
        str(script),
        "--workdir",
        str(script.parent),
        "--elasticity",
        "restart",
        "--steps",
        "9",
    )
    assert made.returncode == 0, made.stderr
    site.job = re.findall(r"work-\w{8}", made.stdout + made.stderr)[0]
    eventually(lambda: (script.parent / "out" / "secret").exists(), "bob's job runs", 90)
    (site.worker,) = [
        one.pid for one in psutil.process_iter() if one.uids().real == lab.bob.pw_uid and _waits(one, script)
    ]
    yield site
    site.swell(owner, "down", "--force")
    end_helper(owner.pw_uid)
    subprocess.run(["userdel", name], check=False, capture_output=True)
    for path in (
        *FOLDER.glob(f"runas-{owner.pw_uid}.*"),
        *Path("/run").glob(f"swell-runas-{owner.pw_uid}.log"),
    ):
        path.unlink()


def _waits(process: psutil.Process, script: Path) -> bool:
    """Whether the script has made it its own: it is named like it, or has its folder."""
    try:
        return process.cwd() == str(script.parent)
    except psutil.Error:
        return False


# ---------------------------------------------------------------- who a user is
def test_a_member_of_the_group_needs_no_token_and_is_who_the_kernel_says(site: Site) -> None:
    view = site.view(site.job)
    assert (view["user"], view["tenant"]) == (site.lab.bob.pw_name, site.lab.bob.pw_name)
    assert psutil.Process(site.worker).uids() == (site.lab.bob.pw_uid,) * 3
    told = site.swell(site.lab.bob, "logs", site.job)
    assert f"runs as {site.lab.bob.pw_uid} " in told.stdout, told.stderr
    assert site.swell(site.lab.alice, "jobs").returncode == 0


def test_others_are_not_let_in(site: Site) -> None:
    lab = site.lab
    for user, why in (
        (lab.outsider, "belongs to"),
        (lab.shellless, "may not log in"),
        (lab.platform, "belongs"),
    ):
        refused = site.swell(user, "jobs", SWELL_STATE=str(site.shared))
        assert refused.returncode != 0 and why in refused.stderr
    refused = site.swell(None, "jobs", SWELL_STATE=str(site.shared))
    assert refused.returncode != 0 and "account of the system" in refused.stderr


def test_a_token_is_bound_to_the_account_of_its_name(site: Site) -> None:
    """A user whom this machine does not have may look, and no job runs as the platform in their place."""
    added = site.swell(
        site.owner, "admin", "users", "add", "nobody-here", "--role", "submit", "--tenant", "t"
    )
    token = added.stdout.splitlines()[0]
    alice = home_file(site.lab.alice, "p/quick.py", "print()")
    words = ("submit", str(alice), "--workdir", str(alice.parent), "--elasticity", "restart", "--steps", "1")
    refused = site.swell(site.lab.alice, *words, SWELL_TOKEN=token)
    assert refused.returncode != 0 and "this machine has no user 'nobody-here'" in refused.stderr
    assert site.swell(site.lab.alice, "jobs", SWELL_TOKEN=token).returncode == 0
    site.swell(site.owner, "admin", "users", "add", site.lab.alice.pw_name, "--role", "view")
    refused = site.swell(site.lab.alice, *words)
    assert "needs role submit" in refused.stderr, "what the operator says of a user counts at the socket too"
    site.swell(site.owner, "admin", "users", "remove", site.lab.alice.pw_name)


def test_up_says_what_it_lacks(site: Site) -> None:
    group = site.lab.group
    for user, words, why in (
        (site.lab.outsider, ("--accounts", group), "only root can start the process that runs jobs as users"),
        (None, ("--accounts", "no-such-group"), "groupadd no-such-group"),
        (None, ("--accounts", group, "--state", "/root"), "is of root, which has no platform"),
        (None, ("--accounts", group, "--state", str(site.state / "none")), "there is no folder"),
    ):
        refused = site.swell(user, "up", *words, SWELL_STATE=f"{site.lab.folder}/out/new")
        assert refused.returncode != 0 and why in refused.stderr, refused.stderr


# ---------------------------------------------------------------- by the API
@pytest.mark.parametrize(
    ("method", "path", "body", "why"),
    [
        ("POST", "/v1/jobs/{job}/cancel", {}, "of tenant"),
        ("POST", "/v1/jobs/{job}/retry", {}, "of tenant"),
        ("POST", "/v1/jobs/{job}/continue", {}, "of tenant"),
        ("POST", "/v1/jobs/{job}/priority", {"priority": 9}, "of tenant"),
        ("GET", "/v1/jobs/{job}/logs", {}, "of tenant"),
        ("POST", "/v1/jobs/{job}/terminal", {}, "of tenant"),
        ("POST", "/v1/prune", {"job_ids": ["{job}"]}, "needs role operate"),
        ("POST", "/v1/stop", {}, "needs role operate"),
        ("POST", "/v1/jobs", {"run_as": "{bob}"}, "run_as"),
        ("POST", "/v1/jobs", {"tenant": "{bob}"}, "of tenant"),
        ("POST", "/v1/jobs", {"script": "{home}/p/work.py"}, "Permission denied"),
        ("POST", "/v1/jobs", {"script": "{state}/token"}, "Permission denied"),
        ("POST", "/v1/jobs", {"script": "/proc/{daemon}/environ"}, "Permission denied"),
        ("POST", "/v1/jobs", {"workdir": "{home}"}, "is closed to you"),
        ("POST", "/v1/jobs", {"python": "{home}/p/python"}, "is not a program"),
        (
            "POST",
            "/v1/bookings",
            {"devices": 1, "times_s": [[4e9, 4.1e9]], "user": "{bob}"},
            "for themselves only",
        ),
    ],
)
def test_a_user_does_nothing_to_another_one_by_the_api(
    site: Site, method: str, path: str, body: dict[str, object], why: str
) -> None:
    lab, own = site.lab, home_file(site.lab.alice, "p/quick.py", "print()")
    home_file(lab.bob, "p/python", "#!/bin/sh\ntouch ran", 0o755)
    told = {"job": site.job, "bob": lab.bob.pw_name, "home": lab.bob.pw_dir}
    told |= {"state": str(site.state), "daemon": str(site.daemon)}
    body = json.loads(re.sub(r"\{(\w+)\}", lambda found: told[found[1]], json.dumps(body)))
    if path == "/v1/jobs":
        plain = {"script": str(own), "workdir": str(own.parent), "elasticity": "restart", "steps": 1}
        body = plain | body
    before = site.view(site.job)
    assert why in site.ask(lab.alice, method, path.format(**told), **body)
    after = site.view(site.job)
    assert [after[name] for name in ("phase", "priority")] == [before[name] for name in ("phase", "priority")]
    assert not Path(lab.bob.pw_dir, "p", "ran").exists()


def test_each_verb_refuses_a_user_whose_job_it_is_not_or_whose_role_is_less(site: Site) -> None:
    asked = [
        (
            verb.method,
            verb.path.format(job_id=site.job, name="node0", booking_id="none"),
            verb.role,
            verb.path,
        )
        for verb in VERBS
        if verb.name != "openapi"
    ]
    requests = [(method, path, "" if method == "GET" else "{}") for method, path, _, _ in asked]
    probes = site.line(site.lab.alice, sys.executable, "-P", "-c", PROBES)
    told = subprocess.run(
        probes, input=json.dumps(requests), cwd="/", capture_output=True, text=True, check=True
    )
    for (method, path, role, pattern), status in zip(asked, json.loads(told.stdout), strict=True):
        is_forbidden = role > Role.SUBMIT or (role is Role.SUBMIT and "{job_id}" in pattern) or "logs" in path
        assert (status == 403) == is_forbidden, (method, path, status)
    assert site.view(site.job)["phase"] == "running"


def test_an_interpreter_that_a_user_names_runs_as_that_user(site: Site) -> None:
    """It is asked what is installed for it before there is a job."""
    alice = site.lab.alice
    script, ran = home_file(alice, "p/quick.py", "print()"), Path(alice.pw_dir, "p", "ran")
    python = home_file(alice, "p/python", f"#!/bin/sh\nid -u > {ran}", 0o755)
    body = {"script": str(script), "workdir": str(script.parent), "elasticity": "restart", "steps": 1}
    assert "does not say what is installed" in site.ask(alice, "POST", "/v1/jobs", **body, python=str(python))
    assert ran.read_text() == f"{alice.pw_uid}\n"


# ---------------------------------------------------------------- by the kernel
ATTACKS = {
    "the token of the owner": "cat {state}/token",
    "the journal": "cat {state}/journal.db",
    "the log of the daemon": "cat {state}/daemon.log",
    "the options": "cat {state}/options.json",
    "the list of users": "cat {state}/users.json",
    "the secret of webhooks": "cat {state}/webhook-secret",
    "the address of the agent": "cat {state}/agent.json",
    "names in the state folder": "ls {state}",
    "names of jobs": "ls {state}/jobs",
    "names of a job's files": "ls {state}/jobs/{job}/work",
    "code that is kept": "ls {state}/code",
    "code of a job": "ls {state}/jobs/{job}/code",
    "the log of a job": "cat {state}/jobs/{job}/work/worker-0.log",
    "the log of a job by its leaders": "cat {state}/jobs/{job}/leaders",
    "a file in another one's job": "touch {state}/jobs/{job}/work/planted",
    "a link in the place of a job's folder": "ln -s /etc {state}/jobs/planted",
    "a rename of a job's folder": "mv {state}/jobs/{job} {state}/jobs/moved",
    "the socket of the owner": "python3 -c 'import socket; socket.socket(1).connect(\"{state}/api.sock\")'",
    "a socket in the place of the platform's": "rm -f {shared}/api.sock",
    "an address in the place of the platform's": "sh -c 'echo > {shared}/endpoint.json'",
    "the helper of root": "python3 -c 'import socket; socket.socket(1).connect(\"{helper}\")'",
    "the environment of the daemon": "cat /proc/{daemon}/environ",
    "the memory of the daemon": "dd if=/proc/{daemon}/mem count=1",
    "the environment of a job": "cat /proc/{worker}/environ",
    "the memory of a job": "dd if=/proc/{worker}/mem count=1",
    "open files of a job": "ls /proc/{worker}/fd",
    "a signal to a job": "kill -9 {worker}",
    "a signal to the daemon": "kill -9 {daemon}",
    "a debugger in a job": "python3 -c 'import ctypes; exit(ctypes.CDLL(None).ptrace(16, {worker}, 0, 0))'",
    "the priority of a job": "renice -n 19 -p {worker}",
    "the home of a user": "cat {home}/p/out/secret",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_user_reaches_nothing_of_another_one_nor_of_the_platform(site: Site, attack: str) -> None:
    lab = site.lab
    told = {"state": site.state, "shared": site.shared, "job": site.job, "home": lab.bob.pw_dir}
    told |= {"daemon": site.daemon, "worker": site.worker, "helper": socket_path(site.owner.pw_uid)}
    command = attack.format(**told)
    tried = site.run(lab.alice, "sh", "-c", command)
    assert tried.returncode != 0, tried.stdout
    assert re.search("denied|not permitted|No such file", tried.stderr) or "ptrace" in command, tried.stderr
    assert "of bob" not in tried.stdout
    assert psutil.pid_exists(site.worker) and psutil.pid_exists(site.daemon)
    by_root = site.run(None, "sh", "-c", command) if attack.startswith(("cat", "ls")) else None
    assert by_root is None or by_root.returncode == 0, "what the attack wants is there"


def test_nothing_in_the_state_folder_is_for_other_eyes(site: Site) -> None:
    """All may pass the folders of jobs and of environments, and list neither."""
    for path in site.state.iterdir():
        mode = path.lstat().st_mode & 0o077
        assert mode == (0o011 if path.name in ("jobs", "envs") else 0), path
    assert site.state.stat().st_mode & 0o777 == 0o711


# ---------------------------------------------------------------- after its end
@pytest.mark.slow
def test_a_job_that_is_retried_runs_as_whose_it_was_and_is_pruned_with_that_users_rights(site: Site) -> None:
    lab = site.lab
    script = home_file(lab.bob, "r/fails.py", "import os; print(os.getuid()); raise SystemExit(3)")
    words = (
        "submit",
        str(script),
        "--workdir",
        str(script.parent),
        "--elasticity",
        "restart",
        "--steps",
        "1",
    )
    made = site.swell(lab.bob, *words)
    (job,) = re.findall(r"fails-\w{8}", made.stdout + made.stderr)[:1]
    site.swell(lab.bob, "wait", job)
    again = site.swell(site.owner, "retry", job)
    (second,) = [one for one in re.findall(r"fails-\w{8}", again.stdout + again.stderr) if one != job][:1]
    site.swell(site.owner, "wait", second)
    again = site.swell(site.owner, "retry", second)
    (third,) = [one for one in re.findall(r"fails-\w{8}", again.stdout + again.stderr) if one != second][:1]
    site.swell(site.owner, "wait", third)
    for one in (second, third):
        assert f"{lab.bob.pw_uid}\n" in site.swell(lab.bob, "logs", one).stdout
    closed = site.state / "jobs" / job / "work" / "closed"
    closed.mkdir()
    os.chown(closed, lab.bob.pw_uid, lab.bob.pw_gid)
    (closed / "link").symlink_to(lab.bob.pw_dir)
    closed.chmod(0)
    closed.parent.chmod(0)
    pruned = site.swell(site.owner, "admin", "prune", job, second, third)
    assert pruned.returncode == 0, pruned.stderr
    assert not (site.state / "jobs" / job).exists() and script.exists()


@pytest.mark.slow
def test_a_session_of_another_one_that_a_user_has_started_again_is_not_attached_to(site: Site) -> None:
    """Who is of the same tenant may retry it: it is a shell of its first user."""
    alice, bob = site.lab.alice, site.lab.bob
    asked = {"command": ["sleep", "90"], "session": True, "time": "5m", "workdir": "/", "name": "shell"}
    job = json.loads(site.ask(bob, "POST", "/v1/jobs", **asked))["id"]
    site.swell(
        site.owner, "admin", "users", "add", alice.pw_name, "--role", "submit", "--tenant", bob.pw_name
    )
    try:
        site.swell(alice, "cancel", job)
        site.swell(alice, "wait", job)
        again = json.loads(site.ask(alice, "POST", f"/v1/jobs/{job}/retry"))["id"]
        address = f"/v1/jobs/{again}/terminal"
        eventually(lambda: "port" in site.ask(bob, "POST", address), "the session has a terminal", 60)
        assert "attach to your own" in site.ask(alice, "POST", address)
        site.swell(bob, "cancel", again)
    finally:
        site.swell(site.owner, "admin", "users", "remove", alice.pw_name)


@pytest.mark.slow
def test_the_copy_of_a_users_code_tells_no_names_of_the_platform_or_of_others(site: Site) -> None:
    """Files beside the code are linked: those that stand beside a folder of alice's in the platform's."""
    alice, folder = site.lab.alice, site.state / "jobs" / "of-alice"
    folder.mkdir()
    script = folder / "tells.py"
    script.write_text("import os; print('copies', *[f for _, a, b in os.walk('.') for f in a + b])")
    os.chown(folder, alice.pw_uid, alice.pw_gid)
    words = ("submit", str(script), "--workdir", str(folder), "--elasticity", "restart", "--steps", "1")
    made = site.swell(alice, *words)
    (job,) = re.findall(r"tells-\w{8}", made.stdout + made.stderr)[:1]
    site.swell(alice, "wait", job)
    copies = [path.name for path in (site.state / "jobs" / job / "code").rglob("*")]
    assert "tells.py" in copies and site.job not in copies and "journal.db" not in copies
    shutil.rmtree(folder)


def test_a_job_finds_what_is_beside_its_code_and_its_files_are_fetched_as_its_user(site: Site) -> None:
    """Its folder is closed to the platform, as is what it writes; the one above is closed to its user."""
    lab, above = site.lab, site.state.parent / "above"
    folder = above / "project"
    for path, user, mode in (
        (above, site.owner, 0o711),
        (above / "name-of-another", site.owner, 0o700),
        (folder, lab.bob, 0o700),
        (folder / "data", lab.bob, 0o700),
    ):
        path.mkdir()
        os.chown(path, user.pw_uid, user.pw_gid)
        path.chmod(mode)
    for name, text in (("looks.py", LOOKS), ("data/text", "of the original"), (".swellignore", "data/")):
        (folder / name).write_text(text)
        os.chown(folder / name, lab.bob.pw_uid, lab.bob.pw_gid)
    words = ("--workdir", str(folder), "--elasticity", "restart", "--steps", "1")
    made = site.swell(lab.bob, "submit", str(folder / "looks.py"), *words)
    (job,) = re.findall(r"looks-\w{8}", made.stdout + made.stderr)[:1]
    site.swell(lab.bob, "wait", job)
    assert "found of the original ['project']" in site.swell(lab.bob, "logs", job).stdout
    to = Path(lab.bob.pw_dir, "fetched")
    fetched = site.swell(lab.bob, "download", job, "--to", str(to))
    assert fetched.returncode == 0, fetched.stderr
    assert [path.read_text() for path in to.glob("workdir/closed-*")] == ["of bob"]
    assert "of tenant" in site.swell(lab.alice, "download", job, "--to", str(to)).stderr


@pytest.mark.skipif(not uv_words(), reason="uv is not installed; `pip install uv`")
def test_a_job_of_a_user_has_its_secrets_and_packages_and_no_other_user_the_secrets(site: Site) -> None:
    alice, bob = site.lab.alice, site.lab.bob
    tells = "import laba, os; print('found', laba.VERSION, os.getuid(), os.environ['KEY'])"
    script = home_file(alice, "q/work.py", tells)
    needs, values = home_file(alice, "q/r.txt", "laba\n"), home_file(alice, "q/s.env", "KEY=hunter2\n")
    asked = ("--time", "2m", "--workdir", str(script.parent), "--env-from", str(values), "--uv", str(needs))
    made = site.swell(alice, "submit", *asked, "--", "python", "work.py")
    assert made.returncode == 0, made.stderr
    (job,) = re.findall(r"work-\w{8}", made.stdout + made.stderr)[:1]
    eventually(lambda: site.view(job)["phase"] == "succeeded", f"{job} succeeds", 60)
    assert f"found 1.0 {alice.pw_uid} hunter2" in site.swell(alice, "logs", job).stdout
    kept = site.state / "jobs" / job / "inputs.json"
    for user in (alice, bob):
        assert "Permission denied" in site.run(user, "cat", str(kept)).stderr
    told = site.ask(bob, "GET", f"/v1/jobs/{job}") + site.swell(bob, "show", job).stdout
    assert "hunter2" not in told


# ---------------------------------------------------------------- starving
def test_submissions_of_one_user_that_take_for_ever_hold_up_no_other_user(site: Site) -> None:
    """Behind those of its first user: what that one submits next waits for these."""
    lab = site.lab
    slow = home_file(lab.alice, "slow/.swellignore", "*a" * 30 + "b\n")
    home_file(lab.alice, f"slow/{'a' * 120}", "")
    script = home_file(lab.alice, "slow/train.py", "print()")
    body = {"script": str(script), "workdir": str(slow.parent), "elasticity": "restart", "steps": 1}
    asked = (sys.executable, "-P", "-c", RAW, "POST", "/v1/jobs", json.dumps(body))
    own = home_file(lab.bob, "q/quick.py", "print()")
    flood = [subprocess.Popen(site.line(lab.alice, *asked), stderr=subprocess.DEVNULL) for _ in range(12)]
    words = ("submit", str(own), "--workdir", str(own.parent), "--elasticity", "restart", "--steps", "1")
    made = site.swell(lab.bob, *words)
    assert made.returncode == 0, made.stderr
    assert any(one.poll() is None for one in flood), "the other user's are still looked at"
    for one in flood:
        one.kill()
        one.wait()


@pytest.mark.slow
def test_the_platform_starts_again_without_root_and_a_member_who_has_left_is_nobody(site: Site) -> None:
    """Last: the group is another one after it."""
    lab = site.lab
    psutil.Process(site.daemon).kill()
    again = site.swell(site.owner, "up")
    assert again.returncode == 0 and f"a member of {lab.group}" in again.stdout, again.stderr
    assert psutil.pid_exists(site.worker) and site.view(site.job)["phase"] == "running"
    subprocess.run(["gpasswd", "-d", lab.alice.pw_name, lab.group], check=True, capture_output=True)
    try:
        left = site.ask(lab.alice, "GET", "/v1/jobs")
        assert "Permission denied" in left or "is no member of the group" in left or "belongs to" in left, (
            left
        )
    finally:
        subprocess.run(["gpasswd", "-a", lab.alice.pw_name, lab.group], check=True, capture_output=True)
    end_helper(site.owner.pw_uid)
    own = home_file(lab.bob, "q/quick.py", "print()")
    body = {"script": str(own), "workdir": str(own.parent), "elasticity": "restart", "steps": 1}
    assert "no helper of root" in site.ask(lab.bob, "POST", "/v1/jobs", **body), (
        "and none runs as the platform"
    )
    assert "accounts" in site.swell(site.owner, "doctor").stdout
    refused = site.swell(site.owner, "up")
    assert "only root can start" in refused.stderr
    begun = site.up()
    assert begun.returncode == 0 and "the platform is up, and so is the process of root" in begun.stdout
    assert "no helper of root" not in site.ask(lab.bob, "POST", "/v1/jobs", **body)
    connects = (*CONNECTS, str(socket_path(site.owner.pw_uid)))
    assert site.run(site.owner, *connects).returncode == 0, "it is there again"
    assert site.swell(site.owner, "down").returncode == 0
    assert site.run(site.owner, *connects).returncode != 0, "it ends with its platform"
