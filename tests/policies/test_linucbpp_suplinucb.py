"""LinUCB++ with SupLinUCB inside, the version of the theorem."""

import math

import numpy as np
import pytest

from adadim import LinUCBPlusPlus
from adadim.core.rows import Replications
from iterated_learners import levels_of, solver_of
from reference import LinUCBPP
from small_problems import small, with_range
from stepping import Stepper

SIGMA = 0.1


@pytest.mark.parametrize("noise", [0.1, 0.002])
@pytest.mark.parametrize("expressive", [False, True])
def test_suplinucb_solver_in_lock_step(noise, expressive):
    """Same choices and level sizes as SupLinUCB on the augmented features; large noise explores, small exploits."""
    instance = small(dim=40, arms=12, expressive=expressive, noise=noise)
    stepper = Stepper(LinUCBPlusPlus(solver="suplinucb", ridge=1.0, ties="lowest"), instance)
    learner, mu = stepper.learner, instance.means[0]
    features = instance.problem.actions.dense(0)
    reference = LinUCBPP(
        features,
        300,
        noise,
        1.0,
        None,
        mean_range=float(np.ptp(mu)),
        levels=levels_of(instance),
        solver="suplinucb",
        ties="lowest",
    )
    exploits = 0
    for t in range(300):
        decision = stepper.ask()
        arm, column = int(decision.arms[0]), int(decision.memo["choice"][0])
        reference.advance()
        assert reference.choose() == column
        reference.draw = lambda j, arm=arm: arm
        reference.play(column)
        levels = solver_of(learner).levels
        iteration = int(learner.iteration[0])
        stepper.tell(decision)
        reference.update(arm, stepper.rewards[0][-1])
        assert levels.count == math.ceil(math.log(learner.schedule.lengths[iteration]))
        for level, (means, width2) in enumerate(reference.solver.predictions):
            ours = levels.predict(level, learner.everyone)
            np.testing.assert_allclose([ours[0][0], ours[1][0]], [means, width2], rtol=0, atol=1e-12)
        assert levels.sizes[0].tolist() == reference.solver.level_sizes
        assert levels.exploits[0] == reference.solver.exploit_rounds
        rounds = t + 1 - learner.schedule.iterations[iteration].start
        assert levels.sizes.sum() + levels.exploits.sum() == rounds
        real = sum(int(model.pulls.sum()) for model in levels._models if model is not None)
        assert real + levels._extra_sums[:, 0].sum() == levels.sizes.sum()
        exploits += levels.exploits[0]
    assert (exploits > 0) == (noise < 0.1)
    assert max(stepper.choices[0]) >= instance.problem.arms


def test_suplinucb_widths():
    instance = with_range(small(range(2)), known=False)
    stepper = Stepper(LinUCBPlusPlus(solver="suplinucb", ridge=1.0), instance).run(200)
    solver = solver_of(stepper.learner)
    radii = solver.radii(stepper.learner.everyone)
    assert radii.shape == (2, 42)
    assert (radii[:, :40] == solver.radius).all()
    scales = stepper.learner.virtual_noise(2)
    np.testing.assert_allclose(radii[:, 40:], scales * solver.radius / SIGMA, rtol=1e-12)
    np.testing.assert_array_equal(solver.radii(Replications.some(np.array([1]), instance.means)), radii[1:])
