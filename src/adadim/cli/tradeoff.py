"""The commands `frontier`, `lower-bound` and `rates`: what adapting must cost."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from adadim import report
from adadim.cli import kit
from adadim.experiments import tradeoff
from adadim.experiments.tradeoff import analysis, plan
from adadim.report.bootstrap import MIN_TRIALS

REPLICATIONS_TOGETHER = 32  # these problems are small, and many in lock step share the interpreter's overhead
SHOWN_ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
NAME_WIDTH = 13  # of the column with policies, at least

Betas = Annotated[list[float] | None, typer.Option("--beta", min=0.5, help="A beta in [0.5, 1); may be repeated.")]
Deltas = Annotated[
    list[float] | None, typer.Option(help="A gap; may be repeated (default: seven values from small to large).")
]
Targets = Annotated[int, typer.Option(min=1, help="Hard problems to run; a random sample if there are more.")]
CorralBetas = Annotated[
    list[float] | None, typer.Option(help="A beta of Smooth Corral, eta = T^-beta; may be repeated.")
]
Horizons = Annotated[
    list[int] | None,
    typer.Option("--horizon", "-T", min=4, help="A horizon, preferably a power of 4; give at least three."),
]
Alphas = Annotated[list[float] | None, typer.Option(min=0.0, max=1.0, help="A hardness level; may be repeated.")]
SphereDim = Annotated[
    int | None, typer.Option(min=1, help="Number of features of the sphere problems (default: 2 sqrt(T)).")
]
SphereArms = Annotated[
    int | None, typer.Option(min=2, help="Number of arms of the sphere problems (default: twice the features).")
]


def frontier(
    alpha: Alphas = None,
    beta: Betas = None,
    taper: Annotated[
        list[float] | None,
        typer.Option(min=0, help="Add the proved rate of TaperedLinUCB with this exponent; may be repeated."),
    ] = None,
    out_folder: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for frontier.png and the other files.")
    ] = Path("results/frontier"),
    quiet: kit.Quiet = False,
    as_json: kit.AsJson = False,
) -> None:
    """Draw the Pareto frontier: what adapting to an unknown number of features must cost.

    This is the paper's Figure 1. The dashed line is the rate of LinUCB told
    alpha; each curve is the best that a policy can do which is not told, and
    beta says where it pays: at small beta hard problems cost more, at large
    beta easy ones do. No curve is below another everywhere.

    The table shows the rates at a few values of alpha, or at those given by --alpha. The minimum over all betas is the
    rate of LinUCB given alpha.

    Example: adadim frontier --alpha 0.3 --beta 0.5 --beta 0.75
    """
    betas, tapers = beta or analysis.FRONTIER_BETAS, taper or ()
    at = sorted(set(alpha or SHOWN_ALPHAS))
    table = tradeoff.frontier(betas, tapers=tapers)
    paths = report.save(tradeoff.draw_frontier(betas, tapers), table, out_folder / "frontier")
    rates = tradeoff.frontier(betas, tapers=tapers, alphas=at)
    if as_json:
        typer.echo(json.dumps((rates if alpha else table).to_dicts(), indent=2))
    elif not quiet:
        kit.print_written(paths)
        headings = ("alpha =", *(f"{a:g}" for a in at))
        lines = [
            ["told alpha" if curve == "non-adaptive" else curve, *(f"{x:.3f}" for x in found["rate"])]
            for (curve,), found in rates.group_by("curve", maintain_order=True)
        ]
        kit.stdout().print(kit.compact_table("Regret grows like T to the power", headings, lines, "", 0, headings[1:]))


def lower_bound(
    policy: kit.AddedPolicies = None,
    plugin: kit.Plugins = None,
    horizon: Annotated[int, typer.Option("--horizon", "-T", min=2, help="Number of rounds T.")] = 1024,
    alpha: Annotated[float, typer.Option(help="There are floor(T^alpha / 2) hard problems.")] = 0.5,
    delta: Deltas = None,
    targets: Targets = plan.TARGETS,
    trials: kit.Trials = 32,
    out_folder: kit.OutFolder = Path("results/lower-bound"),
    seed: kit.Seed = 0,
    *,
    how: kit.RunOptions,
    as_json: kit.AsJson = False,
) -> None:
    """Check policies against the lower bound behind the paper's Theorem 1.

    In the easy problem arm 0 is best. In each hard problem one other arm is better still, and only pulling it shows
    that. A policy that searches for it has regret on the easy problem; one that does not has regret on the hard ones.
    For every policy and every gap Delta, the regret on the easy problem therefore implies a lower bound on the mean
    regret on the hard ones. The table shows both, the bound, and the slack with its 95% interval. A violation means
    that a policy uses information it should not have, or that regret is counted wrongly; the exit code is then 1.

    Example: adadim lower-bound --policy LinUCB --policy LinUCBPlusPlus:beta=0.6
    """
    plugins = kit.load_plugins(plugin)
    options: dict[str, Any] = {"horizon": horizon, "alpha": alpha, "deltas": delta or None, "targets": targets}
    options |= {"trials": trials, "seed": seed, "plugins": plugins}
    study = tradeoff.lower_bound_study(kit.read_policies(policy, plugins) or None, **options)
    results = kit.run_study(study, out_folder, replace(how, quiet=how.quiet or as_json), REPLICATIONS_TOGETHER)
    checks = tradeoff.lower_bound_checks(results)
    rows = [*checks, *tradeoff.closed_forms(horizon, alpha, sorted({check.delta for check in checks}))]
    paths = report.save(tradeoff.draw_bounds(rows), tradeoff.bounds_table(rows), out_folder / "figures" / "lower-bound")
    if as_json:
        typer.echo(kit.as_json_text(checks))
    elif not how.quiet:
        kit.print_written(paths)
        kit.stdout().print(_bounds_table(rows))
        if trials < MIN_TRIALS:
            kit.say(f"With fewer than {MIN_TRIALS} trials every verdict on a policy is undecided.")
    if any(check.verdict == "violated" for check in checks):
        raise typer.Exit(kit.EXIT_FAILED)


def rates(
    beta: Betas = None,
    corral_beta: CorralBetas = None,
    policy: kit.AddedPolicies = None,
    plugin: kit.Plugins = None,
    horizon: Horizons = None,
    alpha: Alphas = None,
    scale: Annotated[float, typer.Option(help="Factor on the confidence radii.")] = plan.SCALE,
    dim: SphereDim = None,
    arms: SphereArms = None,
    trials: kit.Trials = 24,
    out_folder: kit.OutFolder = Path("results/rates"),
    seed: kit.Seed = 0,
    *,
    how: kit.RunOptions,
    as_json: kit.AsJson = False,
) -> None:
    """Measure how fast regret grows with the horizon, and draw it over the frontier.

    For each alpha the horizon T grows with d* = floor(T^alpha). The rate is the slope of ln(regret) against ln T on the
    worst of several kinds of problems, with a 95% interval. Horizons at which a policy is hardly better than random are
    left out, because regret there grows like T for any policy. Theory ignores logarithmic factors, which are still
    visible at these horizons: compare policies and alphas with each other, not slopes with theory to two
    decimals.

    With default options it takes about six minutes on two cores. Like any study it can be interrupted, continued and
    extended with more trials. Policies given by --policy are run in addition to LinUCB++, Smooth Corral, LinUCB and the
    oracle.

    Example: adadim rates --trials 8 --horizon 64 --horizon 256 --horizon 1024
    """
    plugins, betas = kit.load_plugins(plugin), beta or list(plan.RATE_BETAS)
    policies = tradeoff.rate_policies(betas, plan.CORRAL_BETAS if corral_beta is None else corral_beta, scale)
    policies |= kit.read_policies(policy, plugins)
    options: dict[str, Any] = {"horizons": horizon or plan.HORIZONS, "alphas": plan.ALPHAS if alpha is None else alpha}
    options |= {"dim": dim, "arms": arms, "trials": trials, "seed": seed, "plugins": plugins}
    study = tradeoff.rates_study(policies, **options)
    results = kit.run_study(study, out_folder, replace(how, quiet=how.quiet or as_json))
    estimates, folder = tradeoff.rate_estimates(results), out_folder / "figures"
    paths = report.save(tradeoff.draw_rates(estimates, betas), tradeoff.rates_table(estimates), folder / "rates")
    paths += kit.write_texts(folder, {"rates-points.csv": tradeoff.rate_points(results).write_csv()})
    if as_json:
        typer.echo(kit.as_json_text(estimates))
    elif not how.quiet:
        kit.print_written(paths)
        kit.stdout().print(_rates_table(estimates))


def _bounds_table(rows: Iterable[tradeoff.BoundCheck]) -> Table:
    headings = ("policy", "Delta", "easy", "hard", "bound", "slack", "95% interval", "verdict")
    listed, lines = list(rows), []
    numbers = headings[1:6]
    columns = [kit.aligned((getattr(row, name.lower()) for row in listed), 2) for name in numbers]
    for row, *cells in zip(listed, *columns, strict=True):
        interval = "exact" if row.trials == 0 else f"{row.low:.3g} to {row.high:.3g}"
        lines.append([row.policy, *cells, interval, kit.coloured(row.verdict)])
    title = "Lower bound: the mean hard regret is at least the bound"
    return kit.compact_table(title, headings, lines, "policy", NAME_WIDTH, numbers)


def _rates_table(estimates: Iterable[tradeoff.RateEstimate]) -> Table:
    headings = ("policy", "alpha", "rate", "95% interval", "theory", "points", "saturated")
    lines = []
    for e in estimates:
        rate = (f"{e.rate:.3f}", f"{e.low:.3f} to {e.high:.3f}") if math.isfinite(e.rate) else ("-", "-")
        theory, points = "-" if e.theory is None else f"{e.theory:g}", len(e.horizons) + len(e.saturated)
        counted, saturated = f"{len(e.horizons)} of {points}", " ".join(map(str, e.saturated))
        lines.append([e.policy, f"{e.alpha:g}", *rate, theory, counted, saturated])
    return kit.compact_table("Measured rates", headings, lines, "policy", NAME_WIDTH)
