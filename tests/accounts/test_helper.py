"""The helper of root: each rule, by an attempt to break it."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.accounts.conftest import Lab, acting_as, reachable, run_as
from tests.eventually import PATIENCE_S, eventually

from swell.executors.local.accounts import client, messages, process
from swell.executors.local.accounts.client import AccountRefused, KeptProcess, become_owner, end_helper
from swell.executors.local.accounts.messages import Give, HelperRequest, Intake, ZygoteRequest
from swell.executors.local.processes.listing import is_alive, user_of
from swell.model.errors import InvalidOption

MakeFolder = Callable[[str], Path]
ENVIRON = {"SWELL_PROCESS": "1:a:0:/x"}


def zygote_request(user: str, python: str) -> dict[str, Any]:
    return {"kind": "zygote", "user": user, "python": python, "modules": ["json"], "environ": ENVIRON}


@contextmanager
def descriptors(num: int) -> Iterator[list[int]]:
    """Any: of pipes that nothing reads."""
    pairs = [os.pipe() for _ in range((num + 1) // 2)]
    ends = [end for pair in pairs for end in pair]
    try:
        yield ends[:num]
    finally:
        for end in ends:
            os.close(end)


def ask(lab: Lab, text: bytes, num_descriptors: int) -> dict[str, Any]:
    """What the helper answers to these bytes from the platform's account."""
    with lab.as_platform(), descriptors(num_descriptors) as sent, socket.socket(socket.AF_UNIX) as line:
        line.settimeout(PATIENCE_S)
        line.connect(str(messages.socket_path(os.geteuid())))
        if sent:
            socket.send_fds(line, [text], sent)
        else:
            line.sendall(text)
        return dict(json.loads(line.makefile("rb").readline() or b"{}"))


def refusal(lab: Lab, request: dict[str, Any], num_descriptors: int = 3) -> str:
    answer = ask(lab, json.dumps(request).encode() + b"\n", num_descriptors)
    assert "pid" not in answer, "a process was started"
    return str(answer["why"])


def script(lab: Lab, text: str) -> str:
    """A program that takes an interpreter's place: a zygote of this user runs it."""
    path = lab.folder / f"script-{time.monotonic_ns()}"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def start(lab: Lab, text: str, user: pwd.struct_passwd | None = None) -> tuple[KeptProcess, Path]:
    """Run this as a user, with its output in a file."""
    output, python = lab.folder / f"output-{time.monotonic_ns()}", script(lab, text)
    request = ZygoteRequest(user=(user or lab.alice).pw_name, python=python, modules=(), environ=ENVIRON)
    with output.open("wb") as log, descriptors(1) as (channel,), lab.as_platform():
        return client.start(request, [channel, log.fileno(), log.fileno()]), output


# ---------------------------------------------------------------- who asks
def test_other_users_cannot_connect(lab: Lab) -> None:
    path = messages.socket_path(lab.platform.pw_uid)
    for user in (lab.alice, lab.outsider):
        with acting_as(user), socket.socket(socket.AF_UNIX) as line, pytest.raises(PermissionError):
            line.connect(str(path))


def test_root_is_no_platform(lab: Lab) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(messages.socket_path(lab.platform.pw_uid)))
        assert b"user 0 asks the helper" in line.recv(4096)


def test_nobody_else_can_put_a_socket_there(lab: Lab) -> None:
    for user in (lab.alice, lab.platform):
        with acting_as(user), pytest.raises(PermissionError):
            messages.socket_path(user.pw_uid).with_suffix(".new").touch()
    with acting_as(lab.platform), pytest.raises(PermissionError):
        messages.socket_path(lab.platform.pw_uid).unlink()


@pytest.mark.parametrize("fault", ["open", "foreign", "link"])
def test_a_folder_of_sockets_that_others_can_change_is_refused(
    lab: Lab, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = lab.folder / f"run-{fault}"
    if fault == "link":
        folder.symlink_to(lab.alice.pw_dir)
    else:
        folder.mkdir()
        folder.chmod(0o777 if fault == "open" else 0o755)
        os.chown(folder, lab.alice.pw_uid if fault == "foreign" else 0, 0)
    monkeypatch.setattr(process, "FOLDER", folder)
    with pytest.raises((process.UnsafeHelper, OSError)):
        process.listen(lab.platform.pw_uid)
    assert not list(Path(lab.alice.pw_dir).glob("*.sock"))


def test_root_runs_no_code_that_a_user_can_change(lab: Lab, tmp_path: Path) -> None:
    code = lab.folder / "code" / "inner"
    code.mkdir(parents=True)
    process.check_own_code([str(code)])
    for path, change in ((code, "foreign"), (code.parent, "open")):
        if change == "open":
            path.chmod(0o775)
        else:
            os.chown(path, lab.alice.pw_uid, 0)
        with pytest.raises(process.UnsafeHelper, match="install Swell for the machine"):
            process.check_own_code([str(code)])
        os.chown(path, 0, 0)


def test_an_account_of_a_platform_is_not_root_and_shares_its_group_with_nobody(lab: Lab) -> None:
    process.check_platform_account(lab.platform.pw_uid)
    with pytest.raises(process.UnsafeHelper, match="root has no platform"):
        process.check_platform_account(0)
    for option in ("-g", "-G"):
        name = f"{lab.platform.pw_name}{option}"
        subprocess.run(["useradd", "-M", option, lab.platform.pw_name, name], check=True)
        try:
            with pytest.raises(process.UnsafeHelper, match=f"also that of {name}"):
                process.check_platform_account(lab.platform.pw_uid)
        finally:
            subprocess.run(["userdel", name], check=True, capture_output=True)


def test_one_helper_at_a_time(lab: Lab) -> None:
    words = [sys.executable, "-I", "-m", process.__name__, lab.group, str(lab.platform.pw_uid)]
    second = subprocess.run(words, capture_output=True, check=False, timeout=PATIENCE_S)
    assert second.returncode == 1 and b"another swell-runas" in second.stderr


# ---------------------------------------------------------------- as whom
def test_jobs_run_as_users_of_the_group_alone(lab: Lab) -> None:
    for name, why in (
        (lab.outsider.pw_name, "is no member of the group"),
        (lab.shellless.pw_name, "may not log in"),
        (lab.platform.pw_name, "no account of the system"),
        ("root", "no account of the system"),
        ("nobody-of-that-name", "has no user"),
        (str(lab.alice.pw_uid), "has no user"),
        ("0", "has no user"),
        ("alice\0root", "regex"),
        ("../alice", "regex"),
        ("", "regex"),
    ):
        assert why in refusal(lab, zygote_request(name, sys.executable)), name
        assert why in refusal(lab, {"kind": "give", "user": name, "mode": 0o2770}, 1), name


def test_a_user_who_is_deleted_or_leaves_the_group_is_refused_from_then_on(lab: Lab) -> None:
    name = f"{lab.alice.pw_name}x"
    subprocess.run(["useradd", "-M", "-s", "/bin/sh", "-G", lab.group, name], check=True)
    kept, _ = start(lab, "exec sleep 1000", pwd.getpwnam(name))
    kept.kill()
    kept.wait()
    subprocess.run(["gpasswd", "-d", name, lab.group], check=True, capture_output=True)
    assert "no member" in refusal(lab, zygote_request(name, sys.executable))
    eventually(lambda: subprocess.run(["userdel", name], capture_output=True).returncode == 0)
    assert "has no user" in refusal(lab, zygote_request(name, sys.executable))


# ---------------------------------------------------------------- what is asked for
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"python": "python3"}, "regex"),
        ({"python": "/bin/sh\0-c"}, "regex"),
        ({"python": "/no/such"}, "No such file"),
        ({"python": "/etc/passwd"}, "Permission denied"),
        ({"modules": ["-c", "x"]}, "regex"),
        ({"modules": ["a;b"]}, "regex"),
        ({"modules": ["../x"]}, "regex"),
        ({"environ": {"LD_PRELOAD": "/x.so"}}, "LD_PRELOAD"),
        ({"environ": {"PYTHONPATH": "/x"}}, "PYTHONPATH"),
        ({"environ": {"SWELL_TOKEN": "x"}}, "SWELL_TOKEN"),
        ({"environ": {"HOME": "/root"}}, "HOME"),
        ({"uid": 0}, "uid"),
        ({"kind": "shell"}, "shell"),
        ({"path": "/etc"}, "path"),
    ],
)
def test_a_request_with_more_than_it_may_have_starts_nothing(
    lab: Lab, changes: dict[str, Any], why: str
) -> None:
    assert why in refusal(lab, zygote_request(lab.alice.pw_name, "/bin/true") | changes)


@pytest.mark.parametrize("num", [0, 2, 4, 5, 20])
def test_a_descriptor_too_many_or_too_few_starts_nothing(lab: Lab, num: int) -> None:
    assert "descriptors" in refusal(lab, zygote_request(lab.alice.pw_name, "/bin/true"), num)


def test_descriptors_that_come_later_count_for_nothing(lab: Lab) -> None:
    text = json.dumps(zygote_request(lab.alice.pw_name, "/bin/true")).encode() + b"\n"
    with lab.as_platform(), descriptors(3) as sent, socket.socket(socket.AF_UNIX) as line:
        line.connect(str(messages.socket_path(os.geteuid())))
        socket.send_fds(line, [text[:9]], sent[:2])
        socket.send_fds(line, [text[9:]], sent[2:])
        assert b"3 descriptors" in line.recv(4096)


@pytest.mark.parametrize("text", [b"no message\n", b"[]\n", b"{}\n", b"\xff\n", b"[" * 60_000 + b"\n"])
def test_what_is_no_request_is_refused(lab: Lab, text: bytes) -> None:
    assert ask(lab, text, 3).get("why")


def test_a_long_request_and_one_that_does_not_end_are_given_up(lab: Lab) -> None:
    began_s = time.monotonic()
    assert "a line of at most 65536 bytes" in ask(lab, b"x" * 70_000, 1)["why"]
    assert ask(lab, b"{", 1)["why"]
    assert time.monotonic() - began_s < 3 * messages.REQUEST_S


def test_a_flood_of_connections_meets_a_limit_and_ends_with_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a helper with a small one."""
    monkeypatch.setattr(process, "MAX_CONNECTIONS", 3)
    with socket.socket(socket.AF_UNIX) as listener:
        path = lab.folder / "flooded"
        listener.bind(str(path))
        path.chmod(0o666)
        listener.listen(100)
        if (helper := os.fork()) == 0:
            process.serve(listener, lab.group, lab.platform.pw_uid)

    def answer_of_last(num: int) -> bytes:
        with ExitStack() as stack, lab.as_platform():
            lines = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(num)]
            for line in lines:
                line.connect(str(path))
            with suppress(BrokenPipeError):  # it was refused, and closed, before it said anything
                lines[-1].sendall(b"x\n")
            return lines[-1].recv(4096)

    try:
        assert b"kept at a time" in answer_of_last(4)
        eventually(lambda: b"malformed" in answer_of_last(1), "their end makes room")
    finally:
        os.kill(helper, signal.SIGKILL)
        os.waitpid(helper, 0)


# ---------------------------------------------------------------- folders
def test_a_folder_of_the_platform_is_given_and_of_nobody_else(lab: Lab, shared_folder: MakeFolder) -> None:
    folder = shared_folder("job")
    with lab.as_platform():
        client.give(folder, lab.alice.pw_name)
        client.give(folder, lab.alice.pw_name)  # again
        found = folder.stat()
        with pytest.raises(AccountRefused, match="only a folder of the platform"):
            client.give(folder, lab.bob.pw_name)  # it has another owner by now
    assert (found.st_uid, found.st_gid) == (lab.alice.pw_uid, lab.platform.pw_gid)
    assert stat.S_IMODE(found.st_mode) == 0o2770
    for path in (Path("/etc"), lab.folder, Path(lab.bob.pw_dir)):
        path.chmod(path.stat().st_mode | 0o005)
        before = path.stat()
        with lab.as_platform(), pytest.raises(AccountRefused, match="only a folder of the platform"):
            client.give(path, lab.alice.pw_name)
        assert path.stat() == before


def test_no_file_no_link_and_no_mode_of_ones_own_is_given(lab: Lab, shared_folder: MakeFolder) -> None:
    folder = shared_folder("job")
    link, file = folder.parent / "link", folder / "file"
    link.symlink_to(folder)
    file.touch()
    os.chown(file, lab.platform.pw_uid, lab.platform.pw_gid)
    with lab.as_platform():
        with pytest.raises(OSError, match="Not a directory"):
            client.give(link, lab.alice.pw_name)
        with file.open("rb") as opened, pytest.raises(AccountRefused, match="only a folder"):
            client.start(Give(user=lab.alice.pw_name, mode=0o2770), [opened.fileno()])
        with pytest.raises(AccountRefused, match="one of two modes"):
            client.give(folder, lab.alice.pw_name, 0o4777)
    assert file.stat().st_uid == folder.stat().st_uid == lab.platform.pw_uid


def test_a_file_that_has_another_name_elsewhere_stays_whose_it_is(
    lab: Lab, shared_folder: MakeFolder
) -> None:
    folder = shared_folder("job")
    secret, own = folder.parent / "secret", folder / "own"
    for path in (secret, own):
        path.touch(mode=0o600)
        os.chown(path, lab.platform.pw_uid, lab.platform.pw_gid)
    os.link(secret, folder / "linked")
    with lab.as_platform():
        client.give(folder, lab.alice.pw_name)
    assert (secret.stat().st_uid, own.stat().st_uid) == (lab.platform.pw_uid, lab.alice.pw_uid)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_a_folder_that_is_moved_meanwhile_is_the_one_that_is_given(
    lab: Lab, shared_folder: MakeFolder
) -> None:
    folder, other = shared_folder("job"), shared_folder("other")
    with lab.as_platform():
        handle = os.open(folder, os.O_RDONLY)
    folder.rename(folder.with_name("moved"))
    other.rename(folder)
    with lab.as_platform():
        client.start(Give(user=lab.alice.pw_name, mode=0o2770), [handle]).close()
    os.close(handle)
    assert folder.with_name("moved").stat().st_uid == lab.alice.pw_uid
    assert folder.stat().st_uid == lab.platform.pw_uid


def test_what_a_user_has_closed_is_removed_as_that_user_and_nothing_else(
    lab: Lab, shared_folder: MakeFolder
) -> None:
    folder, outside = shared_folder("job"), shared_folder("outside")
    secret = outside / "secret"
    secret.write_text("of the platform")
    with lab.as_platform():
        client.give(folder, lab.alice.pw_name)
    (folder.parent / "link").symlink_to(outside)
    with acting_as(lab.alice):
        (folder / "inner" / "closed").mkdir(parents=True)
        (folder / "inner" / "closed" / "file").touch(0)
        (folder / "inner" / "closed").chmod(0)
        (folder / "link").symlink_to(secret)
        (folder / "folder").symlink_to(outside)
        os.mkfifo(folder / "pipe")
        folder.chmod(0o700)
    with lab.as_platform():
        for path, user in ((folder, lab.bob), (outside, lab.alice), (folder.parent / "link", lab.alice)):
            with pytest.raises(OSError):
                client.empty(path, user.pw_name)
        client.empty(folder, lab.alice.pw_name)
    assert os.listdir(folder) == [] and secret.read_text() == "of the platform"


# ---------------------------------------------------------------- processes
def test_a_process_is_the_users_with_nothing_of_roots(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_OWNER", "x")
    setuid = lab.folder / "setuid-id"
    setuid.write_bytes(Path("/usr/bin/id").read_bytes())
    setuid.chmod(0o4755)
    kept, output = start(lab, f"cat /proc/self/status; id; {setuid} -u; umask; env; ls -l /proc/self/fd; pwd")
    assert kept.wait() == 0
    text = output.read_text()
    own, group = lab.alice.pw_uid, lab.alice.pw_gid
    assert (
        f"Uid:\t{own}\t{own}\t{own}\t{own}\n" in text
        and f"Gid:\t{group}\t{group}\t{group}\t{group}\n" in text
    )
    assert all(f"Cap{name}:\t0000000000000000" in text for name in ("Inh", "Prm", "Eff", "Amb"))
    assert "NoNewPrivs:\t1" in text and f"\n{own}\n0027\n" in text, "a program of root's gave it rights"
    assert lab.group in text and "(root)" not in text
    assert f"HOME={lab.alice.pw_dir}\n" in text and "SECRET_OF_OWNER" not in text
    assert ".sock" not in text and "lock" not in text
    assert text.endswith("\n/\n")


def test_a_process_that_gets_away_from_its_parents_ends_with_its_connection(lab: Lab) -> None:
    kept, output = start(
        lab,
        "echo $$; setsid sh -c 'echo $$; exec sleep 1000' &\n"
        'env -i setsid sh -c \'(trap "" TERM HUP; setsid sh -c "echo \\$\\$; exec sleep 1000" &) &\'\n'
        "exec sleep 1000",
    )
    pids = eventually(
        lambda: [int(word) for word in words] if len(words := output.read_text().split()) == 3 else []
    )
    assert all(user_of(pid) == lab.alice.pw_uid for pid in pids)
    kept.kill()
    assert kept.wait() == -signal.SIGKILL
    assert not any(map(is_alive, pids)), "told before all had ended"


def test_what_a_process_has_left_behind_ends_when_it_does(lab: Lab) -> None:
    kept, output = start(lab, "setsid sh -c 'echo $$; exec sleep 1000' & sleep 0.2; exit 7")
    assert kept.wait() == 7
    assert not is_alive(int(output.read_text()))


def test_a_user_can_signal_neither_keeper_nor_helper(lab: Lab) -> None:
    kept, output = start(lab, f"kill -9 $PPID; kill -9 {lab.helper.pid}; kill -STOP $PPID; echo tried")
    assert kept.wait() == 0 and "tried" in output.read_text()
    assert output.read_text().count("not permitted") == 3 and lab.helper.poll() is None


def test_a_user_cannot_unlock_what_the_keeper_holds(lab: Lab) -> None:
    path = lab.folder / "agent.lock"
    with path.open("w") as lock, (lab.folder / "log").open("wb") as log, descriptors(1) as (channel,):
        fcntl.flock(lock, fcntl.LOCK_EX)
        python = script(lab, "for n in 3 4 5 6 7 8 9; do flock -u $n; done 2>/dev/null; exec sleep 1000")
        with lab.as_platform():
            request = ZygoteRequest(user=lab.alice.pw_name, python=python, modules=(), environ={})
            kept = client.start(request, [channel, log.fileno(), lock.fileno()])
    with path.open("w") as again:
        with pytest.raises(BlockingIOError):
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
        kept.kill()
        kept.wait()
        eventually(lambda: _is_free(again), "the keeper lets it go with its last process")


def _is_free(lock: Any) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def test_an_intake_process_is_a_fixed_program_of_the_users(lab: Lab) -> None:
    ours, theirs = socket.socketpair()
    limits = {"memory_bytes": 2.0**30, "cpu_s": 10.0, "wall_s": 60.0}
    with ours, theirs, (lab.folder / "intake.log").open("w+b") as log:
        request = Intake(user=lab.alice.pw_name, limits=msgspec.json.encode(limits).decode())
        with lab.as_platform():
            kept = client.start(request, [theirs.fileno(), log.fileno()])
        theirs.close()
        assert user_of(kept.pid) == lab.alice.pw_uid
        words = Path(f"/proc/{kept.pid}/cmdline").read_bytes().split(b"\0")
        assert words[0] == os.fsencode(sys.executable) and words[1:4] == [b"-I", b"-S", b"-c"]
        ours.shutdown(socket.SHUT_WR)
        assert kept.wait() == 0, (lab.folder / "intake.log").read_text()


def test_temporary_files_are_the_users_alone_and_go_with_the_process(lab: Lab) -> None:
    kept, output = start(
        lab, "echo $TMPDIR; mkdir -p $TMPDIR/a/b; chmod 0 $TMPDIR/a; echo x; exec sleep 1000"
    )
    room = Path(eventually(lambda: output.read_text().split()[0] if "x" in output.read_text() else ""))
    assert stat.S_IMODE(room.stat().st_mode) == 0o700 and room.stat().st_uid == lab.alice.pw_uid
    for user in (lab.bob, lab.platform):
        assert "Permission denied" in run_as(user, "ls", str(room)).stderr
    kept.kill()
    kept.wait()
    eventually(lambda: not room.exists())


def test_a_fork_bomb_ends_within_its_users_limit_and_with_its_connection(lab: Lab) -> None:
    """The other user's processes start meanwhile."""
    lab.helper.kill()
    lab.helper.wait()
    limited = lab.start_helper(nproc=60)
    try:
        kept, output = start(
            lab, "cat /proc/self/limits; bomb() { bomb & bomb & wait; }; bomb; exec sleep 1000"
        )
        eventually(lambda: "fork" in output.read_text().lower(), output.read_text)
        assert re.search(r"Max processes +60 +60 ", output.read_text())
        other, told = start(lab, "echo here", lab.bob)
        assert other.wait() == 0 and told.read_text() == "here\n"
        kept.kill()
        kept.wait()
        left = [
            pid
            for pid in map(int, filter(str.isdecimal, os.listdir("/proc")))
            if user_of(pid) == lab.alice.pw_uid
        ]
        assert not left
    finally:
        limited.kill()
        limited.wait()
        lab.helper = lab.start_helper()


def test_keepers_go_on_without_their_helper_and_the_next_one_serves(lab: Lab) -> None:
    kept, _ = start(lab, "exec sleep 1000")
    lab.helper.kill()
    lab.helper.wait()
    with lab.as_platform():
        assert not client.is_there()
        with pytest.raises(ConnectionError, match="sudo swell up --accounts"):
            client.start(Give(user=lab.alice.pw_name, mode=0), [])
    lab.helper = lab.start_helper()
    assert is_alive(kept.pid)
    kept.kill()
    assert kept.wait() == -signal.SIGKILL
    other, output = start(lab, "id -un")
    assert other.wait() == 0 and output.read_text() == f"{lab.alice.pw_name}\n"


def test_a_request_of_each_kind_is_told_by_its_tag() -> None:
    assert {kind.__struct_config__.tag for kind in HelperRequest.__subclasses__()} == {
        "zygote",
        "intake",
        "remove",
        "give",
    }


def test_a_joined_machine_has_a_helper_of_its_own_and_goes_on_as_its_account(
    lab: Lab, shared_folder: MakeFolder
) -> None:
    state = shared_folder("node")
    words = [sys.executable, "-m", "swell", "node", "--join", "127.0.0.1:9", "--token-file", str(state / "t")]
    words += ["--name", "h1", "--devices", "cpu:1", "--accounts", lab.group, "--state", str(state)]
    with lab.as_platform(), pytest.raises(InvalidOption, match="only root starts processes of users"):
        become_owner(state, lab.group)
    try:
        joined = subprocess.run(
            reachable(words), capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert joined.returncode == 2 and str(state / "t") in joined.stderr, "it has no token"
        assert {path.stat().st_uid for path in state.iterdir()} == {lab.platform.pw_uid}
        with lab.as_platform():
            client.give(state, lab.alice.pw_name)
    finally:
        end_helper(lab.platform.pw_uid)
        lab.helper = lab.start_helper()
