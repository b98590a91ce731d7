"""Throughput curves: read, filled, printed ones, laws, and what the head believes of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.model.job import JobSpec
from swell.sim.profiles.built_in import BUILT_IN, GLOBAL_BATCH, PowerCurves, hu, load
from swell.sim.profiles.curve import (
    ProfileError,
    ThroughputCurve,
    UnknownProfile,
    curve_of,
    pairs,
    read_table,
    read_tables,
)
from swell.throughput.belief import FittedBelief

DATA = Path(os.environ.get("SWELL_DATA") or Path(__file__).parents[4] / "shared" / "data")
HEADER = "global_batch_size,1,2,4,8\n"

Table = Callable[[str], Path]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    def make(text: str) -> Path:
        path = tmp_path / "net.csv"
        path.write_text(text, "utf-8")
        return path

    return make


def believed(curve: ThroughputCurve, sizes: np.ndarray) -> np.ndarray:
    """Steps/s at each size as the head sees them once a trial run has reported the curve's profile."""
    spec = JobSpec(
        name="j",
        entry="j",
        workdir="/",
        global_batch=curve.global_batch,
        min_workers=curve.min_workers,
        max_workers=curve.max_workers,
    )
    belief = FittedBelief()
    belief.learn_profile("j", spec, curve.profile("gpu"))
    return belief.of("j").rates_per_s(sizes)


@given(
    global_batch=st.integers(1, 4096),
    rates=st.dictionaries(st.integers(1, 300), st.floats(1e-3, 1e3), min_size=1, max_size=8),
)
def test_the_head_believes_the_table_at_every_size(global_batch: int, rates: dict[int, float]) -> None:
    """Whatever the curve's shape, and where several sizes have the same samples a worker."""
    fitting = {size: rate for size, rate in rates.items() if size <= global_batch} or {1: 1.0}
    curve = curve_of("m", global_batch, fitting)
    assert believed(curve, curve.sizes) == pytest.approx(curve.rate_per_s, rel=1e-9)
    outside = np.array([curve.max_workers + 1])
    assert believed(curve, outside) == pytest.approx([0.0])
    assert [curve.rate_at(size) for size in curve.sizes.tolist()] == curve.rate_per_s.tolist()


def test_a_table_is_read(table: Table) -> None:
    small, large = read_table(table(HEADER + "64,2,3,5,4\n128,1,1.5,2.5,4.5\n"))
    assert (small.model, small.global_batch, small.min_workers, small.max_workers) == ("net", 64, 1, 8)
    assert small.rate_per_s.tolist() == [2, 3, 5, 4]
    assert large.rate_per_s.tolist() == [1, 1.5, 2.5, 4.5]


@pytest.mark.parametrize("blank", ["", "nan", "0", "0.0", " "])
def test_holes_are_filled_between_and_bound_the_curve_elsewhere(blank: str, table: Table) -> None:
    """Too little memory on one worker, 4 not measured, nothing beyond 8."""
    path = table(f"global_batch_size,1,2,4,8,16\n64,{blank},2,{blank},8,{blank}\n")
    (curve,) = read_table(path)
    assert curve.sizes.tolist() == [2, 4, 8]
    assert curve.rate_per_s == pytest.approx([2, 4, 8])  # a straight line in logarithms
    assert curve.rates_at(np.array([1, 2, 3, 8, 9, 16])) == pytest.approx([0, 2, 3, 8, 0, 0])


@given(
    measured=st.dictionaries(
        st.sampled_from([1, 2, 4, 8, 16, 32, 64]), st.floats(0.01, 100), min_size=2, max_size=7
    )
)
def test_what_is_filled_lies_between_its_neighbours(measured: dict[int, float]) -> None:
    curve = curve_of("m", 64, measured)
    between = np.arange(curve.min_workers, curve.max_workers + 1)
    rates = curve.rates_at(between)
    for size, rate in zip(between.tolist(), rates.tolist(), strict=True):
        below, above = max(s for s in measured if s <= size), min(s for s in measured if s >= size)
        low, high = sorted((measured[below], measured[above]))
        assert low * (1 - 1e-9) <= rate <= high * (1 + 1e-9)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is no throughput table; its first line must be `global_batch_size,1,2,4,...`"),
        ("model,1,2\n", "is no throughput table"),
        ("global_batch_size\n64\n", "sizes must be whole numbers >= 1, ascending"),
        ("global_batch_size,2,1\n64,1,1\n", "sizes must be whole numbers >= 1, ascending; they are 2, 1"),
        ("global_batch_size,1,1\n64,1,1\n", "ascending"),
        ("global_batch_size,0,1\n64,1,1\n", "ascending"),
        ("global_batch_size,1,two\n64,1,1\n", "they are 1, two"),
        (HEADER, "has no row"),
        (HEADER + "64,1,2,3\n", "line 2: 4 cells instead of 5"),
        (HEADER + "x,1,2,3,4\n", "line 2: global batch 'x' is no whole number >= 1"),
        (HEADER + "64,1,-2,3,4\n", "line 2, size 2: '-2' is no rate; write steps/s > 0, or leave it blank"),
        (HEADER + "64,1,fast,3,4\n", "size 2: 'fast' is no rate"),
        (HEADER + "64,1,inf,3,4\n", "size 2: 'inf' is no rate"),
        (HEADER + "64,,,,\n", "line 2: no size was measured"),
        (HEADER + "64,1,2,3,4\n\n64,1,2,3,4\n", "line 4: global batch 64 has a row already"),
    ],
)
def test_a_bad_table_is_named_with_place_and_rule(text: str, complaint: str, table: Table) -> None:
    with pytest.raises(ProfileError) as raised:
        read_tables(table(text).parent)
    assert complaint in str(raised.value)
    assert "net.csv" in str(raised.value)


def test_what_is_no_set_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnknownProfile, match="there are no profiles 'nowhere'; name a folder of"):
        load("nowhere")
    (tmp_path / "A100").mkdir()
    with pytest.raises(ProfileError, match=r"has no table MODEL.csv; it has folders A100: name one"):
        load(str(tmp_path))
    with pytest.raises(UnknownProfile, match="law:2 is no law; write an exponent from 0 to 1"):
        load("law:2")


def test_what_a_set_does_not_have_is_named_with_what_it_has() -> None:
    profiles = load("saxena")
    with pytest.raises(
        UnknownProfile, match="'saxena' have no model 'bert'; they have alexnet, alexnet-food"
    ):
        profiles.curve("bert", 64)
    with pytest.raises(UnknownProfile, match="have no global batch 7 of model 'alexnet'; they have 32"):
        profiles.curve("alexnet", 7)


@pytest.mark.parametrize("name", [*BUILT_IN, "law:0.5"])
def test_every_built_in_set_is_believed(name: str) -> None:
    profiles = load(name)
    for pair in pairs(profiles):
        curve = profiles.curve(*pair)
        assert believed(curve, curve.sizes) == pytest.approx(curve.rate_per_s, rel=1e-9)


def test_hu_loses_a_fifth_with_every_doubling() -> None:
    rates = hu().curve("any", 64).rate_per_s
    assert rates == pytest.approx([n * 0.8 ** np.log2(n) for n in (1, 2, 4, 8, 16, 32, 64)])


@given(exponent=st.floats(0, 1), global_batch=st.integers(1, 10**6))
def test_a_law_has_every_model_at_every_batch(exponent: float, global_batch: int) -> None:
    curve = PowerCurves(exponent).curve("whatever", global_batch)
    assert (
        curve.max_workers <= min(global_batch, GLOBAL_BATCH) < 2 * curve.max_workers
        or curve.max_workers == 4096
    )
    assert curve.rate_per_s == pytest.approx(curve.sizes.astype(float) ** exponent)


@pytest.mark.parametrize("kind", ["A100", "T4"])
def test_published_tables_are_believed_as_they_are(kind: str) -> None:
    folder = DATA / "elasticflow" / f"throughputs_{kind}"
    if not folder.exists():
        pytest.skip(
            f"no elasticflow/throughputs_{kind} among the real inputs; say with SWELL_DATA where they are"
        )
    profiles = load(str(folder))
    for pair in pairs(profiles):
        curve = profiles.curve(*pair)
        assert believed(curve, curve.sizes) == pytest.approx(curve.rate_per_s, rel=1e-12)


def test_a_table_says_how_slow_workers_on_several_nodes_are(table: Table) -> None:
    (curve,) = read_table(table("global_batch_size,1,2,4,2@2,4@2,4@4\n64,2,4,8,2,4,\n"))
    assert curve.crossing_s == {2: {2: pytest.approx(0.25), 4: pytest.approx(0.125)}}
    spec = JobSpec(name="j", entry="j", workdir="/", global_batch=64)
    belief = FittedBelief()
    belief.learn_profile("j", spec, curve.profile("gpu"))
    sizes = np.array([2, 4])
    assert belief.of("j").rates_per_s(sizes, np.array([2, 2])) == pytest.approx([2.0, 4.0])
    assert belief.of("j").rates_per_s(sizes) == pytest.approx([4.0, 8.0])


@pytest.mark.parametrize("head", ["2@1", "1@2", "3@2", "2@x", "2@2,4"])
def test_a_column_of_several_nodes_that_cannot_be_is_refused(table: Table, head: str) -> None:
    with pytest.raises(ProfileError, match=r"must come after the sizes|instead of|ascending"):
        read_table(table(f"global_batch_size,1,2,4,{head}\n64,2,4,8,1\n"))
