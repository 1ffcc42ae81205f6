"""Claims: verdicts on data whose truth is known."""

import re
from dataclasses import replace

import numpy as np
import pytest
from made_up_figures import ALL_POLICIES, CLAIM, NAMES, TRIALS, judge, level, row, world

from adadim import LinUCB, paper
from adadim.experiments.paper.analysis import corrected, correction_note, verdict_text
from adadim.report import bootstrap
from adadim.study import StoreError, Study, load, run
from made_up_results import MadeUpResults


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
    wide = dict.fromkeys(ALL_POLICIES, 3.0)
    ours = level(figure, last, "linucb++")
    if re.match(r"LinUCB\+\+ has less regret than .* at d\*", claim):
        return figure, {"means": {rival: ours - 5}}, {"means": {rival: ours}, "spreads": wide}
    if claim.startswith("The oracle, and only it"):
        return figure, {"means": {"linucb": ours - 5}}, {"means": {"oracle": ours}, "spreads": wide}
    if "less regret" in claim:  # at every alpha: false at one is false
        middle = level(figure, dims[3], "linucb++")
        changed = (rival, dims[3])
        return figure, {"means": {changed: middle - 5}}, {"means": {changed: middle}, "spreads": wide}
    if claim.startswith("The spread of LinUCB++"):
        return figure, {"spreads": {"linucb++": 9.0}}, {"spreads": {"linucb++": 1.0}}
    if "almost flat" in claim:
        return figure, {"late": 0.5}, {"late": 0.1, "late_noise": 0.05}
    if "same order" in claim:
        upside_down = {policy: 100 - level(figure, 12, policy) for policy in ALL_POLICIES}
        ties = {policy: 20 if level(figure, 12, policy) < 45 else 60 for policy in ALL_POLICIES}
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
        changed = ("linucb++", dims[3])
        return figure, {"spreads": {changed: 9.0}}, {"spreads": {changed: 1.0}}
    if "over time have the shape" in claim:  # at a tenth of the way down they are neither
        return figure, {"late": 0.5}, {"late": 0.0278, "late_noise": 0.02}
    if "over alpha have the shape" in claim:
        changed, flat = ("linucb", dims[3]), level(figure, last, "linucb")
        edge = 1.1 * 6 * flat / (7 - 1.1)  # a tenth above the mean of the seven
        return figure, {"means": {changed: 1.5 * flat}}, {"means": {changed: edge}, "spreads": wide}
    if "does as well as with" in claim:
        edge = (0.1 + level("fig3a", 12, "linucb++") / 60) * 60
        return figure, {"means": {"linucb++": 50}}, {"means": {"linucb++": edge}, "spreads": wide}
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
    others = {name: made for name, made in TRUE.items() if name in ("fig2a", "fig2b", "fig3a", "fig3b")}
    needed = others if figure.startswith("fig3") or "as well as with" in claim else {figure: TRUE[figure]}
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
        ("fig2a", r"The regret curve of LinUCB\+\+ is almost flat", 3),
        ("fig2a", r"almost flat at early stages \(rounds 500 to 1500\)", 1),
        ("fig2a", r"Without an expressive action set LinUCB\+\+ does as well as with", 1),
        ("fig3a", "curves over time have the shape", 1),
        ("fig3b", "curves over alpha have the shape", 1),
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


def test_rows_are_distinct_and_say_where_the_paper_says_it():
    verdicts = judge(TRUE)
    assert len(set(ROWS)) == len(ROWS) == 40
    assert {v.where for v in verdicts if v.figure[:4] in ("fig2", "fig3")} == {"5"}
    assert {v.where for v in verdicts if v.figure[:4] == "fig4"} == {"appendix D"}
    assert all(v.statistic for v in verdicts)


def test_only_claims_whose_figures_are_there_are_judged():
    assert {v.figure for v in judge({"fig2a": TRUE["fig2a"]})} == {"fig2a"}
    assert len(judge({"fig2a": TRUE["fig2a"]})) == 10
    alone = [v.claim for v in judge({"fig3b": TRUE["fig3b"]})]  # what compares it with fig2b is left out
    assert len(alone) == 7
    assert not [claim for claim in alone if "grows faster" in claim]
    assert paper.claims([]) == []


def test_variants_are_judged_apart_and_listed_together():
    upside_down = world("fig2a", means={"linucb": 5})
    verdicts = paper.claims([upside_down, world("fig2a", variant="released")])
    assert [v.variant for v in verdicts] == ["released", "theory"] * 10
    first = [(v.variant, v.verdict) for v in verdicts[:2]]
    assert verdicts[0].claim == verdicts[1].claim
    assert first == [("released", "holds"), ("theory", "does not hold")]


@pytest.mark.parametrize("trials", [1, 2, 5, 6])
def test_few_trials_decide_nothing(trials):
    verdicts = judge({figure: world(figure, trials=trials) for figure in paper.FIGURES})
    assert len(verdicts) == len(ROWS)
    assert {v.trials for v in verdicts} == {trials}
    assert paper.claims_markdown(verdicts).count("\n| fig") == len(ROWS)
    if trials == 1:
        assert all(np.isnan(v.value) and v.low == -np.inf and v.high == np.inf for v in verdicts)
    else:
        assert all(np.isfinite([v.value, v.low, v.high]).all() for v in verdicts)
    decided = [v for v in verdicts if v.verdict != "undecided"]
    assert bool(decided) == (trials == 6)


def test_an_interrupted_study_is_compared_on_the_trials_that_all_have():
    made = world("fig2a")
    made.regret["d12", "linucb"] = made.regret["d12", "linucb"][10:]
    made.numbers["d12", "linucb"] = range(10, TRIALS)
    made.regret["d12", "oracle"] = made.regret["d12", "oracle"][:30]
    found = row(judge({"fig2a": made}), CLAIM, "fig2a")
    assert found.trials == 20
    whole = world("fig2a")
    gaps = whole.final("d12", "linucb") - whole.final("d12", "linucb++")
    assert found.value == pytest.approx(gaps[10:30].mean())
    made.regret["d12", "oracle"] = made.regret["d12", "oracle"][:10]
    assert {(v.verdict, v.trials) for v in judge({"fig2a": made})} == {("undecided", 0)}
    made.regret["d12", "oracle"] = made.regret["d12", "oracle"][:0]
    assert {v.verdict for v in judge({"fig2a": made})} == {"undecided"}


def test_results_from_a_folder_give_the_same_verdicts(tiny, tmp_path):
    run(paper.study("fig2a", "theory", trials=8), tmp_path, jobs=1)
    results = load(tmp_path)
    times = results.curves(*results.cells()[0])[0]
    made = MadeUpResults({cell: results.curves(*cell)[1] for cell in results.cells()}, times, labels=results.labels)
    assert len(paper.claims([made])) == 10
    assert paper.claims([results]) == paper.claims([made])


def test_results_without_labels_are_refused(tmp_path):
    sphere = {"kind": "sphere", "arms": 5, "dim": 3, "intrinsic_dim": 2, "horizon": 20}
    results = run(Study("fig2a-theory", {"d12": sphere}, {"linucb": LinUCB()}, trials=1), tmp_path, jobs=1)
    message = r"the manifest has no label 'variant'; run the study again, which finds the stored blocks"
    with pytest.raises(StoreError, match=message):
        paper.claims([results])


def test_markdown_is_a_table_with_a_line_for_each_claim():
    verdicts = judge(TRUE)
    table, note, *untested = paper.claims_markdown(verdicts).split("\n\n")
    header, rule, *lines = table.splitlines()
    assert note.startswith(f"Every interval is one of 95% by itself. Of {len(verdicts)} verdicts")
    assert untested[0] == "Not testable:"
    assert len(lines) == len(verdicts)
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in (header, rule, *lines)}
    assert widths == {6}
    assert header.endswith("| theory |")
    for line, verdict in zip(lines, verdicts, strict=True):
        assert line.startswith(f"| {verdict.figure} | {verdict.claim} | ")
        assert line.endswith(f" | holds: {verdict.value:.3g} [{verdict.low:.3g}, {verdict.high:.3g}] |")


def test_variants_are_columns_next_to_each_other():
    verdicts = paper.claims(world("fig2a", variant=variant) for variant in paper.VARIANTS)
    header, *rows = paper.claims_table(verdicts)
    assert header[3:] == ["unit", "released", "theory"]
    assert len(rows) == len(verdicts) / 2
    assert all(left and left == right for *_, left, right in rows)


def test_every_statistic_has_a_unit():
    assert {v.unit for v in judge(TRUE)} == {"reward", "reward/alpha", "ratio", "correlation"}


def test_holms_correction_by_hand():
    """0.05 / 4, / 3, / 2, / 1 for the smallest, the next and so on; the first that is above ends it."""
    made = replace(judge({"fig2a": TRUE["fig2a"]})[0], verdict="holds")
    by_p = [replace(made, p=p) for p in (0.04, 0.001, 0.03, 0.012)]
    assert [v.holds_after_holm for v in corrected(by_p)] == [False, True, False, True]
    assert [v.holds_after_holm for v in corrected(by_p[:1])] == [True]
    assert not corrected([replace(made, p=0.001, verdict="undecided")])[0].holds_after_holm
    weak = corrected(by_p)[0]
    assert verdict_text(weak).startswith("holds*: ")
    assert verdict_text(corrected(by_p)[1]).startswith("holds: ")
    assert "2 (fig2a theory, " in correction_note(corrected(by_p))


def test_the_correction_can_be_passed_with_so_many_resamples():
    """A p-value is at least 2/4001, which must be below 5% divided by the number of all verdicts."""
    assert 0.05 / (2 * len(ROWS)) > 2 / (bootstrap.RESAMPLES + 1)
    assert all(
        v.holds_after_holm for v in paper.claims(world(f, variant=v) for f in paper.FIGURES for v in paper.VARIANTS)
    )


def test_p_values_agree_with_those_of_a_normal_mean():
    """Of a mean whose distance from 0 is 2.5 standard errors the two-sided p-value is 0.0124."""
    trials = 100
    gap = 2.5 / np.sqrt(trials)
    spreads = {"linucb++": 1e-9, "linucb": 1.0}
    made = world("fig2a", trials=trials, means={"linucb++": 20, "linucb": 20 + gap}, spreads=spreads)
    found = row(judge({"fig2a": made}), CLAIM, "fig2a")
    assert found.p == pytest.approx(0.0124, abs=0.006)
    assert found.verdict == "holds"
