"""The router of examples/embeddings.py: what its operator may expect, each scenario with the same queries."""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from test_examples import run, table

import adadim
from adadim.instances import real

pytest.importorskip("sklearn")
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
embeddings = pytest.importorskip("embeddings")

QUERIES, DIMENSIONS = 1_200, 32
HALF = QUERIES // 2


@functools.cache
def world():
    return embeddings.World.load("digits", 0, QUERIES).cut(DIMENSIONS)


@functools.cache
def played(name):
    setting, operation, options = embeddings.scenarios("digits", QUERIES)[name]
    return embeddings.play(setting.cut(DIMENSIONS), operation, **options)


def test_the_rotation_is_to_principal_components_of_images_that_are_not_played():
    source = real.named("digits")
    images = np.stack([source.frame[name] for name in source.features], axis=1)
    shuffled = np.random.default_rng(0).permutation(len(images))
    fitted, played = shuffled[:500], shuffled[500:]
    variances, axes = np.linalg.eigh(np.cov(images[fitted].T))
    order = np.random.default_rng([1, 3]).permutation(played)
    vectors = (images[order] - images[fitted].mean(axis=0)) @ axes[:, ::-1]
    length = np.sqrt(variances.sum() * 499 / 500)
    given = embeddings.World.load("digits", 3).vectors
    assert given.shape == (1_297, 61)
    np.testing.assert_allclose(np.abs(given[:, :40]), np.abs(vectors[:, :40]) / length, atol=1e-9)


def test_a_reward_is_whether_the_answer_was_right_less_the_price():
    rewards = world().rewards
    assert set(np.unique(rewards[:, :2])) == {0.0, 1.0}
    np.testing.assert_allclose(np.unique(rewards[:, 2]), [-0.2, 0.8])
    assert not (rewards[:, 0] * rewards[:, 1]).any()  # no digit is known to both


def test_stationary_it_earns_more_than_any_one_model_and_than_eight_dimensions():
    found, best = played("as it should be"), world().rewards.mean(axis=0).max()
    assert found.earned.mean() > best + 0.02
    short = embeddings.play(world().cut(8), policy=adadim.LinUCB(scale=0.35), noise=0.5, memory=None)
    assert found.earned.mean() > short.earned.mean()
    assert found.status["world_changed"] is None


def test_after_a_swap_it_finds_out_and_recovers_sooner_than_one_that_never_forgets():
    found, fixed = played("small models swap"), played("small models swap, memory=None")
    assert HALF < found.status["world_changed"] <= HALF + 300
    assert found.quarter(3) > fixed.quarter(3) + 0.02
    assert (found.earned[:HALF] == played("as it should be").earned[:HALF]).all()


def test_a_new_model_is_found_and_used():
    found = played("a new model")
    assert "new" not in found.chosen[:HALF]
    last = found.chosen[-QUERIES // 4 :]
    assert last.count("new") > len(last) / 2
    assert found.quarter(4) > played("as it should be").quarter(4) + 0.03


def test_late_and_lost_rewards_cost_little_more_than_the_wait():
    found, at_once = played("200 queries late, a fifth lost"), played("as it should be")
    chance = world().rewards.mean()
    kept = (found.earned.mean() - chance) / (at_once.earned.mean() - chance)
    assert kept > 1 - 200 / QUERIES - 0.15
    status = found.status
    assert status["rewards"] + status["expired"] + status["outstanding"] == QUERIES
    assert 0.15 < 1 - status["rewards"] / QUERIES < 0.25


def test_wrong_rewards_cost_and_correcting_them_mends_the_model():
    wrong, mended, clean = (
        played(name) for name in ("wrong rewards for an eighth", "wrong rewards, corrected", "as it should be")
    )
    assert wrong.earned.mean() < mended.earned.mean() < clean.earned.mean()
    assert mended.quarter(4) > clean.quarter(4) - 0.05  # two standard errors of their difference


def test_once_corrected_the_model_is_that_of_the_true_rewards(tmp_path):
    poisoned = range(100, 200)
    short = embeddings.World.load("digits", 0, 300).cut(4)
    happened = embeddings.Operation(poisoned=poisoned, corrected=225)
    found = embeddings.play(short, happened, memory=None)
    left = embeddings.play(short, embeddings.Operation(poisoned=poisoned), memory=None)
    assert found.chosen[:225] == left.chosen[:225]  # until then nobody knows
    rows = [short.offered(query)[name] for query, name in enumerate(found.chosen)]
    told = [short.rewards[query, short.models.index(name)] for query, name in enumerate(found.chosen)]
    with adadim.Agent.create(tmp_path / "true.db", dim=len(rows[0]), memory=None) as agent:
        agent.learn((np.array(rows), np.array(told)))
        true = agent.estimate(short.offered(0))
    for name, estimate in true.items():
        assert found.estimates[name] == pytest.approx(estimate, abs=1e-6)
        assert left.estimates[name] != pytest.approx(estimate, abs=1e-3)


def test_a_restart_changes_nothing():
    found, without = played("restarted before every batch"), played("as it should be")
    assert found.chosen == without.chosen
    assert found.estimates == without.estimates


@pytest.mark.parametrize(("features", "count"), [(1, 0), (4, 0), (5, 1), (7, 1), (8, 2), (100, 32)])
def test_features_are_counted_as_dimensions(features, count):
    assert embeddings.dimensions(features, models=3) == count


def test_the_example_prints_what_is_earned_by_how_many_dimensions(tmp_path):
    done = run("embeddings.py", "--data", "digits", "--rounds", 200, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = table(done.stdout)
    played_here = embeddings.World.load("digits", 0, 200)
    assert rows["a model at random"][0] == f"{played_here.rewards.mean():.3f}"
    assert rows["a linear rule in hindsight"][1] == "1.00"
    assert rows["recommended, all 61"][0] == f"{embeddings.play(played_here).earned.mean():.3f}"
    assert re.search(r"worth having: \d+ of 61 dimensions \(90%: \d+ to \d+\)", done.stdout)


def test_intervals_are_students(tmp_path):
    done = run("embeddings.py", "--data", "digits", "--rounds", 100, "--orders", 2, cwd=tmp_path)
    best, less = [], []
    for order in range(2):
        world = embeddings.World.load("digits", order, 100)
        chance, hindsight = world.rewards.mean(), world.hindsight()
        last = embeddings.play(world).earned.mean()
        best.append((world.rewards.mean(axis=0).max() - chance) / (hindsight - chance))
        less.append(best[-1] - (last - chance) / (hindsight - chance))
    halves = [12.7062 * np.std(values, ddof=1) / np.sqrt(2) for values in (best, less)]  # one degree of freedom
    _, share, difference = table(done.stdout)["always the best model"]
    assert share == f"{np.mean(best):.2f} +/- {halves[0]:.2f}"
    assert difference == f"{np.mean(less):+.2f} +/- {halves[1]:.2f}"


def test_the_example_prints_the_scenarios(tmp_path):
    done = run("embeddings.py", "--data", "digits", "--rounds", 100, "--scenarios", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(table(done.stdout)) == 8
