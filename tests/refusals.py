"""A good problem and instance to spoil, and what it means to refuse."""

import numpy as np
import pytest

from adadim import AdadimError, Instance, Problem

GOOD = np.eye(3)


def problem(**changes):
    arguments = {"features": GOOD, "horizon": 10, "noise": 0.1} | changes
    return Problem(arguments.pop("features"), **arguments)


def instance(**changes):
    arguments = {"features": GOOD, "theta": [0.1, 0.2, 0.3], "horizon": 10, "noise": 0.1} | changes
    return Instance(arguments.pop("features"), **arguments)


def assert_refuses(error, message, call, *arguments, **options):
    """Every error is of the built-in class that fits, and one of the library's own."""
    with pytest.raises(error, match=message) as caught:
        call(*arguments, **options)
    assert isinstance(caught.value, AdadimError)
