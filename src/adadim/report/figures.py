"""Figures: regret over time, and final regret against the hardness level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import polars as pl

from adadim.checks import one_of
from adadim.errors import StoreError
from adadim.report.drawing import Axes, Figure
from adadim.report.labels import policy_label
from adadim.report.style import PANEL, figure_style, literal_texts, look, tidy
from adadim.study import Results
from adadim.theory import hardness

__all__ = ["Band", "draw", "summary"]

Band = Literal["ci", "std"]
"""Shading around a mean: its 95% confidence interval, or one standard deviation of the trials."""

COLUMNS = 3
MOST_PANELS = 36  # more take minutes to draw and cannot be read


def summary(results: Results) -> pl.DataFrame:
    """Mean regret, its spread and its 95% confidence interval at every record point: the numbers behind a figure.

    Examples
    --------
    >>> import tempfile
    >>> from adadim.study import Study, run
    >>> study = Study(
    ...     name="small",
    ...     instances={"easy": {"kind": "sphere", "arms": 20, "dim": 6, "intrinsic_dim": 2, "horizon": 60}},
    ...     policies={"LinUCB": {"kind": "LinUCB"}},
    ...     trials=3,
    ...     record=2,
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = summary(run(study, folder, jobs=1))
    >>> table.columns
    ['instance', 'policy', 'time', 'trials', 'mean', 'std', 'ci_low', 'ci_high']
    """
    rows: list[dict[str, Any]] = []
    for instance, policy in _present(results):
        times, regret = results.curves(instance, policy)
        mean, std, half = _statistics(regret)
        for i, t in enumerate(times.tolist()):
            rows.append(
                {
                    "instance": instance,
                    "policy": policy,
                    "time": t,
                    "trials": len(regret),
                    "mean": float(mean[i]),
                    "std": float(std[i]),
                    "ci_low": float(mean[i] - half[i]),
                    "ci_high": float(mean[i] + half[i]),
                }
            )
    return pl.DataFrame(rows)


def draw(results: Results, band: Band = "ci", title: str | None = None) -> Figure:
    """Draw a study: curves over time if it has one instance, final regret against alpha if its instances differ in d*.

    Instances that do not differ in `intrinsic_dim` alone get a panel of curves each, the first 36 of them.

    Parameters
    ----------
    results : Results
        What to draw.
    band : {"ci", "std"}
        Shading: the 95% confidence interval of the mean (normal approximation), or one standard deviation.
    title : str, optional
        Title above the picture.
    """
    one_of(band, "band", ("ci", "std"))
    cells = _present(results)
    instances = [name for name in results.instances if name in {instance for instance, _ in cells}]
    against_alpha = _same_but_for_dim(results, instances)
    left_out = 0 if against_alpha else max(0, len(instances) - MOST_PANELS)
    instances = instances[: len(instances) - left_out]
    panels = 1 if against_alpha else len(instances)
    columns = min(panels, COLUMNS)
    rows = -(-panels // columns)
    with figure_style():
        figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows + 0.6), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
        for axis in axes[panels:]:
            axis.set_axis_off()
        if against_alpha:
            _draw_alphas(axes[0], results, instances, band, cells)
        else:
            for axis, instance in zip(axes, instances, strict=False):
                _draw_curves(axis, results, instance, band, cells)
                if panels > 1:
                    axis.set_title(instance, fontsize=9, parse_math=False)
        _add_legend(figure, axes[:panels], results)
        heading = f"{title}\n" if title else ""
        caption = _caption([len(results.final(*cell)) for cell in cells], band)
        if left_out:
            caption += f"; the first {panels} of {panels + left_out} instances (the CSV file has all)"
        figure.suptitle(heading + caption, fontsize=9, parse_math=False)
    return figure


def _present(results: Results) -> list[tuple[str, str]]:
    """The cells with at least one trial."""
    cells = [cell for cell in results.cells() if len(results.final(*cell))]
    if not cells:
        raise StoreError(f"{results.folder}: nothing is finished yet, so there is nothing to draw; run the study first")
    return cells


def _draw_curves(axis: Axes, results: Results, instance: str, band: Band, cells: Sequence[tuple[str, str]]) -> None:
    for i, policy in enumerate(results.policies):
        if (instance, policy) not in cells:
            continue
        times, regret = results.curves(instance, policy)
        mean, std, half = _statistics(regret)
        spread = half if band == "ci" else std
        x = np.concatenate([[0], times])
        y, s = np.concatenate([[0.0], mean]), np.concatenate([[0.0], spread])
        every = max(1, len(x) // 8)
        # Markers of different policies at different rounds, so that curves on top of each other can be told apart.
        first = (i + 1) * every // (len(results.policies) + 1)
        _add_line(axis, i, policy, x, y, s, markevery=(first, every), markersize=4)
    axis.set_xlabel("round $t$")
    axis.set_ylabel("cumulative regret (reward units)")
    tidy(axis, from_zero=True)


def _draw_alphas(
    axis: Axes, results: Results, instances: Sequence[str], band: Band, cells: Sequence[tuple[str, str]]
) -> None:
    settings = {name: results.parameters(name) for name in instances}
    alphas = {name: hardness(p["intrinsic_dim"], p["horizon"]) for name, p in settings.items()}
    names = sorted(instances, key=lambda name: alphas[name])
    for i, policy in enumerate(results.policies):
        shown = [name for name in names if (name, policy) in cells]
        if not shown:
            continue
        triples = [_statistics(results.curves(name, policy)[1][:, -1:]) for name in shown]
        mean = np.array([t[0][0] for t in triples])
        spread = np.array([t[2][0] if band == "ci" else t[1][0] for t in triples])
        _add_line(axis, i, policy, np.array([alphas[name] for name in shown]), mean, spread, markersize=5)
    ticks = [f"{alphas[name]:.2f}\n({settings[name]['intrinsic_dim']})" for name in names]
    axis.set_xticks([alphas[name] for name in names], ticks)
    axis.set_xlabel(r"hardness level $\alpha = \ln d_\star / \ln T$   ($d_\star$ in brackets)")
    axis.set_ylabel(f"regret after {results.curves(*cells[0])[0][-1]} rounds (reward units)")
    tidy(axis, from_zero=True)


def _add_line(
    axis: Axes,
    i: int,
    policy: str,
    x: np.ndarray[Any, Any],
    mean: np.ndarray[Any, Any],
    spread: np.ndarray[Any, Any],
    **options: Any,
) -> None:
    looks = look(i)
    axis.plot(x, mean, label=policy, **options, **looks)
    if spread.any():
        axis.fill_between(x, mean - spread, mean + spread, color=looks["color"], alpha=0.18, linewidth=0)


def _add_legend(figure: Figure, axes: Sequence[Axes], results: Results) -> None:
    """One legend for all panels, below them, where it hides no data."""
    lines = {line.get_label(): line for axis in axes for line in axis.get_lines()}
    shown = [policy for policy in results.policies if policy in lines]
    labels = [policy_label(results, policy) for policy in shown]
    room = figure.get_figwidth() * 72 - 20
    widest = max(len(label) for label in labels) * 4.6 + 40  # points: letters, then the sample of the line and gaps
    columns = max(1, min(len(labels), int(room // widest)))
    options: Any = {"loc": "outside lower center", "ncols": columns, "frameon": False, "handlelength": 3.2}
    literal_texts(figure.legend([lines[policy] for policy in shown], labels, **options))


def _caption(trials: Sequence[int], band: Band) -> str:
    few, many = min(trials), max(trials)
    if many == 1:
        return "one trial"
    shading = "95% confidence interval of the mean" if band == "ci" else "one standard deviation"
    return f"mean over {many if few == many else f'{few} to {many}'} trials, shaded: {shading}"


def _same_but_for_dim(results: Results, instances: Sequence[str]) -> bool:
    """Whether several instances differ in their intrinsic dimension and in nothing else."""
    settings = [results.parameters(name) for name in instances]
    rest = [{k: v for k, v in p.items() if k != "intrinsic_dim"} for p in settings]
    dims = {p.get("intrinsic_dim") for p in settings}
    full = len(results.cells()) == len(results.instances) * len(results.policies)
    return (
        full
        and None not in dims
        and 1 < len(dims) == len(settings)
        and all(r == rest[0] for r in rest)
        and rest[0].get("horizon", 0) > 1  # alpha is there for those only
    )


def _statistics(regret: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], ...]:
    """Mean, standard deviation and half of the 95% confidence interval over trials."""
    count = len(regret)
    std = regret.std(axis=0, ddof=1) if count > 1 else np.zeros(regret.shape[1])
    return regret.mean(axis=0), std, 1.96 * std / np.sqrt(count)
