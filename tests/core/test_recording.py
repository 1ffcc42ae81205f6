"""Rounds recorded once and replayed, and what that rests on."""

from __future__ import annotations

import ast
import contextlib
import functools
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import adadim
from adadim import paper
from adadim.core import recording
from adadim.core.recording import Recorder, on_host
from adadim.policies.base import Learner, Policy
from driving import small
from recorded_policies import HORIZON, NEVER, POLICIES, WITH_RANGES, has_iterations, in_numpy, on_torch, state


class Graph:
    """Stands in for a CUDA graph: a replay calls the function."""

    def __init__(self, function, log):
        self.function, self.log = function, log
        log.append("record")

    def replay(self):
        self.log.append("replay")
        self.function()


def test_recorder_calls_then_records_then_replays(monkeypatch):
    log, done = [], []
    monkeypatch.setattr(recording, "can_record", lambda reference: True)
    monkeypatch.setattr(Recorder, "record", lambda self: Graph(self.function, log))
    a_round = Recorder(lambda: done.append(len(log)), np.zeros(1))
    for sequence, expected in [
        ("a", []),
        (None, []),
        ("b", []),
        (None, []),
        ("a", ["record", "replay"]),
        ("a", ["replay"]),
        ("b", ["record", "replay"]),
        (None, []),
        ("a", ["replay"]),
        (("c", 1), []),
        (("c", 1), ["record", "replay"]),
    ]:
        before, calls = len(log), len(done)
        a_round(sequence)
        assert log[before:] == expected, sequence
        assert len(done) == calls + 1


def test_nothing_is_recorded_on_the_cpu(torch, monkeypatch):
    monkeypatch.setattr(Recorder, "record", None)
    for reference in (np.zeros(2), torch.zeros(2)):
        done = []
        a_round = Recorder(lambda done=done: done.append(1), reference)
        for _ in range(4):
            a_round("a")
        assert len(done) == 4


def test_what_is_done_on_the_host_follows_every_replay(monkeypatch):
    class Recorded:
        def replay(self):
            log.append("replay")

    def function():
        log.append("operations")
        on_host(lambda: log.append("host"))

    def record(self):
        self.function()
        return Recorded()

    log = []
    monkeypatch.setattr(recording, "can_record", lambda reference: True)
    monkeypatch.setattr(Recorder, "record", record)
    a_round = Recorder(function, np.zeros(1))
    a_round(None)
    a_round("a")
    assert log == ["operations", "host"] * 2
    log.clear()
    a_round("a")
    assert log == ["operations", "replay", "host"]  # recording does not run what is put off
    log.clear()
    a_round("a")
    assert log == ["replay", "host"]
    on_host(lambda: log.append("at once"))
    assert log[-1] == "at once"


def test_iterations_end_within_the_rounds_played(torch):
    schedule = adadim.LinUCBPlusPlus().start(on_torch().problem).schedule
    assert [iteration.stop for iteration in schedule.iterations] == [16, 48, 60]


@pytest.mark.parametrize("name", [*NEVER, "theory linucb++corral", "released smooth-corral", "UCB"])
def test_sequences_are_honoured(name, torch, monkeypatch):
    log, instance = [], on_torch()
    plain = adadim.simulate(POLICIES[name], instance, seed=5, record=HORIZON)
    monkeypatch.setattr(recording, "can_record", lambda reference: True)
    monkeypatch.setattr(Recorder, "record", lambda self: Graph(self.function, log))
    replayed = adadim.simulate(POLICIES[name], instance, seed=5, record=HORIZON)
    np.testing.assert_array_equal(replayed.pulls, plain.pulls)
    np.testing.assert_array_equal(replayed.regret, plain.regret)
    assert (log == []) == (name in NEVER)
    if name not in NEVER:
        assert Counter(log)["replay"] > 40


@pytest.fixture
def tapes(torch, monkeypatch):
    """Rounds are recorded as on a GPU: what is replayed is the array operations, on the memory they had, and no Python.

    Gives the list of recordings made.
    """
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Tape(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.calls, self.fresh = [], True

        @classmethod
        def _should_skip_dynamo(cls):  # the compiler, which takes seconds to load, is not used here
            return False

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            made = function(*args, **(kwargs or {}))
            self.calls.append((function, args, kwargs or {}, made))
            return made

        def replay(self):
            if self.fresh:  # recording has done it once
                self.fresh = False
                return
            for function, args, kwargs, made in self.calls:
                again = function(*args, **kwargs)
                if again is made:  # written in place
                    continue
                alone = isinstance(made, torch.Tensor)
                pairs = [(made, again)] if alone else zip(tree_leaves(made), tree_leaves(again), strict=True)
                for old, new in pairs:
                    if isinstance(old, torch.Tensor) and not old.is_set_to(new):
                        old.copy_(new)

    made = []

    def record(self):
        tape = Tape()
        with tape:
            self.function()
        made.append(tape)
        return tape

    monkeypatch.setattr(recording, "can_record", lambda reference: isinstance(reference, torch.Tensor))
    monkeypatch.setattr(Recorder, "record", record)
    return made


@pytest.mark.parametrize(("name", "range_known"), [pair for pair in WITH_RANGES if pair[0] not in NEVER])
def test_replayed_operations_give_the_same_and_the_learner_goes_on(name, range_known, tapes):
    """Twenty rounds more than the horizon, too, which are asked for one by one: the same arms as on NumPy."""
    rounds = HORIZON if has_iterations(name) else 40
    instances = in_numpy(range_known, rounds), on_torch(range_known, rounds)
    numpy_run, replayed = (adadim.simulate(POLICIES[name], instance, seed=5) for instance in instances)
    assert tapes
    np.testing.assert_array_equal(replayed.pulls, numpy_run.pulls)
    np.testing.assert_allclose(replayed.regret, numpy_run.regret, rtol=0, atol=1e-9)
    rewards = np.random.default_rng(1).standard_normal((20, 3)) * 0.1
    chosen = []
    for run in (numpy_run, replayed):
        arms = []
        for row in rewards:
            arms.append(run.learner.select())
            run.learner.update(arms[-1], row.tolist())
        chosen.append(np.array([np.asarray(a) for a in arms]))
    np.testing.assert_array_equal(chosen[0], chosen[1])


@pytest.mark.parametrize("name", ["theory linucb++", "released linucb++corral", "released dynamic-balancing"])
def test_replayed_operations_give_the_same_on_expressive_sets(name, tapes):
    here = small(range(3), horizon=HORIZON, arms=20, dim=16, expressive=True, levels=[4, 8, 16])
    variant, policy = name.split()
    policy = paper.policies(variant, 3, expressive=True)[policy]
    numpy_run, replayed = adadim.simulate(policy, here, seed=5), adadim.simulate(policy, here.to("cpu"), seed=5)
    assert tapes
    np.testing.assert_array_equal(replayed.pulls, numpy_run.pulls)


class Counting(Learner):
    """Counts rounds in `absorb` itself, which a replay skips."""

    def __init__(self, problem, streams):
        super().__init__(problem, streams)
        self.rounds = 0

    def choose(self, rows):
        return self.problem.reference[:, 0, 0].long() * 0 + self.rounds % self.problem.arms, {}

    def absorb(self, arms, rewards, rows, memo):
        self.rounds += 1

    def sequence(self):
        return "counting"


class CountingPolicy(Policy):
    def learner(self, problem, streams):
        return Counting(problem, streams)


def test_what_is_not_put_off_to_the_host_would_be_noticed(tapes):
    """The tests here can fail."""
    instance = on_torch()
    assert adadim.simulate(CountingPolicy(), instance).pulls.max() > 50
    with pytest.raises(AssertionError, match=r"rounds: 2 became 3.*belongs in on_host"):
        check_rounds(CountingPolicy(), instance)


# What a recording rests on


def assert_unchanged(before, after, when):
    """No host value is another, and every tensor lies where it lay."""
    import torch

    for path in before.keys() | after.keys():
        old, new = before.get(path), after.get(path)
        if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
            assert old.is_set_to(new), (
                f"{path} moved {when}: write into it in place, a replay finds it only where it was recorded"
            )
        else:
            assert repr(old) == repr(new), (
                f"{path}: {old} became {new} {when}: a replay skips Python, so this belongs in on_host"
            )


@functools.cache
def watch():
    """A mode in which operations that wait for the device raise."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    forbidden = {"_local_scalar_dense", "nonzero", "masked_select", "lift_fresh", "unique_dim", "_unique2", "equal"}

    class Watch(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls):  # as above
            return False

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            name = function.__name__.split(".")[0]
            assert name not in forbidden, f"{name} waits for the device in a round that is to be recorded"
            if name.startswith("index"):
                for index in args[1] if isinstance(args[1], list | tuple) else ():
                    masks = index is not None and index.dtype in (torch.bool, torch.uint8)
                    assert not masks, f"{name} by a mask waits for the device, which has to count it"
            return function(*args, **(kwargs or {}))

    return Watch


@contextlib.contextmanager
def no_waiting(torch):
    """Reading from the device, or writing Python numbers to it, raises: neither can be recorded."""

    def refuse(name):
        def method(self, *args, **kwargs):
            raise AssertionError(f"Tensor.{name} waits for the device in a round that is to be recorded")

        return method

    with pytest.MonkeyPatch.context() as patch:
        for name in ("numpy", "item", "tolist", "cpu", "__bool__", "__int__", "__float__", "__index__", "__array__"):
            patch.setattr(torch.Tensor, name, refuse(name))
        patch.setattr(torch, "from_numpy", refuse("from_numpy"))
        with watch()():
            yield


def check_rounds(policy, instance):
    """Play all rounds; those that might be replayed must leave the host as it is and ask nothing of the device.

    Looks at every fifth round, which sees both steps of a corral. Returns how many rounds might be replayed.
    """
    import torch

    learner, noise = (
        policy.start(instance.problem),
        instance.noise_streams(0).source(HORIZON, normal=True),
    )

    def play():
        arms, memo, *_ = learner.choose(learner.everyone)
        learner.absorb(arms, instance.pull(arms, noise), learner.everyone, memo)

    recorded, replays = {}, 0
    for t in range(instance.problem.horizon):
        sequence = learner.sequence()
        assert sequence == learner.sequence(), "asking for the sequence changes it"
        again = sequence is not None and sequence in recorded
        replays += again
        if again and t % 5 == 2:
            actions = recording._recording.actions = []
            with no_waiting(torch):
                before = state(learner)
                play()
                after = state(learner)
            recording._recording.actions = None
            assert_unchanged(before, after, f"in round {t} of sequence {sequence}")
            tensors = {path: value for path, value in before.items() if isinstance(value, torch.Tensor)}
            known = recorded[sequence] = recorded[sequence] or tensors
            paths = tensors.keys() & known.keys()
            when = f"between two rounds of sequence {sequence}, the later being {t}"
            assert_unchanged({path: known[path] for path in paths}, {path: tensors[path] for path in paths}, when)
            for action in actions:
                action()
        else:
            play()
            recorded.setdefault(sequence, {})
    return replays


@pytest.mark.parametrize(("name", "range_known"), WITH_RANGES)
def test_a_round_changes_nothing_on_the_host_and_waits_for_nothing(name, range_known, torch):
    replays = check_rounds(POLICIES[name], on_torch(range_known, HORIZON if has_iterations(name) else 50))
    assert (replays == 0) == (name in NEVER)
    assert name in NEVER or replays > 40


@pytest.mark.parametrize("policy", ["linucb++", "linucb++corral", "smooth-corral", "dynamic-balancing"])
def test_the_same_on_expressive_sets(policy, torch):
    instance = small(range(3), horizon=HORIZON, arms=20, dim=16, expressive=True, levels=[4, 8, 16]).to("cpu")
    assert check_rounds(paper.policies("released", 3, expressive=True)[policy], instance) > 40


def test_one_round_is_not_replayed(tapes):
    adadim.simulate(adadim.LinUCB(), on_torch(horizon=1))
    assert not tapes


def test_the_kernels_that_modules_call_are_there():
    """They are imported where CUDA is, so nothing else would tell here."""
    package = Path(adadim.__file__).parent
    tree = ast.parse((package / "core" / "triton_kernels.py").read_text())
    there = {getattr(node, "name", None) for node in tree.body}
    there |= {target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets}
    texts = [path.read_text() for path in package.rglob("*.py") if path.name != "triton_kernels.py"]
    called = {name for text in texts for name in re.findall(r"(?<![\w.])kernels\.(\w+)", text)}
    assert {"FusedKernel", "GramKernels", "log_barrier_round"} <= called <= there
