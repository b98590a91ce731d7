"""What the loop of `elastic` costs against a plain one, and what deterministic sums cost: `make bench`."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.train.fake_agent import fork_script
from torch.utils.data import DataLoader, Dataset

from swell.train.data.loader import Feed
from swell.train.data.random_streams import Purpose, seed_streams
from swell.train.data.sample_schedule import SampleSchedule

NUM_ROUNDS = 4
COST = Path(__file__).parent / "scripts" / "cost.py"
LOOPS = {"torch": "plain loop, DDP on two", "default": "elastic", "8": "elastic, deterministic, 8 shards"}


def measure(folder: Path, kind: str, loop: str, num_workers: int) -> dict[str, float]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    result = folder / f"{kind}-{loop}-{num_workers}.json"
    processes = []
    for rank in range(num_workers):
        names = {"RANK": rank, "WORLD_SIZE": num_workers, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        env = {name: str(value) for name, value in names.items()} if num_workers > 1 else {}
        processes.append(fork_script(COST, (str(result), kind, loop), folder / "log", env))
    for process in processes:
        process.join(200)
        assert process.exitcode == 0, (folder / "log").read_text()
    measured: dict[str, float] = json.loads(result.read_text())
    return measured


@pytest.mark.bench
@pytest.mark.timeout(900)
@pytest.mark.parametrize("num_workers", [1, 2])
@pytest.mark.parametrize("kind", ["cnn", "mlp"])
def test_cost_of_a_loop(kind: str, num_workers: int, tmp_path: Path) -> None:
    """The best of rounds that take turns, so that whatever else runs here meets all loops alike."""
    rounds = [{loop: measure(tmp_path, kind, loop, num_workers) for loop in LOOPS} for _ in range(NUM_ROUNDS)]
    best = {
        loop: {name: min(each[loop][name] for each in rounds) for name in ("wall_s", "cpu_s")}
        for loop in LOOPS
    }
    print(f"\n{kind}, {rounds[0]['torch']['parameters']:,} parameters, {num_workers} workers")
    for loop, told in LOOPS.items():
        print(
            f"{told:34s} {1e3 * best[loop]['wall_s']:8.1f} ms a step ({_ratio(best, loop, 'wall_s')}), "
            f"{1e3 * best[loop]['cpu_s']:8.1f} ms of CPU ({_ratio(best, loop, 'cpu_s')})"
        )
        assert best[loop]["wall_s"] > 0


def _ratio(best: dict[str, dict[str, float]], loop: str, name: str) -> str:
    return f"x {best[loop][name] / best['torch'][name]:.2f}"


class Drawing(Dataset[float]):
    def __init__(self, draw: Callable[[], float]) -> None:
        self.draw = draw

    def __len__(self) -> int:
        return 6400

    def __getitem__(self, index: int) -> float:
        return self.draw()


DRAWS: dict[str, Callable[[], float]] = {
    "nothing": lambda: 0.0,
    "from torch": lambda: torch.rand(()).item(),
    "from all three": lambda: torch.rand(()).item() + random.random() + float(np.random.rand()),
}


@pytest.mark.bench
def test_cost_of_random_streams() -> None:
    """CPU time beside that of a plain loader, in one process, the best of several rounds."""
    course = SampleSchedule(6400, 64, True, False)
    for told, draw in DRAWS.items():
        loader = DataLoader(Drawing(draw), batch_size=64, shuffle=True)
        feed = Feed(loader, torch.device("cpu"), 0, course)

        def through_feed(feed: Feed = feed) -> None:
            for step in range(course.place.step, course.place.step + 100):
                opened = feed.open(step, lambda step: course.share(step, 0, 1), 0)
                assert opened is not None
                for _ in opened[1]:
                    pass
                course.finish_step(opened[0])

        def through_loader(loader: DataLoader[float] = loader) -> None:
            for _ in loader:
                pass

        ours_s, plain_s = best_cpu_s(through_feed) / 100, best_cpu_s(through_loader) / 100
        print(
            f"\n64 samples that draw {told}: {1e6 * ours_s:.0f} us, plain {1e6 * plain_s:.0f} us",
            end="",
        )
        assert ours_s > 0
    device = torch.device("cpu")

    def set_all() -> None:
        for step in range(1000):
            seed_streams(device, 0, Purpose.PASS, step, 0)

    pass_s = best_cpu_s(set_all) / 1000
    print(f"\nto set all streams, for each pass and after each step: {1e6 * pass_s:.1f} us")


def best_cpu_s(work: Callable[[], object]) -> float:
    timed_s = []
    for _ in range(20):
        begun_s = time.process_time()
        work()
        timed_s.append(time.process_time() - begun_s)
    return min(timed_s)
