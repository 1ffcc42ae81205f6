"""The ridge posterior on a fixed action set: mean and width of every arm, exact, updated in place."""

from __future__ import annotations

from typing import Literal

from adadim.actions import ActionSet
from adadim.errors import InvalidValueError
from adadim.posterior.base import Posterior
from adadim.posterior.feature import FeaturePosterior
from adadim.posterior.gram import GramPosterior

__all__ = ["FeaturePosterior", "Form", "GramPosterior", "Posterior", "check_form", "posterior"]

Form = Literal["auto", "gram", "feature"]

# A flop of syrk costs about a fifth of a number streamed through gemv (one thread, AVX-512, K from 400 to 2400);
# `benchmarks/engine.py` measures both forms.
STREAM_TO_FLOP = 5.0


def posterior(actions: ActionSet, ridge: float, form: Form = "auto") -> Posterior:
    """Posterior of the cheaper form for this action set.

    Per new arm the Gram form does K^2 flops of a symmetric rank-k product; the feature form streams the K_0 d
    features and the d^2 entries of V^-1.

    Examples
    --------
    >>> import numpy as np
    >>> type(posterior(ActionSet(np.eye(4)), ridge=1.0)).__name__
    'GramPosterior'
    """
    check_form(form)
    if form == "auto":
        streamed = actions.base_arms * actions.dim + actions.dim**2
        form = "gram" if actions.arms**2 <= STREAM_TO_FLOP * streamed else "feature"
    return GramPosterior(actions, ridge) if form == "gram" else FeaturePosterior(actions, ridge)


def check_form(form: str) -> None:
    """Raise unless `form` is a known one."""
    if form not in ("auto", "gram", "feature"):
        raise InvalidValueError(f"form must be 'auto', 'gram' or 'feature', got {form!r}")
