"""Figures: regret over time, and final regret against the hardness level."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adadim.errors import InvalidValueError
from adadim.study import Results, StoreError
from adadim.theory import hardness

__all__ = ["Band", "draw", "save", "summary"]

Band = Literal["ci", "std"]
"""Shading around a mean: its 95% confidence interval, or one standard deviation of the trials."""

FORMATS = ("png", "pdf", "svg")

# Okabe and Ito's colours, which colour-blind readers can tell apart; line styles and markers serve print in grey.
COLOURS = ("#0072B2", "#000000", "#D55E00", "#CC79A7", "#009E73", "#E69F00", "#56B4E9", "#F0E442")
STYLES = ("-", "--", "-", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("s", "x", "o", "v", "^", "D", "P", "*")

# What a figure looks like is decided here, not by the reader's matplotlibrc. Fonts go into a PDF as TrueType, which
# publishers want.
LOOK: list[Any] = [
    "default",
    {
        "axes.labelsize": 9,
        "font.size": 9,
        "legend.fontsize": 8,
        "pdf.fonttype": 42,
        "svg.hashsalt": "adadim",
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
    },
]
PANEL = (4.8, 3.5)  # inches
COLUMNS = 3

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
        raise InvalidValueError(f"band must be 'ci' or 'std', got {band!r}")
    cells = _present(results)
    instances = [name for name in results.instances if name in {instance for instance, _ in cells}]
    against_alpha = _same_but_for_dim(results, instances)
    panels = 1 if against_alpha else len(instances)
    columns = min(panels, COLUMNS)
    rows = -(-panels // columns)
    with style.context(LOOK):
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
        _add_legend(figure, axes[:panels], results.policies)
        heading = f"{title}\n" if title else ""
        caption = _caption([len(results.final(*cell)) for cell in cells], band)
        figure.suptitle(heading + caption, fontsize=9, parse_math=False)
    return figure


def save(figure: Figure, numbers: Results | pl.DataFrame, stem: str | Path) -> list[Path]:
    """Write a figure as PNG, PDF and SVG, and the numbers behind it as CSV; returns the paths.

    The numbers are a table, or results, whose `summary` is written. The bytes depend on figure and numbers alone: no
    dates go in. Each file is written whole or not at all.
    """
    stem = Path(stem)
    contents = {}
    for kind in FORMATS:
        buffer = io.BytesIO()
        metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[kind]
        with style.context(LOOK):
            figure.savefig(buffer, format=kind, dpi=200, metadata=metadata)
        contents[kind] = buffer.getvalue()
    table = numbers if isinstance(numbers, pl.DataFrame) else summary(numbers)
    contents["csv"] = table.write_csv().encode()
    return [write_whole(stem.with_name(f"{stem.name}.{kind}"), data) for kind, data in contents.items()]


def write_whole(path: Path, data: bytes) -> Path:
    """Write a file whole or not at all, even if another process writes it at the same time; makes its folder."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(data)
            part.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink()
            raise
    except OSError as error:
        fix = "choose a place where there is space and you may write"
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}; {fix}") from error
    return path


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
        # Markers of different policies at different places, so that curves on top of each other can be told apart.
        first = (i + 1) * every // (len(results.policies) + 1)
        _add_line(axis, i, policy, x, y, s, markevery=(first, every), markersize=4)
    axis.set_xlabel("round $t$")
    axis.set_ylabel("cumulative regret (reward units)")
    _tidy(axis)


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
    _tidy(axis)


def _add_line(
    axis: Axes,
    i: int,
    policy: str,
    x: np.ndarray[Any, Any],
    mean: np.ndarray[Any, Any],
    spread: np.ndarray[Any, Any],
    **options: Any,
) -> None:
    look = _look(i)
    axis.plot(x, mean, label=policy, **options, **look)
    if spread.any():
        axis.fill_between(x, mean - spread, mean + spread, color=look["color"], alpha=0.18, linewidth=0)


def _add_legend(figure: Figure, axes: Sequence[Axes], policies: Sequence[str]) -> None:
    """One legend for all panels, below them, where it hides no data."""
    lines = {line.get_label(): line for axis in axes for line in axis.get_lines()}
    shown = [policy for policy in policies if policy in lines]
    ours = set(policies) == set(LABELS)  # in a study of the reader's own, "oracle" is whatever they mean by it
    labels = [LABELS[policy] if ours else policy for policy in shown]
    room = figure.get_figwidth() * 72 - 20
    widest = max(len(label) for label in labels) * 4.6 + 40  # points: letters, then the sample of the line and gaps
    columns = max(1, min(len(labels), int(room // widest)))
    place: Any = {"loc": "outside lower center", "ncols": columns, "frameon": False, "handlelength": 3.2}
    legend = figure.legend([lines[policy] for policy in shown], labels, **place)
    for text in legend.get_texts():
        text.set_parse_math(False)


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


def _look(i: int) -> dict[str, Any]:
    n = len(COLOURS)
    j = (i + i // n) % n  # a colour that comes again has another style and marker
    return {"color": COLOURS[i % n], "linestyle": STYLES[j], "marker": MARKERS[j], "linewidth": 1.4}


def _tidy(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.25, linewidth=0.5)
