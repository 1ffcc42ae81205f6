"""Instances of many unrelated arms, of which several are best."""

import numpy as np
import pytest

from adadim.instances import many_best


def test_means_are_as_often_as_said():
    instance = many_best(arms=103, share=0.029, horizon=50, top=0.8, others=(0.2, 0.4), replications=range(4))
    assert instance.means.shape == (4, 103)
    for row in instance.means:
        values, counts = np.unique(row, return_counts=True)
        assert dict(zip(values, counts, strict=True)) == {0.2: 50, 0.4: 50, 0.8: 3}
    assert (instance.rewards, instance.problem.noise, instance.problem.dim) == ("bernoulli", 0.5, 1)


def test_a_replication_is_the_same_alone():
    together = many_best(arms=40, share=0.1, horizon=50, replications=[5, 2, 9], seed=1)
    alone = many_best(arms=40, share=0.1, horizon=50, replications=[2], seed=1)
    np.testing.assert_array_equal(together.means[1], alone.means[0])
    assert (together.means[0] != together.means[1]).any()


def test_alpha_gives_the_number():
    assert int((many_best(arms=100, horizon=100, alpha=0.5).means == 0.9).sum()) == 5
    assert int((many_best(arms=100, horizon=100, alpha=0.0).means == 0.9).sum()) == 50
    assert int((many_best(arms=100, horizon=100, share=0.07).means == 0.9).sum()) == 7
    assert int((many_best(arms=2, horizon=100, share=0.07).means == 0.9).sum()) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": 0.2, "share": 0.3}, "exactly one of alpha"),
        ({}, "exactly one of alpha"),
        ({"share": 0.0}, "share must be a number in"),
        ({"share": 1.5}, "share must be a number in"),
        ({"alpha": 1.2}, "alpha must be a number in"),
        ({"share": 0.1, "top": 1.2}, "top must be"),
        ({"share": 0.1, "others": (0.95,)}, "others must be means"),
        ({"share": 0.1, "others": ()}, "others must be means"),
    ],
)
def test_what_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        many_best(**{"arms": 20, "horizon": 50} | changes)
