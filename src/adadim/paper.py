"""The paper's experiments: its policies."""

from __future__ import annotations

from typing import Literal

from adadim.policies import (
    DynamicBalancing,
    LinUCB,
    LinUCBPlusPlus,
    LinUCBPlusPlusCorral,
    Policy,
    SmoothCorral,
)

__all__ = ["Variant", "policies"]

Variant = Literal["theory", "released"]


def policies(variant: Variant = "theory", intrinsic_dim: int = 12, expressive: bool = False) -> dict[str, Policy]:
    """The six policies of the paper's figures.

    Parameters
    ----------
    variant : {"theory", "released"}
        "theory" follows the paper's text. "released" follows the authors' released code where it departs from it:
        squared bonus everywhere; arms rescaled in LinUCB++; the index of UCB on mixture-arms; and in Dynamic Balancing
        the upper reference, the unguarded width, ties among inactive bases and a uniform first pull of each base.
    intrinsic_dim : int
        d*, which only the oracle knows.
    expressive : bool
        Whether the action set is closed under truncation: learners in d_i features then use only the arms that are zero
        after them.

    Examples
    --------
    >>> list(policies("theory"))
    ['linucb', 'oracle', 'linucb++', 'linucb++corral', 'smooth-corral', 'dynamic-balancing']
    >>> policies("released")["linucb"].bonus
    'squared'
    """
    if variant not in ("theory", "released"):
        raise ValueError(f"variant must be 'theory' or 'released', got {variant!r}")
    released = variant == "released"
    plain = LinUCB(ridge=0.1, bonus="squared" if released else "norm")
    base = LinUCB(ridge=0.1, bonus=plain.bonus, arms="supported" if expressive else "distinct")
    first = LinUCB(ridge=0.1, bonus=plain.bonus, arms=base.arms, first_pull="uniform" if released else "optimistic")
    return {
        "linucb": plain,
        "oracle": LinUCB(ridge=0.1, bonus=plain.bonus, dim=intrinsic_dim),
        "linucb++": LinUCBPlusPlus(beta=0.5, bonus=plain.bonus, rescale=released, expressive=expressive),
        "linucb++corral": LinUCBPlusPlusCorral(
            beta=0.5, bonus=plain.bonus, expressive=expressive, index="released" if released else "self-normalised"
        ),
        "smooth-corral": SmoothCorral(base=base, beta=0.5),
        "dynamic-balancing": DynamicBalancing(
            base=first,
            reference="upper" if released else "lower",
            width="released" if released else "guarded",
            ties="all" if released else "active",
        ),
    }
