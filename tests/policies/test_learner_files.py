"""Saved after any round and restored, a learner goes on bit for bit as one that was never interrupted."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
import subprocess
import sys
import threading
import zipfile
from dataclasses import dataclass

import numpy as np
import pytest

import adadim
from adadim.core.saving import learner_digest
from adadim.errors import FileError
from recorded_policies import POLICIES, has_iterations, in_numpy, on_torch, own_policy, state

ROUNDS = (0, 1, 15, 16, 59)  # before and after the ends of iterations, in both steps of a corral
FUNCTIONS = [name for name in POLICIES if "Single" in name or "function" in name]  # no file can hold a function


def play(learner, instance, noise, rounds):
    """Arms of some rounds, with the rewards that the instance gives."""
    arms = []
    for _ in range(rounds):
        arms.append(learner.select())
        learner.update(arms[-1], instance.pull(arms[-1], noise))
    return [np.asarray(a).tolist() for a in arms]


def played(name, instance, rounds):
    learner = POLICIES[name].start(instance.problem, seed=3)
    noise = instance.noise_streams(3).source(100, normal=True)
    play(learner, instance, noise, rounds)
    return learner, noise


def late_round(name):
    """A round with few to go to the end of an iteration, after round 48, or, where there are none, an earlier one."""
    return 42 if has_iterations(name) else 20


def load(path, name, problem):
    return adadim.load(path, problem, policy=POLICIES[name] if name in FUNCTIONS else None)


@pytest.mark.parametrize("name", POLICIES)
def test_a_restored_learner_is_the_same_in_every_bit(name, tmp_path, torch):
    """Saved in the rounds of `ROUNDS`, each file plays what the learner that was saved plays over the next two."""
    instance, last = in_numpy(), 70
    learner, noise = played(name, instance, 0)
    expected, saved, described = [], {}, {}
    for start, stop in itertools.pairwise((*ROUNDS, last)):
        learner.save(tmp_path / f"{start}.npz")
        restored = load(tmp_path / f"{start}.npz", name, instance.problem)
        assert differences(learner, restored) == [], start
        saved[start] = restored, copy.deepcopy(noise)
        expected += play(learner, instance, noise, stop - start)
        described[stop] = learner.describe()
    stops = (*ROUNDS[2:], last, last)
    for (start, (restored, noise_from_there)), stop in zip(saved.items(), stops, strict=True):
        assert play(restored, instance, noise_from_there, stop - start) == expected[start:stop], start
        assert restored.describe() == described[stop], start


@pytest.mark.parametrize("name", POLICIES)
def test_the_same_on_torch(name, tmp_path, torch):
    instance = on_torch()
    learner, _ = played(name, instance, late_round(name))
    learner.save(tmp_path / "learner.npz")
    restored = load(tmp_path / "learner.npz", name, instance.problem)
    rewards = np.random.default_rng(0).standard_normal((10, 3)).tolist()
    for row in rewards:
        arms = learner.select()
        assert restored.select().tolist() == arms.tolist()
        learner.update(arms, row)
        restored.update(arms, row)


def differences(one, other):
    """Paths at which two learners differ in any value."""
    first, second = state(one), state(other)
    paths = sorted(first.keys() | second.keys())
    return [p for p in paths if repr(first.get(p)) != repr(second.get(p))]


@pytest.mark.parametrize("name", [name for name in POLICIES if name not in FUNCTIONS])
def test_files_of_equal_learners_are_equal(name, tmp_path, monkeypatch):
    """Also where an array has parts that are not in use yet: no memory that happens to lie there is written."""
    instance, empty, fills = in_numpy(), np.empty, iter((1.5, 2.5))
    for file in ("one.npz", "other.npz"):
        value = next(fills)

        def filled(*size, value=value, **options):
            array = empty(*size, **options)
            array.fill(value)
            return array

        monkeypatch.setattr(np, "empty", filled)
        learner, _ = played(name, instance, 3)
        learner.save(tmp_path / file)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "other.npz").read_bytes()


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda learner: pickle.loads(pickle.dumps(learner)),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_copy_is_the_same_and_apart(name, torch):
    instance = in_numpy()
    learner, noise = played(name, instance, late_round(name))
    before = {}
    for kind, copied in COPIES.items():
        if name == "balancing by a function" and kind == "pickle":
            continue  # Python pickles no lambda
        twin = copied(learner)
        assert differences(learner, twin) == [], kind
        before[kind] = play(twin, instance, copy.deepcopy(noise), 10)
    assert before == dict.fromkeys(before, play(learner, instance, noise, 10))


def test_between_select_and_update(tmp_path):
    instance = in_numpy()
    for name in ("theory linucb++corral", "SupLinUCB", "theory linucb"):
        learner, _ = played(name, instance, 20)
        arms = learner.select()
        learner.save(tmp_path / "learner.npz")
        restored = adadim.load(tmp_path / "learner.npz", instance.problem)
        for one in (learner, restored):
            one.update(arms, [0.1, 0.2, 0.3])
        assert differences(learner, restored) == []


def test_open_decisions_are_saved(tmp_path, torch):
    for instance in (in_numpy(), on_torch()):
        learner, _ = played("SupLinUCB", instance, 20)
        first, second = learner.ask(), learner.ask(rows=[2])
        learner.save(tmp_path / "learner.npz")
        restored = adadim.load(tmp_path / "learner.npz", instance.problem)
        for one in (learner, restored):
            one.tell(second, [0.1])
            one.tell(first, [0.1, 0.2, 0.3])
        assert learner.select().tolist() == restored.select().tolist()


SCRIPT = """
import json, sys
import adadim
folder, names = sys.argv[1], json.loads(sys.argv[2])
instance = adadim.instances.sphere(arms=20, dim=12, intrinsic_dim=3, horizon=60, replications=range(3))
for name in names:
    learner = adadim.load(f"{folder}/{name}.npz", instance.problem)
    arms = []
    for t in range(40):
        chosen = learner.select()
        arms.append(chosen.tolist())
        learner.update(chosen, [0.1 * (t % 3), -0.1, 0.05 * t])
    print(json.dumps(arms))
"""


def test_another_process_goes_on_with_it(tmp_path):
    names = ["theory linucb++", "released linucb++corral", "released smooth-corral", "evidence", "SupLinUCB"]
    instance = adadim.instances.sphere(arms=20, dim=12, intrinsic_dim=3, horizon=60, replications=range(3))
    expected = []
    for name in names:
        learner, _ = played(name, instance, 17)
        learner.save(tmp_path / f"{name}.npz")
        arms = []
        for t in range(40):
            chosen = learner.select()
            arms.append(chosen.tolist())
            learner.update(chosen, [0.1 * (t % 3), -0.1, 0.05 * t])
        expected.append(arms)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), json.dumps(names)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [json.loads(line) for line in done.stdout.splitlines()] == expected


def saved(tmp_path, policy=None, **changes):
    problem = adadim.Problem(np.eye(4), **{"horizon": 20, "noise": 0.1} | changes)
    learner = (policy or adadim.LinUCB()).start(problem)
    learner.update(learner.select(), 0.5)
    path = tmp_path / "learner.npz"
    learner.save(path)
    return path, problem


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"horizon": 21}, "saved on another problem: horizon was 20, and is 21 here"),
        ({"noise": 0.2}, "saved on another problem: noise was 0.1, and is 0.2 here"),
        ({"replications": [3]}, r"another problem: replications was \[0\], and is \[3\] here"),
        ({"reward_range": 1.0}, "another problem: reward_range was None"),
    ],
)
def test_another_problem_is_refused(changes, message, tmp_path):
    path, _ = saved(tmp_path)
    other = adadim.Problem(np.eye(4), **{"horizon": 20, "noise": 0.1} | changes)
    with pytest.raises(FileError, match=message):
        adadim.load(path, other)


def test_other_features_are_refused(tmp_path):
    path, _ = saved(tmp_path)
    with pytest.raises(FileError, match="another problem: arms was 4, and is 3 here"):
        adadim.load(path, adadim.Problem(np.eye(3), horizon=20, noise=0.1))
    with pytest.raises(FileError, match="another problem: features was"):
        adadim.load(path, adadim.Problem(np.eye(4)[::-1], horizon=20, noise=0.1))


def test_damaged_files_are_noticed(tmp_path):
    path, problem = saved(tmp_path, adadim.SmoothCorral())
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    seen = 0
    for position in rng.integers(len(data), size=150).tolist():
        damaged = bytearray(data)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged))
        try:
            learner = adadim.load(path, problem)
        except FileError:
            seen += 1
        else:  # a bit that says nothing, such as a date in the archive
            path.write_bytes(data)
            assert differences(learner, adadim.load(path, problem)) == []
    assert seen > 100
    for length in (0, 1, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(FileError, match="learner"):
            adadim.load(path, problem)


def test_foreign_files_are_refused(tmp_path):
    problem = adadim.Problem(np.eye(4), horizon=20, noise=0.1)
    path = tmp_path / "file"
    with pytest.raises(FileError, match="No such file"):
        adadim.load(path, problem)
    with pytest.raises(FileError, match="directory"):
        adadim.load(tmp_path, problem)
    path.write_text("hello")
    with pytest.raises(FileError, match="not a file that a learner was saved to"):
        adadim.load(path, problem)
    np.savez(path.with_suffix(".npz"), x=np.zeros(3))
    with pytest.raises(FileError, match="not a file that a learner was saved to"):
        adadim.load(path.with_suffix(".npz"), problem)
    np.save(path.with_suffix(".npy"), np.zeros(3))
    with pytest.raises(FileError, match="not a file that a learner was saved to"):
        adadim.load(path.with_suffix(".npy"), problem)


class Malicious:
    def __reduce__(self):
        return print, ("loading ran this",)


def test_loading_runs_no_code(tmp_path, capsys):
    path = tmp_path / "learner.npz"
    np.savez(path, json=np.array([Malicious()], dtype=object))
    capsys.readouterr()
    with pytest.raises(FileError):
        adadim.load(path, adadim.Problem(np.eye(4), horizon=20, noise=0.1))
    (tmp_path / "pickle").write_bytes(pickle.dumps(Malicious()))
    with pytest.raises(FileError):
        adadim.load(tmp_path / "pickle", adadim.Problem(np.eye(4), horizon=20, noise=0.1))
    assert "loading ran this" not in capsys.readouterr().out


def parts(path):
    """Header and arrays of a file."""
    with np.load(path) as archive:
        contents = dict(archive)
    return json.loads(contents.pop("json").tobytes()), {name[1:]: array for name, array in contents.items()}


def write(path, header, arrays, signed=True, described=True, **others):
    """A file with any header and arrays; the kinds of arrays and the digest in it fit them, unless told not to."""
    named = {name: array for name, array in arrays.items() if f'{{"array": "{name}"}}' in json.dumps(header["state"])}
    if described:
        header = header | {"arrays": {name: [array.dtype.str, *array.shape] for name, array in named.items()}}
    digest = {"digest": learner_digest(header, named)} if signed else {}
    text = np.frombuffer(json.dumps(header | digest).encode(), dtype=np.uint8)
    np.savez(path, json=text, **{f"a{name}": array for name, array in arrays.items()}, **others)


def edited(path, **changes):
    """The file with another header."""
    header, arrays = parts(path)
    write(path, header | changes, arrays)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 99}, "format 99, saved by adadim .*, but adadim .* reads format 3"),
        ({"policy": {"kind": "LinUBC"}}, "no policy 'LinUBC'; did you mean 'LinUCB'|LinUBC"),
        ({"policy": {"kind": "LinUCB", "rigde": 1}}, "rigde.*did you mean 'ridge'"),
        ({"policy": {"kind": "UCB"}}, "damaged, or saved by another version"),
        ({"state": {"object": {"posterior": {"array": "77"}}}}, "it has no array 'a77'"),
        ({"state": {"object": {"renamed": 7}}}, "saved by another version: a LinearLearner has no attribute 'renamed'"),
        ({"state": 3}, "damaged"),
        ({"problem": None}, "its description is incomplete"),
    ],
)
def test_headers_that_do_not_fit(changes, message, tmp_path):
    path, problem = saved(tmp_path)
    edited(path, **changes)
    with pytest.raises(FileError, match=message):
        adadim.load(path, problem)


def array_of(tree, *path):
    """The name of the array at a path of attributes."""
    for attribute in path:
        tree = tree["object"][attribute]
    return tree["array"]


def forged(array):
    """Arrays that a learner cannot have in the place of this one, by what is wrong with them."""
    yield "shape", np.zeros((*array.shape, 1), array.dtype)
    yield "shape", np.resize(array, (*array.shape[:-1], array.shape[-1] + 1))
    yield "array of", array.astype(np.float32 if array.dtype != np.float32 else np.float64)
    yield "array of", array.astype(np.int32)
    if array.dtype.kind == "f" and array.size:
        yield "infinity", np.full_like(array, np.inf)
        yield "NaN", np.full_like(array, np.nan)


@pytest.mark.parametrize("policy", [adadim.LinUCB(), adadim.UCB(), adadim.LinUCBPlusPlus()])
def test_forged_arrays_are_refused_with_a_digest_that_fits_too(policy, tmp_path):
    path, problem = saved(tmp_path, policy, reward_range=1.0)
    header, arrays = parts(path)
    tree = json.dumps(header["state"])
    for name, array in arrays.items():
        for wrong, other in forged(array):
            unknown = [f'"{which}": {{"array": "{name}"}}' in tree for which in ("squares", "noise")]
            if wrong == "NaN" and any(unknown):  # so they are where they are not known
                continue
            write(path, header, arrays | {name: other})
            with pytest.raises(FileError, match=rf"learner\.npz: damaged, or saved by another version: .*{wrong}"):
                adadim.load(path, problem)
        write(path, header, arrays | {name: np.zeros((*array.shape, 1), array.dtype)}, signed=False)
        with pytest.raises(FileError, match="does not agree with its digest"):
            adadim.load(path, problem)
    write(path, header, arrays)
    adadim.load(path, problem)


def test_arrays_of_open_decisions_have_the_shapes_that_the_file_says(tmp_path):
    problem, path = adadim.Problem(np.eye(4), horizon=20, noise=0.1), tmp_path / "learner.npz"
    for policy in (adadim.LinTS(), adadim.Certified(), adadim.EvidenceLinUCB()):
        learner = policy.start(problem)
        learner.ask()
        learner.save(path)
        header, arrays = parts(path)
        for name, array in arrays.items():
            for other in (array[..., None], array[None], array.astype(np.float32)):
                write(path, header, arrays | {name: other}, described=False)
                with pytest.raises(FileError, match="damaged: its arrays have other shapes or types than it says"):
                    adadim.load(path, problem)


def test_one_bit_is_noticed_wherever_it_is(tmp_path):
    path, problem = saved(tmp_path, adadim.EvidenceLinUCB())
    header, arrays = parts(path)
    rng = np.random.default_rng(1)
    for name, array in arrays.items():
        data = bytearray(array.tobytes())
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        other = np.frombuffer(bytes(data), array.dtype).reshape(array.shape)
        write(path, header, arrays | {name: other}, signed=False)
        with pytest.raises(FileError, match="does not agree with its digest"):
            adadim.load(path, problem)


def test_open_decisions_of_no_learner_are_refused(tmp_path):
    problem = adadim.Problem(arms=3, dim=2, horizon=20, noise=0.1)
    learner, path = adadim.LinUCB().start(problem), tmp_path / "learner.npz"
    decision = learner.ask([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    learner.save(path)
    header, arrays = parts(path)
    ((_, choice),) = header["state"]["object"]["_open"]["dict"]
    ids, arms, memo = choice["tuple"]
    (features,) = [value["array"] for key, value in memo["dict"] if key == "features"]
    for name, values in (
        (ids["array"], np.array([1])),
        (ids["array"], np.array([-1])),
        (ids["array"], np.array([0, 0])),
        (arms["array"], np.array([0.0])),
        (arms["array"], np.array([-1])),
        (features, np.zeros((1, 3))),
        (features, np.zeros((2, 2))),
        (features, np.zeros((1, 2), np.float32)),
    ):
        write(path, header, arrays | {name: values})
        with pytest.raises(FileError, match="damaged, or saved by another version"):
            adadim.load(path, problem)
    write(path, header, arrays)
    adadim.load(path, problem).tell(decision, 0.5)


def test_positions_of_nothing_are_refused(tmp_path):
    instance = in_numpy()
    learner, _ = played("theory linucb++", instance, 20)
    path = tmp_path / "learner.npz"
    learner.save(path)
    header, arrays = parts(path)
    name = array_of(header["state"], "iteration")
    write(path, header, arrays | {name: arrays[name] + 7})
    with pytest.raises(FileError, match=r"LinUCBPlusPlusLearner\.iteration must be in 0\.\.2, got 8"):
        adadim.load(path, instance.problem)


def test_what_the_header_does_not_name_is_not_read(tmp_path, monkeypatch):
    path, problem = saved(tmp_path)
    header, arrays = parts(path)
    write(path, header, arrays, huge=np.zeros(10**6), a999=np.zeros(10**6))
    read = []
    open_member = zipfile.ZipFile.open
    monkeypatch.setattr(
        zipfile.ZipFile, "open", lambda self, name, *a, **k: read.append(name) or open_member(self, name, *a, **k)
    )
    adadim.load(path, problem)
    assert sorted(info.filename for info in read) == sorted(["json.npy", *(f"a{name}.npy" for name in arrays)])


def test_arrays_are_no_larger_than_the_file(tmp_path):
    path, problem = saved(tmp_path)
    header, arrays = parts(path)
    name = next(iter(arrays))
    large = arrays | {name: np.zeros(10**6)}
    text = np.frombuffer(json.dumps(header | {"digest": learner_digest(header, large)}).encode(), dtype=np.uint8)
    np.savez_compressed(path, json=text, **{f"a{key}": array for key, array in large.items()})
    with pytest.raises(FileError, match="is compressed or too large"):
        adadim.load(path, problem)


@pytest.mark.parametrize("text", [b"[" * 200_000, b"[" * 300 + b"]" * 300, b'{"a":' * 500 + b"1" + b"}" * 500])
def test_a_header_of_brackets_is_refused(text, tmp_path):
    path, problem = saved(tmp_path)
    np.savez(path, json=np.frombuffer(text, dtype=np.uint8))
    with pytest.raises(FileError, match="more than 200 nested tables"):
        adadim.load(path, problem)


def test_a_header_without_end_is_not_read(tmp_path, monkeypatch):
    path, problem = saved(tmp_path)
    monkeypatch.setattr("adadim.core.saving.MAX_HEADER_BYTES", 1000)
    np.savez(path, json=np.zeros(20_000, dtype=np.uint8))
    with pytest.raises(FileError, match="array 'json' is compressed or too large"):
        adadim.load(path, problem)


def test_a_learner_of_version_03_is_refused_in_one_sentence(tmp_path):
    path, problem = saved(tmp_path)
    header, arrays = parts(path)
    del header["digest"]
    write(path, header | {"format": 2, "adadim": "0.3.0"}, arrays, signed=False)
    with pytest.raises(FileError, match=r"a learner in format 2, saved by adadim 0\.3\.0, but .* reads format 3"):
        adadim.load(path, problem)


@dataclass(frozen=True)
class Changing(adadim.Policy):
    what: str = "late"

    def learner(self, problem, streams):
        return ChangingLearner(self, problem, streams)


class ChangingLearner(adadim.Learner):
    changes_shape = ("declared",)

    def __init__(self, policy, problem, streams):
        super().__init__(problem, streams)
        self.policy = policy
        self.total, self.best, self.seen = 0, None, []
        self.history, self.declared, self.means = np.zeros(0), np.zeros((0, 2)), np.zeros(3)

    def choose(self, rows):
        return np.zeros(len(rows), dtype=np.int64), {}

    def absorb(self, arms, rewards, rows, memo):
        self.total, self.best = self.total + float(rewards[0]), rewards.copy()
        self.seen.append(rewards.copy())
        self.declared = np.vstack([self.declared, [[1.0, 2.0]]])
        if self.policy.what == "late":
            self.late = 1.0
        elif self.policy.what == "grows":
            self.history = np.append(self.history, rewards)
        elif self.policy.what == "nan":
            self.means[0] = np.nan


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("late", "cannot be saved: a ChangingLearner has no attribute 'late' when it is made: set it in __init__"),
        ("grows", r"cannot be saved: ChangingLearner.history must have the shape \(0,\).*got \(1,\); .*changes_shape"),
        ("nan", "cannot be saved: ChangingLearner.means must be finite, as it is at the start"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(what, message, tmp_path):
    learner = Changing(what).start(adadim.Problem(np.eye(3), horizon=20, noise=0.1))
    learner.save(tmp_path / "learner.npz")
    learner.update(learner.select(), 0.5)
    before = (tmp_path / "learner.npz").read_bytes()
    with pytest.raises(adadim.InvalidTypeError, match=message):
        learner.save(tmp_path / "learner.npz")
    assert (tmp_path / "learner.npz").read_bytes() == before


def test_what_a_class_may_change_is_saved(tmp_path):
    problem = adadim.Problem(np.eye(3), horizon=20, noise=0.1)
    learner = Changing("nothing").start(problem)
    for reward in (0.5, 0.25):
        learner.update(learner.select(), reward)
    learner.save(tmp_path / "learner.npz")
    restored = adadim.load(tmp_path / "learner.npz", problem, plugins={"Changing": Changing})
    assert differences(learner, restored) == []
    assert restored.total == 0.75
    assert restored.declared.shape == (2, 2)
    assert [values.tolist() for values in restored.seen] == [[0.5], [0.25]]


def test_a_policy_that_holds_a_function_is_given_again(tmp_path):
    problem = adadim.Problem(np.eye(4), horizon=20)
    policy = adadim.Single(own_policy)
    learner = policy.start(problem)
    learner.save(tmp_path / "learner.npz")
    with pytest.raises(FileError, match=r"its policy holds a function.*load.path, problem, policy="):
        adadim.load(tmp_path / "learner.npz", problem)
    assert adadim.load(tmp_path / "learner.npz", problem, policy=policy).select() == learner.select()


def test_a_file_of_another_policy_is_refused(tmp_path):
    path, problem = saved(tmp_path)
    with pytest.raises(FileError, match=r"was saved by LinUCB.*, not by UCB"):
        adadim.load(path, problem, policy=adadim.UCB())


def test_what_cannot_be_saved_is_named(tmp_path):
    class Odd:
        def __init__(self, problem, rng):
            self.lock = threading.Lock()

        def select(self):
            return 0

    learner = adadim.Single(Odd).start(adadim.Problem(np.eye(4), horizon=20))
    with pytest.raises(adadim.AdadimError, match=r"LiftedLearner.learners\[0\].lock is a lock"):
        learner.save(tmp_path / "learner.npz")
    assert not (tmp_path / "learner.npz").exists()


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path, problem = saved(tmp_path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(FileError, match="No space left on device; free some space"):
        adadim.UCB().start(problem).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["learner.npz"]


def test_load_wants_a_problem(tmp_path):
    path, _ = saved(tmp_path)
    with pytest.raises(adadim.InvalidTypeError, match=r"load needs an adadim\.Problem, got ndarray"):
        adadim.load(path, np.eye(4))
