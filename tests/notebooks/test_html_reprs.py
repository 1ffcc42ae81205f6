"""What notebooks show of an object: short, escaped, and with the numbers that matter."""

import numpy as np
import pytest

import adadim
from adadim.report import draw
from adadim.study import Study, run

SPHERE = {"kind": "sphere", "arms": 12, "dim": 6, "intrinsic_dim": 2, "horizon": 40}


def html(thing):
    text = thing._repr_html_()
    assert text.startswith("<div><strong>")
    assert text.count("<tr>") == text.count("</tr>") > 0
    assert len(text) < 6000
    return text


def test_problem_and_instances():
    text = html(adadim.Problem(np.eye(3), horizon=70))
    assert ">70<" in text
    assert ">unknown<" in text
    instance = adadim.instances.sphere(**{k: v for k, v in SPHERE.items() if k != "kind"}, replications=range(4))
    text = html(instance)
    assert 'features that matter</th><td style="text-align: left">2<' in text
    assert 'replications</th><td style="text-align: left">4<' in text
    text = html(adadim.instances.contexts(arms=5, dim=8, intrinsic_dim=2, horizon=100))
    assert "up to 5 in each round" in text
    html(adadim.Instance(np.eye(2), means=[0.1, 0.2], horizon=5, noise=0.1))
    frame = {"x": [0.1, 0.9, 0.2, 0.8], "kind": ["low", "high", "low", "high"]}
    text = html(adadim.instances.table(frame, classes="kind", features=["x"]))
    assert 'rows</th><td style="text-align: left">4<' in text


def test_learners_and_outcomes():
    problem = adadim.Problem(np.eye(3), horizon=70, noise=0.1)
    for policy in (adadim.EvidenceLinUCB(), adadim.LinUCBPlusPlus(), adadim.Random(), adadim.SmoothCorral()):
        learner = policy.start(problem)
        learner.update(learner.select(), 0.5)
        assert type(policy).__name__ in html(learner)
    instance = adadim.Instance(np.eye(2), theta=[0.9, 0.1], horizon=50, noise=0.1)
    outcome = adadim.simulate(adadim.UCB(), instance)
    assert f"{float(outcome.final):.4g}" in html(outcome)
    assert "UCB(" in html(outcome)


def test_studies_results_and_dimensions(tmp_path):
    study = Study("<mine>", {"easy": SPHERE}, {"a&b": adadim.LinUCB()}, trials=3, labels={"variant": "theory"})
    text = html(study)
    assert "Study &lt;mine&gt;" in text
    assert "a&amp;b" in text
    assert "theory" in text
    results = run(study, tmp_path, jobs=1)
    assert f"{results.final('easy', 'a&b').mean():.4g}" in html(results)
    features = np.random.default_rng(0).standard_normal((100, 5))
    found = adadim.dimension(features, features[:, :2].sum(axis=1))
    assert "2 of 5 features matter" in html(found)
    several = adadim.simulate(adadim.LinUCB(), adadim.instances.sphere(**SIZES, replications=range(2)))
    html(several.learner.dimension())


SIZES = {k: v for k, v in SPHERE.items() if k != "kind"}


def test_figures_show_themselves(tmp_path):
    figure = draw(run(Study("mine", {"easy": SPHERE}, {"a": adadim.LinUCB()}, trials=2), tmp_path, jobs=1))
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize("value", [0, 1.23456, "x", None, [1, 2], "z" * 1000])
def test_cards_of_any_value(value):
    text = adadim.core.display.html_table("<b>", {"<i>": value, "also": 1})
    assert "<b>" not in text
    assert "<i>" not in text
    assert ("z" * 400) not in text
