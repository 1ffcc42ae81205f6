"""The comparison as a summary with a line for each policy, and as a heat map of all ratios."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from adadim.core.arrays import FloatArray
from adadim.core.checks import one_of
from adadim.experiments.comparison import families
from adadim.experiments.comparison.analysis import Ratio, ratio_text
from adadim.experiments.comparison.plan import ORACLE, PUBLISHED
from adadim.report.looks import looks_of
from adadim.report.style import Axes, Normalize, NotebookFigure, ScalarMappable, colormaps, figure_style, heading, tidy

RATIO_COLOURS = colormaps["RdBu_r"]
HELD_OUT_SPLIT = "held-out"
EDGE = 30.0  # ratio beyond which marks of the summary stay at the edge
FARTHEST = 10.0  # ratio from which colours do not change any more
CELL = (0.47, 0.165)  # inches


def draw_summary(rows: Sequence[Ratio], split: str | None = None, reference: str = ORACLE) -> NotebookFigure:
    """Draw every policy in a line, the best median first: a small mark for each family, a large one for their median.

    Ratios, which `ratios` gives, beyond 30 and below 1/30 stand at the edge. The number on the right is the worst
    ratio. The split is by default "held-out" if there are any such families, else the first.
    """
    one_of(reference, "reference", (ORACLE, PUBLISHED))
    splits = list(dict.fromkeys(row.split for row in rows))
    split = split or (HELD_OUT_SPLIT if HELD_OUT_SPLIT in splits else splits[0])
    one_of(split, "split", tuple(splits))
    shown = [row for row in rows if row.reference == reference and row.policy != reference and row.split == split]
    values: dict[str, FloatArray] = {}
    for policy in dict.fromkeys(row.policy for row in shown):
        finite = [row.value for row in shown if row.policy == policy and np.isfinite(row.value)]
        if finite:
            values[policy] = np.array(finite)
    order = sorted(values, key=lambda policy: float(np.median(values[policy])))
    looks = looks_of({policy: policy for policy in values})
    count = max((len(ratios) for ratios in values.values()), default=0)
    with figure_style():
        figure = NotebookFigure(figsize=(7.6, 0.27 * len(order) + 1.5), layout="constrained")
        axis = figure.subplots()
        for i, policy in enumerate(order):
            look = {**looks[policy], "linestyle": "none"}
            x = np.clip(values[policy], 1 / EDGE, EDGE)
            axis.plot(x, np.full(len(x), i), **{**look, "markersize": 4, "alpha": 0.35, "markeredgewidth": 0.6})
            axis.plot(np.median(values[policy]).clip(1 / EDGE, EDGE), i, **{**look, "markersize": 9})
            axis.text(EDGE * 1.25, i, ratio_text(values[policy].max()), fontsize=8, va="center")
        axis.axvline(1.0, color="0.5", linewidth=0.8)
        axis.text(EDGE * 1.25, -1, "worst", fontsize=8, va="center")
        axis.set_xscale("log")
        ticks = (1 / EDGE, 0.1, 0.3, 1.0, 3.0, 10.0, EDGE)
        axis.set_xticks(ticks, ["≤1/30", "0.1", "0.3", "1", "3", "10", "≥30"])
        axis.minorticks_off()
        axis.set(xlim=(1 / EDGE / 1.15, EDGE * 1.15), ylim=(len(order) - 0.4, -0.6))
        axis.set_yticks(range(len(order)), order, fontsize=9)
        axis.set_xlabel(f"mean regret / that of {reference}   (left is better; large mark: median over families)")
        tidy(axis)
        heading(figure, None, f"{count} {split} families of problems, {_trials(shown)}, same instances and noise")
    return figure


def draw_ratios(rows: Sequence[Ratio], reference: str = ORACLE) -> NotebookFigure:
    """Draw families against policies as a heat map: red where a policy loses more than the reference, blue where less.

    Every cell says its ratio, as `ratios` gives it; each split has its median and worst case below it. Beyond a factor
    of 10 the colour stays the same.
    """
    one_of(reference, "reference", (ORACLE, PUBLISHED))
    shown = [row for row in rows if row.reference == reference and row.policy != reference]
    policies = list(dict.fromkeys(row.policy for row in shown))
    groups = {split: list(group) for split, group in itertools.groupby(shown, lambda row: row.split)}
    grids = {split: _grid(group, policies) for split, group in groups.items()}
    heights = [len(labels) for labels, _ in grids.values()]
    width, height = CELL[0] * len(policies) + 3.2, CELL[1] * sum(heights) + 0.35 * len(heights) + 1.9
    with figure_style():
        figure = NotebookFigure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(len(grids), 1, squeeze=False, height_ratios=heights).ravel().tolist()
        for axis, (split, (labels, values)) in zip(axes, grids.items(), strict=True):
            _draw_grid(axis, labels, values)
            axis.set_ylabel(split, fontsize=9, fontweight="bold", labelpad=8)
        axes[0].xaxis.tick_top()
        axes[0].set_xticks(range(len(policies)), policies, rotation=50, ha="left", rotation_mode="anchor", fontsize=8)
        ticks = [0.1, 0.2, 0.5, 1, 2, 5, 10]
        scale = ScalarMappable(Normalize(-np.log10(FARTHEST), np.log10(FARTHEST)), RATIO_COLOURS)
        options: Any = {"orientation": "horizontal", "fraction": 0.03, "aspect": 45, "pad": 0.02}
        bar = figure.colorbar(scale, ax=axes, ticks=np.log10(ticks), **options)
        bar.ax.set_xticklabels([f"{tick:g}" for tick in ticks])
        described = f"mean regret / that of {reference}, {_trials(shown)}, on the same instances and noise"
        bar.set_label(f"{described}\nnames end in d*/d; –: {reference} loses nothing")
        figure.align_ylabels(axes)
    return figure


def _grid(rows: Sequence[Ratio], policies: Sequence[str]) -> tuple[list[str], FloatArray]:
    """Row labels and ratios, (families and two more, policies)."""
    families = list(dict.fromkeys(row.family for row in rows))
    values = np.full((len(families), len(policies)), np.nan)
    for row in rows:
        values[families.index(row.family), policies.index(row.policy)] = row.value
    extra = np.full((2, len(policies)), np.nan)
    for j, column in enumerate(values.T):
        if (finite := column[np.isfinite(column)]).size:
            extra[:, j] = np.median(finite), finite.max()
    return [*map(_label, families), "median", "worst"], np.vstack([values, extra])


def _label(family: str) -> str:
    """Name of a family, which has d* and d, with its horizon and noise."""
    instance = {f.name: f.instance for f in families.FAMILIES}.get(family, {})
    sizes = [f"{sign} {instance[key]:g}" for key, sign in (("horizon", "T"), ("noise", "σ")) if key in instance]
    return ", ".join([family, *sizes])


def _draw_grid(axis: Axes, labels: Sequence[str], values: FloatArray) -> None:
    edge = np.log10(FARTHEST)
    logs = np.log10(np.maximum(values, 1e-6))
    axis.imshow(logs, cmap=RATIO_COLOURS, vmin=-edge, vmax=edge, aspect="auto", interpolation="nearest")
    for (i, j), value in np.ndenumerate(values):
        ink = "white" if abs(logs[i, j]) > 0.62 * edge else "black"
        bold = "bold" if i >= len(values) - 2 else "normal"
        axis.text(j, i, ratio_text(value), ha="center", va="center", fontsize=6, color=ink, fontweight=bold)
    axis.axhline(len(values) - 2.5, color="white", linewidth=3)
    axis.set_yticks(range(len(labels)), labels, fontsize=6.5)
    axis.set_xticks([])
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def _trials(rows: Sequence[Ratio]) -> str:
    few, many = min(row.trials for row in rows), max(row.trials for row in rows)
    return f"{many if few == many else f'{few} to {many}'} trial{'s' if many > 1 else ''}"
