"""Parameters that policies of several kinds have, each declared once with its guard (see `checks.check_fields`).

`SHARED` says what they are, for classes whose own docstring does not describe them (`complete_docstring`).
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable
from functools import cache, partial
from typing import Annotated, Any, Literal

from adadim.core.arrays import Array, clamp
from adadim.core.checks import between, integer, is_number, not_negative, positive, shown
from adadim.core.ties import Ties as Ties
from adadim.errors import InvalidValueError
from adadim.models import Form as Form
from adadim.models.likelihoods import Likelihood as Likelihood
from adadim.models.memory import checked_memory


def nested_dims(dim: int, ambient: bool = False) -> list[int]:
    """Dimensions 2^0, 2^1, ..., 2^(M-1) with M = ceil(log2 d), and d itself with `ambient`."""
    dims = [2**i for i in range(max(1, math.ceil(math.log2(dim))))]
    return [*dims, dim] if ambient and dims[-1] < dim else dims


def loss(rewards: Array, loss_range: tuple[float, float]) -> Array:
    """Rewards in [lo, hi] as losses in [0, 1], clipped."""
    lo, hi = loss_range
    return clamp((hi - rewards) / (hi - lo), 0.0, 1.0)


def check_loss_range(value: Any, name: str) -> None:
    """Raise unless `value` is (lo, hi) with lo < hi."""
    pair = isinstance(value, tuple | list) and len(value) == 2 and all(map(is_number, value))
    if not pair or not -math.inf < value[0] < value[1] < math.inf:
        raise InvalidValueError(f"{name} must be (lowest, highest) reward with lowest < highest, got {shown(value)}")


def check_bayes_factor(value: Any, name: str) -> None:
    """Raise unless `value` can be the Bayes factor that rules a ridge out."""
    if positive(value, name, "a Bayes factor, e.g. 20") < 1:
        raise InvalidValueError(f"{name} must be at least 1 (the Bayes factor that rules a ridge out), got {value!r}")


def check_tapers(value: Any, name: str) -> None:
    """Raise unless `value` is an exponent of the ridge, or several to choose from."""
    for exponent in value if isinstance(value, tuple) and value else (value,):
        not_negative(exponent, name)


def check_radius_rule(value: Any, name: str) -> None:
    """Raise unless `value` is a known rule or a non-negative number."""
    if isinstance(value, str):
        if value not in RADIUS_RULES:
            listed = ", ".join(map(repr, RADIUS_RULES))
            raise InvalidValueError(f"{name} must be {listed} or a number, got {value!r}")
    elif not is_number(value) or not 0 <= value < math.inf:
        raise InvalidValueError(f"{name} must be a non-negative finite number or a rule, got {shown(value)}")


def check_factor(value: Any, name: str, meaning: str) -> None:
    """Raise unless `value` is a positive number by which a radius can be multiplied without overflow."""
    if positive(value, name, meaning) > MAX_FACTOR:
        raise InvalidValueError(f"{name} must be at most {MAX_FACTOR:g} ({meaning}), got {shown(value)}")


MAX_FACTOR = 1e100
ADAPTIVE_RULES = ("oful", "oful-2011")  # rules of the radius that look at the data
RADIUS_RULES = ("noise", "full", "paper", *ADAPTIVE_RULES)

BayesFactor = Annotated[float, check_bayes_factor]
Beta = Annotated[float, partial(between, low=0.5, high=1, ends="[)")]
Bonus = Literal["norm", "squared"]
Decay = Annotated[float, not_negative]
Delta = Annotated[float, partial(between, low=0, high=1, ends="()")]
Dim = Annotated[int, partial(integer, meaning="or None for all features")]
HalfLife = Annotated[float | Literal["auto"], checked_memory]
Index = Literal["self-normalised", "subgaussian", "ucb1", "released"]
LossRange = Annotated[tuple[float, float], check_loss_range]
Probes = Annotated[int, partial(integer, least=0, meaning="rounds")]
Radius = Annotated[Literal["noise", "full", "paper", "oful", "oful-2011"] | float, check_radius_rule]
RadiusScale = Annotated[float, partial(check_factor, meaning="a factor on the radius")]
Ridge = Annotated[float, partial(positive, meaning="the regularisation lambda, e.g. 0.1")]
Taper = Annotated[float, not_negative]
Tapers = Annotated[float | tuple[float, ...], check_tapers]
ThetaNorm = Annotated[float, partial(positive, meaning="a bound on the norm of theta, e.g. 1")]
WidthScale = Annotated[float, partial(check_factor, meaning="a factor on the confidence width")]

SHARED = """
ambient : bool
    Add a base in all d features.
base : LinUCB
    Template of the nested bases; its `dim` is set for each.
bases : tuple of Policy
    Base policies; empty for `base` in nested dimensions 1, 2, 4, ...
beta : float in [0.5, 1)
    Where on the Pareto frontier to be: the regret is of order T^max(beta, 1 + alpha - beta) for d* = T^alpha. 0.5
    favours easy problems; (1 + alpha) / 2 is best if alpha is known.
bonus : {"norm", "squared"}
    Width sqrt(a^T V^-1 a) as in the theory, or its square, as in the authors' released code.
c : float
    Factor on the width of a mean.
complexities : tuple of float, optional
    d_i in the bounds (number of arms, or dimension); by default the dimension of each base.
delta : float, optional
    Confidence; 1/sqrt(T) by default.
dim : int, optional
    Learn in the first `dim` features; all of them by default.
dims : tuple of int, optional
    Dimensions of the nested classes, increasing; by default 1, 2, 4, ... and d.
expressive : bool, optional
    Pull arms cut to the iteration's features, which keeps the model linear; needs an action set closed under
    truncation. By default whatever the action set allows.
factor : float
    Bayes factor that rules a ridge out. The smallest ridge not ruled out is used, the one that explores most; 1 would
    trust the likeliest.
feedback : {"step2", "mean", "sum"}
    Which losses of a two-step round the master sees: the replay's, the mean or the sum of both.
form : {"auto", "gram", "feature"}
    How the posterior is held; the choices are the same.
likelihood : {"gaussian", "bernoulli"}
    What a reward is. "bernoulli": a click, 0 or 1 (or a share in [0, 1]), whose logit is linear in the features, with a
    constant; scores are then logits, noise need not be known, and costs of arms are in units of probability. See
    docs/clicks.md.
loss_range : (float, float)
    Rewards that count as loss 1 and loss 0.
memory : float or "auto", optional
    Half-life in decisions, for rewards that drift: what a decision taught counts half after so many further ones. With
    "auto" it is found by the data: of several, for ever among them, the longest that predicts the rewards about as well
    as the best. The weights are exact, a decision costs a factorisation (d^3 / 3), and no theorem of the library covers
    a learner that forgets. By default it forgets nothing.
radius : {"noise", "full", "paper", "oful", "oful-2011"} or float
    Multiplier of the width. "noise": sigma sqrt(2 ln(2 T^1.5 K)). "full": that plus sqrt(ridge) times `theta_norm`, the
    bound for a fixed design. "paper": the constants of the paper's corollary, which assume ridge 1 and unit noise.
    "oful": sqrt(sigma^2 (ln det(V/ridge) + 2 ln sqrt(T)) + ridge theta_norm^2), valid for adaptive designs.
    "oful-2011": that bound as published, the sum of the roots of both terms, which is up to 1.41 times as large. On a
    problem without end (``horizon=None``) the number t of the round takes the place of T, so that the radius grows.
replay : bool
    False drops the second step of every round: Stochastic Corral, without the guarantee.
reward_scale : float, optional
    Scale of the rewards, a factor on bounds and widths: 1 for rewards in [0, 1]; by default sigma + range/2 (range 1
    where it is unknown).
ridge : float
    Regularisation lambda of the least squares.
scale : float
    Factor on the radius.
theta_norm : float
    Bound on the norm of theta, where the radius has one.
ties : {"random", "lowest"}
    How equal scores are resolved.
"""
"""What the parameters are, as docstrings say it."""


def complete_docstring(kind: type, names: Iterable[str]) -> str | None:
    """The docstring of a class with all its parameters: of those that it leaves out, what its bases or `SHARED` say."""
    parts, inherited = dict(sections(kind.__doc__ or "")), dict(entries(SHARED))
    introduction, parameters = parts.pop(""), parts.pop("Parameters", "").strip("\n")
    for base in reversed(kind.__mro__[1:]):
        inherited |= entries(sections(base.__doc__ or "").get("Parameters", ""))
    written = entries(f"{parameters}\n")
    added = "".join(f"{name}{inherited[name]}" for name in names if name not in written and name in inherited)
    if not added:
        return kind.__doc__
    parts = {"Parameters": f"{parameters}\n{added}\n".lstrip("\n"), **parts}
    return introduction + "".join(f"{head}\n{'-' * len(head)}\n{body}" for head, body in parts.items())


@cache
def sections(text: str) -> dict[str, str]:
    """Parts of a docstring in NumPy's style by heading; the part before the first heading has the key ""."""
    introduction, *parts = re.split(r"^(\w+)\n-{3,}\n", f"{inspect.cleandoc(text)}\n", flags=re.MULTILINE)
    return {"": introduction, **dict(zip(parts[::2], parts[1::2], strict=True))}


@cache
def entries(section: str) -> dict[str, str]:
    """What a section says of each parameter, from the end of its name on."""
    matches = re.finditer(r"^(\w+(?:, \w+)*)((?: : .*)?\n(?:    .*\n)+)", section, flags=re.MULTILINE)
    return {name: entry[2] for entry in matches for name in entry[1].split(", ")}
