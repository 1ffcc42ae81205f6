"""Rounds at which the regret is recorded, and progress."""

import numpy as np
import pytest

from adadim import LinUCB, instances, simulate
from scripted_policies import every, scripted


@pytest.mark.parametrize(
    ("horizon", "record", "expected"),
    [
        (2500, None, list(range(25, 2501, 25))),
        (7, None, [1, 2, 3, 4, 5, 6, 7]),
        (10, 3, [3, 6, 10]),
        (10, 1, [10]),
        (10, 50, list(range(1, 11))),
        (10, [2, 5], [2, 5]),
        (10, (10,), [10]),
        (10, range(2, 11, 4), [2, 6, 10]),
        (10, np.array([1, 10]), [1, 10]),
        (1, None, [1]),
    ],
)
def test_record_points(horizon, record, expected):
    instance = instances.ball(arms=4, dim=2, intrinsic_dim=1, horizon=horizon, replications=range(2))
    policy, _ = scripted(np.arange(horizon) % 4)
    seen = []
    outcome = simulate(policy, instance, record=record, progress=lambda done, total: seen.append((done, total)))
    assert outcome.times.tolist() == expected
    assert seen == [(t, horizon) for t in expected]
    gaps = (instance.best[:, None] - instance.means)[:, np.arange(horizon) % 4]
    np.testing.assert_allclose(outcome.regret, np.cumsum(gaps, axis=1)[:, np.array(expected) - 1], atol=1e-12)
    assert (outcome.pulls.sum(axis=1) == horizon).all()  # the run goes on to the horizon whatever is recorded


def test_recording_changes_nothing():
    instance = instances.sphere(arms=20, dim=5, intrinsic_dim=2, horizon=100)
    full, few = (simulate(LinUCB(), instance, record=record) for record in (every(instance), [40, 100]))
    np.testing.assert_array_equal(full.regret[:, [39, 99]], few.regret)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (0, "record must be at least 1, or a sequence of rounds, got 0"),
        (-3, "record must be at least 1, or a sequence of rounds, got -3"),
        (True, "non-empty sequence of rounds, got True"),
        ([], r"non-empty sequence of rounds, got \[\]"),
        ([[1, 2]], "non-empty sequence of rounds"),
        ([1.5], r"non-empty sequence of rounds, got \[1.5\]"),
        ("all", "non-empty sequence of rounds, got 'all'"),
        ([0, 5], r"increasing rounds in 1\.\.10 \(the horizon\), got \[0, 5\]"),
        ([5, 11], r"increasing rounds in 1\.\.10 \(the horizon\), got \[5, 11\]"),
        ([5, 5], r"increasing rounds in 1\.\.10 \(the horizon\), got \[5, 5\]"),
        ([5, 3], r"increasing rounds in 1\.\.10 \(the horizon\), got \[5, 3\]"),
    ],
)
def test_bad_record_points(record, message):
    instance = instances.ball(arms=4, dim=2, intrinsic_dim=1, horizon=10)
    policy, logs = scripted([0] * 10)
    with pytest.raises(ValueError, match=message):
        simulate(policy, instance, record=record)
    assert logs == []  # nothing was started
