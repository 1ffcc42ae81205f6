"""The comparison as a heat map."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from adadim.checks import one_of
from adadim.experiments.comparison import families
from adadim.experiments.comparison.analysis import Ratio
from adadim.experiments.comparison.plan import ORACLE, PUBLISHED
from adadim.experiments.comparison.tables import ratio_text
from adadim.report.drawing import Axes, Figure, Normalize, ScalarMappable, colormaps
from adadim.report.style import figure_style

__all__ = ["COLOURS", "draw_ratios"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

COLOURS = colormaps["RdBu_r"]
FARTHEST = 10.0  # ratio from which colours do not change any more
CELL = (0.47, 0.165)  # inches


def draw_ratios(rows: Sequence[Ratio], reference: str = ORACLE) -> Figure:
    """Draw families against policies as a heat map: red where a policy loses more than the reference, blue where less.

    Every cell says its ratio; each split has its median and worst case below it. Beyond a factor of 10 the colour
    stays the same.

    Parameters
    ----------
    rows : sequence of Ratio
        What `ratios` gives.
    reference : {"oracle", "linucb++"}
        Relative to what.
    """
    one_of(reference, "reference", (ORACLE, PUBLISHED))
    shown = [row for row in rows if row.reference == reference and row.policy != reference]
    policies = list(dict.fromkeys(row.policy for row in shown))
    groups = {split: list(group) for split, group in itertools.groupby(shown, lambda row: row.split)}
    grids = {split: _grid(group, policies) for split, group in groups.items()}
    heights = [len(labels) for labels, _ in grids.values()]
    width, height = CELL[0] * len(policies) + 3.2, CELL[1] * sum(heights) + 0.35 * len(heights) + 1.9
    with figure_style():
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(len(grids), 1, squeeze=False, height_ratios=heights).ravel().tolist()
        for axis, (split, (labels, values)) in zip(axes, grids.items(), strict=True):
            _draw_grid(axis, labels, values)
            axis.set_ylabel(split, fontsize=9, fontweight="bold", labelpad=8)
        axes[0].xaxis.tick_top()
        axes[0].set_xticks(range(len(policies)), policies, rotation=50, ha="left", rotation_mode="anchor", fontsize=8)
        ticks = [0.1, 0.2, 0.5, 1, 2, 5, 10]
        scale = ScalarMappable(Normalize(-np.log10(FARTHEST), np.log10(FARTHEST)), COLOURS)
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
        if (known := column[np.isfinite(column)]).size:
            extra[:, j] = np.median(known), known.max()
    return [*map(_label, families), "median", "worst"], np.vstack([values, extra])


def _label(family: str) -> str:
    """Name of a family and what it does not say; d* and d are in the name."""
    known = {f.name: f.instance for f in families.FAMILIES}.get(family, {})
    sizes = [f"{sign} {known[key]:g}" for key, sign in (("horizon", "T"), ("noise", "σ")) if key in known]
    return ", ".join([family, *sizes])


def _draw_grid(axis: Axes, labels: Sequence[str], values: FloatArray) -> None:
    edge = np.log10(FARTHEST)
    logs = np.log10(np.maximum(values, 1e-6))
    axis.imshow(logs, cmap=COLOURS, vmin=-edge, vmax=edge, aspect="auto", interpolation="nearest")
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
