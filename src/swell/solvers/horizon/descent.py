"""Prices at which the Lagrangian bound is low: subgradient descent with space dilation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.compiled import suited
from swell.solvers.horizon.pricing import PricingProblems, choose

#: Space is contracted by so much along the difference of two subgradients (Shor's r-algorithm).
CONTRACTION = 0.5
#: After so many prices without a lower bound the descent begins again at the best ones, with shorter steps.
PATIENCE = 12
#: At first the prices of all devices and steps together come to this share of the best value known.
FIRST_SHARE = 0.45
LEAST_SLOPE = 1e-12


@dataclass
class PriceDescent:
    """Lowers sum_t price_t N + sum_j max_plan(value - price), which no answer exceeds, at any prices >= 0.

    Steps have Polyak's length: to where the bound would equal the best value known, were it linear.

    References: Shor, "Minimization Methods for Non-differentiable Functions", 1985, chapter 3 (space
        dilation along differences of subgradients); Polyak, "Minimization of unsmooth functionals", 1969
        (step length); Fisher, "The Lagrangian relaxation method for solving integer programming problems",
        1981.
    """

    of: PricingProblems
    num_devices: int
    prices: FloatArray  #: (T,) to be tried next
    best_prices: FloatArray = field(init=False)
    bound: float = np.inf
    is_flat: bool = False  #: the bound cannot be lowered
    _shortening: float = 1.0
    _num_idle: int = 0

    def __post_init__(self) -> None:
        self.best_prices = self.prices.copy()
        #: (J, T) best plans at the best prices, and at the latest; there may not be devices enough for them.
        self.level = self.latest_level = np.zeros((len(self.of.num), len(self.prices)), dtype=np.int64)
        self._dilation = np.eye(len(self.prices))
        self._slope_before: FloatArray | None = None

    @classmethod
    def begin(cls, of: PricingProblems, num_devices: int, value: float) -> PriceDescent:
        """Args: `value` is that of some answer."""
        shares = of.rest[:-1] / max(float(of.rest[:-1].sum()), LEAST_SLOPE)
        return cls(of, num_devices, FIRST_SHARE * value / max(num_devices, 1) * shares)

    def step(self, value: float) -> None:
        """Try the next prices. `value` is that of the best answer known."""
        self.latest_level = level = np.empty_like(self.level)
        net = choose(self.of, self.prices, level)
        bound = net + self.num_devices * _sum(self.prices)
        if bound < self.bound:
            self._num_idle = 0
            self.bound, self.level = bound, level
            self.best_prices = self.prices.copy()
        else:
            self._num_idle += 1
        slope = np.full(len(self.prices), float(self.num_devices))
        suited(_take_devices, len(level))(self.of.devices, level, slope)
        slope[(self.prices <= 0.0) & (slope > 0.0)] = 0.0  # prices are not negative
        if self._num_idle >= PATIENCE:
            self._begin_again()
            return
        self._dilate(slope)
        turned = _product(self._dilation.T, slope)
        length = _sum(turned * turned)
        if length < LEAST_SLOPE:
            self.is_flat = not slope.any()
            self._begin_again()
            return
        direction = _product(self._dilation, turned)
        self.prices = np.maximum(0.0, self.prices - self._shortening * (bound - value) / length * direction)

    def _dilate(self, slope: FloatArray) -> None:
        if self._slope_before is not None:
            difference = _product(self._dilation.T, slope - self._slope_before)
            length = _sum(difference * difference) ** 0.5
            if length > LEAST_SLOPE:
                along = difference / length
                self._dilation += (CONTRACTION - 1.0) * np.outer(_product(self._dilation, along), along)
        self._slope_before = slope

    def _begin_again(self) -> None:
        self.prices = self.best_prices.copy()
        self._dilation = np.eye(len(self.prices))
        self._slope_before = None
        self._num_idle = 0
        self._shortening /= 2.0


def _sum(values: FloatArray) -> float:
    """Sum from left to right; the order of additions in a library's sum may depend on the machine."""
    total = 0.0
    for value in values.tolist():
        total += value
    return total


def _product(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    """Summed from left to right, too."""
    product = np.zeros(len(matrix))
    suited(_multiply, len(matrix))(np.ascontiguousarray(matrix), vector, product)
    return product


def _take_devices(devices: IntArray, level: IntArray, left: FloatArray) -> None:
    """Take what each taker has in each step from what is left."""
    for row in range(len(level)):
        for step in range(len(left)):
            left[step] -= devices[row, level[row, step]]


def _multiply(matrix: FloatArray, vector: FloatArray, product: FloatArray) -> None:
    for row in range(len(product)):
        for column in range(len(vector)):
            product[row] += matrix[row, column] * vector[column]
