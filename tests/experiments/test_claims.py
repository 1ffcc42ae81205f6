"""Claims: verdicts on data whose truth is known."""

from __future__ import annotations

import re
import zlib

import numpy as np
import pytest

from adadim import bootstrap, paper
from adadim.report import claims, claims_markdown, claims_table
from adadim.study import Unit, executor, load
from adadim.study.store import Store

TRIALS = 40
RIVALS = ("linucb", "smooth-corral", "dynamic-balancing", "linucb++corral")
NAMES = {
    "LinUCB": "linucb",
    "Smooth Corral": "smooth-corral",
    "Dynamic Balancing": "dynamic-balancing",
    "LinUCB++ with Corral": "linucb++corral",
    "LinUCB++": "linucb++",
}
EVERYONE = ("oracle", *NAMES.values())


class Told:
    """Results that were made up: what `claims` needs of `Results`."""

    def __init__(self, times, regret, numbers=None):
        self.times, self.regret = np.array(times), regret
        self.numbers = numbers or {}

    def cells(self):
        return tuple(self.regret)

    def replications(self, instance, policy):
        regret = self.regret[instance, policy]
        return np.array(self.numbers.get((instance, policy), range(len(regret))))

    def curves(self, instance, policy):
        return self.times, self.regret[instance, policy]

    def final(self, instance, policy):
        return self.regret[instance, policy][:, -1]


def noise(trials, *names):
    """Deviations with mean exactly 0 and standard deviation exactly 1, so that ties are ties."""
    draw = np.random.default_rng(zlib.crc32(repr(names).encode())).standard_normal(trials)
    if trials < 2:
        return draw
    return (draw - draw.mean()) / draw.std(ddof=1)


def level(figure, d, policy):
    """Mean regret in a world in which all the paper says is true."""
    expressive = figure.startswith("fig3")
    base = {"oracle": 10, "linucb++": 20, "dynamic-balancing": 40, "linucb": 60, "smooth-corral": 70}.get(policy, 80)
    if figure == "fig4a" and policy == "dynamic-balancing":
        base = 20
    slope = 0.0 if policy == "linucb" else 0.5
    if expressive and policy not in ("linucb", "oracle"):
        slope = 1.0
    return base + slope * (d - 5)


def world(figure, trials=TRIALS, means=None, spreads=None, late=0.0, late_noise=0.0):
    """Made-up results of a figure; `means` and `spreads` replace what `level` and the usual spreads say.

    Their keys are (policy, d) or policy. `late` is the regret per round after the first fifth of the rounds,
    relative to before.
    """
    shown = paper.FIGURES[figure]
    points = 100 if shown.curves else 10
    times = np.arange(1, points + 1) * 2500 // points
    regret = {}
    for d in shown.dims:
        for policy in EVERYONE:
            mean, spread = level(figure, d, policy), 0.1 if policy == "linucb++" else 1.0
            for key in (policy, (policy, d)):
                mean, spread = (means or {}).get(key, mean), (spreads or {}).get(key, spread)
            final = mean + spread * noise(trials, figure, d, policy)
            ratio = (late + late_noise * noise(trials, figure, "late"))[:, None] if late_noise else late
            shape = np.minimum(times, 500) + ratio * np.maximum(times - 500, 0)
            regret[f"d{d}", policy] = final[:, None] * shape / shape[..., -1:]
    return Told(times, regret)


def judge(results, variant="theory"):
    return claims({(figure, variant): told for figure, told in results.items()})


def row(verdicts, claim, figure):
    (found,) = [v for v in verdicts if v.claim == claim and v.figure == figure]
    return found


@pytest.fixture
def _few_resamples(monkeypatch):
    """Where the truth is far from the boundary, or on it, a rough interval will do."""
    monkeypatch.setattr(bootstrap, "RESAMPLES", 500)


TRUE = {figure: world(figure) for figure in paper.FIGURES}
ROWS = [(v.figure, v.claim) for v in judge(TRUE)]


def changes(figure, claim):
    """Figure to change and how, so that the claim is false; and so that it is neither true nor false."""
    dims = paper.FIGURES[figure].dims
    rival = next((NAMES[name] for name in sorted(NAMES, key=len, reverse=True) if name in claim[9:]), None)
    last = dims[-1]
    wide = dict.fromkeys(EVERYONE, 3.0)
    ours = level(figure, last, "linucb++")
    if re.match(r"LinUCB\+\+ has less regret than .* at d\*", claim):
        return figure, {"means": {rival: ours - 5}}, {"means": {rival: ours}, "spreads": wide}
    if claim.startswith("The oracle, and only it"):
        return figure, {"means": {"linucb": ours - 5}}, {"means": {"oracle": ours}, "spreads": wide}
    if "less regret" in claim:  # at every alpha: false at one is false
        middle = level(figure, dims[3], "linucb++")
        place = (rival, dims[3])
        return figure, {"means": {place: middle - 5}}, {"means": {place: middle}, "spreads": wide}
    if claim.startswith("The spread of LinUCB++"):
        return figure, {"spreads": {"linucb++": 9.0}}, {"spreads": {"linucb++": 1.0}}
    if "almost flat" in claim:
        return figure, {"late": 0.5}, {"late": 0.1, "late_noise": 0.05}
    if "same order" in claim:
        upside_down = {policy: 100 - level(figure, 12, policy) for policy in EVERYONE}
        ties = {policy: 20 if level(figure, 12, policy) < 45 else 60 for policy in EVERYONE}
        return figure, {"means": upside_down}, {"means": ties, "spreads": wide}
    if "falls behind" in claim:
        rival = NAMES[re.search("set (.*) falls", claim)[1]]
        other = level(figure, last, "linucb")
        return figure, {"means": {(rival, last): other - 5}}, {"means": {(rival, last): other}, "spreads": wide}
    if "grows faster" in claim:
        rival = NAMES[re.search("regret of (.*) grows", claim)[1]]
        slower = {(rival, d): 20 + 0.1 * d for d in dims}
        alike = {(rival, d): level("fig2b", d, rival) for d in dims}
        return figure, {"means": slower}, {"means": alike, "spreads": wide}
    if "comparable" in claim:
        much, edge = ({("dynamic-balancing", d): f * level(figure, d, "linucb++") for d in dims} for f in (1.5, 1.1))
        return figure, {"means": much}, {"means": edge, "spreads": wide}
    if "larger spread" in claim:  # at every alpha
        place = ("linucb++", dims[3])
        return figure, {"spreads": {place: 9.0}}, {"spreads": {place: 1.0}}
    raise AssertionError(f"no way to break: {claim}")


def test_every_claim_holds_where_all_the_paper_says_is_true():
    verdicts = judge(TRUE)
    assert [v.claim for v in verdicts if v.verdict != "holds"] == []
    assert all(0 < v.low <= v.value + 1e-9 and v.value - 1e-9 <= v.high for v in verdicts)
    assert {v.trials for v in verdicts} == {TRIALS}


@pytest.mark.usefixtures("_few_resamples")
@pytest.mark.parametrize(("figure", "claim"), ROWS)
def test_each_claim_can_fail_and_can_be_undecided(figure, claim):
    changed, false, open_question = changes(figure, claim)
    others = {name: told for name, told in TRUE.items() if name in ("fig2a", "fig2b", "fig3a", "fig3b")}
    needed = others if figure.startswith("fig3") else {figure: TRUE[figure]}
    wrong = row(judge({**needed, changed: world(changed, **false)}), claim, figure)
    assert (wrong.verdict, wrong.high < 0, wrong.value < 0) == ("does not hold", True, True)
    unclear = row(judge({**needed, changed: world(changed, **open_question)}), claim, figure)
    assert unclear.verdict == "undecided"
    assert unclear.low <= 0 <= unclear.high


def test_a_broken_claim_leaves_those_on_other_policies_alone():
    verdicts = judge({"fig2a": world("fig2a", means={"smooth-corral": 15})})
    failed = [v.claim for v in verdicts if v.verdict == "does not hold"]
    assert failed == [
        "LinUCB++ has less regret than Smooth Corral at d* = 12",
        "The oracle, and only it, has less regret than LinUCB++ at d* = 12",
    ]


@pytest.mark.parametrize(
    ("figure", "pattern", "count"),
    [
        *[("fig2a", rf"LinUCB\+\+ has less regret than {re.escape(n)} at d\* = 12", 1) for n in list(NAMES)[:4]],
        *[("fig3a", rf"LinUCB\+\+ has less regret than {re.escape(n)} at d\* = 12", 1) for n in list(NAMES)[:4]],
        *[("fig2b", rf"LinUCB\+\+ has less regret than {re.escape(n)} at every alpha", 1) for n in list(NAMES)[:4]],
        *[("fig3b", rf"LinUCB\+\+ has less regret than {re.escape(n)} at every alpha", 1) for n in list(NAMES)[:4]],
        ("fig2a", "The oracle, and only it, has less regret", 1),
        ("fig3a", "The oracle, and only it, has less regret", 1),
        ("fig2a", r"The spread of LinUCB\+\+ .* smaller", 2),
        ("fig2a", r"The regret curve of LinUCB\+\+ is almost flat", 2),
        ("fig3a", "in much the same order", 1),
        *[("fig3b", f"{re.escape(n)} falls behind LinUCB at the largest alpha", 1) for n in list(NAMES)[1:4]],
        *[("fig3b", rf"The regret of {re.escape(n)} grows faster in alpha", 1) for n in list(NAMES)[1:]],
        ("fig4a", "Dynamic Balancing .* comparable regret", 1),
        ("fig4a", "Dynamic Balancing has the larger spread", 1),
        *[("fig4b", rf"LinUCB\+\+ has less regret than {re.escape(n)} at every alpha", 1) for n in list(NAMES)[:4]],
    ],
)
def test_every_sentence_of_the_paper_has_its_row(figure, pattern, count):
    assert len([claim for shown, claim in ROWS if shown == figure and re.search(pattern, claim)]) == count


def test_rows_are_distinct_and_say_where_they_stand():
    verdicts = judge(TRUE)
    assert len(set(ROWS)) == len(ROWS) == 36
    assert {v.where for v in verdicts if v.figure[:4] in ("fig2", "fig3")} == {"5"}
    assert {v.where for v in verdicts if v.figure[:4] == "fig4"} == {"appendix D"}
    assert all(v.statistic for v in verdicts)


def test_only_claims_whose_figures_are_there_are_judged():
    assert {v.figure for v in judge({"fig2a": TRUE["fig2a"]})} == {"fig2a"}
    assert len(judge({"fig2a": TRUE["fig2a"]})) == 9
    alone = [v.claim for v in judge({"fig3b": TRUE["fig3b"]})]  # what compares it with fig2b is left out
    assert len(alone) == 7
    assert not [claim for claim in alone if "grows faster" in claim]
    assert claims({}) == []


def test_variants_are_judged_apart_and_side_by_side():
    upside_down = world("fig2a", means={"linucb": 5})
    verdicts = claims({("fig2a", "theory"): upside_down, ("fig2a", "released"): TRUE["fig2a"]})
    assert [v.variant for v in verdicts] == ["released", "theory"] * 9
    first = [(v.variant, v.verdict) for v in verdicts[:2]]
    assert verdicts[0].claim == verdicts[1].claim
    assert first == [("released", "holds"), ("theory", "does not hold")]


def quantiles(values):
    return np.quantile(values, [0.025, 0.975])


def test_the_interval_is_that_of_an_independent_bootstrap():
    told = world("fig2a", means={"dynamic-balancing": 22}, spreads={"dynamic-balancing": 5.0, "linucb++": 2.0})
    found = row(judge({"fig2a": told}), "LinUCB++ has less regret than Dynamic Balancing at d* = 12", "fig2a")
    gaps = told.final("d12", "dynamic-balancing") - told.final("d12", "linucb++")
    assert found.value == pytest.approx(gaps.mean())
    rng = np.random.default_rng(1)
    means = [rng.choice(gaps, TRIALS).mean() for _ in range(20_000)]
    error = gaps.std(ddof=1) / np.sqrt(TRIALS)
    assert [found.low, found.high] == pytest.approx(list(quantiles(means)), abs=0.15 * error)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.1)


def least(parts):
    """Interval of the smallest of several statistics, from their resamples (one row each)."""
    lows = [np.percentile(part, 2.5) for part in parts]
    highs = [np.percentile(part, 100 - 2.5 / len(parts)) for part in parts]
    return [min(lows), min(highs)]


def test_the_interval_of_a_smallest_difference():
    spreads = dict.fromkeys(EVERYONE, 3.0)
    near = {("linucb", d): level("fig2b", d, "linucb++") + 1 + d / 10 for d in paper.FIGURES["fig2b"].dims}
    told = world("fig2b", means=near, spreads=spreads)
    found = row(judge({"fig2b": told}), "LinUCB++ has less regret than LinUCB at every alpha", "fig2b")
    gaps = [told.final(f"d{d}", "linucb") - told.final(f"d{d}", "linucb++") for d in (5, 10, 15, 20, 25, 30, 35)]
    assert found.value == pytest.approx(1.5)
    rng, resampled = np.random.default_rng(2), []
    for _ in range(10_000):
        chosen = rng.integers(0, TRIALS, TRIALS)
        resampled.append([gap[chosen].mean() for gap in gaps])
    assert [found.low, found.high] == pytest.approx(least(np.transpose(resampled)), abs=0.12)


def test_the_interval_of_a_smallest_spread():
    told = world("fig2a", spreads={"linucb++": 2.0, **dict.fromkeys(RIVALS, 3.0), "oracle": 2.5})
    claim = "The spread of LinUCB++ over trials is smaller than every other algorithm's, the oracle's included"
    found = row(judge({"fig2a": told}), claim, "fig2a")
    assert found.value == pytest.approx(0.5)
    ours, *others = (told.final("d12", policy) for policy in ("linucb++", "oracle", *RIVALS))
    rng, resampled = np.random.default_rng(3), []
    for _ in range(5_000):
        chosen = rng.integers(0, TRIALS, TRIALS)
        resampled.append([other[chosen].std(ddof=1) - ours[chosen].std(ddof=1) for other in others])
    assert [found.low, found.high] == pytest.approx(least(np.transpose(resampled)), abs=0.06)


def test_ties_at_every_alpha_are_undecided():
    # The smallest of seven differences that are 0 in truth is negative in most samples, and more so in a resample.
    spreads = dict.fromkeys(EVERYONE, 3.0)
    ties = {("linucb", d): level("fig2b", d, "linucb++") for d in paper.FIGURES["fig2b"].dims}
    claim = "LinUCB++ has less regret than LinUCB at every alpha"
    told = world("fig2b", means=ties, spreads=spreads)
    for d in (5, 10, 15, 20, 25, 30, 35):  # as chance would have it: about one standard error
        told.regret[f"d{d}", "linucb"] = told.regret[f"d{d}", "linucb"] + (0.6 if d % 2 else -0.6)
    found = row(judge({"fig2b": told}), claim, "fig2b")
    assert found.value == pytest.approx(-0.6)
    assert found.verdict == "undecided"


CLAIM = "LinUCB++ has less regret than LinUCB at d* = 12"


def test_differences_are_paired():
    # Instances differ by 1000 from trial to trial, policies on one instance by 1 on average.
    shared = 5000 + 1000 * noise(TRIALS, "instances")
    told = world("fig2a", means={"linucb": 21.0, "linucb++": 20.0}, spreads={"linucb": 1.0, "linucb++": 1.0})
    for cell in told.regret:
        told.regret[cell] = told.regret[cell] + shared[:, None]
    paired = row(judge({"fig2a": told}), CLAIM, "fig2a")
    assert paired.verdict == "holds"
    assert paired.value == pytest.approx(1)
    assert paired.high - paired.low < 2
    # Other pairs, the same means: nothing can be said.
    told.regret["d12", "linucb"] = told.regret["d12", "linucb"][::-1]
    unpaired = row(judge({"fig2a": told}), CLAIM, "fig2a")
    assert unpaired.value == pytest.approx(1)
    assert unpaired.verdict == "undecided"
    assert unpaired.high - unpaired.low > 200


def test_trials_are_resampled_jointly_over_alpha_and_over_figures():
    pair = {name: world(name) for name in ("fig2b", "fig3b")}
    claim = "The regret of Smooth Corral grows faster in alpha with an expressive action set than without"
    before = row(judge(pair), claim, "fig3b")
    tilt = 50 * noise(TRIALS, "tilt")[:, None]  # how fast regret grows in a trial, in either figure
    for told in pair.values():
        for (instance, policy), regret in told.regret.items():
            told.regret[instance, policy] = (
                regret + 1000 + tilt * int(instance[1:]) + 3000 * noise(TRIALS, "b")[:, None]
            )
    after = row(judge(pair), claim, "fig3b")
    assert [after.value, after.low, after.high] == pytest.approx([before.value, before.low, before.high], rel=1e-6)


@pytest.mark.parametrize("trials", [1, 2, 5, 6])
def test_few_trials_decide_nothing(trials):
    verdicts = judge({figure: world(figure, trials=trials) for figure in paper.FIGURES})
    assert len(verdicts) == len(ROWS)
    assert {v.trials for v in verdicts} == {trials}
    assert claims_markdown(verdicts).count("\n") == len(ROWS) + 2
    if trials == 1:
        assert all(np.isnan(v.value) and v.low == -np.inf and v.high == np.inf for v in verdicts)
    else:
        assert all(np.isfinite([v.value, v.low, v.high]).all() for v in verdicts)
    decided = [v for v in verdicts if v.verdict != "undecided"]
    assert bool(decided) == (trials == 6)


def test_an_interrupted_study_is_compared_on_the_trials_that_all_have():
    told = world("fig2a")
    told.regret["d12", "linucb"] = told.regret["d12", "linucb"][10:]
    told.numbers["d12", "linucb"] = range(10, TRIALS)
    told.regret["d12", "oracle"] = told.regret["d12", "oracle"][:30]
    found = row(judge({"fig2a": told}), CLAIM, "fig2a")
    assert found.trials == 20
    whole = world("fig2a")
    gaps = whole.final("d12", "linucb") - whole.final("d12", "linucb++")
    assert found.value == pytest.approx(gaps[10:30].mean())
    told.regret["d12", "oracle"] = told.regret["d12", "oracle"][:10]
    assert {(v.verdict, v.trials) for v in judge({"fig2a": told})} == {("undecided", 0)}
    told.regret["d12", "oracle"] = told.regret["d12", "oracle"][:0]
    assert {v.verdict for v in judge({"fig2a": told})} == {"undecided"}


def test_results_from_a_folder_give_the_same_verdicts(tmp_path):
    told, plan = world("fig2a"), paper.study("fig2a", "theory", trials=TRIALS)
    store = Store(tmp_path)
    store.open(plan.name, [executor._entry(cell) for cell in plan.cells], plan.to_dict())
    for cell in plan.cells:
        store.write(Unit(cell, 0, TRIALS), told.regret[cell.instance, cell.policy])
    assert judge({"fig2a": load(tmp_path)}) == judge({"fig2a": told})


def test_markdown_is_a_table_with_a_line_for_each_claim():
    verdicts = judge(TRUE)
    header, rule, *lines = claims_markdown(verdicts).splitlines()
    assert len(lines) == len(verdicts)
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in (header, rule, *lines)}
    assert widths == {5}
    assert header.endswith("| theory |")
    for line, verdict in zip(lines, verdicts, strict=True):
        assert line.startswith(f"| {verdict.figure} | {verdict.claim} | ")
        assert line.endswith(f" | holds: {verdict.value:.3g} [{verdict.low:.3g}, {verdict.high:.3g}] |")


def test_variants_stand_side_by_side():
    results = {("fig2a", v): world("fig2a") for v in paper.VARIANTS}
    verdicts = claims(results)
    header, *rows = claims_table(verdicts)
    assert header[3:] == ["released", "theory"]
    assert len(rows) == len(verdicts) / 2
    assert all(left and left == right for *_, left, right in rows)
