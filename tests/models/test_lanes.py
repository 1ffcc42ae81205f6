"""Nested dimensions at once."""

import numpy as np
import pytest

from adadim import ActionSet, models
from adadim.core.rows import Replications
from adadim.models.tensors import Lanes
from posterior_states import (
    rows_of,
    unit_rows,
)
from reference.ridge import Ridge


@pytest.mark.parametrize("levels", [None, [2, 4, 7]], ids=["plain", "expressive"])
def test_lanes_are_separate_posteriors(torch, levels):
    """Against textbook ridge regressions in 1, 3, 4 and 7 features; what a pull does not concern stays bit for bit."""
    rng, dims, count = np.random.default_rng(26), (1, 3, 4, 7), 5
    actions = ActionSet(unit_rows(rng, count, 12, 7), levels=levels)
    lanes = Lanes(actions.to("cpu"), dims, 0.3)
    textbooks = [[Ridge(dim, 0.3) for dim in dims] for _ in range(count)]
    pulls = np.zeros((count, 4), dtype=int)

    def check():
        for r in range(count):
            for lane, dim in enumerate(dims):
                mean, width2 = textbooks[r][lane].predict(actions.dense(r)[:, :dim])
                np.testing.assert_allclose(lanes.mean[r, lane], mean, rtol=0, atol=1e-11)
                np.testing.assert_allclose(lanes.width2[r, lane], width2, rtol=0, atol=1e-11)
        np.testing.assert_array_equal(lanes.pulls, pulls)

    check()
    for step in range(150):
        chosen, arms = rng.integers(4, size=count), rng.integers(actions.arms, size=count)
        mask, rewards = rng.random(count) < [1.0, 0.7, 0.4, 0.1, 0.0], rng.standard_normal(count)
        before = {name: getattr(lanes, name).clone() for name in ("mean", "width2", "pulls", "_w")}
        masked = Replications.where(torch.asarray(mask))
        lanes.absorb(*(torch.asarray(part) for part in (chosen, arms, rewards)), masked)
        for r in np.flatnonzero(mask):
            textbooks[r][chosen[r]].add(actions.vector(r, arms[r])[: dims[chosen[r]]], rewards[r])
            pulls[r, chosen[r]] += 1
        for name in ("mean", "width2", "pulls"):
            after, others = getattr(lanes, name), np.ones((count, 4), dtype=bool)
            others[np.flatnonzero(mask), chosen[mask]] = False
            np.testing.assert_array_equal(after[others], before[name][others], err_msg=name)
        np.testing.assert_array_equal(lanes._w[~mask], before["_w"][~mask])
        if step in (0, 1, 40):
            check()
    check()


def test_lanes_agree_with_posteriors_on_truncated_arms(torch):
    rng, dims = np.random.default_rng(27), (2, 3, 6)
    actions = ActionSet(unit_rows(rng, 3, 10, 6), levels=[2, 4, 6])
    lanes = Lanes(actions.to("cpu"), dims, 0.1)
    cuts = [actions.truncate(dim) for dim in dims]
    states = [models.posterior(cut, 0.1) for cut, _ in cuts]
    for _ in range(200):
        chosen, rewards = rng.integers(3, size=3), rng.standard_normal(3)
        local = np.array([rng.integers(cuts[lane][0].arms) for lane in chosen])
        arms = np.array([cuts[lane][1][at] for lane, at in zip(chosen, local, strict=True)])
        everyone = Replications.where(torch.ones(3, dtype=torch.bool))
        lanes.absorb(*(torch.asarray(part) for part in (chosen, arms, rewards)), everyone)
        for r, lane in enumerate(chosen):
            states[lane].absorb(local[r : r + 1], rewards[r : r + 1], rows_of(states[lane], r))
    for lane, (state, (_, pull)) in enumerate(zip(states, cuts, strict=True)):
        np.testing.assert_allclose(lanes.mean[:, lane][:, pull], state.mean, rtol=0, atol=1e-11)
        np.testing.assert_allclose(lanes.width2[:, lane][:, pull], state.width2, rtol=0, atol=1e-11)
        np.testing.assert_array_equal(lanes.pulls[:, lane], state.counts.sum(axis=1))
