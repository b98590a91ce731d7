"""A perceptron with one hidden layer reads handwritten digits, in NumPy alone.

It knows nothing of Swell, nor of torch: each fiftieth step it prints a line with its step and its loss, the
mean cross-entropy since the line before, and at the end the held-out accuracy.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

NUM_DIGITS, NUM_HELD_OUT = 10, 360
TELL_EVERY = 50

Array = NDArray[np.float32]


class Perceptron:
    """Two layers of weights, trained by gradient descent."""

    def __init__(self, num_inputs: int, width: int, draw: np.random.Generator) -> None:
        self.first = _weights(num_inputs, width, draw)
        self.second = _weights(width, NUM_DIGITS, draw)

    def probabilities(self, inputs: Array) -> tuple[Array, Array]:
        """Return what the hidden layer says, (B, W), and the probability of each digit, (B, 10)."""
        hidden = np.maximum(_with_bias(inputs) @ self.first, 0.0)
        outputs = _with_bias(hidden) @ self.second
        powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return hidden, powers / powers.sum(axis=1, keepdims=True)

    def step(self, inputs: Array, labels: NDArray[np.int64], rate: float) -> float:
        """Descend by the gradient of a batch. Returns the mean cross-entropy before."""
        hidden, found = self.probabilities(inputs)
        rows = np.arange(len(labels))
        loss = -float(np.mean(np.log(found[rows, labels] + 1e-12)))
        slope = found.copy()
        slope[rows, labels] -= 1.0
        slope /= len(labels)
        back = (slope @ self.second[:-1].T) * (hidden > 0.0)
        self.second -= rate * (_with_bias(hidden).T @ slope)
        self.first -= rate * (_with_bias(inputs).T @ back)
        return loss


def _weights(num_inputs: int, num_outputs: int, draw: np.random.Generator) -> Array:
    """The last row is the bias, and begins with zeros."""
    scaled = draw.standard_normal((num_inputs, num_outputs)) * np.sqrt(2.0 / num_inputs)
    return np.vstack([scaled, np.zeros((1, num_outputs))]).astype(np.float32)


def _with_bias(inputs: Array) -> Array:
    return np.hstack([inputs, np.ones((len(inputs), 1), dtype=np.float32)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=96, help="pictures a step")
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    draw = np.random.default_rng(args.seed)
    data = load_digits()
    pictures, labels = (data.data / 16.0).astype(np.float32), data.target.astype(np.int64)
    order = draw.permutation(len(labels))
    held_out, trained = order[:NUM_HELD_OUT], order[NUM_HELD_OUT:]
    model = Perceptron(pictures.shape[1], args.width, draw)
    losses: list[float] = []
    for step in range(1, args.steps + 1):
        batch = draw.choice(trained, args.batch, replace=False)
        losses.append(model.step(pictures[batch], labels[batch], args.lr))
        if step % TELL_EVERY == 0 or step == args.steps:
            print(json.dumps({"step": step, "loss": float(np.mean(losses))}), flush=True)
            losses.clear()
    answers = model.probabilities(pictures[held_out])[1].argmax(axis=1)
    print(f"accuracy={float(np.mean(answers == labels[held_out])):.4f}", flush=True)


if __name__ == "__main__":
    main()
