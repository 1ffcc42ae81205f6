"""Looks: one colour and marker for every policy, everywhere, and labels that a study's file gives."""

import itertools

import numpy as np
import pytest
from drawn_studies import small

import adadim
from adadim import paper, policies
from adadim.experiments import comparison
from adadim.report import bootstrap, draw, looks, register_look
from adadim.study import Study, run


def test_every_policy_of_the_library_has_a_look_of_its_own():
    kinds = {looks.key_of(kind) for kind in policies.kinds()}
    assert kinds <= set(looks.LOOKS)
    pairs = [(look.colour, look.marker) for look in looks.LOOKS.values()]
    assert len(set(pairs)) == len(pairs)


def test_policies_that_are_drawn_together_differ_in_colour_and_in_marker():
    for one, other in itertools.combinations(looks.COMMON, 2):
        assert looks.LOOKS[one].colour != looks.LOOKS[other].colour
        assert looks.LOOKS[one].marker != looks.LOOKS[other].marker
    drawn = {looks.key_of(policy) for policy in paper.policies().values()} | {"oracle", "EvidenceLinUCB"}
    assert drawn <= set(looks.COMMON)


def test_colours_can_be_told_apart():
    """By far more than what two eyes take for the same: a tenth of the way from black to white."""
    colours = [looks.LOOKS[name].colour for name in looks.COMMON]
    rgb = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in colours]) / 255
    apart = np.linalg.norm(rgb[:, None] - rgb[None], axis=-1) + 9 * np.eye(len(rgb))
    assert apart.min() > 0.17


def test_both_variants_and_the_comparison_look_alike():
    for name in paper.policies():
        keys = {looks.key_of(paper.study("fig2a", variant).policies[name]) for variant in paper.VARIANTS}
        assert len(keys) == 1
    assert looks.key_of(paper.study("fig2a").policies["oracle"]) == "oracle"
    assert looks.key_of(adadim.recommended(adadim.Problem(np.eye(2), horizon=9))) == "EvidenceLinUCB"
    recommended = comparison.policies()["recommended"]
    assert looks.key_of(recommended) == "EvidenceLinUCB"


def test_a_policy_looks_the_same_in_every_figure(tmp_path):
    one = draw(run(small(policies={"a": adadim.UCB(), "b": adadim.LinUCB()}, trials=1), tmp_path / "1", jobs=1))
    two = draw(run(small(policies={"x": adadim.LinUCB(), "y": adadim.Random()}, trials=1), tmp_path / "2", jobs=1))
    first, second = one.axes[0].get_lines()[1], two.axes[0].get_lines()[0]
    assert (first.get_color(), first.get_marker()) == (second.get_color(), second.get_marker()) == ("#E69F00", "D")


def test_policies_of_a_kind_share_its_colour_and_differ_in_line():
    made = looks.looks_of({str(beta): adadim.LinUCBPlusPlus(beta=beta) for beta in (0.5, 0.6, 0.75)})
    assert {look["color"] for look in made.values()} == {"#0072B2"}
    assert len({look["linestyle"] for look in made.values()}) == 3


def test_plugins_extend_the_registry(monkeypatch):
    monkeypatch.setattr(looks, "_REGISTERED", {})
    by_name = looks.look_of("Mine")
    taken = {(look.colour, look.marker) for look in looks.LOOKS.values()}
    for name in map(str, range(200)):
        look = looks.look_of(name)
        assert (look["color"], look["marker"]) not in taken
    register_look("Mine", "#123456", "8", ":")
    assert looks.look_of("Mine") == {"color": "#123456", "linestyle": ":", "marker": "8", "linewidth": 1.4}
    assert by_name["color"] != "#123456"


@pytest.mark.parametrize(
    ("look", "message"),
    [
        (("red", "o"), "colour must be written #RRGGBB, got 'red'"),
        (("#12345", "o"), "colour must be written #RRGGBB"),
        (("#123456", "oo"), "marker must be one of o s D"),
        (("#123456", "$"), "marker must be one of o s D"),
        (("#123456", "o", "wavy"), "line must be"),
    ],
)
def test_bad_looks(look, message):
    with pytest.raises(adadim.InvalidValueError, match=message):
        register_look("Mine", *look)


def test_a_policy_of_the_library_keeps_its_look():
    with pytest.raises(adadim.InvalidValueError, match="LinUCB has a look already, which is the same in every figure"):
        register_look("LinUCB", "#1B9E77", "p")


def test_titles_names_axes_and_looks_come_from_the_studys_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(small(trials=2).to_toml().replace("trials = 2", "trials = 2\n", 1) + LABELS)
    results = run(Study.from_toml(file), tmp_path / "r", jobs=1)
    figure = draw(results, title=results.labels["title"])
    assert figure.get_suptitle().startswith("My title\n")
    assert "noise = 0.1, theory" in figure.get_suptitle()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Ours", "mine", "greedy"]
    (axis,) = figure.axes
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("decisions", "lost clicks")
    assert (axis.get_lines()[0].get_color(), axis.get_lines()[0].get_marker()) == ("#112233", "p")


LABELS = """
[labels]
title = "My title"
variant = "theory"

[labels.policies]
linucb = "Ours"

[labels.axes]
x = "decisions"
y = "lost clicks"

[labels.looks.linucb]
colour = "#112233"
marker = "p"
"""


def test_a_look_in_a_file_that_is_none(tmp_path):
    for look in ({"colour": "blue", "marker": "o"}, {"color": "#112233"}, 3):
        results = run(small(trials=1, labels={"looks": {"linucb": look}}), tmp_path / "r", jobs=1)
        with pytest.raises(adadim.InvalidValueError, match=r"#RRGGBB|labels\.looks\.linucb: must be a table"):
            draw(results)


@pytest.mark.parametrize("trials", [3, 8, 25])
def test_intervals_cover_the_mean_of_few_trials(trials):
    """Of 400 samples of a normal law; the normal approximation covers 81% with 3 trials and 91% with 8."""
    values = np.random.default_rng(trials).standard_normal((trials, 400))
    low, high = bootstrap.mean_interval(values)
    assert 0.92 <= ((low <= 0) & (high >= 0)).mean() <= 0.985
    assert (low < values.mean(axis=0)).all()


def test_intervals_in_numbers():
    """The bootstrap's, taken further out, of ten trials; Student's of two; none of one."""
    for values, ends in (
        (np.arange(10.0), (2.4, 6.6)),
        (np.array([1.0, 3.0]), (-10.7, 14.7)),
        (np.ones(1), (1.0, 1.0)),
    ):
        low, high = bootstrap.mean_interval(values[:, None])
        assert (low.round(1).item(), high.round(1).item()) == ends
