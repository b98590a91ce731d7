"""BFTrainer's evaluation, on a small machine that is made up, and its measures worked out by hand."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swell.model.errors import InvalidInput
from swell.sim.pool import HOUR_S, NodeInterval, Pool
from swell_papers import bftrainer_inputs, findings_store
from swell_papers.bftrainer import PAPER, REPLAYER
from swell_papers.bftrainer_inputs import (
    DIVERSE,
    FROM_S,
    HPO,
    MODELS,
    POOL,
    SOME_NODES,
    THROUGHPUT,
    Trainer,
    read_trainers,
)
from swell_papers.bftrainer_runs import (
    PoolRun,
    Setting,
    measured,
    run_on,
)
from swell_papers.experiment import Context, Study
from swell_papers.findings import Findings

PUBLIC = Path(__file__).parents[2] / "../shared/data"
#: Of the log that is made up: a little longer than the twelve hours over which Figure 11 adds up.
LOG_S = 13.0 * HOUR_S
UP_S, DOWN_S = 18.0, 12.0


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve nodes that come and go for `LOG_S`, and sixty trainers of each list."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "bftrainer").mkdir()
    generator = np.random.default_rng(3)
    with gzip.open(folder / POOL, "wt", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["node", "start_s", "end_s"])
        for node in range(12):
            at_s = FROM_S - 600.0
            while at_s < FROM_S + LOG_S:
                end_s = at_s + generator.exponential(5_000.0) + 10.0
                writer.writerow([f"a{node}", round(at_s), round(end_s)])
                at_s = end_s + generator.exponential(3_000.0) + 10.0
    (folder / SOME_NODES).write_text("a1\na3\na4\na7\n")
    _write(
        folder / THROUGHPUT,
        ["model", "nodes", "images_per_s"],
        [
            [model, nodes, 1000.0 * (1 + rank) * nodes ** (0.99 - 0.02 * rank)]
            for rank, model in enumerate(MODELS)
            for nodes in (0, 1, 8, 64)
        ],
    )
    heading = "job model submit_s min_nodes max_nodes up_cost_s down_cost_s total_images".split()  # noqa: SIM905
    for name, models in ((HPO, ["shufflenet"]), (DIVERSE, list(MODELS))):
        rows = [
            [f"J{number}", models[number % len(models)], FROM_S + 36.0 * number, 1, 64, UP_S, DOWN_S, 2e8]
            for number in range(60)
        ]
        _write(folder / name, heading, rows)
    return folder


def _write(file: Path, heading: list[str], rows: list[list[object]]) -> None:
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([heading, *rows])


@pytest.mark.slow
@pytest.mark.parametrize("experiment", PAPER.experiments, ids=lambda one: one.name)
def test_every_figure_and_table_comes_out(
    experiment: Study[Any], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bftrainer_inputs, "NUM_DAYS", 1)
    findings: Findings = experiment.run(Context(data=data, shorter=10.0))
    assert findings.tables and findings.truth
    assert not findings.missed, "of a shorter run no target is judged"
    for table in findings.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
    files = findings_store.write(findings, tmp_path)
    assert len(files) >= 1 + len(findings.tables) + len(findings.charts)


# What is measured of a run


def trainer(name: str, submit_s: float = 0.0, images: float = 1e12, most: int = 8) -> Trainer:
    """A node makes a million images a second."""
    return Trainer(
        job=name,
        model="linear",
        submit_s=submit_s,
        min_nodes=1,
        max_nodes=most,
        up_cost_s=UP_S,
        down_cost_s=DOWN_S,
        total_images=images,
        curve=tuple(1e6 * number for number in range(1, most + 1)),
    )


def pool_of(*spans: tuple[float, float]) -> Pool:
    return Pool(tuple(NodeInterval(f"n{at}", *span) for at, span in enumerate(spans)), "a log")


def run(pool: Pool, *trainers: Trainer, max_trainers: int = 1, policy: str = "bftrainer") -> PoolRun:
    setting = Setting(policy=policy, forward_s=1_000.0, max_trainers=max_trainers)
    return run_on(pool, trainers, setting, lambda setting: pytest.fail("no other run is needed"))


#: One node, then two, then one again.
UP_AND_DOWN = pool_of((0.0, 300.0), (100.0, 200.0))


def test_a_change_costs_the_time_that_the_list_says() -> None:
    found = run(UP_AND_DOWN, trainer("a"))
    made = np.diff(found.images_by(np.array([0.0, 100.0, 200.0, 300.0])))
    assert made == pytest.approx([(100.0 - UP_S) * 1e6, (100.0 - UP_S) * 2e6, (100.0 - DOWN_S) * 1e6])
    assert found.images() == pytest.approx(made.sum())
    assert found.images(100.0, 200.0) == pytest.approx(made[1])
    assert found.told_images == pytest.approx(found.images(), rel=0.03), "but for the last second"
    assert found.kept_device_s == 0.0


def test_what_changes_lose_is_counted_at_the_speed_before_them_and_starts_are_free() -> None:
    found = run(UP_AND_DOWN, trainer("a"))
    assert found.losses[0].tolist() == [100.0, 200.0] and found.losses[2].tolist() == [0.0, 1.0]
    assert found.lost(is_left=False) == found.lost(False, 100.0, 200.0) == pytest.approx(UP_S * 1e6)
    assert found.lost(is_left=True) == found.lost(True, 200.0) == pytest.approx(DOWN_S * 2e6)
    assert found.lost(True, 0.0, 200.0) == 0.0


def test_nodes_that_no_trainer_can_use_are_unoccupied() -> None:
    """Section 5.3: of twelve nodes a trainer has eight at most, and two have all."""
    twelve = pool_of(*[(0.0, 300.0)] * 12)
    one, two = (run(twelve, trainer("a"), trainer("b"), max_trainers=most) for most in (1, 2))
    assert one.unoccupied_percent == pytest.approx(100.0 * 4 / 12)
    assert two.unoccupied_percent == pytest.approx(0.0)


def test_nodes_that_stay_are_divided_equally() -> None:
    """Two linear trainers of at most eight nodes: all are of use up to sixteen."""
    nodes = pool_of(*[(0.0, 100.0)] * 5, (0.0, 50.0))
    found = run(nodes, trainer("a"), trainer("b"), max_trainers=2)
    spans = ((0.0, 50.0), (50.0, 100.0))
    at_best = [100.0 * found.images(*span) / found.utilization_percent(*span) for span in spans]
    assert at_best == pytest.approx([300e6, 250e6])


def test_preemption_is_more_likely_the_longer_one_looks_ahead() -> None:
    found = run(UP_AND_DOWN, trainer("a"))
    assert found.decided_s.tolist() == [0.0, 100.0, 200.0]
    shares = [found.preempted_percent(within_s) for within_s in (10.0, 100.0, 1e6)]
    assert shares == pytest.approx([0.0, 100 / 3, 200 / 3])


def test_utilization_is_one_on_nodes_that_stay_where_changes_are_free(data: Path) -> None:
    """And less where they cost time."""
    steady = Setting(nodes=8, span_s=LOG_S, cost_factor=0.0, max_trainers=4)
    free, costly = (measured(data, 0, one) for one in (steady, steady._replace(cost_factor=5.0)))
    assert 90.0 < free.utilization_percent() <= 100.0 + 1e-6
    assert costly.utilization_percent() < free.utilization_percent()
    diverse = measured(data, 0, steady._replace(trainers=DIVERSE))
    assert diverse.utilization_percent() == pytest.approx(100.0, abs=1.0)
    assert measured(data, 0, steady) is free, "the same is run once"


@pytest.mark.soak
@pytest.mark.skipif(not (PUBLIC / DIVERSE).exists(), reason="the public inputs are not here")
def test_on_the_public_log_images_are_those_of_the_open_replayer_and_more() -> None:
    """No target is missed: equal shares make as many, the optimiser more, and no node is kept."""
    assert len(read_trainers(PUBLIC, DIVERSE)) == 1_001
    found = REPLAYER.run(Context(data=PUBLIC))
    assert not found.missed


def test_a_list_that_breaks_a_rule_is_refused_with_its_line(data: Path, tmp_path: Path) -> None:
    (tmp_path / "bftrainer").mkdir()
    (tmp_path / THROUGHPUT).write_bytes((data / THROUGHPUT).read_bytes())
    lines = (data / HPO).read_text().splitlines()
    (tmp_path / HPO).write_text("\n".join([*lines[:2], lines[2].replace("18.0", "x")]))
    with pytest.raises(InvalidInput, match=r"line 3: .*up_cost_s"):
        read_trainers(tmp_path, HPO)
    (tmp_path / HPO).write_text("\n".join(lines[:2]).replace("shufflenet", "other"))
    with pytest.raises(InvalidInput, match="has no throughput of model 'other'"):
        read_trainers(tmp_path, HPO)
