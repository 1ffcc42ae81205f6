"""Microseconds per step of exact LinUCB: both forms of the posterior, textbook code, other libraries and the floor.

All are measured in one run, on one thread, along the same pulls: those of a LinUCB run on the paper's sphere. A step
is `select` then `update` through the public API; drawing the rewards is not timed. The rows called `simulate` are
whole calls of `adadim.simulate`, with the start of the learner, the environment and the records. With R replications
in lock step the time is divided by R as well. The floor is K^2 flops, what keeping the K x K matrix of the Gram form
up to date takes, at the best rate of `dsyrk` seen in the run.

Textbook and peers cost the same at every step, so a few steps are enough: the median step is given. The forms are
timed over the whole horizon, since the Gram form does its heavy work once in a block of steps: the median run is given.
Times are those for which the process had a processor. On an idle machine that is the time on the wall; on a busy one it
leaves out the waiting, but not what other programs do to the caches and the clock of the processor.
"""

from __future__ import annotations

import math
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Literal

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from threadpoolctl import threadpool_limits

import adadim
import peers
from _clock import SYRK_RANKS, WATCH, syrk_rates
from _report import arguments, describe, load, machine, table, write_json
from adadim.models.fixed import HostGram

Form = Literal["gram", "feature"]
FORMS: tuple[Form, Form] = ("gram", "feature")
TOLERANCE = 1e-8
BISECTED_ARMS = 8  # coba's scores are found by bisection, a fifth of a second an arm
RATIOS = {
    "textbook/this": "textbook_over_this",
    "peer/this": "best_peer_over_this",
    "this/default": "this_over_default",
    "this/floor": "this_over_floor",
}


@dataclass(frozen=True)
class Setting:
    """Size of the problem and of the measurement."""

    arms: int = 1200
    dim: int = 600
    horizon: int = 2500
    ridge: float = 0.1
    noise: float = 0.1
    batches: tuple[int, ...] = (1, 8)  # replications in lock step
    rounds: int = 3  # everything is measured once a round, so that a disturbance does not hit one thing alone
    single_runs: int = 5  # per round, for a batch of one
    steps: int = 20  # of textbook in each round, spread over the horizon, and of the peers in the first


QUICK = Setting(arms=60, dim=30, horizon=150, batches=(1, 3), rounds=2, single_runs=1, steps=5)


@dataclass
class Row:
    """One line of the table: the times gathered, and how far the scores were from a fresh solve."""

    name: str
    kind: str  # "textbook", "peer" or "adadim"
    setting: str
    replications: int
    steps: int = 0
    times: list[float] = field(default_factory=list)  # microseconds per step and replication
    agreement: float | None = None
    missing: str | None = None

    @property
    def us(self) -> float:
        return median(self.times) if self.times else math.nan

    def check(self, difference: float) -> None:
        self.agreement = max(self.agreement or 0.0, float(difference))


def solved_scores(features: Any, counts: Any, sums: Any, ridge: float, radius: float) -> Any:
    """LinUCB's scores from the pulls alone, by a fresh Cholesky factorisation."""
    moments = ridge * np.eye(features.shape[1]) + features.T @ (counts[:, None] * features)
    whitened = solve_triangular(cholesky(moments, lower=True), features.T, lower=True)
    return whitened.T @ (whitened @ sums) + radius * np.sqrt(np.sum(whitened**2, axis=0))


def tally(arms: Any, rewards: Any, count: int) -> tuple[Any, Any]:
    """How often each arm was pulled, and the sum of its rewards."""
    return np.bincount(arms, minlength=count), np.bincount(arms, weights=rewards, minlength=count)


class Forms:
    """The library's two forms on one batch of replications."""

    def __init__(self, setting: Setting, replications: int) -> None:
        self.setting = setting
        self.instance = adadim.instances.sphere(
            arms=setting.arms,
            dim=setting.dim,
            intrinsic_dim=12,
            horizon=setting.horizon,
            noise=setting.noise,
            replications=range(replications),
        )
        self.policies = {form: adadim.LinUCB(ridge=setting.ridge, form=form) for form in FORMS}
        learner: Any = adadim.LinUCB(ridge=setting.ridge).start(self.instance.problem)
        self.radius = float(learner.rule.radius(learner.everyone))
        self.default: Form = "gram" if isinstance(learner.model.regression, HostGram) else "feature"
        shape = (setting.horizon, replications)
        self.arms = {form: np.zeros(shape, dtype=np.int64) for form in FORMS}
        self.rewards = {form: np.zeros(shape) for form in FORMS}
        self.start_us: dict[Form, list[float]] = {form: [] for form in FORMS}
        self.rows = {
            (form, way): Row(f"adadim {form}, {way}", "adadim", note, replications, setting.horizon)
            for form in FORMS
            for way, note in (
                ("select+update", "public calls; environment and start not timed"),
                ("simulate", "whole call, with start, environment and records"),
            )
        }

    def measure(self, form: Form) -> None:
        """One run over the whole horizon either way."""
        policy, instance, row = self.policies[form], self.instance, self.rows[form, "select+update"]
        log_arms, log_rewards, clock = self.arms[form], self.rewards[form], time.perf_counter
        WATCH.start()
        learner: Any = policy.start(instance.problem, seed=0)
        self.start_us[form].append(WATCH.stop()[0] * 1e6 / row.replications)
        noise, spent = instance.noise_streams(0), 0.0
        WATCH.start()
        for t in range(self.setting.horizon):
            begun = clock()
            arms = learner.select()
            selected = clock()
            rewards = instance.pull(arms, noise)
            pulled = clock()
            learner.update(arms, rewards)
            spent += clock() - pulled + selected - begun
            log_arms[t], log_rewards[t] = arms, rewards
        cpu, wall = WATCH.stop()  # asking for processor time around every call would cost a microsecond a step
        self._record(row, spent * cpu / wall, learner, form)

        WATCH.start()
        outcome = adadim.simulate(policy, instance, seed=0)
        self._record(self.rows[form, "simulate"], WATCH.stop()[0], outcome.learner, form)

    def _record(self, row: Row, seconds: float, learner: Any, form: Form) -> None:
        row.times.append(seconds * 1e6 / (row.replications * row.steps))
        if row.agreement is not None:  # the runs are alike: one check is enough
            return
        for r, scores in enumerate(learner.rule.scores(learner.everyone)):
            counts, sums = tally(self.arms[form][:, r], self.rewards[form][:, r], self.setting.arms)
            features = self.instance.problem.actions.base[r]
            row.check(np.abs(scores - solved_scores(features, counts, sums, self.setting.ridge, self.radius)).max())


class Race:
    """Textbook and peers, driven along the pulls of a run, one step of each in turn."""

    def __init__(self, setting: Setting, features: Any, arms: Any, rewards: Any, radius: float) -> None:
        self.setting, self.radius = setting, radius
        self.features = np.ascontiguousarray(features)
        self.pulls = list(zip(arms.tolist(), rewards.tolist(), strict=True))
        self.position = 0
        self.shadow, self.textbook = self._driver(peers.Textbook), self._driver(peers.Textbook)
        self.peers = [self._driver(peer) for peer in peers.available()]
        self.rows = {peers.Textbook.name: Row("textbook", "textbook", peers.Textbook.setting, 1)}
        for peer in peers.PEERS:
            self.rows[peer.name] = Row(f"{peer.name} {peer.version}", "peer", peer.setting, 1)
        for name, reason in peers.missing().items():
            self.rows[name].name, self.rows[name].missing = name, reason

    def _driver(self, kind: type[peers.Driver]) -> peers.Driver:
        return kind(self.features, self.setting.ridge, self.radius)

    def measure(self, turn: int) -> None:
        """Time the stretch of the horizon that belongs to this round; the peers run in the first."""
        setting = self.setting
        steps = setting.steps + 1  # the first is not timed: libraries set themselves up in it
        begin = (setting.horizon - steps) * turn // max(setting.rounds - 1, 1)
        for arm, reward in self.pulls[self.position : begin]:
            self.shadow.update(arm, reward)
            self.textbook.update(arm, reward)
        self.position = begin + steps
        drivers = [self.textbook, *(self.peers if turn == 0 else ())]
        for step, (arm, reward) in enumerate(self.pulls[begin : self.position]):
            expected = self.shadow.scores()
            self.shadow.update(arm, reward)
            for driver in drivers:
                WATCH.start()
                chosen = driver.select()
                driver.update(arm, reward)
                elapsed, _ = WATCH.stop()
                row = self.rows[driver.name]
                row.check(expected.max() - expected[chosen])
                if step:
                    row.times.append(elapsed * 1e6)
                    row.steps += 1
        arms, rewards = (np.array(values) for values in zip(*self.pulls[: self.position], strict=True))
        counts, sums = tally(arms, rewards, setting.arms)
        solved = solved_scores(self.features, counts, sums, setting.ridge, self.radius)
        for driver in drivers:
            if isinstance(driver, peers.Coba):
                some, rng = self.features[arms[:BISECTED_ARMS]], np.random.default_rng(0)
                difference = peers.agreement(peers.Coba, some, setting.ridge, self.radius, 3, rng)
            else:
                difference = float(np.abs(driver.scores() - solved).max())
            self.rows[driver.name].check(difference)


def targets(us: float, textbook: float, best_peer: float | None, floor: float) -> list[dict[str, Any]]:
    """What the default form is held to at full size, beside what was measured."""
    peer = None if best_peer is None else best_peer / us
    return [
        {"name": "times faster than textbook", "measured": textbook / us, "at_least": 150, "aim": 250},
        {"name": "times faster than the best peer", "measured": peer, "at_least": 60, "aim": 100},
        {"name": "times the floor", "measured": us / floor, "at_most": 4},
    ]


def met(target: dict[str, Any]) -> bool | None:
    """Whether a target is reached; None if it was not measured."""
    measured = target["measured"]
    if measured is None:
        return None
    return bool(measured <= target["at_most"] if "at_most" in target else measured >= target["at_least"])


def measure(setting: Setting) -> dict[str, Any]:
    """Everything, in one run."""
    peers.available()  # a limit on threads reaches only the libraries already loaded
    with threadpool_limits(1):
        before = load()
        batches = [Forms(setting, count) for count in setting.batches]
        single = next(batch for batch, count in zip(batches, setting.batches, strict=True) if count == 1)
        warm = Forms(setting, 1)
        warm.measure(single.default)
        features = single.instance.problem.actions.base[0]
        pulls, rewards = warm.arms[single.default][:, 0], warm.rewards[single.default][:, 0]
        race, rates = Race(setting, features, pulls, rewards, single.radius), dict.fromkeys(SYRK_RANKS, 0.0)
        for turn in range(setting.rounds):
            for k, rate in syrk_rates(setting.arms).items():
                rates[k] = max(rates[k], rate)
            race.measure(turn)
            for batch, count in zip(batches, setting.batches, strict=True):
                for _ in range(setting.single_runs if count == 1 else 1):
                    for form in FORMS:
                        batch.measure(form)
        described = machine(("adadim", "numpy", "scipy", *(peer.name for peer in peers.PEERS)))
    described["load"] = {"before": before, "after": load()}
    described["processor_share"] = WATCH.cpu / WATCH.wall

    floor = setting.arms**2 / max(rates.values()) * 1e6
    rows = [*race.rows.values(), *(row for batch in batches for row in batch.rows.values())]
    default = single.rows[single.default, "select+update"]
    textbook = race.rows[peers.Textbook.name].us
    best = min((row for row in rows if row.kind == "peer" and row.times), key=lambda row: row.us, default=None)
    best_us = best.us if best else None
    return {
        "benchmark": "engine",
        "machine": described,
        "setting": {**asdict(setting), "radius": single.radius, "distinct_arms_pulled": int(np.unique(pulls).size)},
        "default_form": single.default,
        "floor": {
            "us_per_step": floor,
            "flops_per_step": setting.arms**2,
            "gigaflops": {str(k): rate / 1e9 for k, rate in rates.items()},
        },
        "best_peer": best.name if best else None,
        "rows": [_line(row, default, textbook, best_us, floor) for row in rows],
        "start_us": {
            form: {
                str(count): median(batch.start_us[form]) for batch, count in zip(batches, setting.batches, strict=True)
            }
            for form in FORMS
        },
        "forms_choose_the_same_arms": all(
            bool(np.array_equal(batch.arms["gram"], batch.arms["feature"])) for batch in batches
        ),
        "targets": [
            {**target, "met": met(target) if setting == Setting() else None}
            for target in targets(default.us, textbook, best_us, floor)
        ],
    }


def _line(row: Row, default: Row, textbook: float, best_peer: float | None, floor: float) -> dict[str, Any]:
    us = row.us if row.times else None
    return {
        "name": row.name,
        "kind": row.kind,
        "setting": row.setting,
        "missing": row.missing,
        "replications": row.replications,
        "steps": row.steps,
        "samples": len(row.times),
        "us_per_step": us,
        "us_lowest": min(row.times, default=None),
        "us_highest": max(row.times, default=None),
        "agreement": row.agreement,
        "textbook_over_this": us and textbook / us,
        "best_peer_over_this": us and best_peer and best_peer / us,
        "this_over_default": us and us / default.us,
        "this_over_floor": us and us / floor,
    }


def show(report: dict[str, Any]) -> None:
    """Print the report."""
    setting, floor, full = report["setting"], report["floor"], report["setting"]["arms"] == Setting.arms
    print(
        f"Exact LinUCB, K={setting['arms']} d={setting['dim']} T={setting['horizon']}, one thread; "
        f"{setting['distinct_arms_pulled']} arms pulled. Microseconds per step and replication.\n"
    )

    def cell(value: float | None, form: str = ",.1f") -> str:
        return "-" if value is None else format(value, form)

    lines = [
        [
            row["name"] + (" (default)" if row["name"] == f"adadim {report['default_form']}, select+update" else ""),
            str(row["replications"]),
            str(row["steps"]),
            cell(row["us_per_step"]),
            f"{row['us_lowest']:,.1f}..{row['us_highest']:,.1f}" if row["samples"] else "not measured",
            *(cell(row[ratio]) for ratio in RATIOS.values()),
            cell(row["agreement"], ".0e"),
        ]
        for row in report["rows"]
    ]
    lines.append(["floor", "", "", cell(floor["us_per_step"]), *[""] * (len(RATIOS) + 2)])
    print(table(["", "R", "steps", "us/step", "range", *RATIOS, "agreement"], lines))
    for row in report["rows"]:
        if row["missing"]:
            print(f"{row['name']} was not measured: {row['missing']}")
    starts = ", ".join(f"{form} {us['1'] / 1e3:.1f} ms" for form, us in report["start_us"].items())
    print(
        f"""
steps      of a run; of textbook and peers, all that were timed
peer       the best: {report["best_peer"] or "none is installed"}
default    {report["default_form"]} form, one replication, select+update
floor      K^2 flops at the {max(floor["gigaflops"].values()):.1f} Gflop/s of dsyrk measured in this run
agreement  largest difference of a score from a fresh solve, or of a choice from the best score; of coba, which
           does not tell its scores, those of {BISECTED_ARMS} arms by bisection and all its choices
start      of a learner, timed in simulate only: {starts}
same arms  chosen by both forms at every step: {"yes" if report["forms_choose_the_same_arms"] else "no"}

The default form, one replication{"" if full else " (the targets are for the full size)"}:"""
    )
    for target in report["targets"]:
        bound = f"at most {target['at_most']}" if "at_most" in target else f"at least {target['at_least']}"
        aim = f", aim {target['aim']}" if "aim" in target else ""
        verdict = {True: ": met", False: ": MISSED", None: ": not measured" if full else ""}[target["met"]]
        print(f"  {cell(target['measured']):>7} {target['name']} ({bound}{aim}){verdict}")
    before, after = report["machine"]["load"].values()
    share = report["machine"]["processor_share"]
    print(f"\n{describe(report['machine'])}")
    print(f"load average {before} before, {after} after; the process had a processor {share:.0%} of the time", end="")
    print(": a busy machine, so expect longer and less steady times than on a quiet one" if share < 0.97 else "")


def main() -> int:
    parser = arguments("engine", __doc__, "a small problem")
    options = parser.parse_args()
    report = measure(QUICK if options.quick else Setting())
    write_json(options.out, report)
    show(report)
    wrong = [row["name"] for row in report["rows"] if row["samples"] and not row["agreement"] < TOLERANCE]
    if wrong:
        print(f"error: scores differ by {TOLERANCE:g} or more: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
