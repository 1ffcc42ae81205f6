"""The most probable parameter of a logistic regression, by SciPy, from value and gradient alone."""

import numpy as np
from scipy import optimize
from scipy.special import expit


def reference_map(trials, precision, centre):
    """Constant and coefficients under a Gaussian prior about `centre` for the constant and 0 for the coefficients."""
    x = np.hstack([np.ones((len(trials.rewards), 1)), trials.features])
    middle = np.r_[centre, np.zeros(x.shape[1] - 1)]

    def minus_density(theta):
        eta, off = x @ theta, theta - middle
        value = trials.weights @ (np.logaddexp(0, eta) - trials.rewards * eta) + 0.5 * precision @ off**2
        return value, x.T @ (trials.weights * (expit(eta) - trials.rewards)) + precision * off

    start = optimize.minimize(minus_density, middle, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 10_000})

    def gradient(theta):
        return minus_density(theta)[1]

    solved = optimize.root(gradient, start.x, tol=1e-13)
    assert np.abs(gradient(solved.x)).max() < 1e-8
    return solved.x
