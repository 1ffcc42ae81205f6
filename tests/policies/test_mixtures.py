"""Virtual mixture-arms: the flattened law is that of drawing until a real arm comes up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare

from adadim.core.randomness import Purpose, Streams
from adadim.core.rows import Replications
from adadim.policies.plusplus.iterations import Mixtures
from iterated_learners import mixture_means
from reference import Mixtures as Recursive

MU = np.array([0.1, 0.5, 0.3])
# phat_1, phat_2 and phat_3 of the worked example, as counts.
EXAMPLE = [(4, 2, 2), (2, 8, 0, 6), (0, 4, 4, 2, 6)]
MOST = 1 - 2.0**-53  # the largest uniform


def build(histories, arms):
    """Mixtures of one replication from the pull counts of its iterations, earlier mixtures after the real arms."""
    mixtures = Mixtures(np.zeros((1, 1)), arms, 9)
    for j, counts in enumerate(histories):
        counts = np.array([counts], dtype=float)
        mixtures.add(j, counts[:, :arms], counts[:, arms:], Replications.all(mixtures.cumulative))
    return mixtures


def many(mixtures, j, uniforms):
    """Draws of mixture `j` of the only replication, one for each uniform."""
    rows = Replications(np.zeros(len(uniforms), dtype=np.int64), np.arange(1))
    return mixtures.draw(np.full(len(uniforms), j), uniforms, rows)


def recursive(histories, arms):
    mixtures = Recursive(arms)
    for counts in histories:
        mixtures.add(np.array(counts) / np.sum(counts))
    return mixtures


def absorbed(histories, arms):
    """Law of the recursive draw, by enumeration: an absorbing chain that moves from mixture to mixture."""
    count = len(histories)
    moves, ends = np.zeros((count, count)), np.zeros((count, arms))
    for j, counts in enumerate(histories):
        ends[j], moves[j, :j] = np.array(counts[:arms]) / np.sum(counts), np.array(counts[arms:]) / np.sum(counts)
    return np.linalg.solve(np.eye(count) - moves, ends)


@st.composite
def histories(draw):
    """Number of real arms, and counts of a few iterations that each pulled something."""
    arms, mixtures = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    pulls = st.integers(0, 2**20) | st.integers(0, 3)
    made = [draw(st.lists(pulls, min_size=arms + j, max_size=arms + j).filter(any)) for j in range(mixtures)]
    return arms, made


def test_worked_example_c16():
    mixtures = build(EXAMPLE, 3)
    np.testing.assert_allclose(mixtures.q[0][0], [0.5, 0.25, 0.25], rtol=0, atol=1e-15)
    np.testing.assert_allclose(mixtures.q[1][0], [0.3125, 0.59375, 0.09375], rtol=0, atol=1e-15)
    np.testing.assert_allclose(mixtures.q[2][0], [0.1796875, 0.50390625, 0.31640625], rtol=0, atol=1e-15)
    means = mixture_means(mixtures, MU[None])
    np.testing.assert_allclose(means[0], [0.25, 0.35625, 0.36484375], rtol=0, atol=1e-15)
    other = recursive(EXAMPLE, 3)
    np.testing.assert_allclose(means[0], [other.mean(j, MU) for j in range(3)], rtol=0, atol=1e-15)
    spread = mixtures.q[1][0] @ (MU - means[0, 1]) ** 2
    assert spread == pytest.approx(0.0330859375, abs=1e-12)
    assert spread <= (np.ptp(MU) / 2) ** 2


@given(histories())
def test_flattened_law_is_the_enumerated_one(drawn):
    arms, made = drawn
    mixtures = build(made, arms)
    q = np.array([law[0] for law in mixtures.q])
    assert (q >= 0).all()
    np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(q, absorbed(made, arms), rtol=0, atol=1e-12)
    np.testing.assert_allclose(q[-1], recursive(made, arms).flat(len(made) - 1), rtol=0, atol=1e-12)


@given(histories(), st.integers(0, 2**32 - 1))
def test_means_by_recursion_and_within_range(drawn, seed):
    arms, made = drawn
    mu = np.random.default_rng(seed).uniform(-1, 1, arms)
    mixtures, other = build(made, arms), recursive(made, arms)
    means = mixture_means(mixtures, mu[None])[0]
    np.testing.assert_allclose(means, [other.mean(j, mu) for j in range(len(made))], rtol=0, atol=1e-12)
    assert means.min() >= mu.min() - 1e-12
    assert means.max() <= mu.max() + 1e-12
    for law, mean in zip(mixtures.q, means, strict=True):
        assert law[0] @ (mu - mean) ** 2 <= (np.ptp(mu) / 2) ** 2 + 1e-12


@given(histories(), st.integers(1, 400))
def test_draws_have_the_flattened_law(drawn, size):
    """Over an even grid of uniforms, an arm of probability q comes up within one of `size` q times."""
    arms, made = drawn
    mixtures = build(made, arms)
    for j, law in enumerate(mixtures.q):
        came = many(mixtures, j, (np.arange(size) + 0.5) / size)
        times = np.bincount(came, minlength=arms)
        assert len(times) == arms
        assert (np.abs(times - size * law[0]) < 1 + 1e-6).all()


@given(histories())
def test_no_draw_falls_outside_the_support(drawn):
    arms, made = drawn
    mixtures = build(made, arms)
    extremes = np.array([0.0, 5e-324, 2.0**-53, 0.5, MOST])
    for j, law in enumerate(mixtures.q):
        came = many(mixtures, j, extremes)
        assert (law[0, came] > 0).all()


def test_recursive_and_flattened_draws_have_the_same_frequencies():
    mixtures, other = build(EXAMPLE, 3), recursive(EXAMPLE, 3)
    size, rng = 6000, np.random.default_rng(3)
    streams = Streams(3, Purpose.POLICY, [0])
    for j in range(3):
        flat = np.bincount([many(mixtures, j, streams.uniforms())[0] for _ in range(size)], minlength=3)
        deep = np.bincount([other.draw(j, rng) for _ in range(size)], minlength=3)
        assert chi2_contingency([flat, deep]).pvalue > 0.01
        assert chisquare(flat, size * mixtures.q[j][0]).pvalue > 0.01
        # The law of the iteration before, say, would be noticed.
        assert chisquare(flat, size * mixtures.q[j - 1][0]).pvalue < 1e-6


def test_each_replication_has_its_own_mixtures():
    mixtures = Mixtures(np.zeros((3, 1)), 2, 9)

    def rows(*ids):
        return Replications.some(np.array(ids), mixtures.cumulative)

    mixtures.add(0, np.array([[1.0, 3.0], [4.0, 0.0]]), np.zeros((2, 0)), rows(2, 0))
    np.testing.assert_array_equal(mixtures.q[0], [[1.0, 0.0], [0.0, 0.0], [0.25, 0.75]])
    mixtures.add(1, np.array([[0.0, 1.0]]), np.array([[1.0]]), rows(0))
    np.testing.assert_array_equal(mixtures.q[1], [[0.5, 0.5], [0.0, 0.0], [0.0, 0.0]])
    mixtures.add(0, np.array([[0.0, 5.0]]), np.zeros((1, 0)), rows(1))
    assert mixtures.draw(np.array([0, 0, 1]), np.array([0.3, 0.3, 0.3]), rows(2, 1, 0)).tolist() == [1, 1, 0]
    assert mixtures.draw(np.array([1, 0]), np.array([0.6, 0.2]), rows(0, 2)).tolist() == [1, 0]


def test_torch_draws_the_same(torch):
    rng = np.random.default_rng(4)
    counts = [rng.integers(0, 5, (6, 20 + j)).astype(float) for j in range(3)]
    ours = Mixtures(np.zeros((6, 1)), 20, 9)
    theirs = Mixtures(torch.zeros((6, 1), dtype=torch.float64), 20, 9)
    here, there = Replications.all(ours.cumulative), Replications.all(theirs.cumulative)
    for j, made in enumerate(counts):
        ours.add(j, made[:, :20], made[:, 20:], here)
        theirs.add(j, torch.from_numpy(made[:, :20]), torch.from_numpy(made[:, 20:]), there)
    for _ in range(50):
        j, uniforms = rng.integers(3, size=6), rng.random(6)
        expected = ours.draw(j, uniforms, here).tolist()
        given = torch.from_numpy(j), torch.from_numpy(uniforms)
        assert theirs.draw(*given, there).tolist() == expected
        mask = rng.random(6) < 0.5
        masked = theirs.draw(*given, Replications.where(torch.from_numpy(mask)))
        assert masked[torch.from_numpy(mask)].tolist() == np.array(expected)[mask].tolist()
    np.testing.assert_allclose(theirs.q[2].numpy(), ours.q[2], rtol=0, atol=1e-15)
    np.testing.assert_allclose(theirs.cumulative.numpy(), ours.cumulative, rtol=0, atol=1e-15)
    np.testing.assert_allclose(np.diff(ours.cumulative, axis=2, prepend=0.0)[:, 1], ours.q[1], rtol=0, atol=1e-15)
