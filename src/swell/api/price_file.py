"""What device hours cost: a file that the operator writes."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import yaml

from swell.api.errors import InvalidOption
from swell.api.job_file import PlainLoader
from swell.model.device_usage import Prices
from swell.model.job import JobClass

EXAMPLE = (
    "`currency: EUR`, and `per_device_hour: {strict: 2.0, soft: 1.0, best_effort: 0.5}`; "
    "`kind_factors: {a100: 2}` is optional"
)
MOST_PRICE = 1e9


def load_prices(path: Path) -> Prices | None:
    """The prices of the file; None without it.

    Raises:
        InvalidOption: the file cannot be read, or holds something else.
    """
    try:
        return decode_prices(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InvalidOption(f"{path} has no prices ({error}); write {EXAMPLE}") from error


def decode_prices(text: bytes) -> Prices:
    """The prices that such a file has. Raises ValueError: it is no such file."""
    try:
        prices = msgspec.convert(yaml.load(text.decode(), PlainLoader), Prices)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise ValueError(" ".join(str(error).split())) from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if missing := [str(job_class) for job_class in JobClass if job_class not in prices.per_device_hour]:
        raise ValueError(f"per_device_hour has no price for class {missing[0]}")
    named = {f"per_device_hour of {name}": price for name, price in prices.per_device_hour.items()}
    named |= {f"kind_factors of {name}": factor for name, factor in prices.kind_factors.items()}
    for name, number in named.items():
        if not (math.isfinite(number) and 0.0 <= number <= MOST_PRICE):
            raise ValueError(f"{name} is {number:g}; it must be from 0 to {MOST_PRICE:g}")
    if not prices.currency.strip() or len(prices.currency) > 10:
        raise ValueError("currency has 1 to 10 characters, such as EUR")
    return prices
