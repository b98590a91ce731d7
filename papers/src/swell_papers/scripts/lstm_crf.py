"""A bidirectional LSTM with a conditional random field finds the words of a text without spaces.

Each letter of Python's language reference has a tag: a word of one letter, or the begin, the middle or the
end of a longer one. The loss is the negative log-likelihood of the tags, in nats a letter; the one on
held-out text is reported.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from swell.demo.text import HELD_OUT_CHARACTERS, SYMBOLS, encode, first_characters, whole_text
from swell_papers.scripts.main_loop import train_model

NUM_SEQUENCES, LENGTH, WIDTH = 4096, 24, 48
NUM_TAGS = 4
SINGLE, BEGIN, MIDDLE, END = range(NUM_TAGS)


def tagged_sequences(num_sequences: int, length: int) -> tuple[TensorDataset, Tensor, Tensor]:
    """Sequences of the text's letters without the space between words, each with a tag for each letter.

    Returns: `num_sequences` of `length` letters to train on, then letters and tags that are held out,
    (H, length) each, from a part of the text that training does not see.
    """
    words, what = whole_text().split(), f"{num_sequences} sequences of {length} letters"
    text = first_characters("".join(words), num_sequences * length, what)
    tags = torch.tensor([tag for word in words for tag in tags_of(word)][: len(text)])
    num_held_out = HELD_OUT_CHARACTERS // length * length
    held_out = [part[:num_held_out].view(-1, length) for part in (encode(text), tags)]
    trained = [part[HELD_OUT_CHARACTERS:].view(-1, length) for part in (encode(text), tags)]
    return TensorDataset(*trained), held_out[0], held_out[1]


def tags_of(word: str) -> list[int]:
    """Return a tag for each letter of a word that has some."""
    return [BEGIN, *[MIDDLE] * (len(word) - 2), END] if len(word) > 1 else [SINGLE]


class WordTagger(nn.Module):
    """Embedding, one LSTM layer in both directions, and a chain of tags with a score for each pair."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(SYMBOLS), 24)
        self.lstm = nn.LSTM(24, WIDTH, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * WIDTH, NUM_TAGS)
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


if __name__ == "__main__":
    data = tagged_sequences(NUM_SEQUENCES, LENGTH)
    train_model(__doc__.splitlines()[0], WordTagger, data, WordTagger.__call__, epochs=4)
