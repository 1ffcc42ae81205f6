"""One file per algorithm."""

from adadim.policies import released
from adadim.policies.base import Decision, Learner, Policy
from adadim.policies.evidence import EvidenceLinUCB
from adadim.policies.greedy import Greedy
from adadim.policies.lints import LinTS
from adadim.policies.linucb import LinUCB
from adadim.policies.linucbpp import LinUCBPlusPlus
from adadim.policies.masters import Corral, DynamicBalancing, LinUCBPlusPlusCorral, SmoothCorral
from adadim.policies.single import Single
from adadim.policies.suplinucb import SupLinUCB
from adadim.policies.tapered import TaperedLinUCB
from adadim.policies.ucb import UCB
from adadim.policies.uniform import Random

__all__ = [
    "UCB",
    "Corral",
    "Decision",
    "DynamicBalancing",
    "EvidenceLinUCB",
    "Greedy",
    "Learner",
    "LinTS",
    "LinUCB",
    "LinUCBPlusPlus",
    "LinUCBPlusPlusCorral",
    "Policy",
    "Random",
    "Single",
    "SmoothCorral",
    "SupLinUCB",
    "TaperedLinUCB",
]


def kinds() -> dict[str, type[Policy]]:
    """Every policy class of the library by name, those of `released` included: what a file may name.

    Examples
    --------
    >>> kinds()["UCB"](delta=0.1)
    UCB(index='self-normalised', delta=0.1, scale=1.0, ties='random')
    """
    public = {name: globals()[name] for name in __all__} | {name: getattr(released, name) for name in released.__all__}
    classes = {name: value for name, value in public.items() if isinstance(value, type)}
    return {name: kind for name, kind in classes.items() if issubclass(kind, Policy) and kind is not Policy}
