"""Text that ships with every Python: the language reference behind `help('...')`, `pydoc_data.topics`."""

from __future__ import annotations

from pydoc_data.topics import topics

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

SYMBOLS = "\n" + "".join(map(chr, range(32, 127)))  #: newline and printable ASCII; others read as a space
HELD_OUT_CHARACTERS = 8_192


def encode(text: str) -> Tensor:
    """(N,) indices into `SYMBOLS`."""
    numbers = {symbol: number for number, symbol in enumerate(SYMBOLS)}
    return torch.tensor([numbers.get(symbol, numbers[" "]) for symbol in text], dtype=torch.int64)


def sequences(num_sequences: int, length: int) -> tuple[TensorDataset, Tensor, Tensor]:
    """Sequences that follow one another in the text, each with itself moved on by one symbol as answer.

    Returns: `num_sequences` of `length` symbols to train on, then inputs and answers that are held out,
    (H, length) each, from a part of the text that training does not see.
    """
    what = f"{num_sequences} sequences of {length} symbols"
    text = first_characters(whole_text(), num_sequences * length + 1, what)
    symbols = encode(text)
    held_out, trained = symbols[: HELD_OUT_CHARACTERS + 1], symbols[HELD_OUT_CHARACTERS:]
    train_inputs, train_answers = trained[:-1].view(-1, length), trained[1:].view(-1, length)
    num_held_out = HELD_OUT_CHARACTERS // length
    inputs = held_out[: num_held_out * length].view(-1, length)
    answers = held_out[1 : num_held_out * length + 1].view(-1, length)
    return TensorDataset(train_inputs, train_answers), inputs, answers


def whole_text() -> str:
    """The whole language reference."""
    return "".join(topics[name] for name in sorted(topics))


def first_characters(text: str, num_trained: int, what: str) -> str:
    """Return what is held out of a text, and so many characters more. Raises ValueError if it is shorter."""
    num_wanted = HELD_OUT_CHARACTERS + num_trained
    if len(text) < num_wanted:
        raise ValueError(
            f"{what} need {num_wanted} characters but this Python's topics have {len(text)}; "
            "ask for fewer sequences"
        )
    return text[:num_wanted]


def next_letter_loss(model: nn.Module, letters: Tensor, answers: Tensor) -> Tensor:
    """Mean cross-entropy of the next letter, in nats."""
    return nn.functional.cross_entropy(model(letters).flatten(0, 1), answers.flatten())


def held_out_loss(model: nn.Module, letters: Tensor, answers: Tensor) -> float:
    """The same, without gradients, wherever the model is."""
    device = next(model.parameters()).device
    with torch.no_grad():
        return next_letter_loss(model, letters.to(device), answers.to(device)).item()
