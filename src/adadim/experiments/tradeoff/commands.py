"""The commands `frontier`, `lower-bound` and `rates`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from adadim.experiments.tradeoff import bound_checks, pareto
from adadim.experiments.tradeoff.bound_checks import BoundCheck, bounds_table, closed_forms
from adadim.experiments.tradeoff.figures import draw_bounds, draw_frontier, draw_rates
from adadim.experiments.tradeoff.lower_bound import TARGETS, lower_bound_study
from adadim.experiments.tradeoff.rates import ALPHAS, BETAS, CORRAL_BETAS, HORIZONS, SCALE, rate_policies, rates_study
from adadim.experiments.tradeoff.slopes import RateEstimate, rate_estimates, rate_points, rates_table
from adadim.report import save
from adadim.report.console import (
    EXIT_FAILED,
    VERDICT_COLOURS,
    as_json_text,
    compact_table,
    errors,
    print_written,
    run_study,
    stdout,
    write_texts,
)
from adadim.report.options import (
    AddedPolicies,
    AsJson,
    Device,
    Jobs,
    OutFolder,
    Plugins,
    Quiet,
    Seed,
    Trials,
    load_plugins,
    read_policies,
)

__all__ = ["frontier", "lower_bound", "rates"]

BATCH = 32  # these problems are small: many replications in lock step share the interpreter's overhead
NAME = 13  # least width of the column with policies

Betas = Annotated[list[float] | None, typer.Option("--beta", min=0.5, help="A beta in [0.5, 1); may be repeated.")]
Deltas = Annotated[
    list[float] | None, typer.Option(help="A gap; may be repeated. By default seven from small to large.")
]
Targets = Annotated[int, typer.Option(min=1, help="Hard problems to run; a random sample if there are more.")]
CorralBetas = Annotated[
    list[float] | None, typer.Option(help="A beta of Smooth Corral, eta = T^-beta; may be repeated.")
]
Horizons = Annotated[
    list[int] | None,
    typer.Option("--horizon", "-T", min=4, help="A horizon, best a power of 4; repeat it, three times at least."),
]
Alphas = Annotated[list[float] | None, typer.Option(min=0.0, max=1.0, help="A hardness level; may be repeated.")]
Dim = Annotated[int | None, typer.Option(min=1, help="Features on the sphere; by default 2 sqrt(T).")]
Arms = Annotated[int | None, typer.Option(min=2, help="Arms on the sphere; by default twice the features.")]


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
        betas, tapers = beta or pareto.BETAS, taper or ()
        table = pareto.frontier(betas, tapers=tapers)
        paths = save(draw_frontier(betas, tapers), table, out_folder / "frontier")
    if as_json:
        typer.echo(json.dumps(table.to_dicts(), indent=2))
    else:
        print_written(paths, quiet)


def lower_bound(
    policy: AddedPolicies = None,
    plugin: Plugins = None,
    horizon: Annotated[int, typer.Option("--horizon", "-T", min=2, help="Number of rounds T.")] = 1024,
    alpha: Annotated[float, typer.Option(help="There are floor(T^alpha / 2) hard problems.")] = 0.5,
    delta: Deltas = None,
    targets: Targets = TARGETS,
    trials: Trials = 32,
    out_folder: OutFolder = Path("results/lower-bound"),
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
        options: dict[str, Any] = {"horizon": horizon, "alpha": alpha, "deltas": delta or None, "targets": targets}
        plan = lower_bound_study(
            read_policies(policy, plugins) or None, **options, trials=trials, seed=seed, plugins=plugins
        )
        results = run_study(plan, out_folder, jobs, BATCH, quiet or as_json, device)
        checks = bound_checks.lower_bound_checks(results)
        rows = [*checks, *closed_forms(horizon, alpha, sorted({check.delta for check in checks}))]
        paths = save(draw_bounds(rows), bounds_table(rows), out_folder / "figures" / "lower-bound")
    if as_json:
        typer.echo(as_json_text(checks))
    else:
        print_written(paths, quiet)
        if not quiet:
            stdout().print(_bounds_table(rows))
    if any(check.verdict == "violated" for check in checks):
        raise typer.Exit(EXIT_FAILED)


def rates(
    beta: Betas = None,
    corral_beta: CorralBetas = None,
    policy: AddedPolicies = None,
    plugin: Plugins = None,
    horizon: Horizons = None,
    alpha: Alphas = None,
    scale: Annotated[float, typer.Option(help="Factor on the confidence radii.")] = SCALE,
    dim: Dim = None,
    arms: Arms = None,
    trials: Trials = 24,
    out_folder: OutFolder = Path("results/rates"),
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
        plugins, betas = load_plugins(plugin), beta or list(BETAS)
        own = rate_policies(betas, CORRAL_BETAS if corral_beta is None else corral_beta, scale)
        sizes: dict[str, Any] = {"horizons": horizon or HORIZONS, "alphas": ALPHAS if alpha is None else alpha}
        sizes |= {"dim": dim, "arms": arms, "trials": trials, "seed": seed}
        plan = rates_study({**own, **read_policies(policy, plugins)}, **sizes, plugins=plugins)
        results = run_study(plan, out_folder, jobs, None, quiet or as_json, device)
        estimates, folder = rate_estimates(results), out_folder / "figures"
        paths = save(draw_rates(estimates, betas), rates_table(estimates), folder / "rates")
        paths += write_texts(folder, {"rates-points.csv": rate_points(results).write_csv()})
    if as_json:
        typer.echo(as_json_text(estimates))
    else:
        print_written(paths, quiet)
        if not quiet:
            stdout().print(_rates_table(estimates))


def _bounds_table(rows: Iterable[BoundCheck]) -> Table:
    headings = ("policy", "Delta", "easy", "hard", "bound", "slack", "95% interval", "verdict")
    table = compact_table(
        "Lower bound: the mean hard regret is at least the bound", headings, wraps="policy", least=NAME
    )
    for row in rows:
        interval = "exact" if row.trials == 0 else f"{row.low:.3g} to {row.high:.3g}"
        numbers = [f"{x:.3g}" for x in (row.delta, row.easy, row.hard, row.bound, row.slack)]
        table.add_row(Text(row.policy), *numbers, interval, f"[{VERDICT_COLOURS[row.verdict]}]{row.verdict}[/]")
    return table


def _rates_table(estimates: Iterable[RateEstimate]) -> Table:
    headings = ("policy", "alpha", "rate", "95% interval", "theory", "points", "saturated")
    table = compact_table("Measured rates", headings, wraps="policy", least=NAME)
    for e in estimates:
        found = math.isfinite(e.rate)
        table.add_row(
            Text(e.policy),
            f"{e.alpha:g}",
            f"{e.rate:.3f}" if found else "-",
            f"{e.low:.3f} to {e.high:.3f}" if found else "-",
            "-" if e.theory is None else f"{e.theory:g}",
            f"{len(e.horizons)} of {len(e.horizons) + len(e.saturated)}",
            " ".join(map(str, e.saturated)),
        )
    return table
