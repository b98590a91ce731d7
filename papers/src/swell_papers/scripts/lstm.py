"""A long short-term memory learns to write Python's language reference, letter by letter.

The loss is the cross-entropy of the next letter, in nats; the one on held-out text is reported.
"""

from __future__ import annotations

from functools import partial

from torch import nn

from swell.demo.letters import LetterReader
from swell.demo.text import next_letter_loss, sequences
from swell_papers.scripts.main_loop import train_model

NUM_SEQUENCES, LENGTH, WIDTH = 8192, 16, 64

if __name__ == "__main__":
    data = sequences(NUM_SEQUENCES, LENGTH)
    train_model(
        __doc__.splitlines()[0], partial(LetterReader, WIDTH, nn.LSTM), data, next_letter_loss, epochs=4
    )
