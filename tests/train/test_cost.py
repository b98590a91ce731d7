"""What the loop of `elastic` costs against a plain one, and what deterministic sums cost: `make bench`."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from tests.eventually import PATIENCE_S
from tests.train.fake_agent import fork_script

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
        process.join(PATIENCE_S)
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
