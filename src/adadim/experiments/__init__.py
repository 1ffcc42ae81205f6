"""The experiments: each a package with what is run, what follows from the results, its figures and its commands.

`paper` repeats the figures of the paper and judges its claims. `comparison` runs every policy on families of problems
that differ in kind. `field` repeats tables of other papers. `tradeoff` holds the Pareto frontier, the lower bound and
measured rates.

>>> import adadim
>>> list(adadim.experiments.paper.FIGURES)
['fig2a', 'fig2b', 'fig3a', 'fig3b', 'fig4a', 'fig4b']
"""

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = ["comparison", "field", "paper", "tradeoff"]

if TYPE_CHECKING:
    from adadim.experiments import comparison, field, paper, tradeoff
else:  # each is imported when first asked for

    def __getattr__(name):
        if name in __all__:
            return import_module(f"adadim.experiments.{name}")
        raise AttributeError(f"module 'adadim.experiments' has no attribute {name!r}; choose from {', '.join(__all__)}")
