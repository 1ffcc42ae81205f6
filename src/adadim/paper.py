"""`adadim.experiments.paper` under a shorter name: ``import adadim.paper`` gives that package itself."""

import sys

from adadim.experiments import paper
from adadim.experiments.paper import *  # noqa: F403 (what type checkers see)

sys.modules[__name__] = paper
