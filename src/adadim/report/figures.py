"""Figures: regret over time, final regret against the hardness level, and both in files with their numbers."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
import polars as pl

from adadim.core.arrays import FloatArray
from adadim.core.checks import one_of, require, shown
from adadim.core.files import Place, as_place, write_atomic
from adadim.errors import InvalidTypeError, StoreError
from adadim.play.simulate import Band as Band
from adadim.play.simulate import Outcome
from adadim.report.bootstrap import mean_interval
from adadim.report.looks import ORACLE_KEY, key_of, looks_of
from adadim.report.style import PANEL, Axes, NotebookFigure, figure_style, heading, literal_texts, tidy
from adadim.report.text import name_of, policy_label
from adadim.report.text import title as title_of
from adadim.study import Results
from adadim.theory import hardness

# What the axes of curves say.
ROUNDS_AXIS, REGRET = "round $t$", "cumulative regret (reward units)"

# Parameters that a caption has, where all instances share them, and their signs.
SIZES = {"arms": "K", "dim": "d", "intrinsic_dim": "d*", "horizon": "T", "noise": "noise"}

PANELS_PER_ROW = 3
MAX_PANELS = 36  # more take minutes to draw and cannot be read

FORMATS = ("png", "pdf", "svg")
NO_DATES = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}


def summary(results: Results) -> pl.DataFrame:
    """Mean regret, its spread and its 95% confidence interval at every record point: the numbers behind a figure.

    `ci_low` and `ci_high` are mean -/+ 1.96 standard errors, easy to recompute; figures shade the bootstrap's
    interval, which is wider for few trials.

    Examples
    --------
    >>> import tempfile
    >>> from adadim.study import Study, run
    >>> sphere = {"kind": "sphere", "arms": 20, "dim": 6, "intrinsic_dim": 2, "horizon": 60}
    >>> plan = Study("small", {"easy": sphere}, {"LinUCB": {"kind": "LinUCB"}}, trials=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     summary(run(plan, folder, jobs=1)).columns
    ['instance', 'policy', 'time', 'trials', 'mean', 'std', 'ci_low', 'ci_high']
    """
    parts = []
    for instance, policy in _finished_cells(results):
        times, regret = results.curves(instance, policy)
        mean, std = _statistics(regret)
        half = 1.96 * std / np.sqrt(len(regret))
        which = {"instance": instance, "policy": policy, "time": pl.Series(times), "trials": len(regret)}
        parts.append(pl.DataFrame({**which, "mean": mean, "std": std, "ci_low": mean - half, "ci_high": mean + half}))
    return pl.concat(parts)


def draw(results: Results, band: Band = "ci", title: str | None = None) -> NotebookFigure:
    """Draw a study: curves over time if it has one instance, final regret against alpha if its instances differ in d*.

    Instances that do not differ in `intrinsic_dim` alone get a panel of curves each, the first 36 of them. The band is
    the 95% confidence interval of the mean (bootstrap; see `adadim.report.bootstrap`), or one standard deviation. Above
    the picture stand the title, if one is given, and a line that says what was run.

    A study's labels decide what is written: ``title``, ``policies`` (name to what it is called), ``panels`` (the same
    for instances), ``axes`` (``x`` and ``y``) and ``looks`` (name to colour, marker and line, see `register_look`).
    """
    one_of(band, "band", ("ci", "std"))
    cells = _finished_cells(results)
    instances = [name for name in results.instances if name in {instance for instance, _ in cells}]
    against_alpha = _same_but_for_dim(results, instances)
    left_out = 0 if against_alpha else max(0, len(instances) - MAX_PANELS)
    instances = instances[: len(instances) - left_out]
    panels = 1 if against_alpha else len(instances)
    columns = min(panels, PANELS_PER_ROW)
    rows = -(-panels // columns)
    with figure_style():
        figure = NotebookFigure(figsize=(PANEL[0] * columns, PANEL[1] * rows + 0.6), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
        for axis in axes[panels:]:
            axis.set_axis_off()
        if against_alpha:
            _draw_alphas(axes[0], results, instances, band, cells)
        else:
            for axis, instance in zip(axes, instances, strict=False):
                _draw_curves(axis, results, instance, band, cells)
                if panels > 1:
                    axis.set_title(name_of(results, "panels", instance), fontsize=9, parse_math=False)
        curves = {line.get_label(): line for axis in axes[:panels] for line in axis.get_lines()}
        drawn = [policy for policy in results.policies if policy in curves]
        _add_legend(figure, [(policy_label(results, policy), curves[policy]) for policy in drawn])
        trials = [len(results.final(*cell)) for cell in cells]
        lines = [what_was_run(results, instances), _shading(trials, band)]
        if left_out:
            lines.append(f"the first {panels} of {panels + left_out} instances (the CSV file has all)")
        heading(figure, title, "\n".join(filter(None, lines)))
    return figure


@overload
def plot(
    outcomes: Outcome | Mapping[str, Outcome], ax: None = None, band: Band = "ci", title: str | None = None
) -> NotebookFigure: ...


@overload
def plot(outcomes: Outcome | Mapping[str, Outcome], ax: Axes, band: Band = "ci", title: str | None = None) -> Axes: ...


def plot(
    outcomes: Outcome | Mapping[str, Outcome], ax: Axes | None = None, band: Band = "ci", title: str | None = None
) -> NotebookFigure | Axes:
    """Draw the mean regret of outcomes of `simulate` over the rounds, as the figures of studies look.

    Parameters
    ----------
    outcomes : dict, or Outcome
        Outcomes by what they are to be called; or one.
    ax : matplotlib.axes.Axes, optional
        Where to draw, e.g. in a figure of pyplot; by default in a new figure.
    band : {"ci", "std"}
        Shading: the 95% confidence interval of the mean (bootstrap), or one standard deviation of the replications.
    title : str, optional
        What to write above.

    Returns
    -------
    Figure or Axes
        The figure, which a notebook shows and ``savefig("regret.png")`` writes; or the axes, if they were given.

    Examples
    --------
    >>> import adadim
    >>> instance = adadim.instances.sphere(arms=60, dim=10, intrinsic_dim=2, horizon=200, replications=range(3))
    >>> policies = {"recommended": adadim.recommended(instance.problem), "oracle": adadim.LinUCB(dim=2)}
    >>> figure = adadim.plot({name: adadim.simulate(policy, instance) for name, policy in policies.items()})
    >>> [line.get_label() for line in figure.axes[0].get_lines()]
    ['recommended', 'oracle']
    """
    one_of(band, "band", ("ci", "std"))
    if title is not None and not isinstance(title, str):
        raise InvalidTypeError(f"title must be a text or None, got {shown(title)}")
    curves = _named_outcomes(outcomes)
    with figure_style():
        if ax is not None:
            _draw_outcomes(ax, curves, band)
            if title is not None:
                ax.set_title(title, fontsize=9, parse_math=False)
            literal_texts(ax.legend(frameon=False, handlelength=3.2))
            return ax
        figure = NotebookFigure(figsize=(PANEL[0], PANEL[1] + 0.6), layout="constrained")
        axis = figure.subplots()
        _draw_outcomes(axis, curves, band)
        if len(curves) > 1:
            _add_legend(figure, list(zip(curves, axis.get_lines(), strict=True)))
        problems = [one.learner.problem for one in curves.values()]
        sizes = [{"arms": p.arms, "dim": p.dim, "horizon": p.horizon, "noise": p.noise} for p in problems]
        replications = [len(p) for p in problems]
        lines = [_shared_sizes(sizes), _shading(replications, band, "replication")]
        if title is None and len(curves) == 1:
            (title,) = curves  # there is no legend
        heading(figure, title, "\n".join(filter(None, lines)))
    return figure


def _draw_outcomes(axis: Axes, outcomes: Mapping[str, Outcome], band: Band) -> None:
    policies = {name: one.learner.policy or type(one.learner).__name__ for name, one in outcomes.items()}
    # What is called an oracle looks like the oracle of the paper's figures; otherwise the kind of the policy decides.
    looks = looks_of({name: name if key_of(name) == ORACLE_KEY else policy for name, policy in policies.items()})
    for i, (name, one) in enumerate(outcomes.items()):
        _add_curve(axis, looks[name], name, one.times, np.atleast_2d(one.regret), band, i, len(outcomes))
    axis.set(xlabel=ROUNDS_AXIS, ylabel=REGRET)
    tidy(axis, from_zero=True)


def _named_outcomes(outcomes: Any) -> dict[str, Outcome]:
    """Outcomes by name, from what callers of `plot` give."""
    if isinstance(outcomes, Outcome):
        policy = outcomes.learner.policy or outcomes.learner
        return {type(policy).__name__: outcomes}
    if not isinstance(outcomes, Mapping) or not outcomes:
        raise InvalidTypeError(f"plot takes an outcome of simulate, or a dict {{name: outcome}}, got {shown(outcomes)}")
    for name, one in outcomes.items():
        require(isinstance(name, str), "the name of an outcome", "be a text", name, InvalidTypeError)
        if not isinstance(one, Outcome):
            kind = type(one).__name__
            raise InvalidTypeError(f"plot draws the regret of outcomes of simulate, but {name!r} is of type {kind}")
    return dict(outcomes)


def what_was_run(results: Results, instances: Sequence[str]) -> str:
    """Sizes and noise that the instances share, and the variant, for the caption of a figure; perhaps empty."""
    settings = [results.parameters(name) for name in instances]
    parts = [shared] if (shared := _shared_sizes(settings)) else []
    if settings and all(p.get("expressive") is True for p in settings):
        parts.append("expressive")
    variant = results.labels.get("variant")
    return ", ".join([*parts, *([variant] if isinstance(variant, str) else [])])


def _shared_sizes(settings: Sequence[Mapping[str, Any]]) -> str:
    """Sizes and noise that all settings have, and have in common; perhaps empty."""
    parts = []
    for key, sign in SIZES.items():
        values = {json.dumps(p[key]) for p in settings if key in p}
        if len(values) == 1 and all(key in p for p in settings) and values != {"null"}:
            parts.append(f"{sign} = {settings[0][key]}")
    return ", ".join(parts)


def _finished_cells(results: Results) -> list[tuple[str, str]]:
    """The cells with at least one trial."""
    cells = [cell for cell in results.cells() if len(results.final(*cell))]
    if not cells:
        raise StoreError(f"{results.folder}: nothing is finished yet, so there is nothing to draw; run the study first")
    return cells


def _draw_curves(axis: Axes, results: Results, instance: str, band: Band, cells: Sequence[tuple[str, str]]) -> None:
    looks = looks_of(results.study["policies"], results.labels.get("looks"))
    for i, policy in enumerate(results.policies):
        if (instance, policy) not in cells:
            continue
        times, regret = results.curves(instance, policy)
        _add_curve(axis, looks[policy], policy, times, regret, band, i, len(results.policies))
    axis.set_xlabel(name_of(results, "axes", "x", ROUNDS_AXIS))
    axis.set_ylabel(name_of(results, "axes", "y", REGRET))
    tidy(axis, from_zero=True)


def _draw_alphas(
    axis: Axes, results: Results, instances: Sequence[str], band: Band, cells: Sequence[tuple[str, str]]
) -> None:
    settings = {name: results.parameters(name) for name in instances}
    alphas = {name: hardness(p["intrinsic_dim"], p["horizon"]) for name, p in settings.items()}
    names = sorted(instances, key=lambda name: alphas[name])
    looks = looks_of(results.study["policies"], results.labels.get("looks"))
    for policy in results.policies:
        shown = [name for name in names if (name, policy) in cells]
        if not shown:
            continue
        triples = [_mean_and_band(results.curves(name, policy)[1][:, -1:], band) for name in shown]
        drawn = [np.concatenate(parts) for parts in zip(*triples, strict=True)]
        x = np.array([alphas[name] for name in shown])
        _add_line(axis, looks[policy], policy, x, drawn, markersize=5)
    ticks = [f"{alphas[name]:.2f}\n({settings[name]['intrinsic_dim']})" for name in names]
    axis.set_xticks([alphas[name] for name in names], ticks)
    alpha = r"hardness level $\alpha = \ln d_\star / \ln T$   ($d_\star$ in brackets)"
    rounds = results.curves(*cells[0])[0][-1]
    axis.set_xlabel(name_of(results, "axes", "x", alpha))
    axis.set_ylabel(name_of(results, "axes", "y", f"regret after {rounds} rounds (reward units)"))
    tidy(axis, from_zero=True)


def _add_curve(
    axis: Axes, look: dict[str, Any], name: str, times: Any, regret: FloatArray, band: Band, i: int, curves: int
) -> None:
    """Add the mean of regrets (trials, n) at these times, from (0, 0) on, and the shading around it: curve i of all."""
    x = np.concatenate([[0], times])
    drawn = [np.concatenate([[0.0], part]) for part in _mean_and_band(regret, band)]
    every = max(1, len(x) // 8)
    # Markers of different policies at different rounds, so that curves on top of each other can be told apart.
    first_marked = (i + 1) * every // (curves + 1)
    _add_line(axis, look, name, x, drawn, markevery=(first_marked, every), markersize=4)


def _add_line(
    axis: Axes, look: dict[str, Any], policy: str, x: FloatArray, drawn: Sequence[FloatArray], **options: Any
) -> None:
    """Add the mean of a policy, and the shading between the low and high ends."""
    mean, low, high = drawn
    axis.plot(x, mean, label=policy, **options, **look)
    if (low < high).any():
        axis.fill_between(x, low, high, color=look["color"], alpha=0.18, linewidth=0)


def _add_legend(figure: NotebookFigure, lines: Sequence[tuple[str, Any]]) -> None:
    """One legend of labels and lines for all panels, below them, where it hides no data."""
    labels = [label for label, _ in lines]
    room = figure.get_figwidth() * 72 - 20
    widest = max(len(label) for label in labels) * 4.6 + 40  # points: letters, then the sample of the line and gaps
    columns = max(1, min(len(labels), int(room // widest)))
    options: Any = {"loc": "outside lower center", "ncols": columns, "frameon": False, "handlelength": 3.2}
    literal_texts(figure.legend([line for _, line in lines], labels, **options))


def _shading(trials: Sequence[int], band: Band, noun: str = "trial") -> str:
    few, many = min(trials), max(trials)
    if many == 1:
        return f"one {noun}"
    shading = "its 95% confidence interval" if band == "ci" else "one standard deviation"
    return f"mean over {many if few == many else f'{few} to {many}'} {noun}s, shaded: {shading}"


def _same_but_for_dim(results: Results, instances: Sequence[str]) -> bool:
    """Whether several instances differ in their intrinsic dimension and in nothing else."""
    settings = [results.parameters(name) for name in instances]
    others = [{k: v for k, v in p.items() if k != "intrinsic_dim"} for p in settings]
    dims = {p.get("intrinsic_dim") for p in settings}
    if len(results.cells()) < len(results.instances) * len(results.policies) or None in dims:
        return False
    alike = 1 < len(dims) == len(settings) and all(parameters == others[0] for parameters in others)
    return alike and others[0].get("horizon", 0) > 1  # alpha is defined for these only


def _statistics(regret: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation over trials."""
    std = regret.std(axis=0, ddof=1) if len(regret) > 1 else np.zeros(regret.shape[1])
    return regret.mean(axis=0), std


def _mean_and_band(regret: FloatArray, band: Band) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean over trials, and the ends of the shading around it."""
    mean, std = _statistics(regret)
    low, high = mean_interval(regret) if band == "ci" else (mean - std, mean + std)
    return mean, low, high


def save(figure: NotebookFigure, numbers: Results | pl.DataFrame, stem: str | Place) -> list[Place]:
    """Write a figure as PNG, PDF and SVG, and the numbers behind it as CSV; returns the paths.

    The numbers are a table, or results, whose `summary` is written (which says what interval it has). The bytes depend
    on figure and numbers alone: the files hold no dates. Each file is written completely or not at all.
    """
    stem = as_place(stem, "stem")
    contents = {kind: picture(figure, kind) for kind in FORMATS}
    table = numbers if isinstance(numbers, pl.DataFrame) else summary(numbers)
    contents["csv"] = table.write_csv().encode()
    return [write_atomic(stem.with_name(f"{stem.name}.{kind}"), data) for kind, data in contents.items()]


def picture(figure: NotebookFigure, kind: str) -> bytes:
    """A figure as the content of a PNG, PDF or SVG file."""
    buffer = io.BytesIO()
    with figure_style():
        figure.savefig(buffer, format=kind, dpi=200, metadata=NO_DATES[kind])
    return buffer.getvalue()


def draw_and_save(results: Results, stem: str | Place, band: Band = "ci", titled: bool = True) -> list[Place]:
    """Draw a study, under its title if wanted, and write figure and numbers; returns the paths."""
    return save(draw(results, band=band, title=title_of(results) if titled else None), results, stem)
