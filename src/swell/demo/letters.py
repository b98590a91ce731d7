"""A recurrent network or a small transformer learns to write Python's language reference, letter by letter.

The loss is the cross-entropy of the next letter, in nats; the one on held-out text is reported.
Written for one device. What makes it elastic are the lines with `train` and `run`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from swell import train
from swell.demo.text import SYMBOLS, held_out_loss, next_letter_loss, sequences

LENGTH = 32
NUM_HEADS = 4


class LetterReader(nn.Module):
    """Embedding, one recurrent layer and a linear head of S logits."""

    def __init__(self, width: int = 96, layer: Callable[..., nn.Module] = nn.GRU) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(SYMBOLS), 32)
        self.gru = layer(32, width, batch_first=True)
        self.head = nn.Linear(width, len(SYMBOLS))

    def forward(self, letters: Tensor) -> Tensor:
        """(B, L) letters -> (B, L, S) logits of the letter that follows each."""
        states, _ = self.gru(self.embedding(letters))
        logits: Tensor = self.head(states)
        return logits


class LetterTransformer(nn.Module):
    """Decoder-only: every letter sees itself and those before it."""

    def __init__(self, width: int = 64, num_layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(SYMBOLS), width)
        self.positions = nn.Parameter(torch.zeros(LENGTH, width))
        layer = nn.TransformerEncoderLayer(
            width, NUM_HEADS, 2 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, len(SYMBOLS))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, letters: Tensor) -> Tensor:
        """(B, L) letters -> (B, L, S) logits of the letter that follows each."""
        states = self.embedding(letters) + self.positions
        logits: Tensor = self.head(self.layers(states, mask=self.mask, is_causal=True))
        return logits


#: Each with its learning rate, and the steps until that is full.
MODELS: dict[str, tuple[Callable[[], nn.Module], float, int]] = {
    "gru": (LetterReader, 1.5e-2, 1),
    "transformer": (LetterTransformer, 5e-3, 30),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="gru")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64, help="sequences a step, all workers together")
    parser.add_argument("--sequences", type=int, default=4096, help="sequences an epoch")
    parser.add_argument("--lr", type=float, help="default: one that suits the model")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    training, letters, answers = sequences(args.sequences, LENGTH)
    make_model, lr, warmup = MODELS[args.model]
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr or lr)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=warmup)
    loader = DataLoader(training, batch_size=args.batch, shuffle=True)
    run = train.elastic(model, optimizer, loader, epochs=args.epochs, scheduler=scheduler, seed=args.seed)
    for epoch in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            loss = next_letter_loss(model, x, y)
            run.backward(loss)
            run.step()
        held_out = held_out_loss(model, letters, answers)
        run.report(held_out_loss=held_out)
        if run.is_leader:
            print(f"epoch {epoch}: held_out_loss={held_out:.4f}", flush=True)


if __name__ == "__main__":
    main()
