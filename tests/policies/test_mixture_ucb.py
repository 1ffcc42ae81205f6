"""UCB on mixture-arms inside LinUCB++ with Corral: under masks, by indices and in NumPy alike."""

import numpy as np
import pytest

from adadim import LinUCBPlusPlusCorral
from adadim.core.rows import Replications
from small_problems import in_torch, small

INDICES = ["self-normalised", "subgaussian", "ucb1", "released"]
COUNT, ARMS = 5, 12


def third_iteration(instance, **changes):
    """LinUCB, and UCB on two mixture-arms, as the third iteration starts them."""
    learner = LinUCBPlusPlusCorral(**changes).start(instance.problem, seed=3)
    return learner.make_solver(learner.schedule.iterations[2]).bases


def instance():
    return small(range(COUNT), arms=ARMS, dim=24)


@pytest.mark.parametrize("ties", ["random", "lowest"])
@pytest.mark.parametrize("index", INDICES)
def test_a_mask_chooses_and_learns_as_an_index_does(torch, index, ties):
    rng, here = np.random.default_rng(1), instance()
    there = in_torch(here, torch)
    plain = third_iteration(here, index=index, ties=ties).learners[1]
    by_index, by_mask = (third_iteration(there, index=index, ties=ties).learners[1] for _ in range(2))
    assert plain.statistics.arms == 2
    chosen = np.zeros((COUNT, 2), dtype=int)
    for _ in range(120):
        mask = rng.random(COUNT) < [0.9, 0.6, 0.4, 0.1, 0.0]
        ids, rewards = np.flatnonzero(mask), rng.standard_normal(COUNT)
        if not ids.size:
            continue
        expected, *_ = plain.choose(Replications.some(ids, here.means))
        masked = Replications.where(torch.from_numpy(mask))
        wide, memo, *_ = by_mask.choose(masked)
        some, *_ = by_index.choose(Replications.some(ids, there.means))
        assert wide.shape == (COUNT,)
        assert memo == {}
        assert some.tolist() == wide[ids].tolist() == expected.tolist()
        assert set(expected.tolist()) <= {ARMS, ARMS + 1}
        chosen[ids, expected - ARMS] += 1
        plain.absorb(expected, rewards[ids], Replications.some(ids, here.means), {})
        by_index.absorb(some, torch.from_numpy(rewards[ids]), Replications.some(ids, there.means), {})
        # Outside the mask the arm may be a real one, and its reward anything.
        arms = torch.where(masked.mask, wide, torch.from_numpy(rng.integers(ARMS, size=COUNT)))
        before = [part.clone() for part in (by_mask.statistics.counts, by_mask.statistics.sums)]
        by_mask.absorb(arms, torch.from_numpy(np.where(mask, rewards, 1e6)), masked, {})
        for part, then in zip((by_mask.statistics.counts, by_mask.statistics.sums), before, strict=True):
            assert torch.equal(part[~masked.mask], then[~masked.mask])
    np.testing.assert_array_equal(plain.statistics.counts, chosen)
    for other in (by_index, by_mask):
        np.testing.assert_array_equal(other.statistics.counts, chosen)
        np.testing.assert_array_equal(other.statistics.sums, plain.statistics.sums)
    assert (chosen[0] > 0).all()
    assert not chosen[4].any()


def test_bases_with_mixture_arms_choose_alike_under_masks(torch):
    """LinUCB on real arms and UCB on mixture-arms together, a random one of them in each replication."""
    rng, here = np.random.default_rng(2), instance()
    there = in_torch(here, torch)
    plain, masked = third_iteration(here), third_iteration(there)
    assert masked.masked
    assert not plain.masked
    for step in range(80):
        ids = np.sort(rng.permutation(COUNT)[: rng.integers(1, COUNT + 1)])
        rows, other = (Replications.some(ids, which.means) for which in (here, there))
        if step % 3 == 0:
            ids, rows, other = np.arange(COUNT), Replications.all(here.means), Replications.all(there.means)
        base, rewards = rng.integers(2, size=len(ids)), rng.standard_normal(len(ids))
        arms, memo, *_ = plain.choose(base, rows)
        found, kept, *_ = masked.choose(torch.from_numpy(base), other)
        assert found.tolist() == arms.tolist()
        assert ((arms >= ARMS) == (base == 1)).all()
        plain.absorb(base, arms, rewards, rows, memo)
        masked.absorb(torch.from_numpy(base), found, torch.from_numpy(rewards), other, kept)
    np.testing.assert_array_equal(masked.learners[0].model.regression.counts, plain.learners[0].model.regression.counts)
    np.testing.assert_array_equal(masked.learners[1].statistics.counts, plain.learners[1].statistics.counts)
    np.testing.assert_allclose(
        masked.learners[0].model.regression.mean, plain.learners[0].model.regression.mean, rtol=0, atol=1e-10
    )
