"""A bidirectional LSTM with a conditional random field finds the words of a text without spaces.

Each letter of Python's language reference has a tag: a word of one letter, or the begin, the middle or the
end of a longer one. The loss is the negative log-likelihood of the tags, in nats a letter; the share of tags
that are right in held-out text is reported.
Written for one device. What makes it elastic are the lines with `train` and `run`.
"""

from __future__ import annotations

import argparse
from enum import IntEnum

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.demo.text import HELD_OUT_CHARACTERS, SYMBOLS, encode, first_characters, whole_text


class WordTag(IntEnum):
    """Where a letter stands in its word."""

    SINGLE = 0
    BEGIN = 1
    MIDDLE = 2
    END = 3


LENGTH = 24
NUM_TAGS = len(WordTag)


def tagged_sequences(num_sequences: int, length: int) -> tuple[TensorDataset, Tensor, Tensor]:
    """Sequences of the text's letters without the space between words, each with a tag for each letter.

    Returns: `num_sequences` of `length` letters to train on, then letters and tags that are held out,
    (H, length) each, from a part of the text that training does not see.
    """
    words, what = whole_text().split(), f"{num_sequences} sequences of {length} letters"
    text = first_characters("".join(words), num_sequences * length, what)
    tags = torch.tensor([tag for word in words for tag in tags_of(word)][: len(text)], dtype=torch.int64)
    num_held_out = HELD_OUT_CHARACTERS // length * length
    held_out = [part[:num_held_out].view(-1, length) for part in (encode(text), tags)]
    trained = [part[HELD_OUT_CHARACTERS:].view(-1, length) for part in (encode(text), tags)]
    return TensorDataset(*trained), held_out[0], held_out[1]


def tags_of(word: str) -> list[int]:
    """Return a `WordTag` for each letter of a word that has some."""
    if len(word) == 1:
        return [int(WordTag.SINGLE)]
    return [int(WordTag.BEGIN), *[int(WordTag.MIDDLE)] * (len(word) - 2), int(WordTag.END)]


class WordTagger(nn.Module):
    """Embedding, one LSTM layer in both directions, and a chain of tags with a score for each pair."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(SYMBOLS), 24)
        self.lstm = nn.LSTM(24, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, NUM_TAGS)
        self.pairs = nn.Parameter(torch.zeros(NUM_TAGS, NUM_TAGS))  #: score of a tag (row) before another

    def forward(self, letters: Tensor, tags: Tensor) -> Tensor:
        """(B, L) letters and their tags -> mean negative log-likelihood of a tag."""
        scores = self.scores(letters)
        chosen = scores.gather(2, tags.unsqueeze(2)).sum(dim=(1, 2))
        chosen = chosen + self.pairs[tags[:, :-1], tags[:, 1:]].sum(dim=1)
        return (self._log_partition(scores) - chosen).mean() / letters.shape[1]

    def scores(self, letters: Tensor) -> Tensor:
        """(B, L) letters -> (B, L, T) score of each tag, its neighbours aside."""
        states, _ = self.lstm(self.embedding(letters))
        found: Tensor = self.head(states)
        return found

    def _log_partition(self, scores: Tensor) -> Tensor:
        """(B,) logarithm of the sum over all chains of tags: the forward algorithm."""
        total = scores[:, 0]
        for at in range(1, scores.shape[1]):
            total = torch.logsumexp(total.unsqueeze(2) + self.pairs, dim=1) + scores[:, at]
        return torch.logsumexp(total, dim=1)

    @torch.no_grad()
    def best_tags(self, letters: Tensor) -> Tensor:
        """(B, L) letters -> (B, L) the most likely chain of tags: Viterbi's algorithm."""
        scores = self.scores(letters)
        total, before = scores[:, 0], []
        for at in range(1, scores.shape[1]):
            best, which = (total.unsqueeze(2) + self.pairs).max(dim=1)
            before.append(which)
            total = best + scores[:, at]
        chain = [total.argmax(dim=1, keepdim=True)]
        for which in reversed(before):
            chain.append(which.gather(1, chain[-1]))
        return torch.cat(chain[::-1], dim=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32, help="sequences a step, all workers together")
    parser.add_argument("--sequences", type=int, default=4096, help="sequences an epoch")
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    training, letters, tags = tagged_sequences(args.sequences, LENGTH)
    model = WordTagger(args.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    loader = DataLoader(training, batch_size=args.batch, shuffle=True)
    run = train.elastic(model, optimizer, loader, epochs=args.epochs, seed=args.seed)
    for epoch in run.epochs():
        for x, y in run.batches():
            optimizer.zero_grad()
            loss = model(x, y)
            loss.backward()
            run.step(loss)
        device = next(model.parameters()).device
        share_right = float((model.best_tags(letters.to(device)) == tags.to(device)).float().mean())
        run.report(accuracy=share_right)
        if run.is_leader:
            print(f"epoch {epoch}: accuracy={share_right:.4f}", flush=True)


if __name__ == "__main__":
    main()
