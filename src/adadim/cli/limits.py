"""The commands `frontier`, `lower-bound` and `rates`: argument handling and printing, nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from adadim import limits, study
from adadim.cli.common import (
    EXIT_FAILED,
    AsJson,
    Device,
    Jobs,
    Plugins,
    Quiet,
    Seed,
    as_json_text,
    errors,
    load_plugins,
    out,
    run_study,
    tell,
)
from adadim.errors import InvalidValueError
from adadim.limits.frontier import BETAS
from adadim.limits.lower_bound import TARGETS
from adadim.limits.rates import ALPHAS, HORIZONS, SCALE
from adadim.limits.rates import BETAS as RATE_BETAS
from adadim.limits.rates import CORRAL_BETAS as RATE_CORRAL_BETAS
from adadim.report import limits as pictures
from adadim.report import save, write_whole

__all__ = ["register"]

BATCH = 32  # these problems are small: many replications in lock step share the interpreter's overhead
COLOURS = {"holds": "green", "violated": "red", "undecided": "yellow"}

Betas = Annotated[list[float] | None, typer.Option("--beta", min=0.5, help="A beta in [0.5, 1); may be repeated.")]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="KIND[:KEY=VALUE,...]",
        help="A policy to run, e.g. LinUCBPlusPlus:beta=0.6; may be repeated. 'adadim policies' lists the kinds.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to an application.

    Examples
    --------
    >>> app = typer.Typer()
    >>> register(app)
    >>> [command.name for command in app.registered_commands]
    ['frontier', 'lower-bound', 'rates']
    """
    for name, command in (("frontier", frontier), ("lower-bound", lower_bound), ("rates", rates)):
        app.command(name)(command)


def frontier(
    beta: Betas = None,
    taper: Annotated[
        list[float] | None,
        typer.Option(min=0, help="Add what is proved for TaperedLinUCB with this exponent; may be repeated."),
    ] = None,
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="Where frontier.png and the rest go.")] = Path(
        "results/frontier"
    ),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Draw the Pareto frontier: what adapting to an unknown number of features must cost.

    This is the paper's Figure 1. The dashed line is the rate of LinUCB told
    alpha; each curve is the best that a policy can do which is not told, and
    beta says where it pays: at small beta hard problems cost more, at large
    beta easy ones do. No curve is below another everywhere.

    Example: adadim frontier --beta 0.5 --beta 0.75
    """
    with errors():
        table = limits.frontier(beta or BETAS, tapers=taper or ())
        paths = save(pictures.draw_frontier(table), table, out_folder / "frontier")
    if as_json:
        typer.echo(json.dumps(table.to_dicts(), indent=2))
    else:
        tell(paths, quiet)


def lower_bound(
    policy: Policies = None,
    plugin: Plugins = None,
    horizon: Annotated[int, typer.Option("--horizon", "-T", min=2, help="Number of rounds T.")] = 1024,
    alpha: Annotated[float, typer.Option(help="There are floor(T^alpha / 2) hard problems.")] = 0.5,
    delta: Annotated[
        list[float] | None, typer.Option(help="A gap; may be repeated. By default seven from small to large.")
    ] = None,
    targets: Annotated[
        int, typer.Option(min=1, help="Hard problems to run; a random sample if there are more.")
    ] = TARGETS,
    trials: Annotated[int, typer.Option("--trials", "-n", min=1, help="Replications.")] = 32,
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="Results folder.")] = Path("results/lower-bound"),
    seed: Seed = 0,
    jobs: Jobs = None,
    device: Device = "cpu",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Hold policies against the lower bound behind the paper's Theorem 1.

    In the easy problem arm 0 is best. In each hard problem one other arm is
    better still, and only pulling it shows that. A policy that looks for it
    pays on the easy problem, one that does not pays on the hard ones: for every
    policy and every gap Delta the regret on the easy problem says how large
    the mean regret on the hard ones must be. The table tells both, the bound,
    and the slack between them with its 95% interval. A violation means that a
    policy knows what it should not, or that regret is not counted right; the
    exit code is then 1.

    Example: adadim lower-bound --policy LinUCB --policy LinUCBPlusPlus:beta=0.6
    """
    with errors():
        plugins = load_plugins(plugin)
        plan = limits.lower_bound_study(
            _policies(policy, plugins),
            horizon=horizon,
            alpha=alpha,
            deltas=delta or None,
            targets=targets,
            trials=trials,
            seed=seed,
            plugins=plugins,
        )
        checks = limits.lower_bound_checks(run_study(plan, out_folder, jobs, BATCH, quiet or as_json, device))
        gaps = sorted({check.delta for check in checks})
        known = limits.closed_forms(horizon, alpha, gaps)
        rows = [*checks, *known]
        figure = pictures.draw_bounds(rows)
        paths = save(figure, pictures.bounds_table(rows), out_folder / "figures" / "lower-bound")
    if as_json:
        typer.echo(as_json_text(checks))
    else:
        tell(paths, quiet)
        if not quiet:
            out().print(_bounds_table(rows))
    if any(check.verdict == "violated" for check in checks):
        raise typer.Exit(EXIT_FAILED)


def rates(
    beta: Betas = None,
    corral_beta: Annotated[
        list[float] | None, typer.Option(help="A beta of Smooth Corral, eta = T^-beta; may be repeated.")
    ] = None,
    policy: Policies = None,
    plugin: Plugins = None,
    horizon: Annotated[
        list[int] | None,
        typer.Option("--horizon", "-T", min=4, help="A horizon, best a power of 4; repeat it, three times at least."),
    ] = None,
    alpha: Annotated[
        list[float] | None, typer.Option(min=0.0, max=1.0, help="A hardness level; may be repeated.")
    ] = None,
    scale: Annotated[float, typer.Option(help="Factor on the confidence radii.")] = SCALE,
    dim: Annotated[int | None, typer.Option(min=1, help="Features on the sphere; by default 2 sqrt(T).")] = None,
    arms: Annotated[int | None, typer.Option(min=2, help="Arms on the sphere; by default twice the features.")] = None,
    trials: Annotated[int, typer.Option("--trials", "-n", min=1, help="Replications.")] = 24,
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="Results folder.")] = Path("results/rates"),
    seed: Seed = 0,
    jobs: Jobs = None,
    device: Device = "cpu",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Measure how fast regret grows with the horizon, and draw it over the frontier.

    For each alpha the horizon T grows while d* = floor(T^alpha); the worst of
    several kinds of problems counts, and the rate is the slope of ln(regret)
    in ln T, with a 95% interval. Horizons at which a policy does little
    better than chance are left out: regret there grows like T whatever the
    policy. Logarithms, which theory ignores, are still visible at such
    horizons: compare policies and alphas, not slopes with theory to the
    second decimal.

    The default takes some six minutes on two cores, and is a study like any
    other: interrupt it, run it again, add trials. Policies named by --policy
    come in addition to LinUCB++, Smooth Corral, LinUCB and the oracle.

    Example: adadim rates --trials 8 --horizon 64 --horizon 256 --horizon 1024
    """
    with errors():
        plugins, betas = load_plugins(plugin), beta or list(RATE_BETAS)
        corral = list(RATE_CORRAL_BETAS) if corral_beta is None else corral_beta
        plan = limits.rates_study(
            {**limits.rate_policies(betas, corral, scale), **(_policies(policy, plugins) or {})},
            horizons=horizon or HORIZONS,
            alphas=ALPHAS if alpha is None else alpha,
            dim=dim,
            arms=arms,
            trials=trials,
            seed=seed,
            plugins=plugins,
        )
        results = run_study(plan, out_folder, jobs, None, quiet or as_json, device)
        estimates = limits.rate_estimates(results)
        figure = pictures.draw_rates(estimates, betas)
        folder = out_folder / "figures"
        paths = save(figure, pictures.rates_table(estimates), folder / "rates")
        points = limits.rate_points(results).write_csv().encode()
        paths.append(write_whole(folder / "rates-points.csv", points))
    if as_json:
        typer.echo(as_json_text(estimates))
    else:
        tell(paths, quiet)
        if not quiet:
            out().print(_rates_table(estimates))


def _policies(written: Sequence[str] | None, plugins: dict[str, Any]) -> dict[str, Any] | None:
    """Policies named on the command line, by what was written; None if there were none."""
    if not written:
        return None
    return {text: study.from_spec(_spec(text), plugins) for text in written}


def _spec(text: str) -> dict[str, Any]:
    """Read KIND:KEY=VALUE,... with values as in JSON, or else plain text."""
    kind, _, rest = text.partition(":")
    table: dict[str, Any] = {"kind": kind}
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise InvalidValueError(f"--policy {text}: expected KEY=VALUE after the colon, got {pair!r}")
        try:
            table[key.strip()] = json.loads(value)
        except ValueError:
            table[key.strip()] = value
    return table


def _bounds_table(rows: Iterable[limits.BoundCheck]) -> Table:
    headings = ("policy", "Delta", "easy", "hard", "bound", "slack", "95% interval", "verdict")
    table = _table("Lower bound: the mean hard regret is at least the bound", headings)
    for row in rows:
        interval = "exact" if row.trials == 0 else f"{row.low:.3g} to {row.high:.3g}"
        numbers = [f"{x:.3g}" for x in (row.delta, row.easy, row.hard, row.bound, row.slack)]
        table.add_row(escape(row.policy), *numbers, interval, f"[{COLOURS[row.verdict]}]{row.verdict}[/]")
    return table


def _rates_table(estimates: Iterable[limits.RateEstimate]) -> Table:
    table = _table("Measured rates", ("policy", "alpha", "rate", "95% interval", "theory", "points", "saturated"))
    for e in estimates:
        found = math.isfinite(e.rate)
        table.add_row(
            escape(e.policy),
            f"{e.alpha:g}",
            f"{e.rate:.3f}" if found else "-",
            f"{e.low:.3f} to {e.high:.3f}" if found else "-",
            "-" if e.theory is None else f"{e.theory:g}",
            f"{len(e.horizons)} of {len(e.horizons) + len(e.saturated)}",
            " ".join(map(str, e.saturated)),
        )
    return table


def _table(title: str, headings: Sequence[str]) -> Table:
    """A table narrow enough for 80 columns; only names may wrap."""
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for i, heading in enumerate(headings):
        table.add_column(heading, no_wrap=i > 0, min_width=0 if i else 13)
    return table
