"""The same script without an agent: plain, under torchrun, and what it is told when it is wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.eventually import PATIENCE_S
from torch import nn, optim
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from swell import train

CURVE = Path(__file__).parent / "scripts" / "curve.py"


def make_loop(num_samples: int = 10, **options: Any) -> tuple[nn.Linear, optim.Optimizer, DataLoader[Any]]:
    torch.manual_seed(0)
    model = nn.Linear(1, 1)
    data = TensorDataset(torch.arange(float(num_samples)).unsqueeze(1))
    return model, optim.SGD(model.parameters(), 0.001), DataLoader(data, **({"batch_size": 4} | options))


def train_on(
    run: train.Run, model: nn.Module, optimizer: optim.Optimizer
) -> Generator[torch.Tensor, None, None]:
    for _ in run.epochs():
        for (x,) in run.batches():
            optimizer.zero_grad()
            loss = model(x).square().mean()
            run.backward(loss)
            run.step()
            yield x


@pytest.mark.slow
def test_plain_python_runs_it(run_plain: Callable[..., Path], tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, str(CURVE), str(tmp_path / "result.json"), "20"], check=True, timeout=PATIENCE_S
    )
    assert (tmp_path / "result.json").read_text() == run_plain("curve.py", "20").read_text()


@pytest.mark.slow
def test_importing_it_starts_no_thread_and_opens_no_socket() -> None:
    program = """if True:
        import os, torch, torch.distributed, torch._dynamo
        torch.set_num_threads(1)
        before = len(os.listdir("/proc/self/task"))
        import swell.train, swell.train.runtime.runner, swell.train.runtime.trial_run
        assert len(os.listdir("/proc/self/task")) == before == 1
        links = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")[:-1]]
        assert not [link for link in links if link.startswith("socket:")], links
    """
    names = {"OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    subprocess.run(
        [sys.executable, "-c", program], check=True, env=names, timeout=PATIENCE_S, stdin=subprocess.DEVNULL
    )


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_run_from_a_checkpoint_sees_the_samples_that_were_left(
    tmp_path: Path, num_workers: int, saves_each_step: None
) -> None:
    model, optimizer, loader = make_loop(shuffle=True, num_workers=num_workers)
    expected = list(train_on(train.elastic(model, optimizer, loader, epochs=4), model, optimizer))
    weight = model.weight.item()
    for path in tmp_path.iterdir():
        path.unlink()
    seen: list[torch.Tensor] = []
    while len(seen) < len(expected):
        model, optimizer, loader = make_loop(shuffle=True, num_workers=num_workers)
        run = train.elastic(model, optimizer, loader, epochs=4)
        assert run.steps == len(seen)
        seen += islice(train_on(run, model, optimizer), 5)
    assert all(map(torch.equal, seen, expected))
    assert model.weight.item() == weight


def test_properties_tell_where_it_is() -> None:
    model, optimizer, loader = make_loop()
    run = train.elastic(model, optimizer, loader, epochs=2)
    assert (run.rank, run.num_workers, run.is_leader, run.device) == (0, 1, True, torch.device("cpu"))
    assert (run.steps, run.total_steps, run.epoch, run.should_stop()) == (0, 6, 0, False)
    assert [len(x) for x in train_on(run, model, optimizer)] == [4, 4, 2, 4, 4, 2]
    assert (run.steps, run.epoch, run.should_stop()) == (6, 2, True)


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(5))


class Halved(DataLoader[Any]):
    def __iter__(self) -> Any:
        return ((x / 2 for x in batch) for batch in super().__iter__())


@pytest.mark.parametrize(
    ("loader", "named"),
    [
        (
            Halved(TensorDataset(torch.zeros(4)), 2),
            r"a Halved, has __iter__ of its own, .* in the collate_fn",
        ),
        (DataLoader(Stream(), batch_size=None), "give the loader batch_size"),
        (DataLoader(TensorDataset(torch.zeros(4)), batch_size=None), "give the loader batch_size"),
        (DataLoader([1, 2], batch_sampler=[[0], []]), "batch 1 of no samples"),  # type: ignore[arg-type]
        (DataLoader([1, 2], sampler=[]), "gives 0 samples"),  # type: ignore[arg-type]
        ([1, 2, 3], "give it a torch DataLoader"),
    ],
)
def test_loaders_that_cannot_be_shared_out_are_refused(loader: Any, named: str) -> None:
    model, optimizer, _ = make_loop()
    with pytest.raises(train.LoaderError, match=named):
        train.elastic(model, optimizer, loader, epochs=1)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"model": [nn.Linear(2, 2)]}, r"given a list as model; give it a torch\.nn\.Module, or several"),
        ({"optimizer": optim.SGD}, r"given the class SGD as optimizer; give it a torch\.optim\.Optimizer"),
        ({"optimizer": {}}, "given a dict as optimizer; give it"),
        ({"scheduler": lambda step: 1.0}, "given a function as scheduler; give it one of"),
        ({"state": [1]}, "given a list as state; give it entries by name"),
    ],
)
def test_what_is_of_another_kind_is_refused_by_name(given: dict[str, Any], told: str) -> None:
    model, optimizer, loader = make_loop()
    arguments = {"model": model, "optimizer": optimizer, **given}
    with pytest.raises(TypeError, match=told):
        train.elastic(loader=loader, epochs=1, **arguments)


def test_what_does_not_fit_together_is_refused() -> None:
    model, optimizer, loader = make_loop()
    with pytest.raises(ValueError, match="epochs="):
        train.elastic(model, optimizer, loader)
    with pytest.raises(ValueError, match="one module with them all"):
        train.elastic(nn.Linear(2, 2), optimizer, loader, epochs=1)
    with pytest.raises(ValueError, match="nothing to train"):
        train.elastic(nn.Tanh(), optimizer, loader, epochs=1)
    with pytest.raises(TypeError, match=r"state\['name'\] is a object"):
        train.elastic(model, optimizer, loader, epochs=1, state={"name": object()})
    plateau = optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    with pytest.raises(TypeError, match="step it yourself"):
        train.elastic(model, optimizer, loader, epochs=1, scheduler=plateau)
    with pytest.raises(ValueError, match="3 samples and a batch takes 4"):
        train.elastic(model, optimizer, make_loop(num_samples=3)[2], epochs=1)


def test_a_loop_that_accumulates_batches_itself_is_told_the_batch_that_does_it() -> None:
    model, optimizer, loader = make_loop(num_samples=40)
    run = train.elastic(model, optimizer, loader, epochs=1)
    before = model.weight.item()
    with pytest.raises(
        train.LoopError, match=r"batch_size=accum .* max_local_batch=batch_size.*divide the loss"
    ):
        for _ in run.epochs():
            for number, (x,) in enumerate(run.batches()):
                run.backward(model(x).square().mean() / 3)
                if (number + 1) % 3 == 0:
                    run.step()
                    optimizer.zero_grad()
    assert (number, run.steps, model.weight.item()) == (1, 1, before)


def test_accumulating_in_passes_learns_what_accumulating_batches_learned() -> None:
    model, optimizer, loader = make_loop(num_samples=48)
    for number, (x,) in enumerate(loader):
        (model(x).square().mean() / 3).backward()
        if (number + 1) % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
    expected = model.weight.item()
    model, optimizer, loader = make_loop(num_samples=48, batch_size=12)
    seen = list(
        train_on(train.elastic(model, optimizer, loader, epochs=1, max_local_batch=4), model, optimizer)
    )
    assert {len(x) for x in seen} == {4} and len(seen) == 12
    assert model.weight.item() == pytest.approx(expected, rel=1e-6)


def test_a_step_that_is_no_step_is_refused() -> None:
    model, optimizer, loader = make_loop()
    run = train.elastic(model, optimizer, loader, epochs=1)
    batches = run.batches()
    next(batches)
    with pytest.raises(train.LoopError, match="shape \\(2,\\)"):
        run.backward(torch.zeros(2))
    with pytest.raises(train.LoopError, match="given a float"):
        run.backward(0.5)  # type: ignore[arg-type]
    with pytest.raises(train.LoopError, match="no parameter has a gradient after it"):
        run.backward(torch.tensor(0.5))
    with pytest.raises(train.LoopError, match="called twice for one batch"):
        run.backward(torch.tensor(0.5))
    assert run.steps == 0


def test_an_update_by_the_script_itself_is_refused_inside_the_loop() -> None:
    model, optimizer, loader = make_loop()
    run = train.elastic(model, optimizer, loader, epochs=1)
    optimizer.step()
    seen = train_on(run, model, optimizer)
    next(seen)
    with pytest.raises(train.LoopError, match="put it in its place"):
        optimizer.step()
    next(seen)
    seen.close()
    optimizer.step()
    assert run.steps == 2


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"shards": 2}, "shards=2 without deterministic=True"),
        ({"shards": 5, "deterministic": True}, "shards=1 to shards=4"),
        ({"shards": 0, "deterministic": True}, "shards=0; it must be 1 or more"),
        ({"max_local_batch": 0}, "max_local_batch=0; it must be 1 or more"),
        ({"shards": 2, "deterministic": True, "max_local_batch": 1}, "shards=4 or more"),
    ],
)
def test_passes_that_cannot_be_are_refused(options: dict[str, Any], named: str) -> None:
    model, optimizer, loader = make_loop()
    with pytest.raises(ValueError, match=named):
        train.elastic(model, optimizer, loader, epochs=1, **options)
