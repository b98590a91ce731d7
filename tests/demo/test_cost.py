"""Eight paced devices on two cores: the real work must be a small part of what the pace pretends."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from swell.demo import cnn, letters, vae
from swell.demo.digits import digits
from swell.demo.jobs import NUM_DEVICES, PACE_PER_S
from swell.demo.text import SYMBOLS, next_letter_loss

LOCAL_BATCH = 16
CORES_SHARE = 0.6  # of one core, for all devices at full pace; all-reduces and the platform need the rest

Loss = Callable[[nn.Module], Tensor]


def drawn_letters() -> tuple[Tensor, Tensor]:
    drawn = torch.randint(len(SYMBOLS), (LOCAL_BATCH, 33))
    return drawn[:, :-1], drawn[:, 1:]


def workloads() -> dict[str, tuple[nn.Module, Loss]]:
    images, labels = digits()[0][:LOCAL_BATCH]
    x, y = drawn_letters()
    return {
        "cnn": (cnn.build_model(), lambda model: nn.functional.cross_entropy(model(images), labels)),
        "vae": (vae.Vae(128), lambda model: model(images)),
        "gru": (letters.LetterReader(96), lambda model: next_letter_loss(model, x, y)),
        "transformer": (
            letters.LetterTransformer(64, 2),
            lambda model: next_letter_loss(model, x, y),
        ),
    }


@pytest.mark.bench
@pytest.mark.parametrize("name", ["cnn", "vae", "gru", "transformer"])
def test_real_work_of_a_sample(name: str) -> None:
    torch.set_num_threads(1)
    model, loss_of = workloads()[name]
    optimizer = torch.optim.Adam(model.parameters())
    num_steps = 30
    for step in range(num_steps + 5):
        if step == 5:
            begun_s = time.process_time()
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
    sample_s = (time.process_time() - begun_s) / num_steps / LOCAL_BATCH
    cores = sample_s * PACE_PER_S * NUM_DEVICES
    print(f"\n{name}: {sample_s * 1e3:.3f} ms a sample, {cores:.2f} cores for {NUM_DEVICES} devices")
    assert cores < CORES_SHARE
