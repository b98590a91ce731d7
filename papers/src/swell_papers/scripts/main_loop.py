"""The main program of scripts that train one model in PyTorch and report its loss on held-out data."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train


def train_model(
    told: str,
    new_model: Callable[[], nn.Module],
    data: tuple[TensorDataset, Tensor, Tensor],
    loss_of: Callable[[nn.Module, Tensor, Tensor], Tensor],
    epochs: int,
) -> None:
    """Train as the command line says.

    Args:
        told: what the script does, for `--help`.
        data: what to train on, then inputs and answers that are held out.
        loss_of: the mean loss of a model on inputs and their answers.
        epochs: unless the command line says otherwise.
    """
    parser = argparse.ArgumentParser(description=told)
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--batch", type=int, default=64, help="samples a step, all workers together")
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()

    torch.manual_seed(0)
    training, inputs, answers = data
    model = new_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    loader = DataLoader(training, batch_size=args.batch, shuffle=True)
    run = train.elastic(model, optimizer, loader, epochs=args.epochs)
    for epoch in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            loss = loss_of(model, x, y)
            run.backward(loss)
            run.step()
        device = next(model.parameters()).device
        with torch.no_grad():
            held_out = loss_of(model, inputs.to(device), answers.to(device)).item()
        run.report(held_out_loss=held_out)
        if run.is_leader:
            print(f"epoch {epoch}: held_out_loss={held_out:.4f}", flush=True)
