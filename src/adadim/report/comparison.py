"""What the standing comparison shows: ratios of mean regrets, where each policy stands, and a heat map.

A ratio is one policy's mean regret over that of a reference on the same instances with the same noise. Its interval is
a 95% percentile interval of the bootstrap over trials, which are resampled jointly for both and for all families, so
the comparison is paired. Where the reference loses nothing there is no ratio: it is NaN, and counts nowhere.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
from matplotlib import colormaps, style
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from adadim.bootstrap import FEWEST, interval, resamples
from adadim.comparison import FAMILIES, ORACLE, PUBLISHED
from adadim.errors import InvalidValueError
from adadim.report.figures import LOOK
from adadim.report.tables import markdown_table
from adadim.study import Results

__all__ = ["Ratio", "Standing", "comparison_markdown", "draw_ratios", "ratios", "ratios_table", "standings"]

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

NAMED = 3  # losses that a table tells by name
NOTHING = 1e-9  # regret that is rounding
COLOURS = colormaps["RdBu_r"]
FARTHEST = 10.0  # ratio from which colours do not change any more
CELL = (0.47, 0.165)  # inches


@dataclass(frozen=True)
class Ratio:
    """Mean regret of a policy on a family, relative to a reference.

    Attributes
    ----------
    split, family, policy, reference : str
        Names in the comparison.
    regret : float
        Mean regret of the policy after the last round.
    value, low, high : float
        The ratio and its 95% interval; NaN where the reference loses nothing. Fewer than 6 trials have no interval.
    unlucky : float
        Share of the trials that lost more than twice the reference's mean.
    trials : int
        Trials that all policies have finished.
    """

    split: str
    family: str
    policy: str
    reference: str
    regret: float
    value: float
    low: float
    high: float
    unlucky: float
    trials: int


@dataclass(frozen=True)
class Standing:
    """One policy over all families of a split, relative to a reference.

    Attributes
    ----------
    split, policy, reference : str
        Names in the comparison.
    families : int
        Number of families that have a ratio.
    median, median_low, median_high : float
        Median ratio over families, with its 95% interval.
    worst, worst_low, worst_high : float
        Largest ratio, with the interval of that one family.
    worst_family : str
        Where that is.
    unlucky : float
        Share of all trials that lost more than twice the reference's mean on their family.
    losses : tuple of str
        Families on which the ratio is above 1, interval and all; worst first.
    """

    split: str
    policy: str
    reference: str
    families: int
    median: float
    median_low: float
    median_high: float
    worst: float
    worst_low: float
    worst_high: float
    worst_family: str
    unlucky: float
    losses: tuple[str, ...]


def ratios(results: Iterable[Results]) -> list[Ratio]:
    """Every policy on every family, relative to the oracle and to the paper's algorithm.

    Parameters
    ----------
    results : iterable of Results
        What came of `adadim.comparison.study`, one for each split.

    Examples
    --------
    >>> import tempfile
    >>> from adadim import comparison, study
    >>> plan = comparison.study("development", trials=2, policy=["random"], family=["lower-bound-35/50"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = ratios([study.run(plan, folder, jobs=1)])
    >>> [row.policy for row in rows if row.reference == "oracle"]
    ['oracle', 'linucb++', 'random']
    """
    return [row for part in results for row, _ in _sampled(part)]


def standings(results: Iterable[Results]) -> list[Standing]:
    """Worst case, median and losses of every policy, by split and reference."""
    told = []
    for part in results:
        groups: dict[tuple[str, str], list[tuple[Ratio, FloatArray]]] = {}
        for row, sample in _sampled(part):
            groups.setdefault((row.policy, row.reference), []).append((row, sample))
        told += [_standing(group) for group in groups.values()]
    return told


def ratios_table(rows: Sequence[Ratio]) -> pl.DataFrame:
    """Ratios as a table, a row each."""
    return pl.DataFrame([asdict(row) for row in rows])


def comparison_markdown(rows: Sequence[Ratio], told: Sequence[Standing]) -> str:
    """The comparison as Markdown: for each split where every policy stands, then the ratios to the oracle."""
    parts = []
    for split in dict.fromkeys(row.split for row in rows):
        header, *lines = _standing_rows([s for s in told if s.split == split])
        parts += [f"## {split}\n", markdown_table(header, lines)]
        shown = [row for row in rows if row.split == split and row.reference == ORACLE]
        policies = list(dict.fromkeys(row.policy for row in shown))
        lines = []
        for family, group in itertools.groupby(shown, lambda row: row.family):
            found = {row.policy: _number(row.value) for row in group}
            lines.append([family, *(found.get(policy, "") for policy in policies)])
        parts.append(markdown_table(["mean regret / oracle's", *policies], lines))
    return "\n".join(parts)


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
    if reference not in (ORACLE, PUBLISHED):
        raise InvalidValueError(f"reference must be {ORACLE!r} or {PUBLISHED!r}, got {reference!r}")
    shown = [row for row in rows if row.reference == reference and row.policy != reference]
    policies = list(dict.fromkeys(row.policy for row in shown))
    groups = {split: list(group) for split, group in itertools.groupby(shown, lambda row: row.split)}
    grids = {split: _grid(group, policies) for split, group in groups.items()}
    heights = [len(labels) for labels, _ in grids.values()]
    width, height = CELL[0] * len(policies) + 3.2, CELL[1] * sum(heights) + 0.35 * len(heights) + 1.9
    with style.context(LOOK):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(len(grids), 1, squeeze=False, height_ratios=heights).ravel().tolist()
        for axis, (split, (labels, values)) in zip(axes, grids.items(), strict=True):
            _draw_grid(axis, labels, values)
            axis.set_ylabel(split, fontsize=9, fontweight="bold", labelpad=8)
        axes[0].xaxis.tick_top()
        axes[0].set_xticks(range(len(policies)), policies, rotation=50, ha="left", rotation_mode="anchor", fontsize=8)
        ticks = [0.1, 0.2, 0.5, 1, 2, 5, 10]
        scale = ScalarMappable(Normalize(-np.log10(FARTHEST), np.log10(FARTHEST)), COLOURS)
        place: Any = {"orientation": "horizontal", "fraction": 0.03, "aspect": 45, "pad": 0.02}
        bar = figure.colorbar(scale, ax=axes, ticks=np.log10(ticks), **place)
        bar.ax.set_xticklabels([f"{tick:g}" for tick in ticks])
        told = f"mean regret / that of {reference}, {_trials(shown)}, on the same instances and noise"
        bar.set_label(f"{told}\nnames end in d*/d; –: {reference} loses nothing")
        figure.align_ylabels(axes)
    return figure


def _sampled(results: Results) -> list[tuple[Ratio, FloatArray]]:
    """Every ratio of one split with its resamples."""
    split = results.name.removeprefix("regret-")
    found = []
    for family in results.instances:
        policies = [policy for name, policy in results.cells() if name == family]
        numbers = functools.reduce(np.intersect1d, [results.replications(family, policy) for policy in policies])
        if not len(numbers):
            continue
        index = resamples(len(numbers))
        finals, means = {}, {}
        for policy in policies:
            place = np.searchsorted(results.replications(family, policy), numbers)
            finals[policy] = results.final(family, policy)[place]
            means[policy] = finals[policy][index].mean(axis=1)
        for policy, reference in itertools.product(policies, (ORACLE, PUBLISHED)):
            value, low, high, sample = _quotient(means[policy], means[reference], len(numbers))
            regret, unlucky = float(means[policy][0]), float(np.mean(finals[policy] > 2 * means[reference][0]))
            row = Ratio(split, family, policy, reference, regret, value, low, high, unlucky, len(numbers))
            found.append((row, sample))
    return found


def _quotient(ours: FloatArray, theirs: FloatArray, trials: int) -> tuple[float, float, float, FloatArray]:
    """Ratio of means, its interval and its resamples."""
    nan = float("nan")
    if theirs[0] <= NOTHING:
        return nan, nan, nan, np.full(len(ours), nan)
    # A resample may hold only trials in which the reference loses nothing; it then counts as a very large ratio.
    sample: FloatArray = ours / np.maximum(theirs, NOTHING)
    low, high = interval(sample[1:]) if trials >= FEWEST else (nan, nan)
    return float(sample[0]), low, high, sample


def _standing(group: Sequence[tuple[Ratio, FloatArray]]) -> Standing:
    known = [(row, sample) for row, sample in group if np.isfinite(row.value)]
    first, nan = group[0][0], float("nan")
    if not known:
        return Standing(first.split, first.policy, first.reference, 0, nan, nan, nan, nan, nan, nan, "", nan, ())
    medians = np.median([sample for _, sample in known], axis=0)
    enough = min(row.trials for row, _ in known) >= FEWEST
    low, high = interval(medians[1:]) if enough else (nan, nan)
    order = sorted((row for row, _ in known), key=lambda row: -row.value)
    worst = order[0]
    return Standing(
        split=first.split,
        policy=first.policy,
        reference=first.reference,
        families=len(known),
        median=float(medians[0]),
        median_low=low,
        median_high=high,
        worst=worst.value,
        worst_low=worst.low,
        worst_high=worst.high,
        worst_family=worst.family,
        unlucky=float(np.average([row.unlucky for row, _ in known], weights=[row.trials for row, _ in known])),
        losses=tuple(row.family for row in order if row.low > 1),
    )


def _standing_rows(told: Sequence[Standing]) -> list[list[str]]:
    """Header and a row per policy: both references side by side."""
    names = {ORACLE: "oracle", PUBLISHED: "LinUCB++"}
    header = ["policy"]
    for name in names.values():
        header += [f"worst / {name}", "where", f"median / {name}", f"trials above twice {name}", f"loses to {name}"]
    lines = [header]
    for policy in dict.fromkeys(s.policy for s in told):
        line = [policy]
        for reference in names:
            s = next(s for s in told if (s.policy, s.reference) == (policy, reference))
            worst, median = (s.worst, s.worst_low, s.worst_high), (s.median, s.median_low, s.median_high)
            line += [_interval(*worst), s.worst_family, _interval(*median), _percent(s.unlucky), _losses(s)]
        lines.append(line)
    return lines


def _losses(standing: Standing) -> str:
    named = [*standing.losses[:NAMED], *(["..."] if len(standing.losses) > NAMED else [])]
    return f"{len(standing.losses)} of {standing.families}{': ' if named else ''}{', '.join(named)}"


def _number(value: float) -> str:
    if not np.isfinite(value):
        return "–"
    return f"{value:.2f}" if value < 9.995 else f"{value:.0f}"


def _percent(share: float) -> str:
    return "–" if np.isnan(share) else f"{100 * share:.0f}%"


def _interval(value: float, low: float, high: float) -> str:
    return f"{_number(value)} [{_number(low)}, {_number(high)}]" if np.isfinite(low) else _number(value)


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
    known = {f.name: f.instance for f in FAMILIES}.get(family, {})
    told = [f"{sign} {known[key]:g}" for key, sign in (("horizon", "T"), ("noise", "σ")) if key in known]
    return ", ".join([family, *told])


def _draw_grid(axis: Axes, labels: Sequence[str], values: FloatArray) -> None:
    edge = np.log10(FARTHEST)
    logs = np.log10(np.maximum(values, 1e-6))
    axis.imshow(logs, cmap=COLOURS, vmin=-edge, vmax=edge, aspect="auto", interpolation="nearest")
    for (i, j), value in np.ndenumerate(values):
        ink = "white" if abs(logs[i, j]) > 0.62 * edge else "black"
        bold = "bold" if i >= len(values) - 2 else "normal"
        axis.text(j, i, _number(value), ha="center", va="center", fontsize=6, color=ink, fontweight=bold)
    axis.axhline(len(values) - 2.5, color="white", linewidth=3)
    axis.set_yticks(range(len(labels)), labels, fontsize=6.5)
    axis.set_xticks([])
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def _trials(rows: Sequence[Ratio]) -> str:
    few, many = min(row.trials for row in rows), max(row.trials for row in rows)
    return f"{many if few == many else f'{few} to {many}'} trial{'s' if many > 1 else ''}"
