"""Pictures of the trade-off: the Pareto frontier, policies against the lower bound, measured rates on the frontier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from adadim.checks import require
from adadim.experiments.tradeoff.bound_checks import BoundCheck, bound_at
from adadim.experiments.tradeoff.pareto import BETAS, NON_ADAPTIVE, beta_curve, frontier, taper_curve
from adadim.experiments.tradeoff.slopes import RateEstimate
from adadim.report.drawing import Axes, Figure
from adadim.report.style import COLOURS, PANEL, figure_style, literal_texts, look, tidy
from adadim.theory import LowerBoundFamily

__all__ = ["draw_bounds", "draw_frontier", "draw_rates"]

BLUE, INK = COLOURS[0], COLOURS[1:7]  # without yellow, too pale for points
FORBIDDEN = "0.55"
RATE_BETAS = (0.5, 0.6, 0.75)


def draw_frontier(betas: Sequence[float] = BETAS, tapers: Sequence[float] = ()) -> Figure:
    """Draw the paper's Figure 1: rates against the hardness level alpha.

    Parameters
    ----------
    betas, tapers : sequence of float
        Which curves, as in `frontier`.

    Examples
    --------
    >>> len(draw_frontier().axes[0].get_lines())  # four values of beta and the dashed line
    5
    """
    with figure_style():
        figure = Figure(figsize=PANEL, layout="constrained")
        axis = figure.subplots()
        _add_curves(axis, betas, tapers, width=1.6)
        axis.set_xlabel(r"hardness level $\alpha$   (the first $T^\alpha$ features matter)")
        axis.set_ylabel(r"rate $\theta(\alpha)$   (regret of order $T^\theta$)")
        axis.set(xlim=(0, 1), ylim=(0.48, 1.02))
        tidy(axis)
        axis.legend(loc="lower right", frameon=False, handlelength=3)
    return figure


def draw_bounds(checks: Sequence[BoundCheck]) -> Figure:
    """Draw policies against the lower bound: regret on the easy problem, and on the hard ones on average.

    On the left, in reward units, every policy at its worst over Delta on either axis; shaded is where no policy can be:
    one whose regret on the easy problem is at most x for every Delta has at least the height of the shading on the
    hard problems for some Delta. On the right every Delta by itself, in units that make the bound the same for all.
    Crosses are standard errors.

    Parameters
    ----------
    checks : sequence of BoundCheck
        What `lower_bound_checks` and `closed_forms` give, of one horizon and one Kl.

    Examples
    --------
    >>> from adadim.experiments.tradeoff import closed_forms
    >>> figure = draw_bounds(closed_forms(2500, 0.5, [0.05, 0.2]))
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['uniform (exact)', 'always a_0 (exact)']
    """
    shown = [check for check in checks if np.isfinite(check.hard)]
    sizes = sorted({(check.horizon, check.arms) for check in shown})
    require(len(sizes) == 1, "checks", "be of one horizon and one number of hard problems", sizes)
    ((horizon, arms),) = sizes
    policies = list(dict.fromkeys(check.policy for check in shown))
    with figure_style():
        figure = Figure(figsize=(2 * PANEL[0], PANEL[1] + 0.9), layout="constrained")
        left, right = figure.subplots(1, 2)
        floor = _shade_worst(left, shown)
        _shade_units(right, arms)
        for i, policy in enumerate(policies):
            rows = sorted((check for check in shown if check.policy == policy), key=lambda check: check.delta)
            _add_policy(left, right, look(i, INK, width=1.0), rows)
        _label_bounds(left, right, shown, floor)
        exact = {check.policy for check in shown if check.trials == 0}
        labels = [f"{policy} (exact)" if policy in exact else policy for policy in policies]
        options: Any = {"loc": "outside lower center", "ncols": 5, "frameon": False}
        literal_texts(figure.legend([left.get_lines()[i] for i in range(len(policies))], labels, **options))
        trials = max(check.trials for check in shown)
        source = f"{trials} trials" if trials else "exact"
        figure.suptitle(f"T = {horizon}, {arms} hard problems, {source}; shaded: impossible for any policy", fontsize=9)
    return figure


def draw_rates(estimates: Sequence[RateEstimate], betas: Sequence[float] = RATE_BETAS) -> Figure:
    """Draw measured rates over the frontier, with 95% intervals.

    Parameters
    ----------
    estimates : sequence of RateEstimate
        What `rate_estimates` gives.
    betas : sequence of float
        Curves of the frontier to draw behind them.
    """
    policies = list(dict.fromkeys(estimate.policy for estimate in estimates))
    known = [estimate for estimate in estimates if np.isfinite(estimate.rate)]
    with figure_style():
        figure = Figure(figsize=(PANEL[0] * 1.4, PANEL[1] * 1.25), layout="constrained")
        axis = figure.subplots()
        _add_curves(axis, betas, (), width=1.0)
        for i, policy in enumerate(policies):
            rows = [estimate for estimate in known if estimate.policy == policy]
            if rows:
                x = np.array([e.alpha for e in rows]) + 0.008 * (i - (len(policies) - 1) / 2)
                y = np.array([e.rate for e in rows])
                spread = np.array([[e.rate - e.low for e in rows], [e.high - e.rate for e in rows]])
                colour = {"color": BLUE} if policy == "oracle" else {}
                looks = {**look(i, INK, width=1.0), "linestyle": "none", **colour}
                axis.errorbar(x, y, yerr=np.nan_to_num(np.maximum(spread, 0.0)), label=policy, capsize=2, **looks)
        right = max((estimate.alpha for estimate in estimates), default=1.0)
        heights = [estimate.rate for estimate in known] + [0.4, 1.0]  # long error bars may leave the picture
        axis.set(xlim=(-0.05, min(right + 0.05, 1.05)), ylim=(min(heights) - 0.1, max(heights) + 0.1))
        axis.set_xlabel(r"hardness level $\alpha$   ($d_\star = \lfloor T^\alpha\rfloor$)")
        axis.set_ylabel(r"slope of $\ln$ regret in $\ln T$")
        tidy(axis)
        literal_texts(figure.legend(loc="outside right center", frameon=False, handlelength=2.6), policies)
        figure.suptitle(_rates_title(estimates), fontsize=9, parse_math=False)
    return figure


def _add_curves(axis: Axes, betas: Sequence[float], tapers: Sequence[float], width: float) -> None:
    table = frontier(betas, tapers=tapers)
    dashed: dict[str, Any] = {"linestyle": "--", "color": BLUE, "label": r"LinUCB told $\alpha$: $(1+\alpha)/2$"}
    _add_curve(axis, table.filter(curve=NON_ADAPTIVE), linewidth=width, **dashed)
    solid = {beta_curve(beta): (rf"$\beta$ = {beta:g}", "-") for beta in betas}
    dotted = {taper_curve(taper): (rf"tapered told $\alpha$: $s$ = {taper:g}", ":") for taper in tapers}
    for i, (curve, (label, line)) in enumerate((solid | dotted).items()):
        looks: dict[str, Any] = {"linestyle": line, "color": INK[i % len(INK)], "label": label}
        _add_curve(axis, table.filter(curve=curve), linewidth=width, **looks)


def _add_curve(axis: Axes, curve: pl.DataFrame, **looks: Any) -> None:
    axis.plot(curve["alpha"].to_numpy(), curve["rate"].to_numpy(), zorder=1, **looks)


def _label_bounds(left: Axes, right: Axes, checks: Sequence[BoundCheck], floor: float) -> None:
    most = max(check.easy for check in checks)
    left.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0.0)), np.square))
    left.set_yscale("log")
    left.set(xlim=(0, 1.1 * most + 1.0), ylim=(floor, 2.0 * max(check.hard for check in checks)))
    left.set_xlabel(r"regret on the easy problem, largest over $\Delta$")
    left.set_ylabel(r"mean regret on the hard problems, largest over $\Delta$")
    right.set(xlim=(0, None), ylim=(0, None))
    right.set_xlabel(r"$\sqrt{2\Delta R_0/K_\ell}$   (looking for hidden arms)")
    right.set_ylabel(r"mean$_i\,R_i$ / $(T\Delta/2)$   (missing them)")
    for axis in (left, right):
        tidy(axis)


def _shade_worst(axis: Axes, checks: Sequence[BoundCheck]) -> float:
    """Shade where no policy is at its worst: below the largest of the bounds; returns the bottom of the shading."""
    families = [LowerBoundFamily(c.horizon, c.arms, c.delta) for c in {c.delta: c for c in checks}.values()]
    x = np.linspace(0.0, np.sqrt(2.0 * max(check.easy for check in checks) + 1.0), 400) ** 2
    floor = min(min(check.hard for check in checks), *(f.horizon * f.delta / 4 for f in families)) / 2
    for form, alpha in (("counts", 0.25), ("paper", 0.5)):
        edge = np.max([bound_at(family, x, form) for family in families], axis=0)  # type: ignore[arg-type]
        axis.fill_between(x, floor, np.maximum(edge, floor), color=FORBIDDEN, alpha=alpha, linewidth=0)
    return float(floor)


def _shade_units(axis: Axes, arms: int) -> None:
    """Where no policy can be at any Delta: eq:ave_regret_0, and below it the weaker eq:ave_regret."""
    for kept, alpha in ((1.0 - 1.0 / arms, 0.25), (0.5, 0.5)):
        axis.fill_between([0.0, kept], 0.0, [kept, 0.0], color=FORBIDDEN, alpha=alpha, linewidth=0)


def _add_policy(left: Axes, right: Axes, looks: dict[str, Any], rows: Sequence[BoundCheck]) -> None:
    easy, hard = max(rows, key=lambda row: row.easy), max(rows, key=lambda row: row.hard)
    left.plot(easy.easy, hard.hard, markersize=7, clip_on=False, **{**looks, "linestyle": "none"})
    error: Any = {"xerr": easy.easy_error, "yerr": hard.hard_error, "fmt": "none", "ecolor": looks["color"]}
    left.errorbar(easy.easy, hard.hard, elinewidth=0.8, **error)
    half = np.array([row.horizon * row.delta / 2 for row in rows])
    x = np.sqrt([2 * row.delta * row.easy / row.arms for row in rows])
    right.plot(
        x, np.array([row.hard for row in rows]) / half, markersize=4, clip_on=False, **{**looks, "linewidth": 0.8}
    )


def _rates_title(estimates: Sequence[RateEstimate]) -> str:
    horizons = sorted({h for e in estimates for h in (*e.horizons, *e.saturated)})
    missing: dict[str, list[str]] = {}
    for e in estimates:
        if not np.isfinite(e.rate):
            missing.setdefault(e.policy, []).append(f"{e.alpha:g}")
    lines = [f"T from {horizons[0]} to {horizons[-1]}, {max(e.trials for e in estimates)} trials" if horizons else ""]
    if missing:
        lines.append("saturated, no rate: " + "; ".join(f"{p} at {', '.join(a)}" for p, a in missing.items()))
    return "\n".join(lines)
