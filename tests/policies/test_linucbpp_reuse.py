"""LinUCB++ that keeps its data, against textbook code."""

import numpy as np
import pytest

import adadim


def ball(**changes):
    settings = {"arms": 40, "dim": 12, "intrinsic_dim": 4, "horizon": 200, "replications": range(2), "seed": 3}
    return adadim.instances.ball(**{**settings, **changes})


@pytest.mark.parametrize("expressive", [False, True])
def test_reuse_starts_each_iteration_from_all_earlier_pulls(expressive):
    instance = adadim.instances.sphere(
        arms=30, dim=24, intrinsic_dim=3, horizon=300, replications=range(2), expressive=expressive
    )
    problem = instance.problem
    learner = adadim.LinUCBPlusPlus(reuse=True).start(problem, seed=2)
    noise, pulls, sums = instance.noise_streams(0), np.zeros((2, problem.arms)), np.zeros((2, problem.arms))
    made: dict[int, np.ndarray] = {}
    seen = set()
    for _ in range(300):
        at = learner.schedule.iterations[int(learner.iteration[0])]
        decision = learner.ask()
        arms = decision.arms
        if at.index not in seen:
            seen.add(at.index)
            solver = learner.solvers[at.index - 1]
            local, pull = problem.actions.truncate(at.dim, supported=expressive)
            for r in range(2):
                a, n, s = local.dense(r), pulls[r][pull], sums[r][pull]
                inverse = np.linalg.inv(0.1 * np.eye(at.dim) + a.T @ (n[:, None] * a))
                np.testing.assert_allclose(solver.reals.regression.mean[r], a @ inverse @ (a.T @ s), atol=1e-10)
                for j in range(at.index - 1):
                    np.testing.assert_allclose(
                        [solver.pulls[r, j], solver.sums[r, j]], made[j][r], rtol=1e-12, atol=1e-12
                    )
        rewards = instance.pull(arms, noise)
        choice = decision.memo["choice"]
        learner.tell(decision, rewards)
        for r in range(2):
            pulls[r, arms[r]] += 1
            sums[r, arms[r]] += rewards[r]
            made.setdefault(at.index - 1, np.zeros((2, 2)))[r] += (1.0, rewards[r])
            if choice[r] >= problem.arms:
                made[int(choice[r]) - problem.arms][r] += (1.0, rewards[r])
    assert len(seen) >= 3


def test_reuse_out_of_step_equals_each_alone():
    instance = ball(horizon=150)
    together = adadim.LinUCBPlusPlus(reuse=True).start(instance.problem, seed=5)
    means, pulled = instance.means, [[], []]
    for r in (0, 1, 1, 1) * 40:
        if len(pulled[r]) < 100:
            arm = together.select(rows=[r])
            together.update(arm, means[[r], arm], rows=[r])
            pulled[r].append(int(arm[0]))
    for r in (0, 1):
        alone = adadim.LinUCBPlusPlus(reuse=True).start(
            adadim.Problem(
                instance.problem.actions.dense(r),
                horizon=150,
                noise=0.1,
                reward_range=instance.problem.reward_range[r],
                replications=[r],
            ),
            seed=5,
        )
        for expected in pulled[r]:
            assert alone.select() == expected
            alone.update(expected, means[r, expected])


def test_reuse_needs_linucb():
    with pytest.raises(ValueError, match="reuse=True needs solver='linucb'"):
        adadim.LinUCBPlusPlus(reuse=True, solver="suplinucb", ridge=1.0)
