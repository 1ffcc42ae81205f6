"""Whole studies on a device: recorded rounds, bases at once, joined units; on a GPU where there is one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import adadim
from adadim import paper, recorder
from adadim.arrays import ALL
from adadim.errors import DeviceError
from adadim.policies.base import Learner, Policy
from adadim.policies.masters.nested import NestedLinUCB
from adadim.posterior.lanes import Lanes
from adadim.randomness import _Preloaded
from adadim.recorder import Recorder
from adadim.study import RunError, Study, StudyError, device, executor, load, run, status
from adadim.study.store import Store
from driving import Driver, in_torch, small, told

# Recording


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
    monkeypatch.setattr(recorder, "device_of", lambda reference: "cuda:0")
    monkeypatch.setattr(Recorder, "_record", lambda self: Graph(self.function, log))
    a_round = Recorder(lambda: done.append(len(log)), np.zeros(1))
    for phase, expected in [
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
        replayed = a_round.replayed
        a_round(phase)
        assert log[before:] == expected, phase
        assert len(done) == calls + 1
        assert a_round.replayed == (replayed or bool(expected))


def test_nothing_is_recorded_on_the_cpu(torch, monkeypatch):
    monkeypatch.setattr(Recorder, "_record", None)
    for reference in (np.zeros(2), torch.zeros(2)):
        done = []
        a_round = Recorder(lambda done=done: done.append(1), reference)
        for _ in range(4):
            a_round("a")
        assert len(done) == 4
        assert not a_round.replayed


def own_policy(problem, rng):
    return Stubborn(rng.integers(len(problem.features)))


class Stubborn:
    def __init__(self, arm):
        self.arm = int(arm)

    def select(self):
        return self.arm

    def update(self, arm, reward):
        self.arm = self.arm if reward > 0 else (self.arm + 1) % 20


THREE = (adadim.LinUCB(dim=2), adadim.UCB(), adadim.LinUCB(form="feature", first_pull="uniform"))
POLICIES = {
    f"{variant} {name}": policy
    for variant in ("theory", "released")
    for name, policy in paper.policies(variant, intrinsic_dim=3).items()
} | {
    "LinUCB oful feature": adadim.LinUCB(radius="oful", form="feature", ties="lowest"),
    "LinUCB++ feature": adadim.LinUCBPlusPlus(form="feature", beta=0.6),
    "LinUCB++ reuse": adadim.LinUCBPlusPlus(reuse=True),
    "LinUCB++ SupLinUCB": adadim.LinUCBPlusPlus(solver="suplinucb", ridge=1.0),
    "LinUCB++Corral once": adadim.LinUCBPlusPlusCorral(replay=False, index="ucb1"),
    "LinUCB++Corral sum": adadim.LinUCBPlusPlusCorral(feedback="sum", index="subgaussian"),
    "Smooth Corral exp3p": adadim.SmoothCorral(master="exp3p", ambient=True, feedback="mean"),
    "Smooth Corral once": adadim.SmoothCorral(replay=False, loss_range=(-0.3, 0.3)),
    "Smooth Corral of three": adadim.SmoothCorral(bases=THREE),
    "Smooth Corral with Single": adadim.SmoothCorral(bases=(adadim.UCB(), adadim.Single(own_policy))),
    "Corral": adadim.Corral(eta=0.5),
    "Corral of three": adadim.Corral(bases=THREE),
    "Corral importance": adadim.Corral(feedback="importance", eta=0.2),
    "balancing of three": adadim.DynamicBalancing(bases=THREE, bound="sqrt", c=0.1),
    "balancing by a function": adadim.DynamicBalancing(bound=lambda dims, plays, arms: np.sqrt(dims * plays)),
    "UCB": adadim.UCB(),
    "UCB1": adadim.UCB(index="ucb1", ties="lowest"),
    "Random": adadim.Random(),
    "Greedy": adadim.Greedy(),
    "SupLinUCB": adadim.SupLinUCB(),
    "tapered": adadim.TaperedLinUCB(),
    "evidence": adadim.EvidenceLinUCB(),
    "Single": adadim.Single(own_policy),
}
NEVER = [  # what they do next depends on the data, or on the host
    "LinUCB++ SupLinUCB",
    "Smooth Corral with Single",
    "Corral importance",
    "balancing by a function",
    "SupLinUCB",
    "Single",
]
# Only mixture-arms ask whether the range of the means is known.
WITH_RANGES = [(name, True) for name in POLICIES] + [("theory linucb++", False), ("released linucb++corral", False)]
HORIZON = 60


def in_numpy(range_known=True, horizon=HORIZON):
    """Three replications; LinUCB++ has iterations of 16, 32 and 12 rounds, so mixture-arms come up."""
    return told(small(range(3), horizon=horizon, arms=20, dim=12), range_known)


def on_torch(range_known=True, horizon=HORIZON):
    return in_numpy(range_known, horizon).to("cpu")


def test_every_policy_of_the_library_is_here(torch):
    public = {getattr(adadim.policies, name) for name in adadim.policies.__all__} - {Learner, Policy}
    assert {type(policy) for policy in POLICIES.values()} == public
    schedule = adadim.LinUCBPlusPlus().start(on_torch().problem).schedule
    assert [iteration.stop for iteration in schedule.iterations] == [16, 48, 60]


@pytest.mark.parametrize("name", [*NEVER, "theory linucb++corral", "released smooth-corral", "UCB"])
def test_phases_are_honoured(name, torch, monkeypatch):
    log, instance = [], on_torch()
    plain = adadim.simulate(POLICIES[name], instance, seed=5, record=HORIZON)
    assert not plain.learner._over
    monkeypatch.setattr(recorder, "device_of", lambda reference: "cuda:0")
    monkeypatch.setattr(Recorder, "_record", lambda self: Graph(self.function, log))
    replayed = adadim.simulate(POLICIES[name], instance, seed=5, record=HORIZON)
    np.testing.assert_array_equal(replayed.pulls, plain.pulls)
    np.testing.assert_array_equal(replayed.regret, plain.regret)
    assert (log == []) == (name in NEVER)
    assert replayed.learner._over == (name not in NEVER)
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
                for old, new in zip(tree_leaves(made), tree_leaves(again), strict=True):
                    if isinstance(old, torch.Tensor) and not old.is_set_to(new):
                        old.copy_(new)

    made = []

    def record(self):
        tape = Tape()
        with tape:
            self.function()
        made.append(tape)
        return tape

    monkeypatch.setattr(
        recorder, "device_of", lambda reference: "cuda:0" if isinstance(reference, torch.Tensor) else "cpu"
    )
    monkeypatch.setattr(Recorder, "_record", record)
    return made


@pytest.mark.parametrize(("name", "range_known"), [pair for pair in WITH_RANGES if pair[0] not in NEVER])
def test_replayed_operations_give_the_same(name, range_known, tapes):
    instance = on_torch(range_known)
    numpy_run = adadim.simulate(POLICIES[name], in_numpy(range_known), seed=5)
    replayed = adadim.simulate(POLICIES[name], instance, seed=5)
    assert tapes
    np.testing.assert_array_equal(replayed.pulls, numpy_run.pulls)
    np.testing.assert_allclose(replayed.regret, numpy_run.regret, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["theory linucb++", "released linucb++corral", "released dynamic-balancing"])
def test_replayed_operations_give_the_same_on_expressive_sets(name, tapes):
    here = small(range(3), horizon=HORIZON, arms=20, dim=16, expressive=True, levels=[4, 8, 16])
    variant, policy = name.split()
    policy = paper.policies(variant, 3, expressive=True)[policy]
    numpy_run, replayed = adadim.simulate(policy, here, seed=5), adadim.simulate(policy, here.to("cpu"), seed=5)
    assert tapes
    np.testing.assert_array_equal(replayed.pulls, numpy_run.pulls)


class Counting(Learner):
    """Keeps its books in `_update`, which a replay skips."""

    def __init__(self, problem):
        super().__init__(problem)
        self.rounds = 0

    def _select(self, rows):
        return self.problem.actions.base[:, 0, 0].long() * 0 + self.rounds % self.problem.arms

    def _update(self, arms, rewards, rows):
        self.rounds += 1

    def _phase(self):
        return "counting"


class CountingPolicy(Policy):
    def _start(self, problem, streams):
        return Counting(problem)


def test_books_kept_outside_advance_would_be_noticed(tapes):
    """The tests here can fail."""
    instance = on_torch()
    assert adadim.simulate(CountingPolicy(), instance).pulls.max() > 50
    with pytest.raises(AssertionError, match=r"rounds: 2 became 3.*belongs in _advance"):
        check_rounds(CountingPolicy(), instance)


# What a recording rests on


def state(value, path="learner", found=None, seen=None):
    """Everything that a learner holds: path -> plain value, or the tensor itself."""
    import torch

    found, seen = ({}, {}) if found is None else (found, seen)
    if isinstance(value, torch.Tensor | str | int | float | bool | np.generic | None):
        found[path] = value
    elif isinstance(value, np.ndarray):
        found[path] = value.tobytes() if value.size > 100 else value.tolist()
    elif isinstance(value, np.random.Generator):
        found[path] = value.bit_generator.state["state"]["counter"].tolist()
    elif id(value) not in seen:
        seen[id(value)] = value  # kept, or its id might come up again
        if isinstance(value, dict):
            parts = {f"[{key!r}]": part for key, part in value.items()}
        elif isinstance(value, list | tuple | set):
            parts = {f"[{i}]": part for i, part in enumerate(value)}
        else:
            parts = {f".{name}": part for name, part in getattr(value, "__dict__", {}).items()}
            if callable(value) or type(value).__name__ == "module":
                parts = {}
            if isinstance(value, _Preloaded):
                parts.pop(".calls")  # counts towards a refill, for which the horizon leaves no need
        found[path + " has"] = sorted(parts)
        for name, part in parts.items():
            state(part, path + name, found, seen)
    return found


SCRATCH = ("posterior._u",)  # written before it is read in every round


def assert_unchanged(before, after, when):
    """No host value is another, and every tensor lies where it lay."""
    import torch

    for path in before.keys() | after.keys():
        old, new = before.get(path), after.get(path)
        if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
            moved = not old.is_set_to(new) and not path.endswith(SCRATCH)
            assert not moved, (
                f"{path} moved {when}: write into it in place, a replay finds it only where it was recorded"
            )
        else:
            assert repr(old) == repr(new), (
                f"{path}: {old} became {new} {when}: a replay skips Python, so this belongs in _advance"
            )


@contextlib.contextmanager
def no_waiting(torch):
    """Reading from the device, or writing Python numbers to it, raises: neither can be recorded."""
    from torch.utils._python_dispatch import TorchDispatchMode

    forbidden = {"_local_scalar_dense", "nonzero", "masked_select", "lift_fresh", "unique_dim", "_unique2", "equal"}

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            name = function.__name__.split(".")[0]
            assert name not in forbidden, f"{name} waits for the device in a round that is to be recorded"
            if name.startswith("index"):
                for index in args[1] if isinstance(args[1], list | tuple) else ():
                    masks = index is not None and index.dtype in (torch.bool, torch.uint8)
                    assert not masks, f"{name} by a mask waits for the device, which has to count it"
            return function(*args, **(kwargs or {}))

    def refuse(name):
        def method(self, *args, **kwargs):
            raise AssertionError(f"Tensor.{name} waits for the device in a round that is to be recorded")

        return method

    with pytest.MonkeyPatch.context() as patch:
        for name in ("numpy", "item", "tolist", "cpu", "__bool__", "__int__", "__float__", "__index__", "__array__"):
            patch.setattr(torch.Tensor, name, refuse(name))
        patch.setattr(torch, "from_numpy", refuse("from_numpy"))
        with Watch():
            yield


def check_rounds(policy, instance):
    """Play all rounds; those that might be replayed must leave the host as it is and ask nothing of the device.

    Looks at every third round, which sees both steps of a corral. Returns how many rounds might be replayed.
    """
    import torch

    learner, noise = (
        policy.start(instance.problem),
        instance.noise_streams(0).beside(instance.means, HORIZON, normal=True),
    )
    recorded, replays = {}, 0
    for t in range(instance.problem.horizon):
        phase = learner._phase()
        assert phase == learner._phase(), "asking for the phase changes it"
        again = phase is not None and phase in recorded
        replays += again
        if again and t % 3 == 2:
            with no_waiting(torch):
                before = state(learner)
                arms = learner._select(ALL)
                learner._update(arms, instance.pull(arms, noise), ALL)
                after = state(learner)
            assert_unchanged(before, after, f"in round {t} of phase {phase}")
            tensors = {path: value for path, value in before.items() if isinstance(value, torch.Tensor)}
            known = recorded[phase] = recorded[phase] or tensors
            paths = tensors.keys() & known.keys()
            when = f"between two rounds of phase {phase}, the later being {t}"
            assert_unchanged({path: known[path] for path in paths}, {path: tensors[path] for path in paths}, when)
        else:
            arms = learner._select(ALL)
            learner._update(arms, instance.pull(arms, noise), ALL)
            recorded.setdefault(phase, {})
        learner._advance(ALL)
    return replays


@pytest.mark.parametrize(("name", "range_known"), WITH_RANGES)
def test_a_round_changes_nothing_on_the_host_and_waits_for_nothing(name, range_known, torch):
    replays = check_rounds(POLICIES[name], on_torch(range_known))
    assert (replays == 0) == (name in NEVER)
    assert name in NEVER or replays > 40


@pytest.mark.parametrize("policy", ["linucb++", "linucb++corral", "smooth-corral", "dynamic-balancing"])
def test_the_same_on_expressive_sets(policy, torch):
    instance = small(range(3), horizon=HORIZON, arms=20, dim=16, expressive=True, levels=[4, 8, 16]).to("cpu")
    assert check_rounds(paper.policies("released", 3, expressive=True)[policy], instance) > 40


def test_a_learner_that_was_replayed_is_over(tapes):
    outcome = adadim.simulate(adadim.LinUCB(), on_torch())
    with pytest.raises(RuntimeError, match=r"this LinUCBLearner has played its 60 rounds; .* with a longer horizon"):
        outcome.learner.select()
    assert outcome.learner.describe()[0]["pulls"] == 60


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_learner_that_was_not_replayed_goes_on(library, request):
    if library == "torch":
        request.getfixturevalue("torch")
    instance = small(range(3), horizon=30)
    outcome = adadim.simulate(adadim.SmoothCorral(), instance if library == "numpy" else instance.to("cpu"))
    assert not outcome.learner._over
    for _ in range(10):
        arms = outcome.learner.select()
        outcome.learner.update(arms, [0.1] * 3)


def test_one_round_is_not_replayed(tapes):
    outcome = adadim.simulate(adadim.LinUCB(), on_torch(horizon=1))
    assert not tapes
    assert not outcome.learner._over


# Bases in nested dimensions

MASTERS = {
    "smooth corral": adadim.SmoothCorral(loss_range=(-0.3, 0.3)),
    "smooth corral once": adadim.SmoothCorral(replay=False, master="exp3p"),
    "corral": adadim.Corral(eta=0.5, ambient=True),
    "balancing": adadim.DynamicBalancing(bound="sqrt", c=0.1),
    "balancing released": paper.policies("released")["dynamic-balancing"],
}
BASES = {
    "uniform": {"first_pull": "uniform"},
    "supported": {"arms": "supported"},
    "squared lowest": {"bonus": "squared", "ties": "lowest", "first_pull": "uniform", "arms": "supported"},
    "full": {"radius": "full", "scale": 0.5, "ridge": 1.0},
}


def with_base(master, changes):
    return replace(master, base=replace(master.base, **changes))


@pytest.mark.parametrize(
    ("base", "expressive"), [("uniform", False), ("full", False), ("supported", True), ("squared lowest", True)]
)
@pytest.mark.parametrize("master", MASTERS)
def test_nested_bases_choose_as_separate_ones(master, base, expressive, torch):
    policy = with_base(MASTERS[master], BASES[base])
    closure = {"expressive": True, "levels": [2, 5, 12]} if expressive else {}
    instance = small(range(3), horizon=60, arms=15, dim=12, **closure)
    ours, theirs = (Driver(policy, which, seed=4).run() for which in (instance, in_torch(instance, torch)))
    assert isinstance(theirs.learner.bases, NestedLinUCB)
    assert not isinstance(ours.learner.bases, NestedLinUCB)
    assert theirs.arms == ours.arms
    for one, other in zip(theirs.learner.describe(), ours.learner.describe(), strict=True):
        assert one["rounds of each base"] == other["rounds of each base"]
        assert sum(count > 0 for count in one["rounds of each base"]) > 2


OUT_OF_STEP = {f"nested {name}": with_base(policy, BASES["uniform"]) for name, policy in MASTERS.items()}
OUT_OF_STEP |= {name: policy for name, policy in POLICIES.items() if "three" in name or "LinUCB++" in name}


@pytest.mark.parametrize("name", OUT_OF_STEP)
def test_replications_that_fall_out_of_step(name, torch):
    """Some at a time through `select(rows=...)`, two groups asked before either is told."""
    instance = small(range(4), horizon=40, arms=15, dim=12)
    ours, theirs = (
        Driver(OUT_OF_STEP[name], which, seed=4).stagger(np.random.default_rng(6))
        for which in (instance, in_torch(instance, torch))
    )
    assert theirs.lead > 3
    assert theirs.arms == ours.arms
    assert isinstance(getattr(theirs.learner, "bases", None), NestedLinUCB) == name.startswith("nested")


# Studies

SPHERE = {"kind": "sphere", "arms": 20, "dim": 8, "intrinsic_dim": 2, "horizon": 60}


def study(**changes):
    """Two instances that can run together, and two that cannot join them: another noise, and another horizon."""
    parts = {
        "name": "small",
        "instances": {
            "easy": SPHERE,
            "hard": {**SPHERE, "intrinsic_dim": 8},
            "loud": {**SPHERE, "noise": 0.3},
            "ball": {**SPHERE, "kind": "ball", "horizon": 40},
        },
        "policies": {
            "LinUCB": adadim.LinUCB(),
            "oracle": {"kind": "LinUCB", "dim": "@intrinsic_dim"},
            "adaptive": adadim.LinUCBPlusPlus(),
            "balancing": adadim.DynamicBalancing(),
        },
        "trials": 5,
        "record": 10,
    }
    return Study(**{**parts, **changes})


def opened(plan, folder):
    store = Store(folder)
    store.open(plan.name, [executor._entry(cell) for cell in plan.cells], executor.identity(plan.to_dict(), "study"))
    return store


@pytest.fixture
def simulated(monkeypatch):
    """What the device simulates: (policy, replication numbers) of each call."""
    calls, real = [], device.simulate

    def logged(policy, instance, **options):
        calls.append((policy, instance.problem.replications))
        return real(policy, instance, **options)

    monkeypatch.setattr(device, "simulate", logged)
    return calls


def assert_same_results(one, other):
    assert one.cells() == other.cells()
    for instance, policy in one.cells():
        np.testing.assert_array_equal(one.replications(instance, policy), other.replications(instance, policy))
        times, regret = one.curves(instance, policy)
        expected_times, expected = other.curves(instance, policy)
        np.testing.assert_array_equal(times, expected_times)
        np.testing.assert_allclose(regret, expected, rtol=0, atol=1e-9, err_msg=f"{policy} on {instance}")


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """The study above, computed by NumPy."""
    return run(study(), tmp_path_factory.mktemp("numpy"), jobs=1)


def test_units_of_several_instances_run_together(torch, tmp_path, simulated, computed):
    plan = study()
    store, units = opened(plan, tmp_path), executor.plan(plan, {}, jobs=1, batch=5)
    told = list(device.outcomes(store, units, "cpu", 50))
    assert {unit.id for unit, _ in told} == {unit.id for unit in units}
    assert {outcome for _, outcome in told} == {"computed"}
    assert_same_results(load(tmp_path), computed)
    sizes = Counter((type(policy).__name__, getattr(policy, "dim", None), len(rows)) for policy, rows in simulated)
    # easy and hard together, loud and ball by themselves; the oracle of hard is another policy than that of easy.
    assert sizes == {
        ("LinUCB", None, 10): 1,
        ("LinUCB", None, 5): 2,
        ("LinUCB", 2, 5): 3,
        ("LinUCB", 8, 5): 1,
        ("LinUCBPlusPlus", None, 10): 1,
        ("LinUCBPlusPlus", None, 5): 2,
        ("DynamicBalancing", None, 10): 1,
        ("DynamicBalancing", None, 5): 2,
    }


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_small_batches_are_split(torch, tmp_path, simulated, computed, batch):
    plan = study(policies={"LinUCB": adadim.LinUCB()})
    store, units = opened(plan, tmp_path), executor.plan(plan, {}, jobs=1, batch=batch)
    list(device.outcomes(store, units, "cpu", batch))
    assert max(len(rows) for _, rows in simulated) == batch
    results = load(tmp_path)
    for instance, policy in results.cells():
        np.testing.assert_allclose(results.final(instance, policy), computed.final(instance, policy), atol=1e-9)


def test_an_instance_is_made_once_for_all_policies(torch, tmp_path, monkeypatch):
    made, real = Counter(), device._instance
    monkeypatch.setattr(device, "_instance", lambda unit, place: made.update([unit.cell.instance]) or real(unit, place))
    plan = study()
    list(device.outcomes(opened(plan, tmp_path), executor.plan(plan, {}, jobs=1, batch=5), "cpu", 50))
    assert made == {"easy": 1, "hard": 1, "loud": 1, "ball": 1}


def test_an_instance_made_in_parts_is_the_whole(torch, monkeypatch):
    monkeypatch.setattr(device, "CHUNK", 2)
    cell = study().cells[0]
    whole, parts = cell.make(range(3, 8)), device._instance(device.Unit(cell, 3, 8), "cpu")
    assert parts.problem.replications == whole.problem.replications == (3, 4, 5, 6, 7)
    np.testing.assert_array_equal(parts.means, whole.means)
    np.testing.assert_array_equal(parts.problem.actions.base, whole.problem.actions.base)


HOLDER = """
import sys
from adadim.study.store import Store
with Store(sys.argv[1]).claim(sys.argv[2], (0, 5)):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_what_others_compute_or_have_computed_is_left_alone(torch, tmp_path, simulated, computed):
    plan = study(policies={"LinUCB": adadim.LinUCB()})
    store = opened(plan, tmp_path)
    units = {unit.cell.instance: unit for unit in executor.plan(plan, {}, jobs=1, batch=5)}
    assert executor.compute(store, units["easy"]) == "computed"
    executor.compute(store, device.Unit(units["loud"].cell, 0, 2))  # a part of it
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path), units["hard"].cell.id], **pipes)
    try:
        assert holder.stdout.readline() == "held\n"
        told = {unit.cell.instance: outcome for unit, outcome in device.outcomes(store, [*units.values()], "cpu", 50)}
    finally:
        holder.communicate("done\n")
    assert told == {"easy": "found", "hard": "busy", "loud": "busy", "ball": "computed"}
    assert [len(rows) for _, rows in simulated] == [5]
    ((unit, outcome),) = device.outcomes(store, [units["hard"]], "cpu", 50)
    assert (unit, outcome) == (units["hard"], "computed")
    np.testing.assert_allclose(load(tmp_path).final("hard", "LinUCB"), computed.final("hard", "LinUCB"), atol=1e-9)


CLAIMER = """
import sys
from adadim.study.store import Store
for cell in sys.argv[2:]:
    with Store(sys.argv[1]).claim(cell, (0, 5)) as mine:
        print(int(mine))
"""


def test_all_units_that_run_together_are_claimed(torch, tmp_path, monkeypatch):
    """Until the last of them is stored, and not before the first runs."""
    plan = study(
        policies={"LinUCB": adadim.LinUCB()}, instances={"easy": SPHERE, "hard": {**SPHERE, "intrinsic_dim": 8}}
    )
    store, units = opened(plan, tmp_path), executor.plan(plan, {}, jobs=1, batch=5)
    command = [sys.executable, "-c", CLAIMER, str(tmp_path), *(unit.cell.id for unit in units)]

    def free():
        return [
            int(line) for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        ]

    seen, real = [], device.simulate
    monkeypatch.setattr(device, "simulate", lambda *a, **options: seen.append(free()) or real(*a, **options))
    outcomes = device.outcomes(store, units, "cpu", 50)
    next(outcomes)
    assert seen == [[0, 0]]
    assert free() == [0, 0]
    assert len(list(outcomes)) == 1
    assert free() == [1, 1]


@pytest.fixture
def card(torch, monkeypatch):
    """A device called cpu:0 with 8 GiB, of which 4 are free."""
    monkeypatch.setattr(adadim.arrays, "check_device", lambda name: name)
    monkeypatch.setattr(executor, "check_device", lambda name: name)
    free = [4 * 2**30]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda place: (free[0], 8 * 2**30))
    return free


def test_run_on_a_device(card, tmp_path, simulated, computed):
    calls = []
    results = run(study(), tmp_path, device="cpu:0", progress=lambda *call: calls.append(call))
    assert_same_results(results, computed)
    assert calls[0] == (0, 16, None)
    assert [done for done, _, _ in calls] == list(range(17))
    assert max(len(rows) for _, rows in simulated) == 10
    assert status(tmp_path).complete
    simulated.clear()
    run(study(), tmp_path, device="cpu:0", jobs=1)
    run(study(), tmp_path, jobs=1)
    assert simulated == []


def test_a_device_goes_on_where_a_cpu_stopped(card, tmp_path, simulated, computed):
    run(study(trials=2), tmp_path, jobs=1)
    assert_same_results(run(study(), tmp_path, device="cpu:0", batch=3), computed)
    assert {row for _, rows in simulated for row in rows} == {2, 3, 4}
    assert max(len(rows) for _, rows in simulated) == 3


def test_the_batch_is_what_fits(card, torch):
    cells = study().cells
    largest = max(device.replication_bytes(cell) for cell in cells)
    assert device.device_batch(cells, "cuda:1") == int(0.8 * card[0] / largest)
    card[0] = 10 * largest
    assert device.device_batch(cells, "cuda:1") == 8


@pytest.mark.parametrize(
    "name", ["theory linucb", "LinUCB++ feature", "tapered", "Smooth Corral exp3p", "Smooth Corral once"]
)
@pytest.mark.parametrize(
    "size", [{"arms": 80, "dim": 60}, {"arms": 200, "dim": 10}, {"arms": 30, "dim": 20, "horizon": 800}]
)
def test_a_replication_holds_no_more_than_reckoned(torch, name, size):
    cell = study(instances={"one": {**SPHERE, **size}}, policies={"mine": POLICIES[name]}).cells[0]
    learner = cell.agent.start(cell.make([0]).to("cpu").problem)
    learner.update(learner.select(), [0.1])
    memory = {value.untyped_storage() for value in state(learner).values() if isinstance(value, torch.Tensor)}
    held = sum({storage.data_ptr(): storage.nbytes() for storage in memory}.values())
    assert 8 * cell.arms * cell.dim < held < device.replication_bytes(cell)


def test_a_device_that_is_too_small_says_what_would_fit(card, tmp_path):
    big = {**SPHERE, "arms": 50_000, "dim": 20_000}
    plan = study(instances={"big": big}, policies={"LinUCB": adadim.LinUCB()})
    with pytest.raises(DeviceError) as caught:
        run(plan, tmp_path / "results", device="cpu:0")
    needed = device.replication_bytes(plan.cells[0])
    assert str(caught.value) == (
        f"big: one replication of 50000 arms with 20000 features needs about {needed / 2**30:.3g} GiB, and cpu:0 has 4 "
        f"of 8 GiB free; with so many features about {int(50_000 * 0.8 * 4 * 2**30 / needed)} arms would fit"
    )
    assert not list(tmp_path.rglob("*.parquet"))


def test_arms_said_to_fit_do(card):
    """The number in the message is of use: so many arms pass."""
    cell = study(instances={"big": {**SPHERE, "arms": 50_000, "dim": 5_000}}, policies={"a": adadim.UCB()}).cells[0]
    with pytest.raises(DeviceError) as caught:
        device.device_batch([cell], "cpu:0")
    arms = int(str(caught.value).split("about ")[-1].split(" arms")[0])
    assert arms == 0 or device.device_batch([replace(cell, arms=arms)], "cpu:0") >= 1


def test_out_of_memory_says_what_to_try(card, tmp_path, monkeypatch):
    def fail(*args, **options):
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(device, "simulate", fail)
    plan = study(policies={"LinUCB": adadim.LinUCB()})
    with pytest.raises(RunError) as caught:
        run(plan, tmp_path, device="cpu:0", batch=20)
    assert str(caught.value) == (
        "LinUCB on easy, replications 0 to 4 on cpu:0: RuntimeError: CUDA out of memory. Tried to allocate 20.00 GiB; "
        "10 replications at once are too many for cpu:0: try a batch of 5"
    )


def test_another_error_gives_no_such_hint(card, tmp_path, monkeypatch):
    def fail(*args, **options):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(device, "simulate", fail)
    with pytest.raises(RunError, match=r"on cpu:0: ZeroDivisionError: by zero$"):
        run(study(), tmp_path, device="cpu:0")


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "gpu"])
def test_a_device_that_is_not_there_is_refused_before_anything_is_written(torch, tmp_path, monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match=f"'{name}'"):
        run(study(), tmp_path / "results", device=name)
    assert not (tmp_path / "results").exists()


def test_one_process_drives_a_device(card, tmp_path):
    with pytest.raises(StudyError, match=r"jobs: one process drives cpu:0, got 2; leave it out"):
        run(study(), tmp_path / "results", device="cpu:0", jobs=2)
    assert not (tmp_path / "results").exists()


# On a GPU


@pytest.fixture
def gpu(torch):
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA GPU")
    return torch


@pytest.mark.parametrize(
    ("variant", "name"), [key.split() for key in POLICIES if key.startswith(("theory", "released"))]
)
def test_gpu_pulls_the_same_arms_at_the_size_of_the_paper(gpu, variant, name):
    """The first 200 of 2500 rounds; later, rounding may decide between arms that are all but equal."""
    policy, instance = (
        paper.policies(variant, 12)[name],
        small(range(4), horizon=2500, arms=1200, dim=600, intrinsic_dim=12),
    )
    arms = np.array(Driver(policy, instance, seed=3).run(200).arms)
    gaps = instance.best[:, None] - instance.means
    expected = np.cumsum(np.take_along_axis(gaps, arms, axis=1), axis=1)
    outcome = adadim.simulate(policy, instance.to("cuda"), seed=3, record=[*range(1, 201), 2500])
    np.testing.assert_allclose(outcome.regret[:, :200], expected, rtol=0, atol=1e-9)
    assert (outcome.pulls.sum(axis=1) == 2500).all()
    np.testing.assert_allclose(outcome.final, (outcome.pulls * gaps).sum(axis=1), rtol=1e-9)
    assert outcome.learner._over


@pytest.mark.parametrize("expressive", [False, True])
@pytest.mark.parametrize("name", POLICIES)
def test_gpu_pulls_the_same_arms(gpu, name, expressive):
    closure = {"expressive": True, "levels": [4, 8, 16]} if expressive else {}
    here = small(range(3), horizon=HORIZON, arms=20, dim=16, **closure)
    expected, outcome = (adadim.simulate(POLICIES[name], i, seed=5, record=HORIZON) for i in (here, here.to("cuda")))
    np.testing.assert_array_equal(outcome.pulls, expected.pulls)
    np.testing.assert_allclose(outcome.regret, expected.regret, rtol=0, atol=1e-9)
    assert outcome.learner._over == (name not in NEVER)


@pytest.mark.parametrize("levels", [None, [40, 100, 150]], ids=["plain", "expressive"])
@pytest.mark.parametrize("dims", [(1, 2, 4, 8, 16, 32, 64, 128), (33, 150)], ids=["powers", "others"])
def test_gpu_kernels_equal_torch_operations(gpu, levels, dims):
    pytest.importorskip("triton")
    rng, count = np.random.default_rng(8), 6
    features = rng.standard_normal((count, 300, 150))
    features /= np.linalg.norm(features, axis=-1, keepdims=True)
    actions = adadim.ActionSet(features, levels=levels).to("cuda")
    fast, slow = Lanes(actions, dims, 0.1), Lanes(actions, dims, 0.1)
    assert fast._kernels is not None
    slow._kernels = None
    for _ in range(150):
        parts = rng.integers(len(dims), size=count), rng.integers(actions.arms, size=count), rng.standard_normal(count)
        mask = rng.random(count) < [1.0, 0.9, 0.5, 0.5, 0.1, 0.0]
        given = [gpu.from_numpy(part).cuda() for part in (*parts, mask)]
        fast.absorb(*given)
        slow.absorb(*given)
    for name in ("mean", "width2", "_w", "pulls"):
        one, other = (getattr(lanes, name).cpu().numpy() for lanes in (fast, slow))
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-11, err_msg=name)
    assert fast.pulls[-1].sum() == 0


@pytest.mark.parametrize(
    "name", ["theory linucb++", "theory linucb++corral", "released smooth-corral", "released dynamic-balancing"]
)
def test_gpu_gives_the_same_twice(gpu, name):
    instance = small(range(8), horizon=400, arms=300, dim=100).to("cuda")
    one, other = (adadim.simulate(POLICIES[name], instance, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.pulls, other.pulls)
    np.testing.assert_array_equal(one.regret, other.regret)


def test_gpu_runs_studies(gpu, tmp_path, computed):
    assert_same_results(run(study(), tmp_path / "whole", device="cuda"), computed)
    assert_same_results(run(study(), tmp_path / "parts", device="cuda:0", batch=3), computed)
    with pytest.raises(DeviceError, match="torch sees cuda:0 to cuda:"):
        run(study(), tmp_path / "none", device=f"cuda:{gpu.cuda.device_count()}")
