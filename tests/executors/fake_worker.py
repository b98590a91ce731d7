"""A worker without torch that keeps the protocol: an all-reduce is a line to rank 0 and a line back.

`entry` is what it should do, `args` are `name=value` settings:
    steps=N     meet the end condition after N steps
    raise=N     raise after N steps
    child=1     start a process of its own
    daemon=1    the same in a session of its own, its pid in `daemon-PID`
    eat=N       after 5 steps, take N megabytes
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import msgspec

from swell.wire import environ
from swell.wire import messages as m
from swell.wire.checkpoint_files import checkpoint_name, checkpoints_in, is_whole
from swell.wire.lease_end import LeaseWatch

STEP_S = 0.01
_decode = msgspec.json.Decoder(m.FromAgent).decode


def folder() -> Path:
    """To write in."""
    return Path(os.environ.get(environ.OUTPUT, "."))


def dial(address: str) -> socket.socket:
    """As `swell.train.link.agent_link` does, without torch."""
    host, port = address.split(":")
    return socket.create_connection((host, int(port)))


class PeerGoneError(Exception):
    pass


class Line:
    """A socket of JSON lines, read one at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.file = connection.makefile("rb")
        self.lock = threading.Lock()

    def say(self, message: object) -> None:
        with self.lock:
            self.connection.sendall(msgspec.json.encode(message) + b"\n")

    def read(self) -> bytes:
        return self.file.readline()


class Worker:
    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings
        self.number = int(os.environ[environ.WORKER])
        self.agent = Line(dial(os.environ[environ.AGENT]))
        token, position = os.environ[environ.TOKEN], int(os.environ.get(environ.POSITION, "0"))
        hello = m.Hello(token=token, worker=self.number, pid=os.getpid(), position=position)
        self.agent.say(hello)
        welcome = _decode(self.agent.read())
        assert isinstance(welcome, m.Welcome)
        self.welcome = welcome
        self.news = threading.Condition()
        self.order: m.Regroup | m.Suspend | None = None
        self.addresses: dict[int, str] = {}
        self.steps = 0
        self.regroup: m.Regroup | None = None
        self.peers: list[Line] = []
        threading.Thread(target=self.listen, daemon=True).start()
        threading.Thread(target=self.beat, daemon=True).start()

    def setting(self, name: str) -> float:
        return float(self.settings.get(name, "0"))

    def listen(self) -> None:
        while line := self.agent.read():
            message = _decode(line)
            with self.news:
                if isinstance(message, m.StoreAddress):
                    self.addresses[message.generation] = message.address
                elif isinstance(message, m.Regroup | m.Suspend):
                    self.order = message
                elif isinstance(message, m.Witness):
                    self.agent.say(m.Witnessed(steps=self.steps))
                elif isinstance(message, m.Prove):
                    self.agent.say(m.Proved(steps=self.steps))
                self.news.notify_all()
        os._exit(143)

    def beat(self) -> None:
        path = os.environ.get(environ.LEASE)
        watch = None if path is None else LeaseWatch(path)
        while watch is None or not watch.is_over:
            self.agent.say(m.Alive())
            time.sleep(self.welcome.heartbeat_s)
        os._exit(143)

    # ------------------------------------------------------------ life
    def run(self) -> None:
        if self.setting("child"):
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        if self.setting("daemon"):
            code = "import time; time.sleep(60)"
            daemon = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
            (folder() / f"daemon-{os.getpid()}").write_text(str(daemon.pid))
        (folder() / f"token-{os.getpid()}").write_text(os.environ[environ.TOKEN])
        self.agent.say(m.Ready())
        if self.welcome.mode == "profile":
            measured = {size: size / 1000 for size in self.welcome.local_batches}
            self.agent.say(
                m.Profiled(
                    compute_s=measured, grad_bytes=4000, state_bytes=8000, samples_per_epoch=640, save_s=0.012
                )
            )
            return
        while not self.obey():
            pass
        if self.welcome.mode == "calibrate":
            assert self.regroup is not None
            if self.regroup.rank == 0:
                self.agent.say(m.Calibrated(allreduce_s={1000: 0.001, 100_000: 0.01}))
            return
        self.train()

    def train(self) -> None:
        while self.steps < (self.welcome.total_steps or 10**9):
            self.step()
            try:
                is_agreed = self.exchange(self.order is not None)
            except (PeerGoneError, OSError):
                self.part()
                generation = self.regroup.generation if self.regroup else 0
                self.agent.say(m.Broken(generation=generation, steps=self.steps, message="peer gone"))
                while not self.obey():
                    pass
                continue
            self.steps += 1
            if self.setting("raise") and self.steps >= self.setting("raise"):
                raise ZeroDivisionError("raised by the script")
            if self.steps % 5 == 1:
                self.say_progress(1 / self.steps)
            if is_agreed:
                while not self.obey():
                    pass
        self.say_progress(0.125, accuracy=0.75)
        self.agent.say(m.Finished(steps=self.steps))

    def say_progress(self, loss: float, **metrics: float) -> None:
        if self.regroup and self.regroup.rank == 0:
            self.agent.say(
                m.Progress(
                    generation=self.regroup.generation,
                    steps=self.steps,
                    num_workers=self.regroup.num_workers,
                    global_batch=self.regroup.global_batch,
                    step_s=STEP_S,
                    loss=loss,
                    metrics=dict(metrics),
                )
            )

    def step(self) -> None:
        time.sleep(STEP_S)
        if self.steps == 5 and self.setting("eat"):
            self.eaten = b"x" * (int(self.setting("eat")) << 20)

    def obey(self) -> bool:
        with self.news:
            self.news.wait_for(lambda: self.order is not None)
            order, self.order = self.order, None
        if isinstance(order, m.Suspend):
            if self.regroup and self.regroup.rank == 0:
                content = str(self.steps)
                digest = hashlib.sha256(content.encode()).hexdigest()
                path = Path(self.welcome.checkpoint_dir, checkpoint_name(self.steps, self.steps, digest))
                try:
                    path.write_text(content)
                except OSError as error:
                    self.agent.say(m.SaveFailed(steps=self.steps, message=str(error)))
                    return True
                self.agent.say(m.CheckpointSaved(steps=self.steps, path=str(path)))
            self.leave(order.generation)
        assert isinstance(order, m.Regroup)
        if order.rank is None:
            self.leave(order.generation)
        try:
            self.join(order)
        except (PeerGoneError, OSError) as error:
            self.part()
            self.agent.say(m.Broken(generation=order.generation, steps=self.steps, message=str(error)))
            return False
        return self.regroup is order

    def leave(self, generation: int) -> None:
        self.agent.say(m.Left(generation=generation))
        os._exit(143)

    # ------------------------------------------------------------ the group
    def join(self, order: m.Regroup) -> None:
        self.part()
        self.regroup = None
        found = checkpoints_in(Path(self.welcome.checkpoint_dir))
        newest = next((path for digest, path in found if is_whole(path, digest)), None)
        if order.source is None and newest is not None:
            self.steps = int(newest.read_text())
        if order.rank == 0:
            with socket.create_server(("127.0.0.1", 0)) as server:
                self.agent.say(
                    m.Bound(generation=order.generation, address=f"127.0.0.1:{server.getsockname()[1]}")
                )
                server.settimeout(0.02)
                while len(self.peers) < order.num_workers - 1:
                    if self.order is not None:
                        return
                    try:
                        self.peers.append(Line(server.accept()[0]))
                    except TimeoutError:
                        continue
        else:
            with self.news:
                self.news.wait_for(lambda: self.order is not None or order.generation in self.addresses)
                if self.order is not None:
                    return
            host, port = self.addresses[order.generation].split(":")
            self.peers = [Line(socket.create_connection((host, int(port))))]
        self.regroup = order
        self.exchange(False, order.rank == order.source)
        self.agent.say(m.Joined(generation=order.generation, steps=self.steps))

    def exchange(self, vote: bool, is_source: bool = False) -> bool:
        """What all sent, to all; the source's steps, if there is one, become everybody's."""
        assert self.regroup is not None
        mine: dict[str, Any] = {"vote": vote, "steps": self.steps if is_source else None}
        if self.regroup.rank == 0:
            said = [mine, *(self.hear(peer) for peer in self.peers)]
            sources = [each["steps"] for each in said if each["steps"] is not None]
            result = {"vote": all(each["vote"] for each in said), "steps": sources[0] if sources else None}
            for peer in self.peers:
                peer.say(result)
        else:
            self.peers[0].say(mine)
            result = self.hear(self.peers[0])
        if result["steps"] is not None:
            self.steps = result["steps"]
        return bool(result["vote"])

    def hear(self, peer: Line) -> dict[str, object]:
        line = peer.read()
        if not line:
            raise PeerGoneError("a peer closed its line")
        return dict(json.loads(line))

    def part(self) -> None:
        for peer in self.peers:
            peer.file.close()
            peer.connection.close()
        self.peers = []


def run_entry(entry: str, args: list[str]) -> None:
    """As `swell.train.runtime.runner.run_entry`."""
    print(f"worker runs {entry} in {os.getcwd()}", flush=True)
    if entry.endswith("dies_on_import.py"):
        raise ImportError("no module named wonder")
    if entry.endswith("never_elastic.py"):
        return
    settings = dict(arg.split("=", 1) for arg in args)
    worker = Worker(settings)
    try:
        worker.run()
    except ZeroDivisionError:
        traceback.print_exc()
        worker.agent.say(m.Failed(message=traceback.format_exc()))
        sys.exit(1)
