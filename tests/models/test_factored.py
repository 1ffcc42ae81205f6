"""The model by its factor says what the other models say of the same pulls, whatever is offered."""

import numpy as np
import pytest

import adadim
from adadim.core.arrays import as_numpy
from adadim.core.rows import Rows
from adadim.models.linear import FactorModel, linear_model


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("offer", ["fixed", "contexts", "disjoint"])
@pytest.mark.parametrize("late", [False, True])
def test_means_and_widths_are_those_of_the_other_models(offer, library, late):
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
    models = [make(problem, 0.3, dim=3) for make in (FactorModel, linear_model)]
    everyone = Rows.all(problem.reference)
    for t in range(12):
        context = rng.standard_normal((2, 4)) if offer == "disjoint" else rng.standard_normal((2, 5, 4)) / 3
        given = context if offer == "disjoint" else problem.xp.asarray(context)
        rows = everyone if offer == "fixed" else everyone.offering(given, None)
        predictions = [model.predict(rows.to_numpy() if model.converts else rows) for model in models]
        for ours, theirs in zip(*predictions, strict=True):
            np.testing.assert_allclose(as_numpy(ours), as_numpy(theirs), rtol=1e-9, atol=1e-12)
        arms, rewards = problem.xp.asarray(rng.integers(5, size=2)), problem.xp.asarray(rng.standard_normal(2))
        for model in models:
            _, memo = model.arms_and_memo(
                as_numpy(arms) if model.converts else arms, rows.to_numpy() if model.converts else rows
            )
            if late and t % 3:
                model.expect(arms, everyone, memo)
            else:
                model.absorb(arms, rewards, everyone, memo)
