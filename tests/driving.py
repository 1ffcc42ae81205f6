"""Earlier names of what `small_problems` and `stepping` hold."""

from small_problems import in_torch, small
from small_problems import with_range as told
from stepping import Stepper as Driver

__all__ = ["Driver", "in_torch", "small", "told"]
