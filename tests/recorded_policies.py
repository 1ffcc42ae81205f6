"""Policies and problems that the tests of recording and of the GPU share."""

from __future__ import annotations

import numpy as np

import adadim
from adadim import paper
from adadim.core.randomness import DeviceDraws
from adadim.core.rows import Replications
from adadim.policies.released import ReleasedLinUCB
from driving import small, told


def own_policy(problem, rng):
    return Stubborn(rng.integers(len(problem.features)))


class Stubborn:
    def __init__(self, arm):
        self.arm = int(arm)

    def select(self):
        return self.arm

    def update(self, arm, reward):
        self.arm = self.arm if reward > 0 else (self.arm + 1) % 20


HORIZON = 60


def in_numpy(range_known=True, horizon=HORIZON):
    """Three replications; LinUCB++ has iterations of 16, 32 and 12 rounds, so mixture-arms come up."""
    return told(small(range(3), horizon=horizon, arms=20, dim=12), range_known)


THREE = (adadim.LinUCB(dim=2), adadim.UCB(), ReleasedLinUCB(form="feature"))
POLICIES = {
    f"{variant} {name}": policy
    for variant in ("theory", "released")
    for name, policy in paper.policies(variant, intrinsic_dim=3).items()
} | {
    "LinUCB oful feature": adadim.LinUCB(radius="oful", form="feature", ties="lowest"),
    "LinUCB++ feature": adadim.LinUCBPlusPlus(form="feature", beta=0.6),
    "LinUCB++ reuse": adadim.LinUCBPlusPlus(reuse=True),
    "LinUCB++ SupLinUCB": adadim.LinUCBPlusPlus(solver="suplinucb", ridge=1.0),
    "LinUCB++Corral once": adadim.LinUCBPlusPlusCorral(replay=False, index="ucb1"),
    "LinUCB++Corral sum": adadim.LinUCBPlusPlusCorral(feedback="sum", index="subgaussian"),
    "Smooth Corral exp3p": adadim.SmoothCorral(master="exp3p", ambient=True, feedback="mean"),
    "Smooth Corral one rate": adadim.SmoothCorral(master="exp3p", tuning="single-rate", base_regret=2.0),
    "Smooth Corral once": adadim.SmoothCorral(replay=False, loss_range=(-0.3, 0.3)),
    "Smooth Corral of three": adadim.SmoothCorral(bases=THREE),
    "Smooth Corral with Single": adadim.SmoothCorral(bases=(adadim.UCB(), adadim.Single(own_policy))),
    "Corral": adadim.Corral(eta=0.5),
    "Corral of three": adadim.Corral(bases=THREE),
    "Corral importance": adadim.Corral(feedback="importance", eta=0.2),
    "balancing of three": adadim.DynamicBalancing(bases=THREE, bound="sqrt", c=0.1),
    "balancing by a function": adadim.DynamicBalancing(bound=lambda dims, plays, arms: np.sqrt(dims * plays)),
    "bound balancing": adadim.BoundBalancing(c=0.05, bound=adadim.LinearBound(0.1), beta=0.6),
    "regret balancing": adadim.RegretBalancing(),
    "regret balancing of three": adadim.RegretBalancing(bases=THREE, bound=adadim.SqrtLogBound()),
    "D3RB": adadim.D3RB(c=0.1),
    "D3RB released": adadim.D3RB(variant="released", bases=THREE),
    "ED2RB": adadim.ED2RB(c=0.1, d_min=0.5),
    "ED2RB released": adadim.ED2RB(variant="released"),
    "combiner": adadim.BanditCombiner(z=0.1, reward_scale=0.1),
    "combiner of three": adadim.BanditCombiner(bases=THREE, targets="theory", exponents=(0.5, 0.6, 0.7)),
    "UCB corral": adadim.UCBCorral(),
    "UCB corral of three": adadim.UCBCorral(bases=THREE, copies=3, variant="released"),
    "Tsallis corral": adadim.TsallisCorral(threshold=3.0, first_plays=1),
    "Tsallis corral of three": adadim.TsallisCorral(bases=THREE, penalty=None),
    "Tsallis corral importance": adadim.TsallisCorral(feedback="importance", threshold=3.0, first_plays=2),
    "MOSS": adadim.MOSS(),
    "MOSS sample": adadim.MOSS(sample=5, scale=0.3, ties="lowest"),
    "MOSS++": adadim.MOSSPlusPlus(),
    "MOSS++ scale": adadim.MOSSPlusPlus(beta=0.6, scale=1.0),
    "empMOSS++": adadim.EmpMOSSPlusPlus(),
    "MeDZO": adadim.MeDZO(),
    "MeDZO scale": adadim.MeDZO(scale=1.0, beta=0.7),
    "parallel MOSS": adadim.ParallelMOSS(best_mean=0.5),
    "UCB": adadim.UCB(),
    "UCB1": adadim.UCB(index="ucb1", ties="lowest"),
    "Random": adadim.Random(),
    "Greedy": adadim.Greedy(),
    "SupLinUCB": adadim.SupLinUCB(),
    "tapered": adadim.TaperedLinUCB(),
    "evidence": adadim.EvidenceLinUCB(),
    "evidence with a constant": adadim.EvidenceLinUCB(taper=(0.0, 1.75), intercept=True, probes=2),
    "Single": adadim.Single(own_policy),
}
NEVER = [  # what they do next depends on the data, or on the host
    "LinUCB++ SupLinUCB",
    "Smooth Corral with Single",
    "Corral importance",
    "Tsallis corral importance",
    "balancing by a function",
    "SupLinUCB",
    "Single",
]
# A policy that is new in the library is tested with its default parameters, whatever is not said of it here.
COVERED = {type(policy) for policy in POLICIES.values()} | {type(policy) for policy in THREE}
NEW = {name: kind() for name, kind in adadim.policies.kinds().items() if kind not in COVERED}
POLICIES |= NEW
NEVER += [name for name, policy in NEW.items() if policy.start(in_numpy().problem).sequence() is None]
# Only mixture-arms ask whether the range of the means is known.
WITH_RANGES = [(name, True) for name in POLICIES] + [("theory linucb++", False), ("released linucb++corral", False)]


def has_iterations(name):
    """Whether what a policy does changes at the ends of iterations, after 16 and 48 rounds of `HORIZON`."""
    return hasattr(POLICIES[name].start(in_numpy().problem), "schedule")


def on_torch(range_known=True, horizon=HORIZON):
    return in_numpy(range_known, horizon).to("cpu")


def state(value, path="learner", found=None, seen=None):
    """Everything that a learner holds: path -> plain value, or the tensor itself."""
    import torch

    found, seen = ({}, {}) if found is None else (found, seen)
    if isinstance(value, torch.Tensor | str | int | float | bool | np.generic | None):
        found[path] = value
    elif isinstance(value, np.ndarray):
        found[path] = value.tobytes() if value.size > 100 else value.tolist()
    elif isinstance(value, np.random.Generator):
        found[path] = value.bit_generator.state["state"]["counter"].tolist()
    elif id(value) not in seen and not isinstance(value, Replications):
        if not isinstance(value, tuple):
            seen[id(value)] = value  # kept, or its id might come up again
        if isinstance(value, dict):
            parts = {f"[{key!r}]": part for key, part in value.items()}
        elif isinstance(value, list | tuple | set):
            parts = {f"[{i}]": part for i, part in enumerate(value)}
        else:
            parts = {f".{name}": part for name, part in getattr(value, "__dict__", {}).items()}
            if callable(value) or type(value).__name__ == "module":
                parts = {}
            if isinstance(value, DeviceDraws):
                parts.pop(".calls")  # counted on the host after a replay
        found[path + " has"] = sorted(parts)
        for name, part in parts.items():
            state(part, path + name, found, seen)
    return found
