"""The regression that keeps its sums, against dense solves and against the other regressions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adadim
from adadim.core.arrays import as_numpy
from adadim.core.rows import Replications
from adadim.models.fixed import FEW_PULLS
from adadim.models.linear import LinearModel
from adadim.models.prefixes import PrefixPrior
from adadim.models.priors import RidgePrior
from adadim.models.statistics import Moments
from adadim.models.sums import MAX_FACTOR_UPDATES, PRODUCT_UP_TO, SumsRegression, UpdatedSums
from posterior_states import history, unit_rows


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 25), st.integers(0, 2**32))
def test_one_factor_has_the_regressions_on_all_prefixes(arms, dim, steps, seed):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((arms, dim)) * 10.0 ** rng.integers(-2, 3, size=dim)
    features /= np.linalg.norm(features, axis=-1).max()
    chosen, rewards = history(rng, steps, arms, run=2)
    ridge = 10.0 ** rng.integers(-2, 2)
    state, row = SumsRegression(np.zeros(1), dim, ridge), Replications.all(np.zeros(1))
    for x, reward in zip(chosen, rewards, strict=True):
        state.absorb(features[x], reward, row)
    state.factorise(row)
    x, r = features[chosen[:, 0]], rewards[:, 0]
    z = state.whiten(features[None], row)[0]
    for m in range(1, dim + 1):
        v = ridge * np.eye(m) + x[:, :m].T @ x[:, :m]
        theta = np.linalg.solve(v, x[:, :m].T @ r)
        np.testing.assert_allclose(state.w[0, :m] @ z[:m], features[:, :m] @ theta, rtol=1e-8, atol=1e-8)
        width2 = np.vecdot(features[:, :m], np.linalg.solve(v, features[:, :m].T).T)
        np.testing.assert_allclose((z[:m] ** 2).sum(axis=0), width2, rtol=1e-8, atol=1e-10)
        found = -2 * np.log(np.diag(state.inverse[0])[:m]).sum()
        np.testing.assert_allclose(found, np.linalg.slogdet(v)[1], rtol=1e-8, atol=1e-8)
    leading = SumsRegression(np.zeros(1), dim, ridge)
    leading.second[:], leading.b[:] = state.second, state.b
    size = (dim + 1) // 2
    leading.factorise_leading(0, size)
    np.testing.assert_allclose(leading.inverse[0, :size, :size], state.inverse[0, :size, :size], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(leading.w[0, :size], state.w[0, :size], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("memory", [None, 7.0])
def test_torch_equals_numpy(torch, some, memory):
    rng = np.random.default_rng(7)
    features = unit_rows(rng, 3, 9, 5)
    near, far = (SumsRegression(reference, 5, 0.2, memory) for reference in (features, torch.asarray(features)))
    for t, (x, reward) in enumerate(zip(*history(rng, 80, 9, 3), strict=True)):
        ids = rng.permutation(3)[: rng.integers(1, 4)] if some else np.arange(3)
        pulled, number = features[ids, x[ids]], None if memory is None else np.full(len(ids), float(t))
        near.absorb((pulled, number), reward[ids], Replications.some(ids, features))
        number = None if number is None else torch.asarray(number)
        far.absorb(
            (torch.asarray(pulled), number), torch.asarray(reward[ids]), Replications.some(ids, torch.asarray(features))
        )
    for state, reference in ((near, features), (far, torch.asarray(features))):
        state.factorise(Replications.all(reference))
    for name in ("inverse", "w", "logdet", "second", "b", "squares", "weight", "pulls"):
        assert isinstance(getattr(far, name), torch.Tensor)
        np.testing.assert_allclose(getattr(far, name).numpy(), getattr(near, name), rtol=1e-9, atol=1e-10, err_msg=name)


def test_weights_halve_after_as_many_decisions_as_the_memory():
    state, row = SumsRegression(np.zeros(1), 1, 1.0, memory=4.0), Replications.all(np.zeros(1))
    state.absorb((np.ones((1, 1)), np.array([1.0])), np.array([3.0]), row)
    state.fade(np.array([9.0]), row)
    assert (state.weight[0], state.second[0, 0, 0], state.b[0, 0], state.squares[0]) == (0.25, 0.25, 0.75, 2.25)
    state.fade(np.array([2.0]), row)  # the past does not come back
    assert state.weight[0] == 0.25


def test_huge_features_round_the_ridge_away():
    """Cholesky fails where the ridge is lost next to the data; what comes out is still finite and about right."""
    x = np.array([[1e9, 1e9], [1e9, 1e9 * (1 + 1e-16)]])
    state, row = SumsRegression(np.zeros(1), 2, 1.0), Replications.all(np.zeros(1))
    for one in x:
        state.absorb(one[None], np.ones(1), row)
    with pytest.warns(adadim.PrecisionWarning):
        state.factorise(row)
    mean, width2 = state.predict(x[None], row)
    assert np.isfinite(width2).all()
    np.testing.assert_allclose(mean[0], 1.0, rtol=1e-3)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("offer", ["fixed", "contexts", "disjoint"])
@pytest.mark.parametrize("late", [False, True])
def test_means_and_widths_are_those_of_the_other_regressions(offer, library, late):
    rng = np.random.default_rng(2)
    features = rng.standard_normal((2, 5, 4)) / 3
    problem = adadim.Problem(
        *([features] if offer == "fixed" else []),
        **(
            {} if offer == "fixed" else {"arms": 5, "dim": 4, "replications": range(2), "disjoint": offer == "disjoint"}
        ),
        horizon=50,
        noise=0.1,
    )
    if library == "torch":
        pytest.importorskip("torch")
        problem = problem.to("cpu")
    models = [LinearModel(problem, RidgePrior(0.3), dim=3, samples=samples) for samples in (True, False)]
    everyone = Replications.all(problem.reference)
    for t in range(12):
        context = rng.standard_normal((2, 4)) if offer == "disjoint" else rng.standard_normal((2, 5, 4)) / 3
        given = context if offer == "disjoint" else problem.xp.asarray(context)
        rows = everyone if offer == "fixed" else everyone.with_offer(given, None)
        predictions = [model.predict(rows.to_numpy() if model.converts else rows) for model in models]
        for ours, theirs in zip(*predictions, strict=True):
            np.testing.assert_allclose(as_numpy(ours), as_numpy(theirs), rtol=1e-9, atol=1e-12)
        arms, rewards = problem.xp.asarray(rng.integers(5, size=2)), problem.xp.asarray(rng.standard_normal(2))
        for model in models:
            host = model.converts
            pulled, earned = (as_numpy(arms), as_numpy(rewards)) if host else (arms, rewards)
            rows_here = rows.to_numpy() if host else rows
            _, memo = model.choice(pulled, rows_here)
            if late and t % 3:
                model.add_pending(pulled, rows_here, memo)
            else:
                model.absorb(pulled, earned, rows_here, memo)


@pytest.mark.parametrize("ridge", [1e-3, 2.0])
def test_the_estimate_of_sums_is_that_of_least_squares_with_the_ridge_as_rows(ridge):
    rng = np.random.default_rng(3)
    x, rewards, sums = rng.standard_normal((40, 5)), rng.standard_normal(40), Moments.zeros(5)
    for part in np.split(np.arange(40), 4):
        sums.add(x[part], rewards[part])
    rows, targets = np.vstack([x, np.sqrt(ridge) * np.eye(5)]), np.concatenate([rewards, np.zeros(5)])
    np.testing.assert_allclose(sums.estimate(ridge), np.linalg.lstsq(rows, targets, rcond=None)[0], rtol=1e-10)


@pytest.mark.parametrize("dim", [1, 6, PRODUCT_UP_TO + 1])
def test_a_factor_that_pulls_update_is_that_of_the_sums(dim):
    """700 pulls of one regression, so that it is made anew twice, and 5 of another."""
    rng = np.random.default_rng(4)
    updated, made_anew = (kind(np.zeros(2), dim, 0.3) for kind in (UpdatedSums, SumsRegression))
    everyone, refreshed = Replications.all(np.zeros(2)), 0
    for t in range(700):
        rows = everyone if t % 140 == 0 else Replications.some(np.array([0]), np.zeros(2))
        x, rewards = (
            rng.standard_normal((len(rows), dim)) * 10.0 ** rng.integers(-2, 1) / dim**0.5,
            rng.standard_normal(len(rows)),
        )
        for regression in (updated, made_anew):
            regression.factorise(everyone)
            regression.resolve(x, rewards, rows)
        refreshed += int(updated.age[0] == MAX_FACTOR_UPDATES)
        if t % 100 == 99:
            made_anew.factorise(everyone)
            for name in ("inverse", "w", "logdet"):
                np.testing.assert_allclose(getattr(updated, name), getattr(made_anew, name), rtol=1e-8, atol=1e-12)
    assert refreshed == 2
    updated.refresh(1, 2.0)
    updated.factorise(everyone)
    assert updated.logdet[1] == pytest.approx(np.linalg.slogdet(np.eye(dim) + updated.second[1] / 2.0)[1])


@pytest.mark.filterwarnings("ignore::adadim.PrecisionWarning")  # of the sums, while few arms were pulled
def test_a_pull_that_narrows_an_arm_very_much_leaves_means_exact():
    """An update of `w` would be the difference of numbers that are nearly the same: means were off by 5e-10 here."""
    rng, row = np.random.default_rng(5), Replications.all(np.zeros(1))
    features = rng.standard_normal((12, 4)) * 10.0 ** np.array([5.0, 0.0, 3.0, 6.0])
    updated, made_anew = (kind(np.zeros(1), 4, 1e-3) for kind in (UpdatedSums, SumsRegression))
    for _ in range(60):
        x, reward = features[rng.integers(12, size=1)], rng.standard_normal(1)
        for state in (updated, made_anew):
            state.resolve(x, reward, row)
            state.factorise(row)
    (mean, width2), (expected, expected_width2) = (one.predict(features[None], row) for one in (updated, made_anew))
    assert (np.abs(mean - expected) <= 1e-11 * np.sqrt(expected_width2)).all()
    np.testing.assert_allclose(width2, expected_width2, rtol=1e-11)


def test_pending_pulls_count_in_the_widths_beside_a_factor_that_is_updated():
    rng, rows = np.random.default_rng(6), Replications.all(np.zeros(2))
    features = rng.standard_normal((2, 5, 3))
    updated, made_anew = (kind(np.zeros(2), 3, 0.3) for kind in (UpdatedSums, SumsRegression))
    for t in range(40):
        x, reward = features[:, t % 5], rng.standard_normal(2)
        for state in (updated, made_anew):
            if t % 4 == 3:
                state.add_pending(x, rows)
            else:
                state.absorb(x, reward, rows)
            state.factorise(Replications.some(np.array([t % 2]), np.zeros(2)) if t % 3 else rows)
    for state in (updated, made_anew):
        state.factorise(rows)
    for found, expected in zip(updated.predict(features, rows), made_anew.predict(features, rows), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11)
    spread = rng.standard_normal((2, 4, 3))
    np.testing.assert_allclose(updated.sample(spread, rows), made_anew.sample(spread, rows), rtol=1e-11)


@pytest.mark.parametrize(
    ("expected", "options"),
    [(UpdatedSums, {}), (SumsRegression, {"memory": 9.0}), (SumsRegression, {"prior": PrefixPrior(20.0)})],
)
def test_models_that_draw_update_the_factor_unless_pulls_fade(expected, options):
    problem = adadim.Problem(np.eye(3), horizon=9, noise=0.1)
    model = LinearModel(problem, **{"prior": RidgePrior(0.1), "samples": True} | options)
    assert type(model.regression) is expected


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dim", [1, 20, 225])
def test_one_pull_is_added_as_one_of_several_to_the_bit(dim, weighted):
    """An agent adds them one at a time, and a rebuild of its sums many: a pull of weight 0 makes one one of two."""
    rng, alone, beside = np.random.default_rng(dim), Moments.zeros(dim), Moments.zeros(dim)
    for _ in range(30):
        x, reward, weight = rng.standard_normal((1, dim)) * 7, rng.standard_normal(1), rng.random(1) * 3
        alone.add(x, reward, weight if weighted else None)
        beside.add(np.vstack([x, 0 * x]), np.append(reward, 0.0), np.append(weight if weighted else 1.0, 0.0))
    for name, value in vars(beside).items():
        np.testing.assert_array_equal(getattr(alone, name), value, err_msg=name)


def test_pulls_of_many_replications_are_those_of_each_to_the_bit():
    rng, count = np.random.default_rng(9), 2 * FEW_PULLS
    together, alone = UpdatedSums(np.zeros(count), 3, 0.3), UpdatedSums(np.zeros(count), 3, 0.3)
    for _ in range(20):
        x, rewards, everyone = rng.standard_normal((count, 3)), rng.standard_normal(count), Replications.all(alone.w)
        together.resolve(x, rewards, everyone)
        for r in range(count):
            alone.resolve(x[r : r + 1], rewards[r : r + 1], Replications.some(np.array([r]), alone.w))
        for state in (together, alone):
            state.factorise(everyone)
    for name, value in vars(alone).items():
        np.testing.assert_array_equal(getattr(together, name), value, err_msg=name)
