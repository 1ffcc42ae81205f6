"""Other people's tables: what is run, what the verdicts say, and the command."""

import json
import math
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import adadim
from adadim.experiments import field
from adadim.experiments.field import plan
from command_line import adadim_


def test_every_number_has_something_to_be_compared_with():
    for name, table in field.TABLES.items():
        cells = {(cell.instance, cell.policy) for cell in field.study(name, trials=2).cells}
        assert {(entry.instance, entry.policy) for entry in table.reported} <= cells
        assert all(entry.value > 0 and entry.error > 0 and entry.remark for entry in table.reported)


def test_horizons_are_the_sources_unless_said():
    assert field.study("d3rb24").cells[0].instance == "exp4-released"
    horizons = {name: table.source_horizon(next(iter(table.instances))) for name, table in field.TABLES.items()}
    others = {"linmed25": 10_000, "adalinucb24": 10_000, "alexp23": 100, "luo25": 800, "systems26": 2000}
    expected = {"d3rb24": 1000, "osom20": 300, "albdim21": 1000, "rb20": 10_000, "arora21": 1_000_000, **others}
    assert horizons == expected
    assert field.study("arora21").instances["gap-0.2"]["horizon"] == 100_000
    assert field.study("rb20", horizon=50).instances["fig2-right"]["horizon"] == 50
    with pytest.raises(ValueError, match="name must be 'd3rb24'"):
        field.study("d3rb25")
    with pytest.raises(ValueError, match="horizon must be an integer"):
        field.study("rb20", horizon=0)


def test_d3rb24_is_in_the_variants_that_were_found_out():
    study = field.study("d3rb24", trials=1)
    cells = {cell.policy: cell.policy_object for cell in study.cells}
    released, printed = cells["exp6-released-d3rb"], cells["exp6-printed-d3rb"]
    assert (released.variant, printed.variant) == ("released", "printed")
    assert [b.dim for b in released.bases] == [2, 5, 10, 15]
    # theta_hat + scale sqrt(d) V^(-1/2) xi, with scale d in the code and 2 in the paper
    assert [b.scale for b in released.bases] == pytest.approx([d**1.5 for d in (2, 5, 10, 15)])
    assert [b.scale for b in printed.bases] == pytest.approx([2 * math.sqrt(d) for d in (2, 5, 10, 15)])
    assert study.instances["exp6-released"]["noise_mean"] == 1.0
    assert np.linalg.norm(study.instances["exp6-printed"]["theta"]) == pytest.approx(1.0)
    assert isinstance(cells["exp4-printed-d3rb"].bases[0], adadim.Greedy)


def results(name, tmp_path, horizon, trials=6):
    made = field.study(name, trials=trials, horizon=horizon)
    return adadim.study.run(made, tmp_path / name, jobs=1)


def test_verdicts(tmp_path, monkeypatch, one_format):
    found = results("osom20", tmp_path, 40)
    assert {(row.verdict, row.z) for row in field.rows([found])} == {("other horizon", None)}
    table = field.TABLES["osom20"]
    ours = {(e.instance, e.policy): found.final(e.instance, e.policy) for e in table.reported}

    def rows(shift):
        reported = [
            replace(e, value=float(ours[e.instance, e.policy].mean()) + shift, error=1.0) for e in table.reported
        ]
        same = replace(table, reported=reported, horizons=dict.fromkeys(table.instances, 40))
        monkeypatch.setitem(plan.TABLES, "osom20", same)
        return field.rows([found])

    for row in rows(0.0):
        assert row.verdict == "agrees"
        assert row.low <= row.ours <= row.high
        assert row.ours == pytest.approx(ours[row.instance, row.policy].mean())
        half = math.hypot((row.high - row.low) / 2, 1.0)
        (shifted,) = (r for r in rows(1.01 * half) if (r.instance, r.policy) == (row.instance, row.policy))
        assert shifted.verdict == "differs"
        (near,) = (r for r in rows(-0.99 * half) if (r.instance, r.policy) == (row.instance, row.policy))
        assert near.verdict == "agrees"
    assert "| osom20 | simple | ucb | 40 |" in field.rows_markdown(rows(0.0))
    for row in rows(-3.0):
        final = [float(x) for x in ours[row.instance, row.policy]]
        error = math.sqrt(statistics.variance(final) / len(final) + 0.5**2)  # the source's half-width is 1
        assert row.z == pytest.approx(3.0 / error)
        assert f" | {3.0 / error:+.1f} | " in field.rows_markdown([row])


def test_few_trials_decide_nothing(tmp_path, monkeypatch, one_format):
    found = results("osom20", tmp_path, 40, trials=2)
    table = replace(field.TABLES["osom20"], horizons={"simple": 40, "complex": 40})
    monkeypatch.setitem(plan.TABLES, "osom20", table)
    assert {row.verdict for row in field.rows([found])} == {"undecided"}


SHORT = {"d3rb24": 30, "rb20": 30, "albdim21": 6, "arora21": 80, "linmed25": 20, "adalinucb24": 20}
SHORT |= {"alexp23": 20, "luo25": 20, "systems26": 20}


@pytest.mark.parametrize(("name", "horizon"), SHORT.items())
def test_the_command_runs_every_table(name, horizon, working_folder, one_format):
    printed, _ = adadim_("reproduce", name, "--trials", 2, "--horizon", horizon, "--jobs", 1, "--out", "there")
    assert f"wrote there/tables/{name}.md" in printed
    rows = json.loads(Path(f"there/tables/{name}.json").read_text())
    assert len(rows) == len(field.TABLES[name].reported) + len(field.TABLES[name].on_sphere)
    assert {row["verdict"] for row in rows} <= {"other horizon", "undecided"}
    assert all(row["horizon"] == horizon and math.isfinite(row["ours"]) for row in rows)


def test_figures_and_tables_in_one_command(working_folder, one_format):
    arguments = ("--trials", 1, "--horizon", 20, "--jobs", 1, "--quiet", "--out", "there")
    adadim_("reproduce", "osom20", "rb20", *arguments)
    assert {path.name for path in Path("there/tables").glob("*.md")} == {"osom20.md", "rb20.md"}
    assert not Path("there/claims.md").exists()


def test_a_sampler_on_the_sphere_is_the_textbook():
    """Greedy, it takes the direction of theta_hat, here by a fresh solve."""
    problem = adadim.Problem(arms=1, dim=3, horizon=50, noise=1.0)
    learner, rng = field.SphereTS(dim=2, scale=0.0).start(problem), np.random.default_rng(0)
    v, b = np.eye(2), np.zeros(2)
    for t in range(50):
        decision = learner.ask(np.zeros((1, 3)))
        (point,) = decision.memo["point"]
        assert np.linalg.norm(point) == pytest.approx(1.0)
        assert point[2] == 0
        if t:
            theta = np.linalg.solve(v, b)
            assert point[:2] == pytest.approx(theta / np.linalg.norm(theta), abs=1e-9)
        reward = float(rng.standard_normal())
        learner.tell(decision, reward)
        v += np.outer(point[:2], point[:2])
        b += reward * point[:2]


def test_draws_on_the_sphere_have_the_width_of_the_posterior():
    problem = adadim.Problem(arms=1, dim=2, horizon=50, noise=1.0, replications=range(4000))
    learner = field.SphereTS(dim=2, scale=0.01).start(problem)
    learner.posterior.theta[:] = [1.0, 0.0]
    learner.posterior.inverse[:] = [[0.3, 0.0], [0.0, 0.09]]
    points = learner.ask(np.zeros((4000, 1, 2))).memo["point"]
    assert points[:, 1].std() == pytest.approx(0.01 * math.sqrt(2 * 0.09), rel=0.05)


def test_regret_on_the_sphere_is_against_the_best_point():
    final = field.play_on_sphere(field.SphereTS(dim=1, scale=0.0), [0.0, 3.0], horizon=20, replications=range(3))
    assert final == pytest.approx([60.0] * 3)  # the first feature earns nothing
    alone = field.play_on_sphere(field.SphereTS(dim=2, scale=1.0), [0.0, 3.0], horizon=20, replications=[2])
    both = field.play_on_sphere(field.SphereTS(dim=2, scale=1.0), [0.0, 3.0], horizon=20, replications=[1, 2])
    assert both[1] == pytest.approx(alone[0])


def test_experiments_on_the_sphere_as_released():
    """Every master has the reported regret, but not with the paper's own noise and scales."""
    rows = field.sphere_rows("d3rb24", trials=30)
    assert [row.instance for row in rows] == ["exp3-released"] * 6 + ["exp5-released"] * 7 + ["exp5-printed"] * 2
    assert {row.verdict for row in rows[:13]} == {"agrees"}
    assert {row.verdict for row in rows[13:]} == {"differs"}
    assert all(abs(row.z) < 2.5 for row in rows[:13])


# The problems


def test_sphere_rounds_have_the_law_of_the_source():
    """Expected best value of a round: 0.3934 in experiment 6, 8.085 in experiment 4."""
    for instance, expected in (("exp6-printed", 0.3934), ("exp4-printed", 8.085)):
        table = dict(field.TABLES["d3rb24"].instances[instance])
        table.pop("kind")
        made = adadim.instances.sphere_rounds(**table, replications=range(40))
        rounds = made.rounds()
        best = np.mean([made.means(next(rounds)).max(axis=1) for _ in range(150)])
        assert best == pytest.approx(expected, rel=0.02)


def test_noise_has_the_mean_that_was_asked_for():
    made = adadim.instances.sphere_rounds(arms=2, theta=[0.0], horizon=5, noise_mean=1.0, replications=range(4000))
    means = made.means(next(made.rounds()))
    rewards = made.pull(means, np.zeros(4000, dtype=int), made.noise_streams(0))
    assert rewards.mean() == pytest.approx(1.0, abs=0.06)
    assert rewards.std() == pytest.approx(1.0, abs=0.05)


def test_arms_with_biases():
    made = adadim.instances.biased_arms(arms=4, dim=6, intrinsic_dim=2, norm=0.5, horizon=5, replications=range(300))
    features = next(made.rounds())
    assert np.linalg.norm(features, axis=-1) == pytest.approx(1.0)
    assert np.linalg.norm(made.theta, axis=-1) == pytest.approx(0.5)
    assert (made.theta[:, 2:] == 0).all()
    assert np.abs(made.biases).max() <= 1
    expected = np.einsum("rkd,rd->rk", features, made.theta) + made.biases
    np.testing.assert_allclose(made.means(features), expected)
    alone = adadim.instances.biased_arms(arms=4, dim=6, intrinsic_dim=2, norm=0.5, horizon=5, replications=[7])
    np.testing.assert_array_equal(alone.theta[0], made.theta[7])
    np.testing.assert_array_equal(next(alone.rounds())[0], features[7])


def test_one_context_for_all_arms():
    made = adadim.instances.shared_contexts(models=3, dim=4, horizon=5, largest=0.5, replications=range(20))
    features = next(made.rounds())
    for k in range(3):
        own = features[:, k].reshape(20, 3, 4)
        assert (own[:, k, 0] == 1).all()
        np.testing.assert_array_equal(own[:, k], features[:, 0, :4])
        assert (np.delete(own, k, axis=1) == 0).all()
    assert made.theta.min() >= 0
    assert made.theta.max() <= 0.5
    plain = adadim.instances.shared_contexts(models=3, dim=4, horizon=5, relevant=False)
    rounds = plain.rounds()
    np.testing.assert_array_equal(plain.means(next(rounds)), plain.means(next(rounds)))


def test_the_law_of_the_features_is_the_one_they_have():
    sizes = {"dim": 4, "horizon": 5}
    assert adadim.instances.sphere_rounds(arms=2, theta=[1.0], horizon=5).distribution == "sphere"
    for distribution in ("sphere", "gaussian"):
        assert adadim.instances.biased_arms(arms=3, distribution=distribution, **sizes).distribution == distribution
    for distribution in ("uniform", "gaussian"):
        made = adadim.instances.shared_contexts(models=3, distribution=distribution, **sizes)
        assert made.distribution == f"one {distribution} context for all arms"
        assert made.distribution in made._repr_html_()


def test_owned_arms():
    made = adadim.instances.owned_arms(best=0.52, horizon=5, owners=3)
    assert made.means[0].tolist() == [0.52] + [0.2] * 9 + [0.51, 0.5, 0.5, 0.5, 0.5] * 2


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        ("sphere_rounds", {"arms": 2, "theta": ["a"]}, "theta must be a sequence"),
        ("sphere_rounds", {"arms": 2, "theta": [1.0], "noise_mean": math.nan}, "noise_mean"),
        ("biased_arms", {"arms": 2, "dim": 2, "norm": -1.0}, "norm must be a finite number of at least 0"),
        ("biased_arms", {"arms": 2, "dim": 2, "intrinsic_dim": 3}, "intrinsic_dim"),
        ("biased_arms", {"arms": 2, "dim": 2, "distribution": "box"}, "distribution must be"),
        ("shared_contexts", {"models": 2, "dim": 2, "largest": 0.0}, "largest"),
        ("shared_contexts", {"models": 2, "dim": 2, "relevant": "no"}, "relevant"),
        ("owned_arms", {"best": 0.5}, "best must be a number in"),
        ("owned_arms", {"best": 0.6, "owners": 1}, "owners"),
    ],
)
def test_bad_parameters(make, changes, message):
    with pytest.raises(adadim.AdadimError, match=message):
        getattr(adadim.instances, make)(horizon=9, **changes)
