"""Libraries are changed as they are imported; one that is another version is told of, and left as it is."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
)

from swell.train.libraries import changes
from swell.train.libraries.accelerate_batches import change_accelerate
from swell.train.libraries.divided_batches import DividedBatchSampler
from swell.train.libraries.division import Division
from swell.train.libraries.import_hooks import after_import
from swell.train.libraries.lightning_batches import change_connector, change_data
from swell.train.libraries.trainer_batches import change_trainer
from swell.train.runtime.script_frames import place_in_script
from swell.wire.findings import WHOLE, ScriptFinding

DATA = TensorDataset(torch.arange(10))


class Told:
    """A division whose findings a test looks at."""

    def __init__(self, num_workers: int = 2, num_local: int = 2, own_division: str = "") -> None:
        self.findings: list[ScriptFinding] = []
        self.division = Division(0, num_workers, num_local, self._tell, lambda: own_division, place_in_script)

    def _tell(self, findings: list[ScriptFinding]) -> None:
        self.findings = findings

    @property
    def names(self) -> list[str]:
        return [finding.name for finding in self.findings]


@pytest.fixture
def add_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))

    def add(name: str) -> str:
        (tmp_path / f"{name}.py").write_text("answer = 1\n")
        monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        return name

    return add


def test_a_module_is_changed_once_when_it_is_imported(add_module: Callable[[str], str]) -> None:
    name = add_module("swell_test_late")
    changed: list[ModuleType] = []
    after_import({name: changed.append})
    assert importlib.util.find_spec(name) is not None
    assert changed == [], "to look for a module imports nothing"
    module = importlib.import_module(name)
    assert changed == [module]
    assert module.answer == 1
    importlib.reload(module)
    assert changed == [module]


def test_a_module_that_was_preloaded_is_changed_at_once(add_module: Callable[[str], str]) -> None:
    module = importlib.import_module(add_module("swell_test_early"))
    changed: list[ModuleType] = []
    after_import({module.__name__: changed.append})
    assert changed == [module]


def test_another_version_is_told_of_and_left_as_it_is(
    add_module: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, told = add_module("swell_test_other"), Told()
    monkeypatch.setattr(changes, "CHANGES", {name: change_trainer})
    changes.divide_batches(told.division)
    assert importlib.import_module(name).answer == 1
    (found,) = told.findings
    assert (found.name, found.holds) == (WHOLE, True)
    assert "Trainer" in found.text and "use another version" in found.text


class Gathering:
    """What the divided `Accelerator` of these tests needs of the real one."""

    active_dataloader: Any = None


def accelerate_of(
    kind: str,
    told: Told,
    monkeypatch: pytest.MonkeyPatch,
    gather: Callable[..., Any] = lambda self, tensor: tensor,
    pad: Callable[..., Any] = lambda self, tensor, dim: tensor,
    **config: Any,
) -> Any:
    """A fake of `accelerate.accelerator` after the change, which returns what it is given."""

    class Accelerator:
        parallelism_config = None

        def __init__(self) -> None:
            self.distributed_type = SimpleNamespace(name=kind)
            self.dataloader_config = SimpleNamespace(split_batches=False, dispatch_batches=None, **config)
            self.gradient_state = Gathering()

        def backward(self, loss: float) -> float:
            return loss

        def gather_for_metrics(self, input_data: Any, use_gather_object: bool = False) -> Any:
            return input_data

        def register_save_state_pre_hook(self, hook: object) -> None: ...

        def register_load_state_pre_hook(self, hook: object) -> None: ...

        @property
        def num_processes(self) -> int:
            return 2

    def prepare_data_loader(loader: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
        return loader, options

    shard = type("DataLoaderShard", (), {"__iter__": lambda self: iter(())})
    monkeypatch.setitem(sys.modules, "accelerate.data_loader", SimpleNamespace(DataLoaderShard=shard))
    module: Any = ModuleType("accelerate.accelerator")
    Accelerator.gather, Accelerator.pad_across_processes = gather, pad  # type: ignore[attr-defined]
    module.Accelerator, module.prepare_data_loader = Accelerator, prepare_data_loader
    change_accelerate(module, told.division)
    return module


def test_a_loader_of_accelerate_is_divided_and_its_schedulers_step_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = Told()
    module = accelerate_of("MULTI_CPU", told, monkeypatch)
    accelerator = module.Accelerator()
    assert accelerator.dataloader_config.split_batches
    loader, options = module.prepare_data_loader(
        DataLoader(DATA, batch_size=4), split_batches=True, num_processes=2
    )
    assert isinstance(loader.batch_sampler, DividedBatchSampler)
    assert [batch[0].tolist() for batch in loader] == [[0, 1], [4, 5], [8]]
    assert (options["num_processes"], options["split_batches"]) == (1, False), "it is not divided once more"
    accelerator.gradient_state.active_dataloader = SimpleNamespace(
        batch_sampler=DividedBatchSampler(loader.batch_sampler.batch_sampler, 0, 3), end_of_dataloader=True
    )
    assert accelerator.backward(2.0) == 0.0, "this worker has none of the last two samples"
    assert not told.findings


@pytest.mark.parametrize("name", ["gather", "gather_for_metrics"])
def test_what_workers_have_of_a_batch_that_does_not_divide_is_gathered(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a script says `torch.no_grad()` only once it evaluates a batch."""
    others = torch.arange(10, 32)

    def gather(self: object, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.tolist() == [10]:
            return torch.tensor([10, 11, 11])
        assert len(tensor) == 11, "all workers are to give as many rows"
        return torch.cat([tensor, others])

    def pad_across_processes(self: object, tensor: torch.Tensor, dim: int) -> torch.Tensor:
        return torch.cat([tensor, torch.tensor([99])])

    accelerator = accelerate_of("MULTI_CPU", Told(), monkeypatch, gather, pad_across_processes).Accelerator()
    batches = DividedBatchSampler(BatchSampler(SequentialSampler(range(64)), 32, False), 0, 3)
    loader = SimpleNamespace(batch_sampler=batches, end_of_dataloader=False)
    accelerator.gradient_state.active_dataloader = loader
    assert getattr(accelerator, name)(torch.arange(10)).tolist() == list(range(32))


@pytest.mark.parametrize("name", ["gather", "gather_for_metrics"])
def test_what_was_filled_up_is_gathered_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a script has `torch.no_grad()` around its loop: the first of three has a row twice."""
    filled = torch.tensor([*range(10), 0, *range(10, 32)])

    def gather(self: object, tensor: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {key: filled if key == "rows" else value for key, value in tensor.items()}

    accelerator = accelerate_of("MULTI_CPU", Told(), monkeypatch, gather).Accelerator()
    batches = DividedBatchSampler(BatchSampler(SequentialSampler(range(64)), 32, False), 0, 3)
    batches.is_uneven = False
    loader = SimpleNamespace(batch_sampler=batches, end_of_dataloader=False)
    accelerator.gradient_state.active_dataloader = loader
    gathered = getattr(accelerator, name)({"rows": filled[:11], "losses": torch.zeros(3)})
    assert (gathered["rows"].tolist(), len(gathered["losses"])) == (list(range(32)), 3)


@pytest.mark.parametrize(
    ("kind", "config", "why"),
    [
        ("FSDP", {}, "of the type FSDP"),
        ("DEEPSPEED", {}, "of the type DEEPSPEED"),
        ("MULTI_GPU", {"use_stateful_dataloader": True}, "use_stateful_dataloader"),
    ],
)
def test_what_accelerate_does_not_replicate_is_left_as_it_is_and_told(
    kind: str, config: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()
    accelerator = accelerate_of(kind, told, monkeypatch, **config).Accelerator()
    assert not accelerator.dataloader_config.split_batches
    (found,) = told.findings
    assert found.name == WHOLE and found.holds and why in found.text


def test_a_script_that_reads_world_size_divides_its_batches_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(own_division="train.py:7")
    module = accelerate_of("MULTI_CPU", told, monkeypatch)
    assert not module.Accelerator().dataloader_config.split_batches
    (found,) = told.findings
    assert (found.name, found.place, found.holds) == ("own-division", "train.py:7", False)


def test_a_script_that_reads_num_processes_is_warned_with_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    accelerator = accelerate_of("MULTI_CPU", told, monkeypatch).Accelerator()
    assert accelerator.num_processes == 2
    (found,) = told.findings
    assert found.name == "num-processes" and not found.holds
    assert found.place.startswith(f"{__file__}:")


class Connector:
    """Fake of `_AcceleratorConnector`."""

    def __init__(self, devices: object = "auto", num_nodes: int = 1, strategy: str = "auto") -> None:
        self.devices, self.num_nodes, self.strategy = devices, num_nodes, strategy


def connector_of(told: Told) -> Any:
    module: Any = ModuleType("accelerator_connector")
    module._AcceleratorConnector = type("_AcceleratorConnector", (Connector,), {})
    change_connector(module, told.division)
    return module._AcceleratorConnector


def test_a_trainer_of_lightning_has_the_workers_of_the_job() -> None:
    made = connector_of(Told(num_workers=4, num_local=2))(devices=1, strategy="ddp")
    assert (made.devices, made.num_nodes, made.strategy) == (2, 2, "ddp")
    with pytest.raises(SystemExit, match="the same number of workers on each host"):
        connector_of(Told(num_workers=3, num_local=2))()


def loaders_of(told: Told, strategy: str = "DDPStrategy", is_sampled: bool = True) -> Any:
    """A fake of `_DataConnector` after the change."""

    class _DataConnector:
        def __init__(self) -> None:
            connector = SimpleNamespace(use_distributed_sampler=is_sampled)
            self.trainer = SimpleNamespace(
                strategy=type(strategy, (), {})(), _accelerator_connector=connector
            )

        def _prepare_dataloader(self, dataloader: object, shuffle: bool, mode: str) -> object:
            return dataloader

    module: Any = ModuleType("data_connector")
    module._DataConnector = _DataConnector
    change_data(module, told.division)
    return _DataConnector()


@pytest.mark.parametrize("num_workers", [1, 2])
def test_training_loaders_of_lightning_are_divided_and_others_are_not(num_workers: int) -> None:
    told = Told(num_workers, num_workers)
    loader = DataLoader(DATA, batch_size=4, shuffle=True)
    connector = loaders_of(told)
    part = connector._prepare_dataloader(loader, True, "train")
    assert isinstance(part.batch_sampler, DividedBatchSampler)
    assert isinstance(part.batch_sampler.sampler, DistributedSampler), "its order is that of seed and epoch"
    assert len(next(iter(part))[0]) == 4 // num_workers
    assert isinstance(loader.sampler, RandomSampler)
    assert connector._prepare_dataloader(loader, True, "validate") is loader
    assert not told.findings


@pytest.mark.parametrize(
    ("strategy", "is_sampled", "why"),
    [("FSDPStrategy", True, "a FSDPStrategy"), ("DDPStrategy", False, "use_distributed_sampler=False")],
)
def test_what_lightning_does_not_replicate_is_left_as_it_is_and_told(
    strategy: str, is_sampled: bool, why: str
) -> None:
    told = Told()
    loader = DataLoader(DATA, batch_size=4)
    assert loaders_of(told, strategy, is_sampled)._prepare_dataloader(loader, True, "train") is loader
    (found,) = told.findings
    assert found.name == WHOLE and why in found.text
