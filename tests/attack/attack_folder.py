"""The attack, which lies in a folder of its own."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from attack.__main__ import SUBJECTS, attacked

__all__ = ["SUBJECTS", "attacked"]
