"""Outcomes drawn in one line, and as text."""

import io

import numpy as np
import pytest
from matplotlib.figure import Figure

import adadim
from adadim.report.looks import look_of
from refusals import assert_refuses

STUDENT = 2.7764451  # 97.5% point of Student's t with four degrees of freedom


@pytest.fixture(scope="module")
def instance():
    return adadim.instances.sphere(arms=20, dim=6, intrinsic_dim=2, horizon=60, replications=range(5))


@pytest.fixture(scope="module")
def outcomes(instance):
    policies = {
        "recommended": adadim.recommended(instance.problem),
        "LinUCB oracle": adadim.LinUCB(dim=2),
        "mine": adadim.LinUCB(),
        "$scaled$": adadim.LinUCB(scale=0.5),
    }
    return {name: adadim.simulate(policy, instance, record=10) for name, policy in policies.items()}


def lines(axis):
    return {line.get_label(): line for line in axis.get_lines()}


def test_curves_are_means_over_replications(outcomes):
    figure = adadim.plot(outcomes)
    (axis,) = figure.axes
    assert list(lines(axis)) == list(outcomes)
    for name, line in lines(axis).items():
        x, y = line.get_data()
        assert (x[0], y[0]) == (0, 0)
        assert x[1:].tolist() == outcomes[name].times.tolist()
        assert y[1:].tolist() == pytest.approx(outcomes[name].regret.mean(axis=0).tolist())
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("round $t$", "cumulative regret (reward units)")
    assert figure.get_suptitle() == (
        "K = 20, d = 6, T = 60, noise = 0.1\nmean over 5 replications, shaded: its 95% confidence interval"
    )
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(outcomes)


@pytest.mark.parametrize("band", ["ci", "std"])
def test_the_band_is_what_the_caption_says(outcomes, band):
    outcome = outcomes["mine"]
    (shading,) = outcome.plot(band=band).axes[0].collections
    at = shading.get_paths()[0].vertices
    ends = sorted({y for x, y in at if x == 60})
    std = outcome.final.std(ddof=1)
    half = std if band == "std" else STUDENT * std / np.sqrt(5)
    assert [ends[0], ends[-1]] == pytest.approx([outcome.final.mean() - half, outcome.final.mean() + half])


def test_policies_look_as_in_the_figures_of_the_paper(outcomes):
    drawn = lines(adadim.plot(outcomes).axes[0])
    looks = {"recommended": "EvidenceLinUCB", "LinUCB oracle": "oracle", "mine": "LinUCB"}
    for name, key in looks.items():
        wanted = look_of(key)
        assert (drawn[name].get_color(), drawn[name].get_marker()) == (wanted["color"], wanted["marker"])
        assert drawn[name].get_linestyle() == wanted["linestyle"]
    assert drawn["$scaled$"].get_color() == drawn["mine"].get_color()  # the same kind, with another line
    assert drawn["$scaled$"].get_linestyle() != drawn["mine"].get_linestyle()


def test_one_outcome_is_called_by_its_policy(outcomes):
    figure = outcomes["mine"].plot()
    assert figure.legends == []
    assert figure.get_suptitle().startswith("LinUCB\nK = 20")
    assert outcomes["mine"].plot(title="Mine").get_suptitle().startswith("Mine\nK = 20")


def test_a_notebook_shows_it_and_it_can_be_saved(outcomes, tmp_path):
    figure = adadim.plot(outcomes)
    assert isinstance(figure, Figure)
    assert figure._repr_png_().startswith(b"\x89PNG")
    for kind in ("png", "pdf", "svg"):
        figure.savefig(tmp_path / f"regret.{kind}")
        assert (tmp_path / f"regret.{kind}").stat().st_size > 1000


def test_axes_of_the_caller(outcomes):
    own = Figure()
    left, right = own.subplots(1, 2)
    assert adadim.plot(outcomes, left, title="50% of $") is left
    assert outcomes["mine"].plot(ax=right) is right
    assert list(lines(left)) == list(outcomes)
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["LinUCB"]
    own.savefig(io.BytesIO())


def test_a_single_problem_and_other_instances(outcomes):
    single = adadim.Instance(np.eye(3), theta=[0.9, 0.1, 0.0], horizon=30, noise=0.1)
    outcome = adadim.simulate(adadim.UCB(), single)
    figure = outcome.plot()
    assert figure.get_suptitle() == "UCB\nK = 3, d = 3, T = 30, noise = 0.1\none replication"
    both = adadim.plot({"here": outcome, "there": outcomes["mine"]})
    assert (
        both.get_suptitle().replace("\n", " ")
        == "noise = 0.1 mean over 1 to 5 replications, shaded: its 95% confidence interval"
    )


def test_features_that_come_with_the_round_and_clicks():
    instance = adadim.instances.contexts(arms=5, dim=4, intrinsic_dim=2, horizon=30, replications=range(2))
    contexts = adadim.simulate(adadim.recommended(instance.problem), instance)
    clicks = adadim.Instance(np.eye(2), means=[0.9, 0.1], rewards="bernoulli", horizon=50, delay=3)
    late = adadim.simulate(adadim.LinUCB(), clicks)
    assert [len(repr(one).splitlines()) for one in (contexts, late)] == [5, 5]
    assert adadim.plot({"contexts": contexts, "late": late}).get_suptitle().startswith("mean over 1 to 2 replications")


def test_what_is_no_outcome_is_refused(outcomes):
    for wrong in (3, None, {}, list(outcomes.values())):
        assert_refuses(
            TypeError, r"plot takes an outcome of simulate, or a dict \{name: outcome\}, got", adadim.plot, wrong
        )
    assert_refuses(TypeError, "but 'mine' is of type ndarray", adadim.plot, {"mine": outcomes["mine"].regret})
    assert_refuses(TypeError, "the name of an outcome must be a text, got 3", adadim.plot, {3: outcomes["mine"]})
    assert_refuses(ValueError, "band must be", adadim.plot, outcomes, band="iqr")


def test_the_text_of_an_outcome(outcomes):
    outcome = outcomes["$scaled$"]
    final = outcome.final
    assert repr(outcome).splitlines() == [
        "Outcome of LinUCB(scale=0.5)",
        "  problem: 20 arms, 6 features, noise 0.1",
        "  rounds: 60, the regret recorded after 10 of them",
        f"  regret: {final.mean():.4g} (std {final.std(ddof=1):.3g} over 5 replications) after the last round",
        "  see: times, regret (5, 10), pulls (5, 20), final, learner, plot(), to_polars(), to_pandas()",
    ]


def test_the_text_of_a_replay():
    rng = np.random.default_rng(0)
    frame = {"drug": rng.integers(2, size=200), "better": rng.random(200)}
    trial = adadim.instances.table(frame, reward="better", arm="drug", features=[], replications=range(3))
    found = adadim.simulate(adadim.LinUCB(radius=0.5), trial)
    low, high = found.matched.min(), found.matched.max()
    assert repr(found).splitlines() == [
        "Replay of LinUCB(radius=0.5)",
        f"  rows: 200, of which {low} to {high} had the arm it chose",
        f"  mean reward of these: {found.mean.mean():.4g} (std {found.mean.std(ddof=1):.3g} over 3 replications)",
        "  see: mean, matched, times, rewards, matches, pulls, learner",
    ]
    assert_refuses(TypeError, "but 'trial' is of type Replay", adadim.plot, {"trial": found})


def test_the_text_is_short_whatever_the_policy(instance):
    bases = tuple(adadim.LinUCB(dim=d) for d in range(1, 7)) * 5
    outcome = adadim.simulate(adadim.Corral(bases=bases), instance, record=2)
    assert len(repr(outcome).splitlines()) == 5
    assert max(map(len, repr(outcome).splitlines())) < 120
