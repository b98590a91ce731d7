"""The one call that makes a training script elastic."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader

from swell.script_facts import ScriptNumbers
from swell.train.collective.gradients import Gradients
from swell.train.collective.positions import positions_of
from swell.train.collective.sharded import ShardedGradients, compute_alike
from swell.train.data.loader import Feed, check_loader, schedule_of
from swell.train.data.place import UNBOUNDED
from swell.train.data.random_streams import end_script
from swell.train.data.sample_schedule import SampleSchedule
from swell.train.data.stateful import Stateful
from swell.train.link.agent_link import open_link
from swell.train.runtime.host import Host, Task, Torchrun
from swell.train.runtime.managed_run import AgentWorker
from swell.train.runtime.run import Run, started
from swell.train.runtime.trial_run import NO_END, GroupProfiling, Profiling
from swell.train.scaling import RULES
from swell.train.state.gradient_noise import GradientNoise
from swell.train.state.model_changes import check_model
from swell.train.state.optimizer_set import OptimizerSet, SchedulerSet, join_modules
from swell.train.state.train_state import TrainState
from swell.wire import environ, messages
from swell.wire.reports import send_reports_to

#: By what learning rates are multiplied in a step of another batch than the job's own.
RateRule = Literal["none", "linear", "square_root"]
#: What the loss that `run.backward` gets is of the samples of its pass.
LossReduction = Literal["mean", "sum"]


def elastic(
    model: nn.Module | Mapping[str, nn.Module],
    optimizer: torch.optim.Optimizer | Mapping[str, torch.optim.Optimizer],
    loader: Any,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    scheduler: Stateful | Mapping[str, Stateful] | None = None,
    state: Mapping[str, Any] | None = None,
    loss_reduction: LossReduction = "mean",
    rate_rule: RateRule = "none",
    seed: int = 0,
    deterministic: bool = False,
    shards: int | None = None,
    max_local_batch: int | None = None,
    mesh: Any = None,
    num_passes: int | None = None,
) -> Run:
    """Put a training loop in a position to be resized while it runs.

    The same script runs by itself, under torchrun and as a Swell job. Returns when this process is
    part of a group and has the state to go on with: after that, no worker differs from another.

    Args:
        model: several by name as well, `{"g": g, "d": d}`.
        optimizer: several by name as well. `run.step(opt_d)` then says which is to step; see
            `Run`. They may hold the same parameters, so that one follows another in mid-run.
        loader: a DataLoader. Its `batch_size` is the global batch, the samples of one optimizer step on all
            workers together; a Swell job's own takes its place. Samples are shuffled by `seed` and epoch, or
            in sequence. A sampler or batch sampler of the script's own is drawn once an epoch with `seed`,
            and what it gives is divided; each batch of a batch sampler is a step. Of an IterableDataset every
            worker reads all, and `iter` must give the same samples in the same order to each.
        epochs: passes over the data. A Swell job's end condition takes its place.
        steps: optimizer steps, instead of epochs.
        scheduler: stepped by `run.step`, once for each step of the job's own batch, so that it follows the
            samples whatever the batch; do not step it yourself. Of several optimizers: by their names.
        state: the first entries of `run.state`, objects with `state_dict` and `load_state_dict` or plain
            values that a new worker must get.
        loss_reduction: `sum` if the loss is a sum over the samples of a pass, perhaps divided by a constant:
            then gradients and losses of all passes and workers are added up. `mean`: they are averaged. Give
            `run.backward` a weight for a mean over something else than samples.
        rate_rule: by what the learning rates are multiplied in a step of another batch than the job's own,
            where the job leaves its batch open: `linear`, the ratio of the batches; `square_root`, its
            root, for Adam and its kin; `none`. The optimizer keeps the rates of the own batch.
        seed: of the order of samples and of all random numbers that a step draws, whatever the script set
            before. A Swell job's own takes its place.
        deterministic: the same bits at any number of workers, at a price: each step is computed in `shards`
            passes and summed in one order. Sets torch to deterministic algorithms and, on a CPU, one thread.
        shards: passes of a step with `deterministic`, shared out among the workers; 8 by default, fewer where
            the batch is smaller. Workers beyond that idle; each pass must fit on a device.
        max_local_batch: samples that go through the model together at most; a larger share of a step is
            computed in several passes, the loop's body running once for each.
        mesh: where a worker is several processes (`--devices-per-worker`), the dimensions of the script's
            DeviceMesh along which they get different samples, as `mesh["fsdp"]` of `fully_shard`. Along
            others, and without it, they get the same ones, as tensor parallel layers want.
        num_passes: of each worker in each step, for a loop that counts them, as one that steps after every
            fourth.

    Raises:
        LoaderError: what the loader gives cannot be divided among workers.
        ValueError, TypeError: something does not fit together; the text says what to change.
    """
    end_script()
    loader = check_loader(loader)
    model, stepped, scheduler = _joined(model, optimizer, scheduler)
    if not isinstance(state, Mapping | None):
        raise TypeError(
            f"elastic() was given a {type(state).__name__} as state; give it entries by name, as a dict"
        )
    _check_optimizer(model, stepped)
    if environ.AGENT in os.environ and started:
        raise RuntimeError(
            "elastic() was called twice; a Swell job trains one model: submit a job for each call, the "
            "second with --after, or put both models in one nn.ModuleDict"
        )
    for name, value, known in (
        ("loss_reduction", loss_reduction, get_args(LossReduction)),
        ("rate_rule", rate_rule, get_args(RateRule)),
    ):
        if value not in known:
            raise ValueError(f"elastic() got {name}={value!r}; choose from {', '.join(known)}")
    is_sum = loss_reduction == "sum"
    _check_together(stepped, deterministic, shards, max_local_batch, rate_rule, is_sum)
    host = _find_host(model, seed, max_local_batch, mesh)
    positions = host.positions
    if positions.num > 1:
        if deterministic:
            raise ValueError(
                "elastic() got deterministic=True, and this worker is several processes, whose sums are the "
                "script's own; leave it out"
            )
        _average_gradients(model)
    elif deterministic:
        compute_alike(host.device)
    _use_device(model, stepped, host)
    laid_out = _course(loader, model, host, (shards or 0) if deterministic else None)
    laid_out.num_passes = num_passes or 0
    own_batch = loader.batch_sampler.batch_size if type(loader.batch_sampler) is BatchSampler else 0
    own = ScriptNumbers(batch=own_batch or laid_out.global_batch, epochs=epochs, steps=steps)
    course = host.adapt(laid_out)
    known_steps = host.known_steps(_own_steps(steps, epochs, laid_out))
    end_epoch = host.end_epoch(epochs) if course.is_stream else None
    course.total_steps = known_steps if end_epoch is None else UNBOUNDED
    if host.shown is not None:  # a trial run ends by itself
        course.total_steps = NO_END
    rule, base_batch = RULES.get(rate_rule), course.global_batch
    rate = None if rule is None else lambda batch: rule(batch / base_batch)
    has_one_mean = not is_sum and not isinstance(stepped, OptimizerSet) and positions.num == 1
    noise = GradientNoise(course.global_batch) if host.welcome.measures_noise and has_one_mean else None
    train_state = TrainState(model, stepped, scheduler, state or {}, course, rate, noise)
    train_state.variables.is_wanted = host.has_agent
    if host.welcome.target is None:  # else it may end before
        _check_schedules(train_state.schedulers, known_steps)
    task = Task(
        train_state,
        ShardedGradients(model) if deterministic else Gradients(model, positions),
        course,
        laid_out.global_batch,
        end_epoch,
        is_sum=is_sum,
        known_steps=known_steps,
        own=own,
        positions=positions,
    )
    feed = Feed(loader, host.device, host.seed, course)
    if course.is_stream and isinstance(host, AgentWorker):
        host.read_ahead(feed)
    run = Run(host, task, feed)
    started.append(run)
    send_reports_to(lambda values, step: run.report(step=step, **values))
    return run


def _joined(
    model: nn.Module | Mapping[str, nn.Module],
    optimizer: torch.optim.Optimizer | Mapping[str, torch.optim.Optimizer],
    scheduler: Stateful | Mapping[str, Stateful] | None,
) -> tuple[nn.Module, torch.optim.Optimizer | OptimizerSet, Stateful | None]:
    """What is trained, each as one: several may have been given by their names."""
    _check_kind("model", model, "named_modules", "a torch.nn.Module, or several by name as {'g': g, 'd': d}")
    optimizers = "a torch.optim.Optimizer, or several by name as {'g': opt_g, 'd': opt_d}"
    _check_kind("optimizer", optimizer, "param_groups", optimizers)
    if scheduler is not None:
        _check_kind("scheduler", scheduler, "step", "one of torch.optim.lr_scheduler's, or several by name")
    if isinstance(model, Mapping):
        model = join_modules(model)
    check_model(model)
    stepped = OptimizerSet(optimizer) if isinstance(optimizer, Mapping) else optimizer
    if isinstance(scheduler, Mapping):
        if not isinstance(stepped, OptimizerSet):
            raise ValueError(
                "elastic() got schedulers by name and one optimizer; give it the scheduler, or the "
                'optimizers by name: {"first": ..., "second": ...}'
            )
        scheduler = SchedulerSet(scheduler, stepped)
    return model, stepped, scheduler


def _check_kind(name: str, given: object, attribute: str, remedy: str) -> None:
    """Raises TypeError for an argument, or one of several by their names, that is of another kind."""
    for each in given.values() if isinstance(given, Mapping) and given else [given]:
        if isinstance(each, type) or not hasattr(each, attribute):
            told = f"the class {each.__name__}" if isinstance(each, type) else f"a {type(each).__name__}"
            raise TypeError(f"elastic() was given {told} as {name}; give it {remedy}")


def _course(loader: DataLoader[Any], model: nn.Module, host: Host, num_shards: int | None) -> SampleSchedule:
    """The order in which samples are trained on. `num_shards`: of a step; 0: as many as usual; None: none."""
    course = schedule_of(loader, host.seed, host.welcome.global_batch, num_shards)
    course.check_passes(host.max_local_batch)
    norms = (module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm))
    course.least_samples = 1 if next(norms, None) is None else 2  # one value of a channel is an error
    course.num_parts, course.part = host.positions.num_parts, host.positions.part
    return course


def _average_gradients(model: nn.Module) -> None:
    """Have `fully_shard` average gradients, as it does unless a script says otherwise (torchtitan does)."""
    for module in model.modules():
        divide: Any = getattr(module, "set_gradient_divide_factor", None)
        if divide is not None:
            divide(None)


def _own_steps(steps: int | None, epochs: int | None, course: SampleSchedule) -> int | None:
    """Until the end that the script has in mind."""
    if steps is not None and epochs is not None:
        raise ValueError(f"elastic() got steps={steps} and epochs={epochs}; give one of them")
    if epochs is None:
        return steps
    return epochs * course.steps_per_epoch if course.steps_per_epoch else UNBOUNDED


def _find_host(model: nn.Module, seed: int, max_local_batch: int | None, mesh: Any) -> Host:
    """Who started this process, as the environment tells."""
    link = open_link() if environ.AGENT in os.environ else None
    device = str(next(model.parameters()).device) if link is None else link.welcome.device
    positions = positions_of([*model.parameters()], mesh, torch.device(device))
    if link is not None:
        kinds: dict[str, type[AgentWorker | Profiling]] = {"profile": Profiling, "group": GroupProfiling}
        return kinds.get(link.welcome.mode, AgentWorker)(link, max_local_batch, positions)
    own = messages.Welcome(mode="train", device=device, seed=seed)
    is_torchruns = environ.RANK in os.environ and environ.WORLD_SIZE in os.environ and positions.num == 1
    return (Torchrun if is_torchruns else Host)(own, max_local_batch, positions=positions)


def _check_together(
    stepped: torch.optim.Optimizer | OptimizerSet,
    deterministic: bool,
    shards: int | None,
    max_local_batch: int | None,
    rate_rule: RateRule,
    is_sum: bool,
) -> None:
    """Raises ValueError for arguments that do not go together."""
    has_several = isinstance(stepped, OptimizerSet)
    in_passes = (
        "which computes a step in several passes; with several optimizers each must see what the one before "
        "has changed: take it out"
    )
    refused = {
        f"shards={shards} without deterministic=True, where a step is not cut into shards; give both, or "
        "neither": shards is not None and not deterministic,
        f"shards={shards}; it must be 1 or more": shards is not None and shards < 1,
        f"max_local_batch={max_local_batch}; it must be 1 or more": (
            max_local_batch is not None and max_local_batch < 1
        ),
        f"rate_rule={rate_rule!r} and loss_reduction='sum', whose gradient grows with the batch by itself; "
        "take the mean, or leave the rule out": is_sum and rate_rule != "none",
        f"several optimizers and deterministic=True, {in_passes}": has_several and deterministic,
        f"several optimizers and max_local_batch={max_local_batch}, {in_passes}": (
            has_several and max_local_batch is not None
        ),
        f"several optimizers and rate_rule={rate_rule!r}, which is for one; multiply the rates in the loop, "
        "by `run.global_batch / run.own_batch`": has_several and rate_rule != "none",
    }
    for what, is_so in refused.items():
        if is_so:
            raise ValueError(f"elastic() got {what}")


def _check_schedules(schedulers: Sequence[Stateful], end: int) -> None:
    """Raises ValueError where a scheduler would be stepped beyond its end, amid the run.

    Args:
        end: steps of the run, or a number beyond any where that is not known.
    """
    for each in schedulers:
        total = getattr(each, "total_steps", None)
        if isinstance(total, int) and total < end < NO_END:
            raise ValueError(
                f"the scheduler, a {type(each).__name__}, is made for {total} steps, and the run has {end}: "
                f"step {total + 1} would fail; make it with total_steps={end}, or submit the job with the "
                "batch and the end that it is for"
            )


def _use_device(model: nn.Module, stepped: torch.optim.Optimizer | OptimizerSet, host: Host) -> None:
    if host.device.type == "cuda":
        torch.cuda.set_device(host.device)
        model.to(host.device)  # in place: the optimizer's references stay good
        for optimizer in stepped if isinstance(stepped, OptimizerSet) else (stepped,):
            if optimizer.state:  # what it has loaded goes to where its parameters are now
                optimizer.load_state_dict(optimizer.state_dict())


def _check_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer | OptimizerSet) -> None:
    optimizers = optimizer if isinstance(optimizer, OptimizerSet) else [optimizer]
    if any(isinstance(each, torch.optim.LBFGS) for each in optimizers):
        raise ValueError(
            "elastic() got an LBFGS optimizer, which evaluates the loss several times in a step, while "
            "run.backward(loss) sums one gradient of each batch; take another optimizer, such as Adam, or "
            "submit the script with `elasticity: restart` for one worker"
        )
    if any(type(each).__name__ == "ZeroRedundancyOptimizer" for each in optimizers):
        raise ValueError(
            "elastic() got a ZeroRedundancyOptimizer, of which each worker holds a part for a fixed group of "
            "workers; give elastic() the optimizer that it was made of, such as torch.optim.AdamW"
        )
    own = {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
    if not own:
        raise ValueError("the model has no parameter that requires a gradient, so there is nothing to train")
    strange = [
        tuple(parameter.shape)
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.requires_grad and id(parameter) not in own
    ]
    if strange:
        raise ValueError(
            f"the optimizer holds {len(strange)} parameters that are not the model's, the first of shape "
            f"{strange[0]}; their gradients would not be averaged: give elastic() one module with them all"
        )
