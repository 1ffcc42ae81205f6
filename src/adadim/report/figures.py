"""Figures: regret over time, and final regret against the hardness level."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adadim.study import Results
from adadim.theory import hardness

__all__ = ["Band", "draw", "save", "summary"]

Band = Literal["ci", "std"]
"""Shading around a mean: its 95% confidence interval, or one standard deviation of the trials."""

FORMATS = ("png", "pdf", "svg")

# Okabe and Ito's colours, which colour-blind readers can tell apart; line styles and markers serve print in grey.
COLOURS = ("#0072B2", "#000000", "#D55E00", "#CC79A7", "#009E73", "#E69F00", "#56B4E9", "#F0E442")
STYLES = ("-", "--", "-", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("s", "x", "o", "v", "^", "D", "P", "*")

LABELS = {
    "linucb": "LinUCB",
    "oracle": "LinUCB Oracle",
    "linucb++": "LinUCB++",
    "linucb++corral": "LinUCB++ with Corral",
    "smooth-corral": "Smooth Corral",
    "dynamic-balancing": "Dynamic Balancing",
}


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
    for instance, policy in results.cells():
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

    Instances that do not differ in `intrinsic_dim` alone get a panel of curves each.

    Parameters
    ----------
    results : Results
        What to draw.
    band : {"ci", "std"}
        Shading: the 95% confidence interval of the mean (normal approximation), or one standard deviation.
    title : str, optional
        Title above the picture.
    """
    if band not in ("ci", "std"):
        raise ValueError(f"band must be 'ci' or 'std', got {band!r}")
    against_alpha = _same_but_for_dim(results)
    panels = 1 if against_alpha else len(results.instances)
    columns = min(panels, 3)
    rows = -(-panels // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.8 * columns, 3.6 * rows), squeeze=False, layout="constrained")
    for axis in axes.ravel()[panels:]:
        axis.set_axis_off()
    if against_alpha:
        _draw_alphas(axes[0, 0], results, band)
    else:
        for axis, instance in zip(axes.ravel(), results.instances, strict=False):
            _draw_curves(axis, results, instance, band)
            if panels > 1:
                axis.set_title(instance, fontsize=10)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    axes[0, 0].legend(handles, labels, fontsize=8, frameon=False)
    shading = "95% confidence interval of the mean" if band == "ci" else "one standard deviation"
    trials = {len(results.final(*cell)) for cell in results.cells()}
    count = str(trials.pop()) if len(trials) == 1 else f"{min(trials)} to {max(trials)}"
    heading = f"{title}\n" if title else ""
    figure.suptitle(f"{heading}mean over {count} trials, shaded: {shading}", fontsize=9)
    return figure


def save(figure: Figure, results: Results, stem: str | Path) -> list[Path]:
    """Write a figure as PNG, PDF and SVG, and the numbers behind it as CSV; returns the paths.

    The bytes depend on the results alone: no dates go in.
    """
    stem = Path(stem)
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = []
    for kind in FORMATS:
        buffer = io.BytesIO()
        metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[kind]
        with plt.rc_context({"svg.hashsalt": "adadim"}):
            figure.savefig(buffer, format=kind, dpi=200, metadata=metadata)
        paths.append(_write(stem.with_name(f"{stem.name}.{kind}"), buffer.getvalue()))
    paths.append(_write(stem.with_name(f"{stem.name}.csv"), summary(results).write_csv().encode()))
    plt.close(figure)
    return paths


def _draw_curves(axis: Axes, results: Results, instance: str, band: Band) -> None:
    for i, policy in enumerate(results.policies):
        if (instance, policy) not in results.cells():
            continue
        times, regret = results.curves(instance, policy)
        mean, std, half = _statistics(regret)
        spread = half if band == "ci" else std
        x = np.concatenate([[0], times])
        y, s = np.concatenate([[0.0], mean]), np.concatenate([[0.0], spread])
        look = _look(i)
        every = max(1, len(x) // 8)
        axis.plot(x, y, label=LABELS.get(policy, policy), markevery=(every // 2, every), markersize=4, **look)
        axis.fill_between(x, y - s, y + s, color=look["color"], alpha=0.18, linewidth=0)
    axis.set_xlabel("round $t$")
    axis.set_ylabel("cumulative regret")
    _tidy(axis)


def _draw_alphas(axis: Axes, results: Results, band: Band) -> None:
    settings = [results.parameters(name) for name in results.instances]
    alphas = [hardness(p["intrinsic_dim"], p["horizon"]) for p in settings]
    for i, policy in enumerate(results.policies):
        triples = [_statistics(results.curves(name, policy)[1][:, -1:]) for name in results.instances]
        mean = np.array([t[0][0] for t in triples])
        spread = np.array([t[2][0] if band == "ci" else t[1][0] for t in triples])
        look = _look(i)
        axis.plot(alphas, mean, label=LABELS.get(policy, policy), markersize=5, **look)
        axis.fill_between(alphas, mean - spread, mean + spread, color=look["color"], alpha=0.18, linewidth=0)
    dims = [f"{p['intrinsic_dim']}" for p in settings]
    axis.set_xticks(alphas, [f"{a:.2f}\n({d})" for a, d in zip(alphas, dims, strict=True)], fontsize=8)
    axis.set_xlabel(r"hardness level $\alpha = \ln d_\star / \ln T$   ($d_\star$ in brackets)")
    axis.set_ylabel(f"regret after {settings[0]['horizon']} rounds")
    _tidy(axis)


def _same_but_for_dim(results: Results) -> bool:
    """Whether several instances differ in their intrinsic dimension and in nothing else."""
    settings = [results.parameters(name) for name in results.instances]
    rest = [{k: v for k, v in p.items() if k != "intrinsic_dim"} for p in settings]
    full = len(results.cells()) == len(results.instances) * len(results.policies)
    return full and len(settings) > 1 and "intrinsic_dim" in settings[0] and all(r == rest[0] for r in rest)


def _statistics(regret: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], ...]:
    """Mean, standard deviation and half of the 95% confidence interval over trials."""
    count = len(regret)
    std = regret.std(axis=0, ddof=1) if count > 1 else np.zeros(regret.shape[1])
    return regret.mean(axis=0), std, 1.96 * std / np.sqrt(max(count, 1))


def _look(i: int) -> dict[str, Any]:
    n = len(COLOURS)
    return {"color": COLOURS[i % n], "linestyle": STYLES[i % n], "marker": MARKERS[i % n], "linewidth": 1.4}


def _tidy(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.25, linewidth=0.5)


def _write(path: Path, data: bytes) -> Path:
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(data)
    part.replace(path)
    return path
