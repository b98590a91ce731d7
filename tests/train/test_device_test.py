"""A test of devices finds what a faulty one gets wrong; one that comes to no end finds no device sound."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import share_of_examples

from swell.executors.gang.job_context import DeviceBinding
from swell.executors.local.agent import device_tests

torch = pytest.importorskip("torch")
from swell.train.collective import device_test  # noqa: E402

CPU = torch.device("cpu")
CORE = DeviceBinding(torch_device="cpu", kind="cpu")


def spoiled(compute: Callable[..., Any], spoil: Callable[[Any], None], place: int) -> Callable[..., Any]:
    """The same computation, which goes wrong for one element of large results."""

    def compute_wrongly(*args: Any, **options: Any) -> Any:
        result = compute(*args, **options)
        if result.numel() > 10_000:
            spoil(result.view(-1)[place : place + 1])
        return result

    return compute_wrongly


@settings(max_examples=share_of_examples(0.2), deadline=None)
@given(st.integers(0, 512 * 512 - 1), st.sampled_from([1.0, -1.0, 1024.0]))
def test_one_wrong_element_of_a_product_is_found(place: int, off: float) -> None:
    wrong = spoiled(torch.Tensor.__matmul__, lambda element: element.add_(off), place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_test, "REPEATED_S", 0.01)
        assert device_test._multiply(CPU) > 0.0
        patch.setattr(torch.Tensor, "__matmul__", wrong)
        with pytest.raises(device_test.WrongResultError, match="product"):
            device_test._multiply(CPU)


@settings(max_examples=share_of_examples(0.2), deadline=None)
@given(st.integers(0, 2**12 - 1), st.integers(0, 62), st.booleans())
def test_one_bit_that_is_stuck_is_found_whether_it_is_set_or_not(place: int, bit: int, is_set: bool) -> None:
    stuck = (lambda one: one.bitwise_or_(1 << bit)) if is_set else (lambda one: one.bitwise_and_(~(1 << bit)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_test, "BLOCK_BYTES", 2**17)
        assert device_test._remember(CPU) > 0.0
        patch.setattr(torch, "bitwise_xor", spoiled(torch.bitwise_xor, stuck, place))
        with pytest.raises(device_test.WrongResultError, match="memory"):
            device_test._remember(CPU)


def test_what_is_wrong_is_told_with_what_was_measured_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(device: object) -> float:
        raise RuntimeError("CUDA error: an illegal memory access\nmore")

    monkeypatch.setattr(device_test, "_remember", fail)
    found = device_test._test(0, ["cpu"], 0)
    assert found["fault"] == "CUDA error: an illegal memory access"
    assert "flops_per_s" in found and "memory_per_s" not in found


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import os; os._exit(3)", "ended without a result"),
        ("print('{}')", "ended without a result"),
        ("import time; time.sleep(600)", "did not end within 1 s"),
    ],
)
def test_no_device_is_sound_without_a_result_of_each(
    program: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_tests, "PROGRAM", (sys.executable, "-c", program))
    monkeypatch.setattr(device_tests, "TEST_LIMIT_S", 1.0)
    results = asyncio.run(device_tests.test_devices(["a", "b"], [CORE, CORE]))
    assert [one.device for one in results] == ["a", "b"] and all(why in one.fault for one in results)
