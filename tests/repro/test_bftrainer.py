"""BFTrainer's evaluation, on a small machine that is made up."""

from __future__ import annotations

import csv
import gzip
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tests.repro.test_bftrainer_replay import pool_of, run, trainer

from swell.model.errors import InvalidInput
from swell.sim.pool import HOUR_S
from swell_papers import bftrainer_checkpoints, bftrainer_checks, bftrainer_pools, findings_store
from swell_papers.bftrainer import PAPER
from swell_papers.bftrainer_checks import NEAR_SHARE, REPLAYED_IMAGES, REPLAYED_LOST, replayed
from swell_papers.bftrainer_diverse import TABLE_3, TABLE_4, mean_hours, unoccupied_share
from swell_papers.bftrainer_hpo import preempted_share
from swell_papers.bftrainer_inputs import (
    DIVERSE,
    FEW_HPO,
    HPO,
    MODELS,
    POOL,
    SOME_NODES,
    THROUGHPUT,
    read_trainers,
)
from swell_papers.bftrainer_replay import PRINTED, REPLAYER, STRICT
from swell_papers.bftrainer_runs import (
    FROM_S,
    HEURISTIC,
    OPTIMISER,
    Setting,
    at_begin,
    by_window,
    outcomes,
    static_per_s,
    windows,
)
from swell_papers.experiment import Context, Experiment
from swell_papers.findings import Findings

PUBLIC = Path(__file__).parents[2] / "../shared/data"
#: Of the log that is made up: a little longer than the twelve hours over which Figure 11 adds up.
LOG_S = 13.0 * HOUR_S


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
    for name, models in ((HPO, ["shufflenet"]), (FEW_HPO, ["shufflenet"]), (DIVERSE, list(MODELS))):
        rows = [
            [f"J{number}", models[number % len(models)], FROM_S + 36.0 * number, 1, 64, 18.0, 12.0, 2e8]
            for number in range(60)
        ]
        _write(folder / name, heading, rows)
    return folder


def _write(file: Path, heading: list[str], rows: list[list[object]]) -> None:
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([heading, *rows])


#: What the figures that simulate the platform, or draw pools of whole machines, are of here.
SHORTER: dict[ModuleType, dict[str, object]] = {
    bftrainer_checkpoints: {
        "SPAN_S": 300.0,
        "DRAWN_NODES": 6,
        "DRAWN_STAY_S": (300.0, 3_600.0),
        "SAVES_S": (0.1, 20.0),
        "FIXED_S": (30.0, 300.0),
    },
    bftrainer_checks: {"SPAN_S": 2.0 * HOUR_S},
    bftrainer_pools: {"NUM_DRAWN_DAYS": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("experiment", PAPER.experiments, ids=lambda one: one.name)
def test_every_figure_and_table_comes_out(
    experiment: Experiment, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, shorter in SHORTER.items():
        for name, value in shorter.items():
            monkeypatch.setattr(module, name, value)
    findings: Findings = experiment.run(Context(data=data))
    assert findings.tables and findings.truth and findings.notes
    for table in findings.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
    files = findings_store.write(findings, tmp_path)
    assert len(files) == 1 + len(findings.tables) + len(findings.charts)


def test_the_paper_has_all_its_names() -> None:
    names = {experiment.name for experiment in PAPER.experiments}
    assert names >= {f"fig{number}" for number in range(7, 17)} | {"table3", "table4"}
    assert set(TABLE_3) == set(TABLE_4) == set(MODELS.values())


def test_utilization_is_one_on_nodes_that_stay_where_changes_are_free(data: Path) -> None:
    """And less where they cost time, or where nodes come and go."""
    steady = outcomes(Context(data=data), Setting(accounting=STRICT, cost_factor=0.0, max_trainers=4))
    costly = outcomes(Context(data=data), Setting(accounting=STRICT, cost_factor=5.0, max_trainers=4))
    assert 0.9 < steady.utilization_efficiency <= 1.0 + 1e-9
    assert costly.utilization_efficiency < steady.utilization_efficiency
    assert steady.found.equivalent_nodes == pytest.approx(costly.found.equivalent_nodes, rel=0.3)


def test_the_same_setting_is_replayed_once(data: Path) -> None:
    context = Context(data=data)
    assert outcomes(context, Setting()) is outcomes(context, Setting())
    assert outcomes(context, Setting()).found.counts_images is PRINTED.counts_images


def test_nodes_that_no_trainer_can_use_are_unoccupied() -> None:
    """Section 5.3: of twelve nodes a trainer has eight at most, and two have all."""
    twelve = pool_of(*[(0.0, 300.0)] * 12)
    one, two = (
        run(twelve, [trainer("a"), trainer("b")], STRICT, 300.0, max_trainers=most) for most in (1, 2)
    )
    assert unoccupied_share(one) == pytest.approx(4 / 12)
    assert unoccupied_share(two) == pytest.approx(0.0)


def test_static_nodes_are_divided_at_best() -> None:
    """Two linear trainers of at most eight nodes: all are of use up to sixteen."""
    pair = [trainer("a"), trainer("b")]
    assert static_per_s(pair, 5.0) == pytest.approx(50.0)
    assert static_per_s(pair, 5.5) == pytest.approx(55.0)
    assert static_per_s(pair, 20.0) == pytest.approx(160.0)


def test_windows_add_up_to_the_whole(data: Path) -> None:
    found = outcomes(Context(data=data), Setting()).found
    edges_s = np.append(windows([found], 6.0), found.at_s[-1] + found.length_s[-1])
    assert by_window(found.made, found, edges_s).sum() == pytest.approx(found.made.sum())
    assert at_begin(found.preempt_lost, found, edges_s).sum() == pytest.approx(found.preempt_lost.sum())


def test_preemption_is_more_likely_the_longer_one_looks_ahead(data: Path) -> None:
    found = outcomes(Context(data=data), Setting()).found
    shares = [preempted_share(found, forward_s) for forward_s in (10.0, 1_000.0, math.inf)]
    assert 0.0 <= shares[0] < shares[1] < shares[2] <= 1.0
    hours = mean_hours(found)
    assert hours["ShuffleNet"] is not None and hours["AlexNet"] is None


@pytest.mark.slow
@pytest.mark.skipif(not (PUBLIC / DIVERSE).exists(), reason="the public inputs are not here")
def test_on_the_public_log_equal_shares_are_those_of_the_open_replayer() -> None:
    """And the optimiser makes more than its optimiser, where it decides when trainers end, too."""
    assert len(read_trainers(PUBLIC, DIVERSE)) == 1_001
    context = Context(data=PUBLIC)
    equal = replayed(context, HEURISTIC, 10.0, REPLAYER)
    assert equal.images == pytest.approx(REPLAYED_IMAGES[HEURISTIC], rel=NEAR_SHARE)
    assert equal.rescale_lost.sum() == pytest.approx(REPLAYED_LOST[HEURISTIC], rel=0.05)
    assert replayed(context, OPTIMISER, 10.0, PRINTED).images > REPLAYED_IMAGES[OPTIMISER]


def test_a_list_that_breaks_a_rule_is_refused_with_its_line(data: Path, tmp_path: Path) -> None:
    (tmp_path / "bftrainer").mkdir()
    (tmp_path / THROUGHPUT).write_bytes((data / THROUGHPUT).read_bytes())
    lines = (data / HPO).read_text().splitlines()
    (tmp_path / HPO).write_text("\n".join([*lines[:2], lines[2].replace("18.0", "x")]))
    with pytest.raises(InvalidInput, match="line 3: up_cost_s is 'x'; each row has job, model, submit_s"):
        read_trainers(tmp_path, HPO)
    (tmp_path / HPO).write_text("\n".join(lines[:2]).replace("shufflenet", "other"))
    with pytest.raises(InvalidInput, match="has no throughput of model 'other'"):
        read_trainers(tmp_path, HPO)
