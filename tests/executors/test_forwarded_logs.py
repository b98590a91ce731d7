"""What workers on joined hosts print is at the head, in order, once, as far as it came in time."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.executors.file_world import FileWorld

from swell.api.logs import LogOwner, read_chunks
from swell.executors.hosts.file_messages import LogPiece
from swell.executors.local.files import forwarded_log, log_forwarding
from swell.executors.local.files.forwarded_log import LogName
from swell.executors.local.files.log_forwarding import LAST_WORDS_S
from swell.executors.local.logs import writer
from swell.executors.local.logs.files import discard_logs, job_folder, log_path, note_leaders
from swell.executors.local.logs.pieces import begins_of, end_offset, read_range
from swell.executors.local.logs.writer import LogWriter

JOB = "job-1"
WORDS = ("print", "print", "print", "end", "begin", "lead", "term", "head", "time")


class Printing:
    """A worker's log on host `a`."""

    def __init__(self, world: FileWorld, worker: int, host: str = "a", is_trial: bool = False) -> None:
        self.name, self.host = LogName(JOB, worker, is_trial), host
        self._files = world.hosts[host].files
        folder = job_folder(world.hosts[host].state_dir, JOB)
        folder.mkdir(parents=True, exist_ok=True)
        self.path = log_path(folder, "trial" if is_trial else "worker", worker)
        self.has_ended = self.is_gone = False
        world.note_started(host, self.name)
        self._files.log_begins(self.name, self.path)
        self._writer = LogWriter(self.path)

    def print(self, text: bytes) -> None:
        self._writer.append(text)

    def lead(self, position: int) -> None:
        self._files.leads(self.name, position)

    def end(self) -> None:
        self.kill()
        self._files.log_ends(self.name, self._told)

    def kill(self) -> None:
        """With its host process, or by it at the end of a term."""
        self._writer.close()
        self.is_gone = True

    def _told(self) -> None:
        assert not self.has_ended
        self.has_ended = True


def at_head(world: FileWorld, worker: int, kind: str = "worker") -> bytes:
    path = log_path(job_folder(world.head_dir, JOB), kind, worker)
    return read_range(path, begins_of(path), 0, 1 << 30).content


def pass_time_apart(world: FileWorld, seconds: float) -> None:
    """No message arrives."""
    for _ in range(round(10 * seconds)):
        world.now_s += 0.1
        for side in world.hosts.values():
            side.files.tick()
        world.turns.work()


@pytest.fixture
def world(tmp_path: Path) -> FileWorld:
    made = FileWorld(tmp_path)
    made.submit(JOB)
    return made


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=40)), max_size=12), st.data())
def test_all_that_is_printed_arrives_once_and_in_order(
    printed: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    choose = lambda num: data.draw(st.integers(0, num - 1))  # noqa: E731
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(forwarded_log, "PIECE_BYTES", 16)
        world = FileWorld(Path(folder))
        world.submit(JOB)
        workers = [Printing(world, number, host="aab"[number]) for number in range(3)]
        whole = dict.fromkeys(range(3), b"")
        for number, text in printed:
            workers[number].print(text)
            whole[number] += text
            for _ in range(data.draw(st.integers(0, 5))):
                world.turns.take(choose)
            for number in range(3):
                assert whole[number].startswith(at_head(world, number))
        for worker in workers:
            worker.end()
        world.pass_time(1.0, choose)
        assert {number: at_head(world, number) for number in range(3)} == whole
        assert all(worker.has_ended for worker in workers)


@settings(deadline=None)
@given(st.lists(st.sampled_from(WORDS), min_size=5, max_size=25), st.data())
def test_no_line_is_lost_nor_doubled_whatever_becomes_of_the_lease_and_the_controller(
    story: list[str], data: st.DataObject
) -> None:
    """Each may end at any moment; a head that is frozen for long is one that gives no answer until then."""

    def choose(num: int) -> int:
        return data.draw(st.integers(0, num - 1))

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(forwarded_log, "PIECE_BYTES", 16)
        patch.setattr(log_forwarding, "LAST_WORDS_BYTES", 40)
        world = FileWorld(Path(folder))
        world.submit(JOB)
        workers = [Printing(world, number, host) for number, host in enumerate("ab")]
        whole = {worker.name.worker: b"" for worker in workers}
        leaders: dict[int, int] = {}
        for word in story:
            live = [worker for worker in workers if not worker.is_gone]
            if word in ("print", "end", "lead") and live:
                worker = live[choose(len(live))]
                number = worker.name.worker
                if word == "print":
                    text = data.draw(st.binary(min_size=1, max_size=40))
                    worker.print(text)
                    whole[number] += text
                elif word == "lead" and number not in leaders:
                    leaders[number] = len(whole[number])
                    worker.lead(leaders[number])
                elif word == "end":
                    worker.end()
            elif word == "begin":
                whole[len(workers)] = b""
                workers.append(Printing(world, len(workers), "ab"[choose(2)]))
            elif word == "term":
                host = "ab"[choose(2)]
                for worker in live:
                    if worker.host == host:
                        worker.kill()
                world.begin_term(host)
            elif word == "head":
                world.replace_controller()
            elif word == "time":
                pass_time_apart(world, data.draw(st.floats(0, 2 * LAST_WORDS_S)))
            for _ in range(data.draw(st.sampled_from([0, 1, 2, 3, 5, 8, 13, 21]))):
                world.turns.take(choose)
            for number, text in whole.items():
                assert text.startswith(at_head(world, number))
        for worker in workers:
            if not worker.is_gone:
                worker.end()
        world.pass_time(3.0, choose)
        assert {number: at_head(world, number) for number in whole} == whole
        noted = job_folder(world.head_dir, JOB) / "leaders"
        lines = noted.read_text().splitlines() if noted.exists() else []
        assert {int(line.split()[0]): int(line.split()[1]) for line in lines} == leaders


@pytest.mark.parametrize("is_head", [True, False], ids=["head", "term"])
def test_what_was_taken_though_its_host_did_not_hear_it_is_not_doubled(
    world: FileWorld, is_head: bool
) -> None:
    worker = Printing(world, 0)
    worker.lead(0)
    worker.print(b"step 1\n")
    while at_head(world, 0) != b"step 1\n":
        world.hosts["a"].files.tick()
        world.turns.take(lambda num: 0)
    worker.print(b"step 2\n")
    if is_head:
        world.replace_controller()
        worker.end()
    else:
        worker.kill()
        world.begin_term("a")
    world.pass_time(1.0)
    assert at_head(world, 0) == b"step 1\nstep 2\n"
    assert (job_folder(world.head_dir, JOB) / "leaders").read_text().splitlines()[0] == "0 0"


def test_a_log_whose_head_had_a_full_disk_goes_on_with_another_controller(
    world: FileWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions at the head are others than here from then on."""
    worker = Printing(world, 0)
    worker.print(b"before\n")
    world.pass_time(0.2)
    monkeypatch.setattr(writer, "RETRY_S", 0.0)
    with monkeypatch.context() as full:
        worker.print(b"x" * 1000 + b"\n")
        full.setattr(LogWriter, "_place_for", no_room)
        world.pass_time(0.2)
    worker.print(b"again\n")
    world.pass_time(0.5)
    worker.print(b"after\n")
    world.replace_controller()
    worker.end()
    world.pass_time(0.5)
    told = b"[swell: 1001 bytes of output were dropped here: No space left on device]\n"
    assert at_head(world, 0) == b"before\n" + told + b"again\nafter\n"


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_the_leaders_lines_are_the_jobs_wherever_it_runs(world: FileWorld) -> None:
    first = Printing(world, 0)
    first.lead(0)
    first.print(b"hello\nstep 1\n")
    second = Printing(world, 1, host="b")
    second.print(b"not of rank 0\n")
    world.pass_time(0.5)
    second.lead(len(b"not of rank 0\n"))
    second.print(b"step 2\n")
    world.pass_time(0.5)
    first.end()
    second.end()
    world.pass_time(0.5)
    folder = job_folder(world.head_dir, JOB)
    offsets: dict[int, int] = {}
    story = ""
    while chunks := [c for c in read_chunks(folder, offsets, whose=LogOwner.LEADER) if c.text]:
        for chunk in chunks:
            story += chunk.text
            offsets[chunk.worker] = chunk.next_offset
    assert story == "hello\nstep 1\nstep 2\n"


def test_a_worker_has_its_number_at_the_head_before_it_prints(world: FileWorld) -> None:
    Printing(world, 5)
    trial = Printing(world, 3, is_trial=True)
    world.pass_time(0.2)
    folder = job_folder(world.head_dir, JOB)
    assert log_path(folder, "worker", 5).exists()
    trial.end()
    world.pass_time(0.2)
    assert trial.has_ended
    assert not log_path(folder, "trial", 3).exists(), "it had nothing to say"


def test_the_end_is_told_when_the_last_words_are_there_or_soon_after(world: FileWorld) -> None:
    worker = Printing(world, 0)
    world.pass_time(0.1)
    worker.print(b"last words\n")
    worker.end()
    assert not worker.has_ended
    world.settle()
    assert worker.has_ended and at_head(world, 0) == b"last words\n"
    cut_off = Printing(world, 1)
    cut_off.print(b"x")
    cut_off.end()
    pass_time_apart(world, LAST_WORDS_S - 0.1)
    assert not cut_off.has_ended
    pass_time_apart(world, 0.3)
    assert cut_off.has_ended and not at_head(world, 1)
    world.turns.empty("from a")
    world.turns.work()
    assert at_head(world, 1) == b"x", "it was said before"


def test_what_was_rotated_away_is_missed_by_its_number_of_bytes(world: FileWorld) -> None:
    worker = Printing(world, 0)
    world.pass_time(0.1)
    os.truncate(worker.path, 0)
    worker.path.rename(worker.path.with_name("worker-0.log.1000"))
    LogWriter(worker.path).append(b"after it\n")
    world.pass_time(0.1)
    told = (
        b"[swell: 1000 bytes of output were dropped here: they came faster than they were sent to the head]\n"
    )
    assert at_head(world, 0) == told + b"after it\n"


def test_no_more_than_the_rate_is_sent(world: FileWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarded_log, "PIECE_BYTES", 100)
    monkeypatch.setattr(log_forwarding, "PIECE_BYTES", 100)
    monkeypatch.setattr(log_forwarding, "BURST_BYTES", 1000)
    monkeypatch.setattr(log_forwarding, "RATE_BYTES_PER_S", 500)
    worker = Printing(world, 0)
    worker.print(b"x" * 10_000)
    world.pass_time(2.0)
    assert 1000 <= len(at_head(world, 0)) <= 1000 + 2 * 500 + 2 * 100


def test_logs_of_a_lost_host_stay_and_a_pruned_job_gets_no_folder(world: FileWorld) -> None:
    worker = Printing(world, 0)
    worker.print(b"came\n")
    world.pass_time(0.2)
    world.lose("a")
    world.settle()
    assert at_head(world, 0) == b"came\n"
    world.head.hear("b", LogPiece(job_id="pruned", worker=0, is_trial=False, content=b"x"))
    world.head.hear("b", LogPiece(job_id="../x", worker=0, is_trial=False, content=b"x"))
    world.settle()
    assert not (world.head_dir / "jobs" / "pruned").exists()


def test_a_log_goes_on_where_it_was_when_another_controller_keeps_it(tmp_path: Path) -> None:
    """It has rotated before: its positions go on."""
    log = tmp_path / "worker-0.log"
    writer = LogWriter(log, 20)
    writer.append(b"0123456\n")
    writer.append(b"89abcde\n")
    writer.close()
    assert end_offset(log) == 16
    again = LogWriter(log, 20)
    again.append(b"01234567\n")
    again.append(b"01234567\n")
    assert end_offset(log) == 34
    assert begins_of(log) == (16,)


def test_a_log_that_another_writer_keeps_is_not_discarded(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "worker-0.log")
    writer.append(b"x" * 100)
    discard_logs(tmp_path, 10, live=())
    assert end_offset(tmp_path / "worker-0.log") == 100 and not begins_of(tmp_path / "worker-0.log")
    writer.close()
    discard_logs(tmp_path, 10, live=())
    assert begins_of(tmp_path / "worker-0.log") == (100,)


def test_notes_of_leaders_of_all_hosts_are_one_story(world: FileWorld) -> None:
    """Those of the head's own machine are in the same file."""
    folder = job_folder(world.head_dir, JOB)
    note_leaders(folder, [(0, 0)])
    worker = Printing(world, 1)
    worker.lead(0)
    world.pass_time(0.3)
    assert (folder / "leaders").read_text() == "0 0\n1 0\n"


def test_every_message_is_short(world: FileWorld) -> None:
    worker = Printing(world, 0)
    worker.print(b"\xff" * (3 * forwarded_log.PIECE_BYTES))
    world.pass_time(0.3)
    pieces = [m for _, m in world.told if isinstance(m, LogPiece)]
    assert max(len(msgspec.json.encode(piece)) for piece in pieces) < 1 << 20
    assert at_head(world, 0) == b"\xff" * (3 * forwarded_log.PIECE_BYTES)


def test_who_leads_is_told_to_the_next_controller_if_the_former_one_has_not_taken_it(
    world: FileWorld,
) -> None:
    world.submit(JOB)
    printing = Printing(world, 3)
    printing.print(b"warming up\n")
    world.settle()
    printing.lead(len(b"warming up\n"))
    printing.print(b"step 1\n")
    while not any(isinstance(message, LogPiece) and message.is_leading for _, message in world.told):
        world.turns.take(lambda num: 0)
        world.hosts["a"].files.tick()
    world.replace_controller()
    world.pass_time(1.0)
    assert (job_folder(world.head_dir, JOB) / "leaders").read_text() == f"3 {len(b'warming up') + 1}\n"
    assert at_head(world, 3) == b"warming up\nstep 1\n"
