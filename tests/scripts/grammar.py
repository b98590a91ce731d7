"""Draws training scripts as people write them, each from a seed: sound by construction, or unsound.

A cell is a number that a script keeps: where, from what and when it is set, and what it does. A script has
one to three cells, a loss, a loader, a model, an optimizer, and a form of its loop. A batch is 12 samples and
an epoch 10 steps. An unsound script names the cause, and the first step in which it may show.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from textwrap import indent

BATCH, NUM_SAMPLES, STEPS_AN_EPOCH = 12, 120, 10
#: What a script writes for a step. `{loss}` and `{options}` are its own.
BACKWARD, STEP = "mean = run.backward(loss{options})", "run.step()"
HEADER = """import math
import random
from collections import Counter, deque
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, WeightedRandomSampler

from swell import train
"""


@dataclass
class Part:
    """What one choice adds to a script, as lines for each place of its text."""

    data: str = ""  #: before the model
    declare: str = ""  #: after the optimizer, before `elastic`
    begin: str = ""  #: after `elastic`, before the loop
    head: str = ""  #: of an epoch
    before: str = ""  #: the loss of a batch
    after_loss: str = ""
    clip: str = ""  #: between the backward pass and the step
    after: str = ""  #: the step
    end: str = ""  #: of an epoch
    rebinds: tuple[str, ...] = ()  #: names that the loop gives another object
    unsound: str = ""  #: why its result depends on sizes or on being stopped and started
    since: int = 0  #: the first step in which that may show
    elastic: str = ""  #: options of `elastic`
    step: str = ""  #: options of `run.backward`


@dataclass(frozen=True)
class DrawnScript:
    seed: int
    text: str
    kinds: tuple[str, ...]  #: the choices that it is made of
    unsound: str  #: empty if it is sound
    since: int  #: the first step from which an unsound one may differ

    @property
    def is_sound(self) -> bool:
        return not self.unsound


@dataclass(frozen=True)
class Place:
    """Where a number is kept: `{n}` is its name, `{value}` what is written, `{length}` a drawn size."""

    declare: str
    read: str
    write: str
    rebinds: bool = False
    begins: bool = False  #: it is declared after `elastic`, where the loop is
    is_lost: bool = False  #: it cannot be read from outside, so a new worker begins without it
    is_unseen: bool = False  #: it is not looked for, and a new worker begins without it, too


PLACES = {
    "global": Place("{n} = 0.0", "{n}", "{n} = {value}", rebinds=True),
    "local": Place("{n} = 0.0", "{n}", "{n} = {value}", rebinds=True, begins=True),
    "attribute": Place(
        "class Holder{n}:\n    def __init__(self):\n        self.value = 0.0\n\n\n{n} = Holder{n}()",
        "{n}.value",
        "{n}.value = {value}",
    ),
    "class": Place("class Settings{n}:\n    value = 0.0", "Settings{n}.value", "Settings{n}.value = {value}"),
    "dataclass": Place(
        "@dataclass\nclass Best{n}:\n    value: float = 0.0\n\n\n{n} = Best{n}()",
        "{n}.value",
        "{n} = replace({n}, value={value})",
        rebinds=True,
    ),
    "dict": Place('{n} = {{"value": 0.0, "name": "run"}}', '{n}["value"]', '{n}["value"] = {value}'),
    "nested": Place(
        '{n} = {{"log": [{{"value": 0.0}}]}}', '{n}["log"][0]["value"]', '{n}["log"][0]["value"] = {value}'
    ),
    "list": Place("{n} = [0.0] * {length}", "{n}[-1]", "{n}.append({value})"),
    "deque": Place("{n} = deque([0.0] * {length}, maxlen={length})", "{n}[-1]", "{n}.append({value})"),
    "tuple": Place("{n} = (0.0, {length})", "{n}[0]", "{n} = ({value}, {length})", rebinds=True),
    "counter": Place("{n} = Counter(value=0.0)", '{n}["value"]', '{n}["value"] = {value}'),
    "array": Place("{n} = np.zeros({length})", "float({n}[{length} // 3])", "{n}[{length} // 3] = {value}"),
    "tensor": Place(
        "{n} = torch.zeros({length})", "float({n}[{length} // 2])", "{n}[{length} // 2] = {value}"
    ),
    "new_tensor": Place("{n} = torch.zeros(())", "float({n})", "{n} = torch.tensor({value})", rebinds=True),
    "buffer": Place(
        'model.register_buffer("{n}", torch.zeros(()))', "float(model.{n})", "model.{n}.fill_({value})"
    ),
    "model": Place("model.{n} = 0.0", "model.{n}", "model.{n} = {value}"),
    "run_state": Place(
        'run.state["{n}"] = 0.0', 'run.state["{n}"]', 'run.state["{n}"] = {value}', begins=True
    ),
    "function": Place(
        "def {n}():\n    return {n}.value\n\n\n{n}.value = 0.0",
        "{n}()",
        "{n}.value = {value}",
        is_unseen=True,
    ),
    "closure": Place(
        "def make_{n}():\n    value = 0.0\n\n    def put(new=None):\n        nonlocal value\n"
        "        value = value if new is None else new\n        return value\n\n    return put\n\n\n"
        "{n} = make_{n}()",
        "{n}()",
        "{n}({value})",
        is_unseen=True,
    ),
    "generator": Place(
        "def held_{n}():\n    value = 0.0\n    while True:\n        new = yield value\n"
        "        value = value if new is None else new\n\n\n{n} = held_{n}()\nnext({n})",
        "next({n})",
        "{n}.send({value})",
        is_lost=True,
    ),
}

#: What a cell is set to, and what makes that differ between workers.
SOURCES = {
    "mean": ("float(mean)", ""),
    "weights": ("float(next(model.parameters()).detach().abs().mean())", ""),
    "itself": ("0.9 * {read} + 0.05", ""),
    "count": ("{read} + 0.02", ""),
    "own_loss": ("loss.item()", "it keeps the loss of a worker's own samples"),
    "own_samples": ("{read} + 0.01 * len(xb)", "it counts a worker's own samples"),
    "own_features": ("float(xb.double().mean())", "it keeps values of a worker's own samples"),
}


def draw(seed: int) -> DrawnScript:
    """The script of this seed, always the same one."""
    return Drawing(random.Random(seed), seed).script()


@dataclass
class Drawing:
    """One script while it is drawn."""

    rng: random.Random
    seed: int
    parts: list[Part] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)

    def script(self) -> DrawnScript:
        self.unsound_wanted = self.rng.random() < 0.4
        self.task = self.choose("regression", "regression", "classes", "classes", "tokens")
        self.passes = self.choose("plain", "plain", "plain", "plain", "passes", "shards")
        width, hidden = self.sizes()
        self.add(self.data(width))
        model = self.model(width, hidden)
        self.add(self.loss())
        for number in range(self.rng.choice((1, 1, 2, 3))):
            self.add(self.cell(f"kept_{'abc'[number]}"))
        self.add(
            Part(clip=self.rng.choice(("", "", "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)")))
        )
        text = self.text(model, self.optimizer())
        unsound = [part for part in self.parts if part.unsound]
        return DrawnScript(
            self.seed,
            text,
            tuple(self.kinds),
            "; ".join(part.unsound for part in unsound),
            min((part.since for part in unsound), default=0),
        )

    def choose(self, *options: str) -> str:
        chosen = self.rng.choice(options)
        self.kinds.append(chosen)
        return chosen

    def add(self, part: Part) -> None:
        self.parts.append(part)

    def has_flaw(self) -> bool:
        """Whether this choice is to be unsound: about half of the choices of a script that is to be."""
        return self.unsound_wanted and self.rng.random() < 0.5

    def sizes(self) -> tuple[int, int]:
        """Numbers of a sample, 1 to 16,000, and of hidden units: a model has 2 million parameters at most.

        One whose steps are computed in shards has a tenth of that: it makes eight passes of each.
        """
        width, most = self.rng.choice((1, 3, 8, 33, 768, 2048, 16_000)), 2_000_000
        if self.passes == "shards":
            most = 200_000
        return width, max(4, min(self.rng.choice((8, 32, 200, 700)), most // (width + 10)))

    # ------------------------------------------------------------------ data and model
    def data(self, width: int) -> Part:
        if self.task == "tokens":
            length = self.rng.choice((4, 9, 40))
            tensors = (
                f"x = torch.randint(1, 50, ({NUM_SAMPLES}, {length}))\ny = (x * 7 + 3) % 10\n"
                f"lengths = torch.randint({length // 2}, {length} + 1, ({NUM_SAMPLES},))\n"
                f"y[torch.arange({length}) >= lengths[:, None]] = -100\n"
            )
        else:
            tensors = f"x = torch.randn({NUM_SAMPLES}, {width}) / {width**0.5:.4f}\n"
            tensors += (
                "y = torch.sin(3 * x[:, :1]) + x.sum(1, keepdim=True)\n"
                if self.task == "regression"
                else "y = (x.sum(1) > 0).long() + (x[:, 0] > 0).long()\n"
            )
        return self.loader(tensors)

    def loader(self, tensors: str) -> Part:
        kinds = ["tensors", "tensors", "augmented", "sampler", "stream", "processes"]
        kind = self.choose("cached", "own_counter") if self.has_flaw() else self.choose(*kinds)
        if self.task == "tokens" and kind in ("augmented", "cached", "own_counter"):
            kind = "tensors"
        dataset, options, unsound = "TensorDataset(x, y)", "shuffle=True", ""
        item = {
            "augmented": "return x[i] * (0.8 + 0.4 * torch.rand(())), y[i]",
            "cached": "if i not in self.kept:\n            self.kept[i] = torch.rand(())\n"
            "        return x[i] * (0.8 + 0.4 * self.kept[i]), y[i]",
            "own_counter": "self.count += 1\n        return x[i] * (1.0 + 0.1 * math.sin(self.count)), y[i]",
        }.get(kind)
        if item:
            dataset = "Samples()"
            tensors += (
                "\n\nclass Samples(Dataset):\n"
                "    def __init__(self):\n        self.kept, self.count = {}, 0\n\n"
                f"    def __len__(self):\n        return {NUM_SAMPLES}\n\n"
                f"    def __getitem__(self, i):\n        {item}\n\n\n"
            )
            unsound = {"cached": "its samples are drawn once in each worker and kept"}.get(kind, "")
            unsound = unsound or {"own_counter": "its samples depend on how many a worker has read"}.get(
                kind, ""
            )
        elif kind == "sampler":
            options = f"sampler=WeightedRandomSampler(torch.rand({NUM_SAMPLES}) + 0.1, {NUM_SAMPLES})"
        elif kind == "processes":
            options = "shuffle=True, num_workers=1"
        elif kind == "stream":
            dataset, options = "Stream()", ""
            tensors += (
                "\n\nclass Stream(IterableDataset):\n    def __iter__(self):\n"
                f"        order = random.Random(5).sample(range({NUM_SAMPLES}), {NUM_SAMPLES})\n"
                "        for i in order:\n            yield x[i], y[i]\n\n\n"
            )
        options = f", {options}" if options else ""
        tensors += f"loader = DataLoader({dataset}, batch_size={BATCH}{options})"
        return Part(data=tensors, unsound=unsound, since=STEPS_AN_EPOCH if kind == "cached" else 0)

    def model(self, width: int, hidden: int) -> str:
        num_out = {"regression": 1, "classes": 3, "tokens": 10}[self.task]
        first = f"nn.Embedding(50, {hidden})" if self.task == "tokens" else f"nn.Linear({width}, {hidden})"
        layers = [first, self.rng.choice(("nn.Tanh()", "nn.GELU()", "nn.ReLU()"))]
        if self.rng.random() < 0.3:
            layers.append(f"nn.LayerNorm({hidden})")
        if self.passes == "shards" and self.rng.random() < 0.5:
            layers.append("nn.Dropout(0.1)")
        body = ", ".join([*layers, f"nn.Linear({hidden}, {num_out})"])
        if self.choose("sequential", "module") == "sequential":
            return f"model = nn.Sequential({body})"
        return (
            "\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            f"        self.body = nn.Sequential({body})\n\n"
            "    def forward(self, inputs):\n        return self.body(inputs)\n\n\nmodel = Net()"
        )

    def optimizer(self) -> str:
        options = {
            "SGD": "lr=0.01",
            "SGD, momentum": "lr=0.002, momentum=0.8, weight_decay=1e-3",
            "AdamW": "lr=0.001, eps=1e-4",
        }
        kind = self.choose(*options)
        return f"optimizer = torch.optim.{kind.split(',')[0]}(model.parameters(), {options[kind]})"

    # ------------------------------------------------------------------ losses
    def loss(self) -> Part:
        part = getattr(self, f"loss_of_{self.task}")()
        assert isinstance(part, Part)
        return part

    def loss_of_regression(self) -> Part:
        plain = "loss = F.mse_loss(model(xb), yb)"
        if not self.has_flaw():
            return {
                "mse": Part(before=plain),
                "huber": Part(before="loss = F.smooth_l1_loss(model(xb), yb)"),
                "sum": Part(
                    before=f'loss = F.mse_loss(model(xb), yb, reduction="sum") / {BATCH}',
                    elastic=', loss_reduction="sum"',
                ),
                "penalty": Part(
                    before=plain + "\nloss = loss + 1e-3 * sum(p.pow(2).sum() for p in model.parameters())"
                ),
            }[self.choose("mse", "huber", "sum", "penalty")]
        late = self.rng.randrange(5, 50)
        memory = (
            f"hidden = model(xb)\nmemory.append(hidden.detach().mean())\nloss = F.mse_loss(hidden, yb)\n"
            f"if run.steps >= {late}:\n"
            "    loss = loss + 0.1 * (hidden.mean() - sum(memory) / len(memory)) ** 2"
        )
        return {
            "undeclared_sum": Part(
                before='loss = F.mse_loss(model(xb), yb, reduction="sum") / 12', unsound="a sum"
            ),
            "root": Part(before="loss = F.mse_loss(model(xb), yb).sqrt()", unsound="a root of a mean"),
            "small": Part(
                before=plain + f"\nif run.steps >= {late}:\n    loss = loss ** 2 + loss",
                unsound="a loss that is not a mean",
                since=late,
            ),
            "pairs": Part(
                before="pred = model(xb)\nloss = F.mse_loss(pred, yb) + 0.1 * (pred - pred.T).pow(2).mean()",
                unsound="a loss over pairs",
            ),
            "memory": Part(
                declare="memory = deque(maxlen=16)", before=memory, unsound="a memory", since=late
            ),
        }[self.choose("undeclared_sum", "root", "small", "pairs", "memory")]

    def loss_of_classes(self) -> Part:
        plain = "loss = F.cross_entropy(model(xb), yb)"
        weights = "class_weights = torch.tensor([0.2, 1.0, 3.0])"
        weighted = "loss = F.cross_entropy(model(xb), yb, weight=class_weights)"
        if not self.has_flaw():
            return {
                "cross_entropy": Part(before=plain),
                "smoothed": Part(before="loss = F.cross_entropy(model(xb), yb, label_smoothing=0.1)"),
                "focal": Part(
                    before='each = F.cross_entropy(model(xb), yb, reduction="none")\n'
                    "loss = ((1 - torch.exp(-each)) ** 2 * each).mean()"
                ),
                "weighted": Part(declare=weights, before=weighted, step=", weight=class_weights[yb].sum()"),
            }[self.choose("cross_entropy", "smoothed", "focal", "weighted")]
        epoch = self.rng.randrange(1, 5)
        late = f"loss = F.cross_entropy(model(xb), yb, weight=class_weights if epoch >= {epoch} else None)"
        return {
            "undeclared_weights": Part(declare=weights, before=weighted, unsound="class weights"),
            "late_weights": Part(
                declare=weights, before=late, unsound="class weights", since=epoch * STEPS_AN_EPOCH
            ),
            "clamped": Part(before=plain + "\nloss = loss.clamp(min=0.9)", unsound="a clamp of a mean"),
        }[self.choose("undeclared_weights", "late_weights", "clamped")]

    def loss_of_tokens(self) -> Part:
        padded = "loss = F.cross_entropy(model(xb).transpose(1, 2), yb)"
        if not self.has_flaw():
            self.kinds.append("weighted_tokens")
            return Part(before=padded, step=", weight=(yb != -100).sum()")
        late = self.rng.randrange(5, 50)
        self.choose("undeclared_tokens", "late_padding")
        if self.kinds[-1] == "undeclared_tokens":
            return Part(before=padded, unsound="a mean over tokens")
        return Part(
            before=f"if run.steps < {late}:\n    yb = yb.clamp(min=0)\n{padded}",
            unsound="a mean over tokens",
            since=late,
        )

    # ------------------------------------------------------------------ cells
    def cell(self, name: str) -> Part:
        flawed = self.has_flaw()
        place = PLACES[self.choose(*self.places(flawed))]
        source = self.choose(*(s for s in SOURCES if s.startswith("own") == (flawed and not place.is_lost)))
        length = self.rng.choice((1, 5, 100, 3_000, 100_000))
        read = place.read.format(n=name, length=length)
        expression, unsound = SOURCES[source]
        if place.is_lost:
            unsound = "a value that lives in a generator"
        if place.is_unseen:
            unsound = unsound or "a value that lives in a closure or in a function's attribute"
        write = place.write.format(n=name, length=length, value=expression.format(read=read))
        part = self.effect(name, f"math.tanh({read})", source)
        part.unsound = unsound
        part.rebinds = (name,) if place.rebinds else ()
        self.set_when(part, write, source)
        declare = place.declare.format(n=name, length=length)
        setattr(part, "begin" if place.begins else "declare", declare)
        return part

    def places(self, is_flawed: bool) -> list[str]:
        """A place that is lost makes a script unsound; batches in shards take no buffers that change."""
        if is_flawed and self.rng.random() < 0.3:
            return [name for name, place in PLACES.items() if place.is_lost]
        barred = ("buffer",) if self.passes == "shards" else ()
        return [name for name, place in PLACES.items() if not place.is_lost and name not in barred]

    def set_when(self, part: Part, write: str, source: str) -> None:
        """Put the line that sets a cell where it runs."""
        late = self.rng.randrange(4, 50)
        kinds = ["each_step", "each_step", "late"]
        if source not in ("own_samples", "own_features"):
            kinds += ["head", "end"]
        match self.choose(*kinds):
            case "each_step":
                part.after += write
            case "late":
                part.after += f"if run.steps >= {late}:\n{indent(write, '    ')}"
                part.since = late
            case "head":
                part.head = f"{write}\n{part.head}"
            case "end":
                part.end = f"{write}\n{part.end}"
                part.since = STEPS_AN_EPOCH

    def effect(self, name: str, value: str, source: str) -> Part:
        kinds = ["factor", "rate", "threshold", "result"]
        if self.task != "tokens":
            kinds.append("augmentation")
        if source in ("count", "own_samples") and not any("stop = " in part.after for part in self.parts):
            kinds.append("ending")
        match self.choose(*kinds):
            case "factor":
                return Part(after_loss=f"loss = loss * (1.0 + 0.3 * {value})")
            case "rate":
                return Part(before=f'optimizer.param_groups[0]["lr"] = 0.002 * (1.0 + 0.5 * {value})')
            case "threshold":
                return Part(after_loss=f"if {value} > 0.25:\n    loss = loss * 0.7")
            case "augmentation":
                return Part(before=f"xb = xb * (1.0 + 0.2 * {value})")
            case "ending":
                return Part(after=f"stop = {value} > 0.9\n")
        return Part(end=f"run.report({name}={value})")

    # ------------------------------------------------------------------ text
    def lines(self, place: str) -> str:
        return "\n".join(text.strip("\n") for part in self.parts if (text := getattr(part, place)))

    def text(self, model: str, optimizer: str) -> str:
        options = "".join(part.elastic for part in self.parts)
        options += {"passes": ", max_local_batch=5", "shards": ", deterministic=True", "plain": ""}[
            self.passes
        ]
        elastic = f"run = train.elastic(model, optimizer, loader, epochs=8{options})"
        begin = "\n".join(filter(None, ("mean = loss = torch.zeros(())", self.lines("begin"))))
        before = [HEADER, self.lines("data"), model, optimizer, self.lines("declare")]
        rebinds = [name for part in self.parts for name in part.rebinds]
        compose: Callable[..., Iterator[str]] = {
            "at_module": self.at_module,
            "in_function": self.in_function,
            "in_method": self.in_method,
            "nested": self.nested,
        }[self.choose("at_module", "in_function", "in_method", "nested")]
        text = "\n".join(filter(None, (*before, *compose(elastic, begin, rebinds))))
        return f'"""Seed {self.seed}: {", ".join(self.kinds)}."""\n\n{text}\n'

    def batch(self) -> str:
        """The loop over the batches of an epoch."""
        losses = [part.before for part in self.parts if "loss = " in part.before]
        others = [part.before for part in self.parts if part.before and part.before not in losses]
        options = "".join(part.step for part in self.parts)
        after = self.lines("after")
        if after and self.passes != "plain":
            after = f"if run.has_stepped:\n{indent(after, '    ')}"
        body = ["optimizer.zero_grad()", *others, *losses, self.lines("after_loss")]
        body += [BACKWARD.format(options=options), self.lines("clip"), STEP, after]
        if self.has_end():
            body.append("if stop:\n    break")
        text = "\n".join(line.strip("\n") for line in body if line)
        return f"for xb, yb in run.batches():\n{indent(text, '    ')}"

    def has_end(self) -> bool:
        return any("stop = " in part.after for part in self.parts)

    def epoch(self) -> str:
        return "\n".join(
            filter(
                None,
                (
                    self.lines("head"),
                    "stop = False" if self.has_end() else "",
                    self.batch(),
                    self.lines("end"),
                ),
            )
        )

    def loop(self) -> str:
        leave = "\nif stop:\n    break" if self.has_end() else ""
        return f"for epoch in run.epochs():\n{indent(self.epoch() + leave, '    ')}"

    def at_module(self, elastic: str, begin: str, _: list[str]) -> Iterator[str]:
        yield from (elastic, begin, self.loop())

    def in_function(self, elastic: str, begin: str, rebinds: list[str]) -> Iterator[str]:
        names = [name for name in rebinds if not self.begins(name)]
        is_within = self.rng.random() < 0.5
        body = [
            f"global {', '.join(names)}" if names else "",
            elastic if is_within else "",
            begin,
            self.loop(),
        ]
        yield "" if is_within else elastic
        yield f"\n\ndef main():\n{indent(chr(10).join(filter(None, body)), '    ')}\n\n\nmain()"

    def in_method(self, elastic: str, begin: str, rebinds: list[str]) -> Iterator[str]:
        names = [name for name in rebinds if not self.begins(name)]
        declared = f"global {', '.join(names)}" if names else ""
        body = "\n".join(filter(None, (declared, "run = self.run", begin, self.loop())))
        yield (
            "\n\nclass Trainer:\n    def __init__(self):\n"
            f"{indent(elastic.replace('run =', 'self.run =', 1), '        ')}\n\n"
            f"    def fit(self):\n{indent(body, '        ')}\n\n\nTrainer().fit()"
        )

    def nested(self, elastic: str, begin: str, rebinds: list[str]) -> Iterator[str]:
        outer = [name for name in rebinds if not self.begins(name)]
        inner = ["mean", "loss", *(name for name in rebinds if self.begins(name))]
        head = [f"global {', '.join(outer)}" if outer else "", f"nonlocal {', '.join(inner)}"]
        leave = "return stop" if self.has_end() else ""
        one_epoch = "\n".join(filter(None, (*head, self.epoch(), leave)))
        loop = "if one_epoch(epoch):\n    break" if self.has_end() else "one_epoch(epoch)"
        body = (
            f"{elastic}\n{begin}\n\ndef one_epoch(epoch):\n{indent(one_epoch, '    ')}\n\n"
            f"for epoch in run.epochs():\n{indent(loop, '    ')}"
        )
        yield f"\n\ndef main():\n{indent(body, '    ')}\n\n\nmain()"

    def begins(self, name: str) -> bool:
        """Whether this name is declared where the loop is."""
        return any(name in part.rebinds and part.begin for part in self.parts)
