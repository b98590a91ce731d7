"""Small models in the idioms of other scripts, whose state is divided.

Arguments: file for the result, epochs, idiom (see `MODELS`), what is divided: `optimizer`, `blocks`
or `mirrors` (blocks, with mirrors).
"""

import json
import sys
from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from swell import train

VOCABULARY, WIDTH, LENGTH = 11, 8, 6


class Block(nn.Module):
    is_checkpointed = False
    is_reentrant = False  #: each of its halves, checkpointed by itself

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.mix = nn.Linear(LENGTH, LENGTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_reentrant:
            x = x + checkpoint(self.mixed, x, use_reentrant=True)
            half: torch.Tensor = x + checkpoint(self.mlp, x, use_reentrant=True)
            return half
        x = x + self.mixed(x)
        changed = checkpoint(self.mlp, x, use_reentrant=False) if self.is_checkpointed else self.mlp(x)
        both: torch.Tensor = x + changed
        return both

    def mixed(self, x: torch.Tensor) -> torch.Tensor:
        mixed: torch.Tensor = self.mix(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return mixed


class LanguageModel(nn.Module):
    def __init__(self, is_checkpointed: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.is_checkpointed = is_checkpointed

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.is_checkpointed else block(x)
        logits: torch.Tensor = self.head(x)
        return logits


class Adapter(nn.Module):
    """A frozen layer with a change of low rank beside it, as in LoRA."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, 2, bias=False)
        self.up = nn.Linear(2, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        adapted: torch.Tensor = self.layer(x) + self.up(self.down(x))
        return adapted


def tied() -> nn.Module:
    model = LanguageModel()
    model.head.weight = model.embedding.weight
    return model


def checkpointed_within() -> nn.Module:
    model = LanguageModel()
    for block in model.modules():
        if isinstance(block, Block):
            block.is_checkpointed = True
    return model


def reentrant() -> nn.Module:
    model = LanguageModel()
    for block in model.modules():
        if isinstance(block, Block):
            block.is_reentrant = True
    return model


def shared() -> nn.Module:
    """One block under two names, as ALBERT's layers are."""
    model = LanguageModel()
    model.blocks[1] = model.blocks[0]
    return model


class Retried(LanguageModel):
    """Half of each backward pass is made twice, for its first try fails; a parameter is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks[1].spare = nn.Parameter(torch.ones(3))
        self.blocks[0].register_forward_hook(self.fail_once)

    def fail_once(self, _: nn.Module, __: object, output: torch.Tensor) -> None:
        def fail(gradient: torch.Tensor) -> None:
            handle.remove()
            raise Unlucky

        handle = output.register_hook(fail)


class Unlucky(Exception):
    pass


def frozen() -> nn.Module:
    model = LanguageModel()
    model.embedding.requires_grad_(False)
    model.blocks[0].requires_grad_(False)
    return model


def lora() -> nn.Module:
    model = LanguageModel().requires_grad_(False)
    for block in model.modules():
        if isinstance(block, Block):
            layers = [Adapter(layer) if isinstance(layer, nn.Linear) else layer for layer in block.mlp]
            block.mlp = nn.Sequential(*layers)
    return model


def decayed(model: nn.Module) -> list[dict[str, object]]:
    """Two groups, as nanoGPT has: matrices decay, vectors do not."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [parameter for parameter in trained if parameter.dim() > 1], "weight_decay": 0.1},
        {"params": [parameter for parameter in trained if parameter.dim() < 2], "weight_decay": 0.0},
    ]


class WithTemperature(LanguageModel):
    """A parameter that is one number, as the scale of CLIP's logits is."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(1.5))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = super().forward(tokens) * self.temperature
        return logits


class Waves(nn.Module):
    """A layer with complex weights alone."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = nn.Linear(WIDTH, WIDTH, dtype=torch.complex128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turned: torch.Tensor = x + self.turn(x.to(torch.complex128)).abs()
        return turned


class WithWaves(LanguageModel):
    """A block of complex numbers, which is divided as the others are."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks.insert(1, Waves())


MODELS = {
    "complex": WithWaves,
    "scalar": WithTemperature,
    "tied": tied,
    "checkpointed": lambda: LanguageModel(is_checkpointed=True),
    "checkpointed within": checkpointed_within,
    "reentrant": reentrant,
    "retried": Retried,
    "shared": shared,
    "frozen": frozen,
    "lora": lora,
    "momentum": LanguageModel,
}

result, epochs, idiom, divided = sys.argv[1:]
torch.set_default_dtype(torch.float64)
torch.manual_seed(5)
tokens = torch.randint(VOCABULARY, (48, LENGTH + 1))
model = MODELS[idiom]()
optimizer: torch.optim.Optimizer = torch.optim.AdamW(decayed(model), lr=0.01)
if idiom == "momentum":
    optimizer = torch.optim.SGD(decayed(model), lr=0.1, momentum=0.9, nesterov=True)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=8 * int(epochs) + 1)
blocks = [module for module in model.modules() if isinstance(module, Block)]
shard: Literal["optimizer"] | Sequence[type[nn.Module]] = [Block, Waves]
if divided == "optimizer":
    shard = "optimizer"
run = train.elastic(
    model,
    optimizer,
    DataLoader(TensorDataset(tokens), batch_size=6, shuffle=True),
    epochs=int(epochs),
    scheduler=scheduler,
    shard=shard,
    mirrors=divided == "mirrors",
)
was_away = False  # a matrix of a block, from this worker, between two steps
for _ in run.epochs():
    for (batch,) in run.batches():
        optimizer.zero_grad(set_to_none=True)
        logits = model(batch[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        try:
            run.backward(loss, retain_graph=idiom == "retried")
        except Unlucky:
            run.backward(loss)
        run.clip_grad_norm_(1.0)
        run.step()
        was_away |= blocks[-1].mix.weight.untyped_storage().nbytes() < 8 * LENGTH * LENGTH

if run.is_leader:
    with open(result, "w") as file:
        found = [tensor.detach() for tensor in model.parameters()]
        real = [torch.view_as_real(tensor) if tensor.is_complex() else tensor for tensor in found]
        weights = [value for tensor in real for value in tensor.flatten().tolist()]
        json.dump({"steps": run.steps, "weights": weights, "was_away": was_away}, file)
