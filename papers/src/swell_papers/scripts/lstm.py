"""A long short-term memory learns to write Python's language reference, letter by letter.

The loss is the cross-entropy of the next letter, in nats; the one on held-out text is reported.
"""

from __future__ import annotations

from torch import Tensor, nn

from swell.demo.text import SYMBOLS, next_letter_loss, sequences
from swell_papers.scripts.main_loop import train_model

NUM_SEQUENCES, LENGTH, WIDTH = 8192, 16, 64


class LetterLstm(nn.Module):
    """Embedding, one LSTM layer and a linear head of S logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(SYMBOLS), 24)
        self.lstm = nn.LSTM(24, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, len(SYMBOLS))

    def forward(self, letters: Tensor) -> Tensor:
        """(B, L) letters -> (B, L, S) logits of the letter that follows each."""
        states, _ = self.lstm(self.embedding(letters))
        logits: Tensor = self.head(states)
        return logits


if __name__ == "__main__":
    data = sequences(NUM_SEQUENCES, LENGTH)
    train_model(__doc__.splitlines()[0], LetterLstm, data, next_letter_loss, epochs=4)
