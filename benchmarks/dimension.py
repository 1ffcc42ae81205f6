"""How many features matter: is the posterior of d* calibrated, how does it compare, what does it cost?

    python benchmarks/dimension.py                     # everything, a few minutes
    python benchmarks/dimension.py calibration methods # some parts of the six

calibration: d* uniform on 1..40, theta Gaussian, 60 arms on the sphere, 150 rounds, collected by LinUCB, by Thompson
    sampling in the nested posterior and at random. Reliability of P(d* = m) in ten bins (the worst deviation in
    standard errors), a KS test of the randomised PIT of d*, coverage of 50% and 90% intervals; with the prior's ridge
    given (where theory says that all must hold) and with the ridge learned (no theory).
methods: the mode and the median of d* against BIC, AIC, 5-fold cross-validation and LassoLarsIC (scikit-learn) on the
    same logged data, d = 40, over n, noise and shapes of theta: exact hits and mean |error|.
meaning: what the posterior says where its model fails: theta that decays and never ends, that is hidden late, rewards
    that are clicks, noise with heavy tails, means that are not linear.
digits: the images of scikit-learn as choices, their principal components as ordered features.
time: all prefixes at once against a regression for each, d = 600, n = 2500, on one core.
decision: what a round of PrefixLinUCB costs once d* has been found, against LinUCB in the Gram form in all features
    (K = 1200, d = 600, d* = 12, rounds 1025 to 2000 of 2500, so that no stock is taken). Both play the same rounds
    again and again, in turns; reported are medians.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import adadim
from _calibration import calibration
from _prefix_peers import CHOOSERS, SHAPES, cross_validation, logged, parameter
from _report import arguments, describe, machine, table, write_json

DIM = 40


def methods(trials: int) -> list[dict[str, Any]]:
    """A row for each shape, n and method, over two noises and three d*."""
    rows = []
    for shape in SHAPES:
        for n in (60, 200, 1000):
            errors_by_name: dict[str, list[int]] = {name: [] for name in CHOOSERS}
            for noise in (0.3, 1.0):
                for intrinsic in (1, 5, 20):
                    rng = np.random.default_rng([n, intrinsic, list(SHAPES).index(shape), int(10 * noise)])
                    for _ in range(trials):
                        features, rewards = logged(rng, parameter(rng, shape, DIM, intrinsic), n, noise)
                        for name, choose in CHOOSERS.items():
                            errors_by_name[name].append(choose(features, rewards) - intrinsic)
            for name, errors in errors_by_name.items():
                away = np.abs(errors)
                rows.append(
                    {
                        "shape": shape,
                        "n": n,
                        "method": name,
                        "trials": len(away),
                        "hits": float((away == 0).mean()),
                        "mean_error": float(away.mean()),
                    }
                )
    return rows


def _linear(noise: Callable[[np.random.Generator, np.ndarray], np.ndarray]) -> Callable[..., Any]:
    def rewards(rng: np.random.Generator, features: np.ndarray, theta: np.ndarray) -> np.ndarray:
        return noise(rng, features @ theta)

    return rewards


def _bent(rng: np.random.Generator, features: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Means with a part that no feature has: the product of the last two, as large as the noise."""
    return features @ theta + features[:, -1] * features[:, -2] + rng.standard_normal(len(features))


def _offsets(rng: np.random.Generator, features: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Every arm's mean is off the linear model, by 0.3 on average (root mean square)."""
    off = 0.3 * np.sqrt(2) * np.sin(1000 * features.sum(axis=1))
    return features @ theta + off + rng.standard_normal(len(features))


GAUSSIAN = _linear(lambda rng, means: means + rng.standard_normal(len(means)))
CASES: dict[str, tuple[np.ndarray, Callable[..., Any], int | None]] = {
    "as assumed, d* = 8": (np.repeat([1.0, 0.0], [8, 32]) / 8**0.5, GAUSSIAN, 8),
    "theta_j = 1/j for ever": (1.0 / np.arange(1, DIM + 1), GAUSSIAN, None),
    "theta_j = 1/j^2 for ever": (1.0 / np.arange(1, DIM + 1) ** 2, GAUSSIAN, None),
    "hidden: only feature 35": (np.eye(DIM)[34], GAUSSIAN, 35),
    "hidden, half as large": (0.5 * np.eye(DIM)[34], GAUSSIAN, 35),
    "clicks (Bernoulli), d* = 8": (
        np.repeat([0.3, 0.0], [8, 32]) / 8**0.5,
        _linear(lambda rng, means: (rng.random(len(means)) < np.clip(0.5 + means, 0, 1)) - 0.5),
        8,
    ),
    "heavy tails (t, 2.5 degrees), d* = 8": (
        np.repeat([1.0, 0.0], [8, 32]) / 8**0.5,
        _linear(lambda rng, means: means + rng.standard_t(2.5, size=len(means))),
        8,
    ),
    "a product missing, d* = 8": (np.repeat([1.0, 0.0], [8, 32]) / 8**0.5, _bent, 8),
    "100 arms, means off, d* = 8": (np.repeat([1.0, 0.0], [8, 32]) / 8**0.5, _offsets, 8),
}


def meaning(trials: int) -> list[dict[str, Any]]:
    """A row for each case and n: quartiles of the mode, hits, coverage, and the signal after the mode."""
    rows = []
    for case, (theta, rewards, truth) in CASES.items():
        for n in (100, 400, 1600):
            rng = np.random.default_rng([n, list(CASES).index(case)])
            modes, covered = [], []
            for _ in range(trials):
                features = rng.standard_normal((100 if rewards is _offsets else n, DIM))
                if rewards is _offsets:
                    features = features[rng.integers(len(features), size=n)]
                posterior = adadim.dimension(features, rewards(rng, features, theta))
                low, high = posterior.interval(0.9)
                modes.append(posterior.mode)
                covered.append(truth is not None and low <= truth <= high)
            left = [float((theta[mode:] ** 2).sum() / (theta**2).sum()) for mode in modes]
            row = {"case": case, "n": n, "trials": trials, "modes": np.percentile(modes, [25, 50, 75]).tolist()}
            has_truth = truth is not None
            row |= {"hits": float(np.mean(np.array(modes) == truth)) if has_truth else None}
            row |= {"coverage90": float(np.mean(covered)) if has_truth else None, "signal_left": float(np.mean(left))}
            rows.append(row)
    return rows


def digits(quick: bool) -> list[dict[str, Any]]:
    """Is an image the digit? A constant and the principal components, in their order, as features."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    centred = images - images.mean(axis=0)
    basis = np.linalg.svd(centred, full_matrices=False)[2]
    features = np.column_stack([np.ones(len(images)), centred @ basis[:61].T])  # three pixels never vary
    order, rows = np.random.default_rng(0).permutation(len(images)), []
    for digit in (0, 8) if quick else range(10):
        rewards = (labels == digit).astype(float)
        for n in (200, 1797):
            some = order[:n]
            posterior = adadim.dimension(features[some], rewards[some])
            low, high = posterior.interval(0.9)
            held = cross_validation(features[some], rewards[some])
            row = {"digit": digit, "n": n, "mode": posterior.mode, "interval90": [low, high], "noise": posterior.noise}
            rows.append({**row, "cross_validation": held})
    return rows


def timed(call: Callable[[], Any], repeats: int) -> float:
    """Least processor time of a call."""
    times = []
    for _ in range(repeats):
        begun = time.process_time()
        call()
        times.append(time.process_time() - begun)
    return min(times)


def cost(dim: int, n: int, repeats: int) -> dict[str, Any]:
    """Seconds for all prefixes at once and one by one, and how far the answers are apart."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((n, dim))
    rewards = features[:, : dim // 10].sum(axis=1) + rng.standard_normal(n)

    def one_by_one() -> np.ndarray:
        logs = np.zeros(dim)
        for m in range(1, dim + 1):
            cut = features[:, :m]
            lower = np.linalg.cholesky(np.eye(m) + cut.T @ cut)
            w = np.linalg.solve(lower, cut.T @ rewards)
            logs[m - 1] = -np.log(np.diag(lower)).sum() - n / 2 * np.log(rewards @ rewards - w @ w)
        return logs

    def lstsq() -> None:
        for m in range(dim, 0, -max(1, dim // 10)):
            np.linalg.lstsq(features[:, :m], rewards, rcond=None)

    logs = one_by_one()
    shares = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    given = {"ridge": 1.0, "constant": False}
    once = timed(lambda: adadim.dimension(features, rewards, **given), repeats)
    return {
        "dim": dim,
        "n": n,
        "given_ridge_seconds": once,
        "learned_ridge_seconds": timed(lambda: adadim.dimension(features, rewards), repeats),
        "one_by_one_seconds": (slow := timed(one_by_one, 1)),
        "lstsq_seconds": (least := timed(lstsq, 1) * dim / len(range(dim, 0, -max(1, dim // 10)))),
        "one_by_one_over_given": slow / once,
        "lstsq_over_given": least / once,
        "apart": float(
            np.abs(adadim.dimension(features, rewards, ridge=1.0, constant=False).probabilities - shares).max()
        ),
    }


def decision(arms: int, dim: int, intrinsic: int, first: int, last: int, repeats: int) -> dict[str, Any]:
    """Processor seconds of the rounds after `first`, up to `last`, of both policies: medians of repeats in turns."""
    instance = adadim.instances.sphere(arms=arms, dim=dim, intrinsic_dim=intrinsic, horizon=2500, noise=0.1)

    def play(learner: Any, rng: np.random.Generator, rounds: int) -> float:
        begun = time.process_time()
        for _ in range(rounds):
            arm = int(learner.select()[0])
            learner.update([arm], [instance.means[0, arm] + 0.1 * rng.standard_normal()])
        return time.process_time() - begun

    policies = {"gram": adadim.LinUCB(form="gram"), "prefix": adadim.PrefixLinUCB()}
    started = {name: (policy.start(instance.problem), np.random.default_rng(0)) for name, policy in policies.items()}
    for learner, rng in started.values():
        play(learner, rng, first)
    seconds: dict[str, list[float]] = {name: [] for name in started}
    for _ in range(repeats):
        for name, start in started.items():
            learner, rng = copy.deepcopy(start)
            seconds[name].append(play(learner, rng, last - first))
    ratios = (np.array(seconds["prefix"]) / seconds["gram"]).tolist()
    return {
        "arms": arms,
        "dim": dim,
        "intrinsic_dim": intrinsic,
        "rounds": last - first,
        **{f"{name}_seconds": float(np.median(times)) for name, times in seconds.items()},
        "features_in_use": learner.describe()[0]["features_in_use"],
        "ratios": ratios,
        "prefix_over_gram": float(np.median(ratios)),
    }


def show(report: dict[str, Any]) -> None:
    """Print the report."""
    print(describe(report["machine"]))
    if rows := report.get("calibration"):
        heads = ["data by, ridge", "trials", "worst bin, s.e.", "KS p", "covered by 50%", "by 90%", "hits", "|error|"]
        lines = []
        for row in rows:
            numbers = (row["worst_standard_errors"], row["ks_p"], *row["coverage"].values())
            texts = [f"{number:.2g}" if number < 0.01 else f"{number:.2f}" for number in numbers]
            tail = [f"{row['hits']:.2f}", f"{row['mean_error']:.2f}"]
            lines.append([f"{row['collector']}, {row['ridge']}", str(row["trials"]), *texts, *tail])
        print("\ncalibration\n" + table(heads, lines))
    if rows := report.get("methods"):
        settings = sorted({(row["shape"], row["n"]) for row in rows}, key=lambda s: (list(SHAPES).index(s[0]), s[1]))
        cells = {(row["shape"], row["n"], row["method"]): row for row in rows}
        for key, title in (("hits", "share of exact hits"), ("mean_error", "mean |error| of d*")):
            lines = [
                [f"{shape}, n = {n}", *[f"{cells[shape, n, name][key]:.2f}" for name in CHOOSERS]]
                for shape, n in settings
            ]
            overall = [np.mean([row[key] for row in rows if row["method"] == name]) for name in CHOOSERS]
            lines.append(["all", *[f"{value:.2f}" for value in overall]])
            print(f"\n{title}\n" + table([f"theta, {rows[0]['trials']} trials each", *CHOOSERS], lines))
    if rows := report.get("meaning"):
        lines = []
        for row in rows:
            rates = ["-" if row[key] is None else f"{row[key]:.2f}" for key in ("hits", "coverage90")]
            quartiles = " ".join(f"{mode:g}" for mode in row["modes"])
            lines.append([f"{row['case']}, n = {row['n']}", quartiles, *rates, f"{row['signal_left']:.3f}"])
        heads = ["case", "quartiles of the mode", "hits", "90% covers", "signal after the mode"]
        print("\nmeaning\n" + table(heads, lines))
    if rows := report.get("digits"):
        lines = []
        for row in rows:
            low, high = row["interval90"]
            numbers = [str(row["n"]), str(row["mode"]), f"{low} to {high}", f"{row['noise']:.3f}"]
            lines.append([f"is it a {row['digit']}?", *numbers, str(row["cross_validation"])])
        print("\ndigits, 62 features\n" + table(["reward", "n", "mode", "90%", "noise", "cross-validation"], lines))
    if part := report.get("time"):
        print(
            f"\ntime, d = {part['dim']}, n = {part['n']}: all prefixes {part['given_ridge_seconds']:.3f} s with the "
            f"ridge given, {part['learned_ridge_seconds']:.3f} s with it learned; a Cholesky solve for each "
            f"{part['one_by_one_seconds']:.1f} s ({part['one_by_one_over_given']:.0f} times), numpy's lstsq for each "
            f"{part['lstsq_seconds']:.0f} s ({part['lstsq_over_given']:.0f} times, from every tenth of them); "
            f"probabilities apart by {part['apart']:.1e}"
        )
    if part := report.get("decision"):
        each = {name: 1e6 * part[f"{name}_seconds"] / part["rounds"] for name in ("gram", "prefix")}
        print(
            f"\ndecision, K = {part['arms']}, d = {part['dim']}, d* = {part['intrinsic_dim']}: LinUCB in the Gram "
            f"form {each['gram']:.0f} us a round, PrefixLinUCB with {part['features_in_use']} features in use "
            f"{each['prefix']:.0f} us; {part['prefix_over_gram']:.2f} times, the median of "
            f"{len(part['ratios'])} repeats in turns ({min(part['ratios']):.2f} to {max(part['ratios']):.2f})"
        )


def main() -> int:
    parser = arguments("dimension", __doc__, "few trials")
    parts = ("calibration", "methods", "meaning", "digits", "time", "decision")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"which of {', '.join(parts)} (default all)")
    options = parser.parse_args()
    if wrong := set(options.parts) - set(parts):
        parser.error(f"unknown part {', '.join(sorted(wrong))}; choose from {', '.join(parts)}")
    quick = options.quick
    runs: dict[str, Callable[[], Any]] = {
        "calibration": lambda: calibration(50 if quick else 1000, 50 if quick else 150),
        "methods": lambda: methods(2 if quick else 100),
        "meaning": lambda: meaning(2 if quick else 200),
        "digits": lambda: digits(quick),
        "time": lambda: cost(*((30, 100, 1) if quick else (600, 2500, 5))),
        "decision": lambda: decision(*((60, 30, 3, 65, 100, 2) if quick else (1200, 600, 12, 1024, 2000, 9))),
    }
    with threadpool_limits(1):
        report: dict[str, Any] = {part: runs[part]() for part in parts if part in (options.parts or parts)}
        report = {"benchmark": "dimension", "machine": machine(("adadim", "numpy", "scipy", "scikit-learn")), **report}
    write_json(options.out, report)
    show(report)
    print(f"\nwrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
