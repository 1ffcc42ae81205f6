"""Real features, ordered: show a visitor handwritten digits until you know which one they like.

    python examples/digits.py            (needs scikit-learn)

The arms are scikit-learn's 1797 images. A visitor likes one digit: they click on it with probability 0.9, on any other
with 0.1. The policy is told neither which digit nor what an image shows; it sees the image's principal components, the
one with the largest variance first, as a practitioner would have them. Kernel PCA gives 400 of them, so the
question is how many to learn from. That depends on the visitor: two components tell the threes from the rest,
the eights need about a dozen.

What to expect, and what not:

- LinUCB in the first 3 features wins by far for threes and never shows a single eight; in all 401 it learns either,
  slowly. LinUCB++ is told nothing and lies between. A policy that was told the right number would beat it: that is
  the price of not knowing.
- A click is linear in no prefix of the features (the table says how much of it a linear fit explains), so every policy
  here works with a model that is wrong, and no theorem of the paper applies. What saves them is that the images that
  look best in the wrong model are liked all the same, once there are enough components. With too few, no number of
  rounds helps, and since LinUCB++ ends its schedule in few features, eights cost it more than threes.
- With ``--plain`` the features are the 64 components of ordinary PCA. That is few against 1000 rounds, and plain
  LinUCB is then the better choice: LinUCB++ is for d large against the horizon.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import adadim
from adadim.report.looks import looks_of

try:
    from sklearn.datasets import load_digits
    from sklearn.decomposition import PCA, KernelPCA
except ImportError:
    sys.exit("this example needs scikit-learn: pip install scikit-learn")

parser = argparse.ArgumentParser(description="Learn which digit a visitor likes, from principal components.")
parser.add_argument("--horizon", type=int, default=1000, help="number of images shown")
parser.add_argument("--trials", type=int, default=6, help="number of visitors of each kind")
parser.add_argument("--images", type=int, default=1797, help="number of images")
parser.add_argument("--plain", action="store_true", help="the 64 components of ordinary PCA")
parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture")
options = parser.parse_args()


def ordered_features(images):
    """Principal components, largest variance first, behind a constant for the base rate; norms of at most 1."""
    if options.plain:
        scores = PCA(svd_solver="full").fit_transform(images)
    else:
        count = min(400, len(images) // 3)
        width = 1 / (images.shape[1] * images.var())  # what scikit-learn calls gamma="scale"
        scores = KernelPCA(count, kernel="rbf", gamma=width, random_state=0).fit_transform(images)
    largest = np.linalg.norm(scores, axis=1).max()
    features = np.column_stack([np.full(len(images), largest), scores])
    return features / np.linalg.norm(features, axis=1).max()


def explained(features, clicks):
    """Share of the variance of the click probability that a linear function of the features explains."""
    fit = features @ np.linalg.lstsq(features, clicks, rcond=None)[0]
    return 1 - ((fit - clicks) ** 2).sum() / ((clicks - clicks.mean()) ** 2).sum()


images, digits = load_digits(return_X_y=True)
images, digits = images[: options.images] / 16, digits[: options.images]
features = ordered_features(images)
dim = features.shape[1]

POLICIES = {
    "at random": adadim.Random(),
    f"LinUCB, all {dim} features": adadim.LinUCB(),
    "LinUCB, first 3": adadim.LinUCB(dim=3),
    "LinUCB, first 17": adadim.LinUCB(dim=17),
    "LinUCB++": adadim.LinUCBPlusPlus(),
}
LOOKS = looks_of(POLICIES)  # a policy looks the same in every figure
LIKED = {"threes": 3, "eights": 8}

table = Table("policy", title=f"Clicks lost (regret) in {options.horizon} rounds, {options.trials} visitors")
rows = {name: [] for name in POLICIES}
figure = Figure(figsize=(9, 4.4), layout="constrained")
panels = figure.subplots(1, len(LIKED), sharey=True)
for axis, (kind, digit) in zip(panels, LIKED.items(), strict=True):
    clicks = np.where(digits == digit, 0.9, 0.1)
    instance = adadim.Instance(
        np.broadcast_to(features, (options.trials, *features.shape)),  # the same images for every visitor
        means=clicks,
        rewards="bernoulli",
        reward_range=0.8,
        horizon=options.horizon,
    )
    table.add_column(f"likes {kind}", justify="right")
    for name, policy in POLICIES.items():
        outcome = adadim.simulate(policy, instance)
        mean = outcome.regret.mean(axis=0)
        error = outcome.final.std(ddof=1) / np.sqrt(options.trials) if options.trials > 1 else 0.0
        rows[name].append(f"{mean[-1]:.0f} +/- {1.96 * error:.0f}")
        axis.plot(outcome.times, mean, label=name, markevery=len(mean) // 6 or 1, markersize=5, **LOOKS[name])
    axis.set(title=f"a visitor who likes {kind}", xlabel="images shown", xlim=0)
    for count in (3, 17, dim):
        rows.setdefault(f"explained by the first {count}", []).append(f"{explained(features[:, :count], clicks):.0%}")
panels[0].set(ylabel="cumulative regret (clicks)", ylim=0)
figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
for name, cells in rows.items():
    table.add_row(name, *cells, end_section=name == "LinUCB++")
options.out.mkdir(parents=True, exist_ok=True)
figure.savefig(options.out / "digits.png", dpi=150)

console = Console()
console.print(table)
console.print(f"wrote {options.out / 'digits.png'}", highlight=False, soft_wrap=True)
