"""Made-up results of the paper's figures, in which its claims are true or not as a test wants."""

import zlib

import numpy as np

from adadim import paper
from made_up_results import MadeUpResults

TRIALS = 40
CLAIM = "LinUCB++ has less regret than LinUCB at d* = 12"
RIVALS = ("linucb", "smooth-corral", "dynamic-balancing", "linucb++corral")
NAMES = {
    "LinUCB": "linucb",
    "Smooth Corral": "smooth-corral",
    "Dynamic Balancing": "dynamic-balancing",
    "LinUCB++ with Corral": "linucb++corral",
    "LinUCB++": "linucb++",
}
ALL_POLICIES = ("oracle", *NAMES.values())


def noise(trials, *names):
    """Deviations with mean exactly 0 and standard deviation exactly 1, so that ties are ties."""
    draw = np.random.default_rng(zlib.crc32(repr(names).encode())).standard_normal(trials)
    if trials < 2:
        return draw
    return (draw - draw.mean()) / draw.std(ddof=1)


def level(figure, d, policy):
    """Mean regret in a world in which all the paper says is true."""
    expressive = figure.startswith("fig3")
    base = {"oracle": 10, "linucb++": 20, "dynamic-balancing": 40, "linucb": 60, "smooth-corral": 70}.get(policy, 80)
    if figure == "fig4a" and policy == "dynamic-balancing":
        base = 20
    slope = 0.0 if policy == "linucb" else 0.5
    if expressive and policy not in ("linucb", "oracle"):
        slope = 0.7
    return base + slope * (d - 5)


def world(figure, trials=TRIALS, means=None, spreads=None, late=0.0, late_noise=0.0, variant="theory"):
    """Made-up results of a figure; `means` and `spreads` replace what `level` and the usual spreads say.

    Their keys are (policy, d) or policy. `late` is the regret per round after the first fifth of the rounds,
    relative to before.
    """
    shown = paper.FIGURES[figure]
    points = 100 if shown.curves else 10
    times = np.arange(1, points + 1) * 2500 // points
    regret = {}
    for d in shown.dims:
        for policy in ALL_POLICIES:
            mean, spread = level(figure, d, policy), 0.1 if policy == "linucb++" else 1.0
            for key in (policy, (policy, d)):
                mean, spread = (means or {}).get(key, mean), (spreads or {}).get(key, spread)
            final = mean + spread * noise(trials, figure, d, policy)
            ratio = (late + late_noise * noise(trials, figure, "late"))[:, None] if late_noise else late
            shape = np.minimum(times, 500) + ratio * np.maximum(times - 500, 0)
            regret[f"d{d}", policy] = final[:, None] * shape / shape[..., -1:]
    labels = {
        "figure": figure,
        "variant": variant,
        "instances": {f"d{d}": {"intrinsic_dim": d, "horizon": 2500} for d in shown.dims},
    }
    return MadeUpResults(regret, times, labels=labels)


def judge(results):
    """Verdicts on made-up results, given by figure."""
    return paper.claims(results.values())


def row(verdicts, claim, figure):
    (found,) = [v for v in verdicts if v.claim == claim and v.figure == figure]
    return found
