"""The ridge posterior on a fixed action set: mean and width of every arm, exact, updated in place."""

from __future__ import annotations

from typing import Literal

from adadim.actions import ActionSet
from adadim.backend.arrays import is_numpy
from adadim.checks import one_of
from adadim.posterior.base import Posterior
from adadim.posterior.cost import cheaper_form
from adadim.posterior.device import DeviceFeature, DeviceGram
from adadim.posterior.host_feature import HostFeature
from adadim.posterior.host_gram import HostGram

__all__ = ["Form", "Posterior", "check_form", "posterior"]

Form = Literal["auto", "gram", "feature"]


def posterior(actions: ActionSet, ridge: float, form: Form = "auto") -> Posterior:
    """Posterior in the form asked for, or in the cheaper one for this action set.

    Examples
    --------
    >>> import numpy as np
    >>> type(posterior(ActionSet(np.eye(4)), ridge=1.0)).__name__
    'HostGram'
    """
    check_form(form)
    if form == "auto":
        form = cheaper_form(actions.arms, actions.base_arms, actions.dim)
    if is_numpy(actions.base):
        return HostGram(actions, ridge) if form == "gram" else HostFeature(actions, ridge)
    return DeviceGram(actions, ridge) if form == "gram" else DeviceFeature(actions, ridge)


def check_form(form: str) -> None:
    """Raise unless `form` is a known one."""
    one_of(form, "form", ("auto", "gram", "feature"))
