"""The ridge posterior: mean and width of every arm, exact, updated in place; on fixed arms, or where they change."""

from __future__ import annotations

from typing import Literal, get_args

from adadim.core.actions import ActionSet
from adadim.core.arrays import Array
from adadim.core.checks import one_of
from adadim.core.rows import Replications
from adadim.models.context import ContextPosterior, DeviceContextPosterior
from adadim.models.cost import cheaper_form
from adadim.models.fixed import HostFeature, HostGram, Posterior
from adadim.models.tensors import DeviceFeature, DeviceGram

__all__ = ["Form", "Posterior", "context_posterior", "posterior"]

Form = Literal["auto", "gram", "feature"]


def posterior(actions: ActionSet, ridge: float, form: Form = "auto") -> Posterior:
    """Posterior in the form asked for, or in the cheaper one for this action set."""
    one_of(form, "form", get_args(Form))
    if form == "auto":
        form = cheaper_form(actions.arms, actions.base_arms, actions.dim)
    if actions.on_host:
        return HostGram(actions, ridge) if form == "gram" else HostFeature(actions, ridge)
    return DeviceGram(actions, ridge) if form == "gram" else DeviceFeature(actions, ridge)


def context_posterior(reference: Array, dim: int, ridge: float) -> ContextPosterior | DeviceContextPosterior:
    """Regression on features that come with each round, in the library and on the device of `reference` (R, ...)."""
    if Replications.all(reference).on_host:
        return ContextPosterior(len(reference), dim, ridge)
    return DeviceContextPosterior(reference, dim, ridge)
