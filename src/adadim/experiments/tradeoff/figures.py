"""Pictures of the trade-off: the Pareto frontier, policies against the lower bound, measured rates on the frontier."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from adadim.core.checks import require
from adadim.experiments.tradeoff.analysis import FRONTIER_BETAS, BoundCheck, RateEstimate, bound_at, frontier
from adadim.experiments.tradeoff.plan import RATE_BETAS
from adadim.report.looks import ORACLE_KEY, look_of, looks_of
from adadim.report.style import COLOURS, PANEL, Axes, NotebookFigure, figure_style, heading, literal_texts, tidy
from adadim.theory import LowerBoundFamily

BLUE, INK = COLOURS[0], COLOURS[1:7]  # without yellow, too pale for points
GREYS = ("0.86", "0.66")  # of the sharper inequality, and of the weaker one that the theorem uses
SHADES = ("impossible: by the sharper bound", "impossible: by the theorem's bound")
EXACT = {
    "uniform": {"color": "0.45", "linestyle": ":", "marker": "o", "markerfacecolor": "none", "markersize": 10},
    "always a_0": {"color": "#000000", "linestyle": "none", "marker": "*", "markersize": 9},
}
EXACT_NAMES = {"uniform": "uniform at random", "always a_0": "always $a_0$"}
LOWEST, HIGHEST = 0.35, 1.08  # rates that the picture shows


def draw_frontier(betas: Sequence[float] = FRONTIER_BETAS, tapers: Sequence[float] = ()) -> NotebookFigure:
    """Draw the paper's Figure 1: rates against the hardness level alpha, for betas and tapers as in `frontier`.

    Examples
    --------
    >>> len(draw_frontier().axes[0].get_lines())  # four values of beta and the dashed line
    5
    """
    with figure_style():
        figure = NotebookFigure(figsize=PANEL, layout="constrained")
        axis = figure.subplots()
        _add_curves(axis, betas, tapers, width=1.6)
        axis.set_xlabel(r"hardness level $\alpha$   (the first $T^\alpha$ features matter)")
        axis.set_ylabel(r"rate $\theta(\alpha)$   (regret of order $T^\theta$)")
        axis.set(xlim=(0, 1), ylim=(0.48, 1.02))
        tidy(axis)
        axis.legend(loc="lower right", frameon=False, handlelength=3)
    return figure


def draw_bounds(checks: Sequence[BoundCheck]) -> NotebookFigure:
    """Draw policies against the lower bound: regret on the easy problem, and on the hard ones on average.

    On the left, in reward units, every policy at its worst over Delta on either axis; shaded is where no policy can be:
    one whose regret on the easy problem is at most x for every Delta has at least the height of the shading on the
    hard problems for some Delta. On the right every Delta by itself, in units that make the bound the same for all.
    Crosses are standard errors. The checks are what `lower_bound_checks` and `closed_forms` give, of one horizon and
    one Kl.

    Examples
    --------
    >>> from adadim.experiments.tradeoff import closed_forms
    >>> figure = draw_bounds(closed_forms(2500, 0.5, [0.05, 0.2]))
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['uniform at random (exact)', 'always $a_0$ (exact)', ...]
    """
    shown = [check for check in checks if np.isfinite(check.hard)]
    sizes = sorted({(check.horizon, check.arms) for check in shown})
    require(len(sizes) == 1, "checks", "be of one horizon and one number of hard problems", sizes)
    ((horizon, arms),) = sizes
    policies = list(dict.fromkeys(check.policy for check in shown))
    exact = {check.policy for check in shown if check.trials == 0}
    looks = looks_of({policy: policy for policy in policies if policy not in exact}, width=1.0)
    looks |= {policy: {**look, "linewidth": 1.0} for policy, look in EXACT.items() if policy in exact}
    with figure_style():
        figure = NotebookFigure(figsize=(2 * PANEL[0], PANEL[1] + 1.1), layout="constrained")
        left, right = figure.subplots(1, 2)
        shades = _shade_worst(left, shown)
        _shade_units(right, arms)
        for policy in policies:
            rows = sorted((check for check in shown if check.policy == policy), key=lambda check: check.delta)
            _add_policy(left, right, looks[policy], rows)
        _label_bounds(left, right, shown)
        labels = [f"{EXACT_NAMES.get(policy, policy)} (exact)" if policy in exact else policy for policy in policies]
        handles: list[Any] = [left.get_lines()[i] for i in range(len(policies))]
        options: Any = {"loc": "outside lower center", "ncols": 4, "frameon": False}
        legend = figure.legend([*handles, *shades], [*labels, *SHADES], **options)
        literal_texts(legend, set(policies) - exact)
        trials = max(check.trials for check in shown)
        source = f"{trials} trials" if trials else "exact"
        heading(figure, None, f"T = {horizon}, {arms} hard problems, {source}; in the shade no policy can be")
    return figure


def draw_rates(estimates: Sequence[RateEstimate], betas: Sequence[float] = RATE_BETAS) -> NotebookFigure:
    """Draw measured rates, which `rate_estimates` gives, over the frontier at some betas, with 95% intervals.

    All policies of one alpha stand side by side in its column; the curves of the frontier have the line style of
    LinUCB++ at the same beta. A rate below 0.35 stands at the bottom with its value: an arrow says that it is lower.
    """
    policies = list(dict.fromkeys(estimate.policy for estimate in estimates))
    measured = [estimate for estimate in estimates if np.isfinite(estimate.rate)]
    alphas = sorted({estimate.alpha for estimate in estimates})
    apart = min([b - a for a, b in itertools.pairwise(alphas)], default=0.12)
    step = min(0.014, 0.8 * apart / max(len(policies), 1))
    looks = looks_of({policy: policy for policy in policies}, width=1.0)
    with figure_style():
        figure = NotebookFigure(figsize=(PANEL[0] * 1.55, PANEL[1] * 1.25), layout="constrained")
        axis = figure.subplots()
        for alpha in alphas:
            half = step * (len(policies) + 1) / 2
            axis.axvspan(alpha - half, alpha + half, color="0.93", zorder=0, linewidth=0)
        _add_curves(axis, betas, (), width=1.0, like_policies=True)
        for i, policy in enumerate(policies):
            rows = [estimate for estimate in measured if estimate.policy == policy]
            if rows:
                shift = step * (i - (len(policies) - 1) / 2)
                _add_rates(axis, rows, shift, policy, {**looks[policy], "linestyle": "none"})
        right = max(alphas, default=1.0)
        margin = step * (len(policies) + 1) / 2 + 0.02
        axis.set(xlim=(min(alphas, default=0.0) - margin, right + margin), ylim=(LOWEST - 0.03, HIGHEST))
        axis.set_xticks(alphas, [f"{alpha:g}" for alpha in alphas])
        axis.set_xlabel(r"hardness level $\alpha$   ($d_\star = \lfloor T^\alpha\rfloor$)")
        axis.set_ylabel(r"slope of $\ln$ regret in $\ln T$")
        tidy(axis)
        literal_texts(figure.legend(loc="outside right center", frameon=False, handlelength=2.6), policies)
        heading(figure, None, _rates_caption(estimates))
    return figure


def _add_rates(axis: Axes, rows: Sequence[RateEstimate], shift: float, policy: str, looks: dict[str, Any]) -> None:
    """Points with error bars; those below the picture stand at its bottom, with an arrow and their value."""
    x = np.array([e.alpha for e in rows]) + shift
    y = np.array([e.rate for e in rows])
    ends = np.nan_to_num(np.array([[e.low for e in rows], [e.high for e in rows]]), nan=0.0)
    spread = np.nan_to_num(np.maximum(np.array([y - ends[0], ends[1] - y]), 0.0))
    spread[:, y < LOWEST] = 0.0
    axis.errorbar(x, np.clip(y, LOWEST, None), yerr=spread, label=policy, capsize=2, markersize=5, **looks)
    for at, value in zip(x[y < LOWEST], y[y < LOWEST], strict=True):
        style: Any = {"arrowstyle": "->", "color": looks["color"]}
        axis.annotate("", (at, LOWEST - 0.03), (at, LOWEST), arrowprops=style)
        axis.annotate(f"{value:.2f}", (at, LOWEST), (5, 0), textcoords="offset points", fontsize=8, va="center")


def _add_curves(
    axis: Axes, betas: Sequence[float], tapers: Sequence[float], width: float, like_policies: bool = False
) -> None:
    """Curves of the frontier; `like_policies` gives them the colours and lines of LinUCB++ and of the oracle."""
    colour = look_of(ORACLE_KEY)["color"] if like_policies else BLUE
    looks: dict[str, Any] = {"linestyle": "--", "color": colour, "label": r"LinUCB told $\alpha$: $(1+\alpha)/2$"}
    for i, curve in enumerate(frontier(betas, tapers=tapers).partition_by("curve", maintain_order=True)):
        kind, _, value = curve["curve"][0].partition(" = ")
        if kind == "beta":
            looks = {"linestyle": "-", "color": INK[(i - 1) % len(INK)], "label": rf"$\beta$ = {value}"}
        elif kind == "taper":
            label = rf"tapered told $\alpha$: $s$ = {value}"
            looks = {"linestyle": ":", "color": INK[(i - 1) % len(INK)], "label": label}
        if like_policies and i:
            same = look_of("LinUCBPlusPlus", turn=i - 1)
            looks |= {"linestyle": same["linestyle"], "color": same["color"], "alpha": 0.6}
        axis.plot(curve["alpha"].to_numpy(), curve["rate"].to_numpy(), zorder=1, linewidth=width, **looks)


def _label_bounds(left: Axes, right: Axes, checks: Sequence[BoundCheck]) -> None:
    most = max(check.easy for check in checks)
    highest = max(check.hard for check in checks)
    root: Any = (lambda x: np.sqrt(np.maximum(x, 0.0)), np.square)
    left.set_xscale("function", functions=root)
    left.set_yscale("function", functions=root)
    left.set(xlim=(0, 1.1 * most + 1.0), ylim=(0, 1.15 * highest + 1.0))
    left.set_xticks(_ticks(most))
    left.set_yticks(_ticks(highest))
    left.set_xlabel(r"regret on the easy problem, largest over $\Delta$")
    left.set_ylabel(r"mean regret on the hard problems, largest over $\Delta$")
    left.set_title("each policy at its worst (square-root scales)", fontsize=9)
    right.set(xlim=(0, None), ylim=(0, None))
    right.set_xlabel(r"looking for hidden arms: $\sqrt{2\Delta R_0/K}$")
    right.set_ylabel(r"missing them: mean of $R_i$ / $(T\Delta/2)$")
    right.set_title(r"every gap $\Delta$ by itself", fontsize=9)
    for axis in (left, right):
        tidy(axis)


def _ticks(most: float) -> list[float]:
    """Numbers from 0 to `most` that are evenly spaced on a square-root scale, and round."""
    unit = 10.0 ** np.floor(np.log10(max(most, 1e-9) / 10))
    return sorted({float(np.round(share**2 * most / unit) * unit) for share in np.linspace(0.0, 1.0, 6)})


def _shade_worst(axis: Axes, checks: Sequence[BoundCheck]) -> list[Any]:
    """Shade where no policy is at its worst: below the largest of the bounds; returns the light and the dark shade."""
    families = [LowerBoundFamily(c.horizon, c.arms, c.delta) for c in {c.delta: c for c in checks}.values()]
    x = np.linspace(0.0, np.sqrt(2.0 * max(check.easy for check in checks) + 1.0), 400) ** 2
    sharper, weaker = (
        np.max([bound_at(family, x, form) for family in families], axis=0) for form in ("counts", "paper")
    )
    # The weaker one assumes no more pulls than rounds, and may win far out.
    edges = (np.maximum(sharper, weaker), weaker)
    return [
        axis.fill_between(x, 0.0, np.maximum(edge, 0.0), color=colour, linewidth=0)
        for edge, colour in zip(edges, GREYS, strict=True)
    ]


def _shade_units(axis: Axes, arms: int) -> None:
    """Where no policy can be at any Delta: eq:ave_regret_0, and below it the weaker eq:ave_regret."""
    for kept, colour in zip((1.0 - 1.0 / arms, 0.5), GREYS, strict=True):
        axis.fill_between([0.0, kept], 0.0, [kept, 0.0], color=colour, linewidth=0)


def _add_policy(left: Axes, right: Axes, looks: dict[str, Any], rows: Sequence[BoundCheck]) -> None:
    easy, hard = max(rows, key=lambda row: row.easy), max(rows, key=lambda row: row.hard)
    left.plot(easy.easy, hard.hard, clip_on=False, **{"markersize": 7, **looks, "linestyle": "none"})
    error: Any = {"xerr": easy.easy_error, "yerr": hard.hard_error, "fmt": "none", "ecolor": looks["color"]}
    left.errorbar(easy.easy, hard.hard, elinewidth=0.8, **error)
    half = np.array([row.horizon * row.delta / 2 for row in rows])
    x = np.sqrt([2 * row.delta * row.easy / row.arms for row in rows])
    scaled = np.array([row.hard for row in rows]) / half
    right.plot(x, scaled, clip_on=False, **{**looks, "markersize": looks.get("markersize", 8) / 2, "linewidth": 0.8})


def _rates_caption(estimates: Sequence[RateEstimate]) -> str:
    horizons = sorted({h for e in estimates for h in (*e.horizons, *e.saturated)})
    missing: dict[str, list[str]] = {}
    for e in estimates:
        if not np.isfinite(e.rate):
            missing.setdefault(e.policy, []).append(f"{e.alpha:g}")
    lines = []
    if horizons:
        trials = max(e.trials for e in estimates)
        lines.append(f"T from {horizons[0]} to {horizons[-1]}, {trials} trials, bars: 95% intervals (bootstrap)")
    lines.append("points in one shaded column have the same α and stand side by side to be seen")
    if missing:
        lines.append("saturated, no rate: " + "; ".join(f"{p} at {', '.join(a)}" for p, a in missing.items()))
    return "\n".join(lines)
