"""`check_policy` names what is wrong with policies that are broken on purpose, each in one way."""

import re
import subprocess
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

import adadim
from adadim.errors import InvalidTypeError, InvalidValueError
from adadim.testing import ConformanceError, Report, check_policy
from refusals import assert_refuses


class Counts(adadim.Learner):
    """The skeleton of the docstring, which every broken learner changes in one place."""

    def __init__(self, policy, problem, streams):
        super().__init__(problem, streams)
        self.policy = policy
        self.pulls, self.sums = self.zeros(problem.arms), self.zeros(problem.arms)

    def scores(self, rows):
        pulls = rows.of(self.pulls).clip(1.0)
        return rows.of(self.sums) / pulls + 0.5 / pulls**0.5

    def choose(self, rows):
        return self.choose_largest(self.scores(rows), rows)

    def absorb(self, arms, rewards, rows, memo):
        rows.add(self.pulls, arms, 1.0)
        rows.add(self.sums, arms, rewards)


@dataclass(frozen=True)
class Plays(adadim.Policy):
    """Plays with a learner of this module, by its name."""

    name: str = "Counts"

    def learner(self, problem, streams):
        return LEARNERS[self.name](self, problem, streams)


class Uninitialised(Counts):
    """Makes an attribute when it is first needed: it is not there when the learner is restored."""

    def absorb(self, arms, rewards, rows, memo):
        super().absorb(arms, rewards, rows, memo)
        self.last_rewards = rewards


@dataclass(frozen=True)
class Hidden:
    values: dict = field(default_factory=dict)


class Forgetful(Counts):
    """Keeps its sums in a frozen dataclass, which is taken for constant and not saved."""

    def __init__(self, policy, problem, streams):
        super().__init__(policy, problem, streams)
        self.hidden = Hidden({"sums": self.sums})
        self.sums = None

    def scores(self, rows):
        pulls = rows.of(self.pulls).clip(1.0)
        return rows.of(self.hidden.values["sums"]) / pulls + 0.5 / pulls**0.5

    def absorb(self, arms, rewards, rows, memo):
        rows.add(self.pulls, arms, 1.0)
        rows.add(self.hidden.values["sums"], arms, rewards)


class LooksAtOthers(Counts):
    """Adds the mean over the batch to its scores."""

    def scores(self, rows):
        return super().scores(rows) + self.sums.mean(axis=0)


class Numbered(Counts):
    """Tells replications apart by their position in the batch."""

    def scores(self, rows):
        return super().scores(rows) + np.cos(np.arange(self.problem.arms) * (1 + rows.ids[:, None]))


class IgnoresMasks(Counts):
    def choose(self, rows):
        return np.argmax(self.scores(rows), axis=1), {}


class DrawsGlobally(Counts):
    def choose(self, rows):
        noise = np.random.standard_normal((len(rows), self.problem.arms))  # noqa: NPY002
        return self.choose_largest(self.scores(rows) + noise, rows)


class SharesState(Counts):
    """Counts rounds for all learners of the class together."""

    rounds = SimpleNamespace(count=0)

    def choose(self, rows):
        self.rounds.count += 1
        arms = (np.arange(self.problem.arms) + self.rounds.count) % self.problem.arms
        return self.choose_largest(np.broadcast_to(arms * 1.0, (len(rows), len(arms))), rows)


class LastChoice(Counts):
    """Credits every reward to the arm that it chose last."""

    def __init__(self, policy, problem, streams):
        super().__init__(policy, problem, streams)
        self.last = self.zeros(integers=True)

    def choose(self, rows):
        choice = super().choose(rows)
        rows.put(self.last, choice.arms)
        return choice

    def absorb(self, arms, rewards, rows, memo):
        super().absorb(rows.of(self.last), rewards, rows, memo)


class OneAtATime(Counts):
    """Fails where a second decision is open."""

    def __init__(self, policy, problem, streams):
        super().__init__(policy, problem, streams)
        self.waiting = self.zeros()

    def choose(self, rows):
        if rows.of(self.waiting).any():
            raise RuntimeError("the reward of the last decision is missing")
        rows.put(self.waiting, rows.of(self.waiting) + 1)
        return super().choose(rows)

    def absorb(self, arms, rewards, rows, memo):
        rows.put(self.waiting, rows.of(self.waiting) * 0)
        super().absorb(arms, rewards, rows, memo)


class NeedsMemo(Counts):
    def choose(self, rows):
        choice = super().choose(rows)
        return choice.arms, {"bonus": choice.arms * 0.1}

    def absorb(self, arms, rewards, rows, memo):
        super().absorb(arms, rewards + memo["bonus"], rows, memo)


class FloatArms(Counts):
    def choose(self, rows):
        choice = super().choose(rows)
        return choice._replace(arms=choice.arms * 1.0)


class OutOfRange(Counts):
    def choose(self, rows):
        return np.full(len(rows), self.problem.arms), {}


class OneForAll(Counts):
    def choose(self, rows):
        return super().choose(rows).arms[:1], {}


class ChangesRewards(Counts):
    def absorb(self, arms, rewards, rows, memo):
        super().absorb(arms, rewards, rows, memo)
        rewards *= 2


class DescribesArrays(Counts):
    def descriptions(self):
        return [{"replication": number, "pulls": self.pulls} for number in self.problem.replications]


class ClaimsTorch(Counts):
    fixed_operations = True

    def scores(self, rows):
        return np.asarray(super().scores(rows))


class TwoArmsAtLeast(Counts):
    def __init__(self, policy, problem, streams):
        super().__init__(policy, problem, streams)
        self.other = self.zeros() + np.linspace(0, 1, problem.arms)[1]


class OldArms(Counts):
    """Says that arms can be added, and never chooses them."""

    takes_new_arms = True

    def choose(self, rows):
        return self.scores(rows)[:, :3].argmax(axis=1), {}


class NoLearner:
    def __init__(self, policy, problem, streams):
        self.needs_sets = "any"


LEARNERS = {kind.__name__: kind for kind in (Counts, *Counts.__subclasses__(), NoLearner)}

BROKEN = {
    "Uninitialised": ("saving", r"Uninitialised cannot be saved: .*last_rewards"),
    "Forgetful": ("saving", r"the saved learner chose arm \d and the one restored from its file chose arm \d"),
    "LooksAtOthers": ("batch", r"replication 2, round \d+: in the batch \(5, 2, 9\) it chose arm \d and in the batch"),
    "Numbered": ("batch", r"in the batch \(5, 2, 9\) it chose"),
    "IgnoresMasks": ("masks", r"replication \d, round \d+: it chose arm \d, which was not allowed: allowed = \["),
    "DrawsGlobally": ("reproducible", r"another of the same seed .*it draws from NumPy's global generator"),
    "SharesState": ("reproducible", r"the first learner chose arm \d and another of the same seed chose arm \d"),
    "LastChoice": ("late rewards", r"it prefers arm 1 if arm 1 was asked for last .* arm 0 if arm 0 was: absorb must"),
    "OneAtATime": ("late rewards", r"round \d.*RuntimeError: the reward of the last decision is missing"),
    "NeedsMemo": ("logged pulls", r"absorb gets an empty memo .*KeyError: 'bonus' \(test_check_policy.py, line \d+\)"),
    "FloatArms": ("decisions", r"the arm must be an int, got float"),
    "OutOfRange": ("decisions", r"it chose arm 6, and arms are 0\.\.5"),
    "OneForAll": (
        "decisions",
        r"arms must be int64 of shape \(3,\), one for each replication, got int64 of shape \(1,\)",
    ),
    "ChangesRewards": ("decisions", r"absorb changed the rewards"),
    "DescribesArrays": ("describe", r"describe\(\) has more than words and numbers"),
    "TwoArmsAtLeast": ("tiny problems", r"arms = 1, features = 1, horizon = 1: IndexError"),
    "NoLearner": ("decisions", r"Plays.learner must return an adadim.Learner, got NoLearner"),
}


def failures(policy, **options):
    with pytest.raises(ConformanceError) as caught:
        check_policy(policy, **options)
    return caught.value


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_named(name):
    check, words = BROKEN[name]
    error = failures(Plays(name))
    assert check in error.report.failed
    (found,) = [one for one in error.report.checks if one.name == check]
    assert_matches(words, found.message)
    # The report says how to see it again, and that does show it.
    assert found.again == f"adadim.testing.check_policy(Plays(name={name!r}), only={check!r})"
    assert f"FAILED {check}: {found.message}\n    to reproduce: {found.again}" in str(error)
    alone = failures(Plays(name), only=check)
    assert alone.report.failed == (check,)
    if check != "reproducible":
        assert alone.report.checks[0].message == found.message


def assert_matches(words, text):
    assert re.search(words, text, flags=re.DOTALL), text


@pytest.mark.parametrize("name", ["Uninitialised", "Forgetful", "LooksAtOthers", "LastChoice", "OneAtATime"])
def test_nothing_else_is_blamed(name):
    assert failures(Plays(name)).report.failed == (BROKEN[name][0],)


def test_claims_are_checked(torch):
    assert failures(Plays("ClaimsTorch")).report.failed == ("torch",)
    assert check_policy(Plays("ClaimsTorch"), torch=False).failed == ()
    error = failures(Plays("OldArms"), only="new arms")
    assert "arm 4 was added and is the only one allowed: it chose arm" in str(error)


def test_a_sound_policy_passes(torch):
    report = check_policy(Plays(), torch=True)
    assert isinstance(report, Report)
    assert report.failed == ()
    assert report.plays == {
        "fixed": True,
        "contexts": False,
        "disjoint": False,
        "arriving": True,
        "masked": True,
        "late": True,
        "saved": True,
        "add_arms": False,
        "torch": True,
    }
    outcomes = {check.name: check.outcome for check in report.checks}
    assert outcomes.pop("new arms") == "refused"
    assert set(outcomes.values()) == {"passed"}
    assert str(report).startswith("Plays(name='Counts') passed 11 checks\npassed: value, decisions, ")
    assert "refused new arms: its learner takes no new arms (takes_new_arms = False)" in str(report)


def test_what_is_refused_does_not_fail():
    report = check_policy(adadim.LinUCBPlusPlus(), torch=False)
    outcomes = {check.name: check.outcome for check in report.checks}
    assert {name for name, outcome in outcomes.items() if outcome == "refused"} == {
        "masks",
        "late rewards",
        "logged pulls",
    }
    assert outcomes["torch"] == "skipped"


@dataclass(frozen=True)
class PlaysNothing(adadim.Policy):
    def learner(self, problem, streams):
        raise InvalidValueError("it is Sunday")


def test_a_policy_must_play_something():
    error = failures(PlaysNothing(), only="decisions")
    assert "it refuses every kind of problem; fixed arms, because it is Sunday" in str(error)


@dataclass(frozen=True)
class Unhashable(adadim.Policy):
    widths: list = field(default_factory=list)

    def learner(self, problem, streams):
        return Counts(self, problem, streams)


def test_a_policy_is_a_value():
    error = failures(Unhashable())
    assert error.report.failed == ("value",)
    assert "TypeError: unhashable type" in str(error)


def test_the_error_is_what_pytest_shows_of_an_assertion_and_has_the_cause():
    error = failures(Plays("OneAtATime"), only="late rewards")
    assert isinstance(error, AssertionError)
    assert str(error) == str(error.report)
    assert isinstance(error.__cause__.__cause__, RuntimeError)


def test_arguments_are_checked():
    assert_refuses(InvalidTypeError, "policy must be an object of a class derived from adadim.Policy", check_policy, 3)
    assert_refuses(InvalidTypeError, "policy must be an object", check_policy, adadim.LinUCB)
    policy = adadim.Random()
    assert_refuses(
        InvalidValueError, "there is no check 'mask'; did you mean 'masks'", check_policy, policy, only="mask"
    )
    assert_refuses(InvalidTypeError, "only must be the name of a check", check_policy, policy, only=3)
    assert_refuses(InvalidTypeError, "only must be the name of a check", check_policy, policy, only=np.array("masks"))
    assert_refuses(InvalidValueError, "only must name a check", check_policy, policy, only=[])
    assert_refuses(InvalidTypeError, "torch must be True or False", check_policy, policy, torch="yes")


def test_pytest_is_not_needed():
    code = "import sys, adadim.testing; sys.exit('pytest' in sys.modules or '_pytest' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
