"""What every policy class must be: documented, frozen, compared by value, written by its repr."""

import dataclasses
import inspect
import re

import pytest

import adadim
from adadim import Policy, policies
from adadim.policies import released
from policy_examples import (
    EXAMPLES,
    MADE_WITH,
    NOT_WRITTEN_BY_REPR,
    PUBLIC,
    every_class,
    every_policy,
    instance,
    play,
)

# The class


def test_every_public_policy_is_here():
    made = {type(policy).__name__ for policy in EXAMPLES}
    assert made == set(PUBLIC), "add to MADE_WITH how to make the policies that are missing"
    assert set(MADE_WITH) <= set(PUBLIC)
    assert {"LinUCB", "SupLinUCB", "UCB", "Greedy", "Random", "Single"} <= set(PUBLIC)


def test_the_package_of_policies_hides_none():
    def concrete(module):
        own = {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
        named = {name: getattr(module, name) for name in getattr(module, "__all__", own)}
        kinds = {name: kind for name, kind in named.items() if inspect.isclass(kind) and issubclass(kind, Policy)}
        return {name for name, kind in kinds.items() if not inspect.isabstract(kind)}

    assert all(getattr(adadim, name) is getattr(policies, name) for name in policies.__all__)
    assert concrete(policies) | concrete(released) == set(PUBLIC)
    assert not concrete(policies) & concrete(released)


@every_class
def test_class_documents_itself(kind):
    lines = [line.strip() for line in inspect.getdoc(kind).splitlines()]
    assert "Examples" in lines
    assert any(line.startswith(">>> ") for line in lines)
    if dataclasses.fields(kind):
        described = lines[lines.index("Parameters") : lines.index("Examples")]
        names = {name for line in described for name in line.split(" : ")[0].split(", ")}
        assert {field.name for field in dataclasses.fields(kind)} <= names


@every_class
def test_parameters_are_described_in_the_order_of_the_constructor(kind):
    """And nothing else is described as one."""
    described = re.split(r"^(\w+)\n-{3,}\n", inspect.cleandoc(kind.__doc__) + "\n", flags=re.MULTILINE)
    section = dict(zip(described[1::2], described[2::2], strict=True)).get("Parameters", "")
    heads = re.findall(r"^(\w+(?:, \w+)*)(?: : .*)?$", section, re.MULTILINE)
    assert [name for head in heads for name in head.split(", ")] == [field.name for field in dataclasses.fields(kind)]


@every_class
def test_class_is_a_dataclass_of_its_own(kind):
    assert "__dataclass_fields__" in vars(kind)
    assert kind.__dataclass_params__.frozen
    assert kind.__module__.startswith("adadim.policies.")


def test_a_learner_says_whose_it_is():
    @dataclasses.dataclass(frozen=True)
    class First(Policy):
        arm: int = 1

    with pytest.raises(TypeError, match="learner"):  # it has none yet
        First()

    with pytest.warns(DeprecationWarning, match=r"define First\.learner\(self, problem, streams\)"):

        class FirstLearner(adadim.Learner, of=First):
            def __init__(self, policy, problem, streams):
                super().__init__(problem, streams)
                self.policy = policy

            def choose(self, rows):
                return self.zeros(integers=True) + self.policy.arm, {}

            def absorb(self, arms, rewards, rows, memo):
                return

    class Second(First):
        pass

    for policy in (First(2), Second(2)):
        learner = policy.start(instance().problem)
        assert type(learner) is FirstLearner
        assert learner.select().tolist() == [2, 2, 2]


# The policy


@every_policy
def test_policy_is_frozen_and_compares_by_value(policy):
    names = [field.name for field in dataclasses.fields(policy)]
    for name in [*names, "anything_else"]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(policy, name, 1)
    copy = dataclasses.replace(policy)
    assert copy is not policy
    assert copy == policy
    assert hash(copy) == hash(policy)
    assert {policy: "found"}[copy] == "found"
    assert policy != "something else"
    for other in EXAMPLES:
        assert (other == policy) == (repr(other) == repr(policy))


@every_policy
def test_repr_makes_the_policy(policy):
    if type(policy).__name__ in NOT_WRITTEN_BY_REPR:
        pytest.skip("a function has no such repr")
    assert eval(repr(policy), {**PUBLIC, **policies.parts()}) == policy


@every_policy
def test_starting_changes_no_policy(policy):
    before, where = repr(policy), instance()
    play(policy, where, 20)
    assert repr(policy) == before
