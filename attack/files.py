"""Study files, results folders, blocks and learner files, damaged in every way."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import adadim
from adadim import policies
from adadim.core.codec import to_toml
from adadim.core.saving import learner_digest
from adadim.study import Study, load, status
from adadim.study.store import manifest_digest
from attack.damage import changed, damaged, generator
from attack.tally import Tally
from attack.worlds import TABLE, contents, small_folder, study

KEYS = ("mine.toml", "instances", "policies", "trials", "seed", "record", "only", "labels", "name", "plugins")
TYPES = ("f2", "f4", "f8", "i4", "i8", "u1", "?", "c16", "U3", "S3", "M8[s]")


def study_files(count: int, folder: Path) -> Tally:
    """TOML files with changed tables, damaged bytes or no measure: refused, or a study that can be checked."""
    tally, draw = Tally(), generator(1)
    file = folder / "mine.toml"
    good = study().to_toml().encode()
    for i in range(count):
        if i % 2:
            file.write_bytes(damaged(good, draw) if i % 20 > 1 else _without_measure(draw))
        else:
            table = changed(TABLE, draw)
            try:
                file.write_bytes(to_toml(table).encode("utf-8", "surrogatepass"))
            except adadim.StudyError:  # TOML cannot say this; Python can
                tally.attempt(f"table {i}", lambda table=table: Study.from_dict(table).check())
                continue
        before = contents(folder)
        tally.attempt(f"study file {i}", lambda: Study.from_toml(file).check(), KEYS)
        if i % 10 == 0:
            tally.command("run", file, "--dry-run")
        tally.expect(contents(folder) == before, f"study file {i} changed a file")
    return tally


def _without_measure(draw: np.random.Generator) -> bytes:
    """A TOML file that is long, deep or both."""
    count = int(10 ** draw.uniform(1, 5.5))
    words = (
        b"a." * count + b"a = 1",
        b"[" + b"'b' . " * count + b"c]",
        b"x = {" + b"a." * count + b"b = 1}",
        b"x = " + b"[" * count,
        b"x = " + b"{a = " * count + b"1" + b"}" * count,
        b'"' * count,
        b"a" * count,
        b"x = [" + b"1," * count + b"]",
        b"x = " + b"9" * count,
        b"# " + b"a." * count,
        b"[[a]]\n[a.b]\n" * count,
    )
    return words[int(draw.integers(len(words)))]


def results_folders(count: int, folder: Path) -> Tally:
    """Folders with manifests that are damaged or changed, with or without a fitting digest, and with odd files."""
    tally, draw = Tally(), generator(2)
    good = small_folder(folder / "good")
    csv = load(good).frame().write_csv()
    text = (good / "manifest.json").read_bytes()
    for i in range(count):
        copy = folder / f"results{i % 7}"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(good, copy)
        manifest = copy / "manifest.json"
        if i % 4 == 0:
            manifest.write_bytes(damaged(text, draw))
        elif i % 4 == 3:
            _litter(copy, draw)
        else:
            content = changed(json.loads(text), draw)
            if i % 4 == 1:
                _sign(content)
            manifest.write_text(json.dumps(content), encoding="utf-8", errors="surrogatepass")
        before = contents(folder)
        tally.attempt(f"status {i}", lambda copy=copy: status(copy), (str(copy),))
        frame: Any = tally.attempt(f"export {i}", lambda copy=copy: load(copy).frame(), (str(copy),))
        if frame is not None and i % 4 != 1:  # with a forged digest, policies may have any names
            tally.expect(frame.write_csv() == csv, f"folder {i} exports other numbers")
        if i % 8 == 0:
            for words in (("status", copy), ("export", copy, "--out", copy / "x.csv"), ("claims", copy)):
                tally.command(*words)
            (copy / "x.csv").unlink(missing_ok=True)
        tally.expect(contents(folder) == before, f"folder {i}: reading changed a file")
    return tally


def _sign(content: Any) -> None:
    with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
        content["digest"] = manifest_digest(content)


def _litter(results: Path, draw: np.random.Generator) -> None:
    """Put something into a results folder that does not belong there, or take something away."""
    blocks, kind = results / "blocks", draw.integers(10)
    some = sorted(blocks.glob("*.parquet"))[int(draw.integers(4))]
    if kind == 0:
        (blocks / "holiday.parquet").write_bytes(b"PAR1 holiday PAR1")
    elif kind == 1:
        (blocks / ".lock").write_bytes(draw.bytes(200))
    elif kind == 2:
        shutil.rmtree(blocks)
        blocks.write_text("a file")
    elif kind == 3:
        some.rename(blocks / f"{some.stem[:21]}000000-999999999999.parquet")
    elif kind == 4:
        some.rename(blocks / f"{some.stem[:-6]}000001.parquet")
    elif kind == 5:
        some.unlink()
        some.mkdir()
    elif kind == 6:
        some.unlink()
        os.symlink(results / "nowhere", some)
    elif kind == 7 and hasattr(os, "mkfifo"):  # opening it would wait for somebody who writes
        some.unlink()
        os.mkfifo(some)
    elif kind == 8:  # it has no end
        some.unlink()
        os.symlink("/dev/zero", some)
    else:
        (results / "manifest.json").unlink()
        (results / "manifest.json").mkdir()


def damaged_blocks(count: int, folder: Path) -> Tally:
    """Blocks with damaged bytes: each is noticed, and nothing else is changed by reading; running mends it."""
    tally, draw = Tally(), generator(3)
    good = small_folder(folder / "good")
    csv, before = load(good).frame().write_csv(), contents(good)
    paths = sorted((good / "blocks").glob("*.parquet"))
    for i in range(count):
        path = paths[i % len(paths)]
        data = path.read_bytes()
        bad = damaged(data, draw)
        path.write_bytes(bad)
        frame: Any = tally.attempt(f"block {i}", lambda: load(good).frame(), (path.name,))
        if bad != data:
            tally.expect(frame is None, f"block {i}: damage went unseen")
        elif frame is not None:
            tally.expect(frame.write_csv() == csv, f"block {i}: other numbers")
        if i % 100 == 0:
            tally.attempt(f"mending block {i}", lambda: small_folder(good))
            if path.read_bytes() != data and b'"block": "' not in bad:  # then it looks like a file of another program
                path.write_bytes(data)
            tally.expect(contents(good) == before, f"block {i}: running did not mend it")
        path.write_bytes(data)
    return tally


def learner_files(count: int, folder: Path) -> Tally:
    """Saved learners with damaged bytes: refused, or they go on as the saved one."""
    tally, draw = Tally(), generator(4)
    problem = adadim.Problem(np.eye(4)[:, :3] * 0.9, horizon=40, noise=0.1, reward_range=1.0)
    chosen = [kind() for name, kind in policies.kinds().items() if name not in ("Single",)]
    file = folder / "learner.npz"
    saved = []
    for policy in chosen:
        learner = policy.start(problem, seed=5)
        for _ in range(12):
            learner.update(learner.select(), 0.5)
        learner.save(file)
        saved.append((policy, file.read_bytes(), _goes_on(adadim.load(file, problem))))
    for i in range(count):
        policy, data, wanted = saved[i % len(saved)]
        file.write_bytes(damaged(data, draw))
        arms = tally.attempt(f"{policy} {i}", lambda: _goes_on(adadim.load(file, problem)), ("learner.npz",))
        if arms is not None:
            tally.expect(arms == wanted, f"learner {i} of {policy}: goes on otherwise")
    return tally


def forged_learners(count: int, folder: Path) -> Tally:
    """Saved learners with forged arrays or headers, with their own digest or a new one.

    With the old digest all are refused when they are loaded. With a new one those are that no learner can have: other
    shapes and types, NaN, infinity, positions of nothing. What has other numbers than it had plays, if there are any.
    """
    tally, draw = Tally(), generator(5)
    file = folder / "forged.npz"
    saved = [(*one, *_parts(file)) for one in _waiting_learners(file)]
    for i in range(count):
        policy, problem, wanted, header, arrays = saved[i % len(saved)]
        forged_header, forged, kind = _forged(header, arrays, draw)
        signed = i // len(saved) % 4 > 0
        if signed and isinstance(forged_header, dict):
            forged_header["digest"] = learner_digest(forged_header, forged)
        _write_parts(file, forged_header, forged)
        what = f"{type(policy).__name__} {i}, {kind}, {'with a new digest' if signed else ''}"
        load = functools.partial(adadim.load, file, problem, policy)
        learner: Any = tally.attempt(what, load, ("forged.npz",))
        same = kind == "nothing"
        tally.expect((learner is not None) == same or (signed and kind in CAN_BE), f"{what}: {learner and 'loaded'}")
        if learner is not None:
            # Other numbers need not be a regression, nor probabilities: logarithms, roots and draws may fail.
            numerical = (ValueError, ArithmeticError)
            fails = {"integers": numerical, "values": (*numerical, IndexError), "header": (Exception,)}.get(kind, ())
            arms = tally.attempt(f"{what}: plays", lambda learner=learner, fails=fails: _plays(learner, fails))
            tally.expect(arms == wanted or not same, f"{what}: goes on otherwise")
    return tally


UNKNOWN_IS_NAN = ("squares", "noise", "radii")
CAN_BE = ("integers", "values", "header")  # forgeries that may fit together, so that a new digest makes them learners


def _forged(header: Any, arrays: dict[str, Any], draw: np.random.Generator) -> tuple[Any, dict[str, Any], str]:
    """A header and arrays of which one is forged, and how."""
    if draw.random() < 0.15:
        other = changed(header, draw)
        return other, dict(arrays), "nothing" if json.dumps(other) == json.dumps(header) else "header"
    name = list(arrays)[int(draw.integers(len(arrays)))]
    other, kind = _forged_array(arrays[name], draw)
    if kind == "not finite" and np.isnan(other).any() and name in _arrays_of(header["state"], UNKNOWN_IS_NAN):
        kind = "values"
    if kind == "type" and name in _arrays_of(header["state"], ("_open", "_selected")):  # of a memo no type is known
        kind = "values"
    return dict(header), {**arrays, name: other}, kind


def _arrays_of(tree: Any, attributes: tuple[str, ...], inside: bool = False) -> set[str]:
    """Names of the arrays that a state has in attributes of these names."""
    if isinstance(tree, dict) and tree.keys() == {"array"}:
        return {tree["array"]} if inside else set()
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return set().union(*(_arrays_of(part, attributes, inside or key in attributes) for key, part in pairs))


def _waiting_learners(file: Path) -> Iterator[tuple[Any, adadim.Problem, list[int] | None]]:
    """Every policy in the midst of play, with open decisions where it takes late rewards; each is saved to the file."""
    known = {"horizon": 100, "noise": 0.1, "reward_range": 1.0}
    features = np.random.default_rng(0).standard_normal((6, 4)) / 3
    offers = {
        "fixed": adadim.Problem(features, **known),
        "contexts": adadim.Problem(arms=6, dim=4, **known),
        "disjoint": adadim.Problem(arms=6, dim=4, disjoint=True, **known),
        "arriving": adadim.Problem(features, arrives=[1, 1, 1, 4, 8, 100], **known),
    }
    for name, kind in policies.kinds().items():
        for problem in offers.values() if name != "Single" else ():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a guarantee that does not hold there
                try:
                    learner = kind().start(problem, seed=5)
                except adadim.AdadimError:
                    continue
            waiting = []
            for t in range(22):
                waiting.append(learner.ask(*_offered(problem, t)))
                if len(waiting) > 2 * learner.takes_late_rewards:
                    learner.tell(waiting.pop(0), 0.1 * (t % 5))
            if learner.takes_late_rewards:
                learner.select(*_offered(problem, 22))
            learner.save(file)
            yield learner.policy, problem, _plays(adadim.load(file, problem))


def _offered(problem: adadim.Problem, t: int) -> list[Any]:
    """What comes with round `t`, if anything does."""
    shape = (4,) if problem.disjoint else (6, 4)
    return [np.random.default_rng(t).standard_normal(shape) / 3] if problem.contextual or problem.disjoint else []


def _plays(learner: adadim.Learner, fails: tuple[type[Exception], ...] = ()) -> list[int] | None:
    """The arms of some rounds, after the decisions that wait were answered; None if one of the errors came up."""
    chosen = []
    try:
        learner.answer_open()
        learner._open.clear()
        learner._uncounted.clear()
        for t in range(12):
            chosen.append(int(learner.select(*_offered(learner.problem, t))))
            learner.update(chosen[-1], math.sin(t))
    except fails:
        return None
    return chosen


def _forged_array(array: np.ndarray[Any, Any], draw: np.random.Generator) -> tuple[np.ndarray[Any, Any], str]:
    """An array with another shape, type or values, and which of them."""
    kind, at = draw.integers(5), int(draw.integers(max(1, array.size)))
    if kind == 0:
        shapes = [(*array.shape, 1), (2, *array.shape), (1, *array.shape), (*array.shape[:-1], array.shape[-1] + 1)]
        shapes += [(array.shape[0] + 3, *array.shape[1:]), (*array.shape[:-1], 0 if array.size else 2)]
        shapes = [shape for shape in shapes if shape != array.shape]
        return np.resize(array, shapes[int(draw.integers(len(shapes)))]), "shape"
    if kind == 1:
        others = [name for name in TYPES if np.dtype(name) != array.dtype]
        whole = np.nan_to_num(array.astype(float), posinf=0.0, neginf=0.0).astype(np.int64)
        return whole.astype(others[int(draw.integers(len(others)))]), "type"
    if not array.size:
        return array, "nothing"
    if kind == 2 and array.dtype.kind == "f":
        forged = array.copy()
        forged.flat[at] = (np.nan, np.inf, -np.inf)[int(draw.integers(3))]
    elif kind == 3 and array.dtype.kind != "b":
        forged = array.copy()
        forged.flat[at] = (0, -1, 1, 2**31, 2**62, -(2**62))[int(draw.integers(6))]
    else:
        data = bytearray(array.tobytes())
        data[int(draw.integers(len(data)))] ^= 1 << int(draw.integers(8))
        forged = np.frombuffer(bytes(data), array.dtype).reshape(array.shape)
    if forged.tobytes() == array.tobytes():
        return forged, "nothing"
    if np.isfinite(forged).all() or not np.isfinite(array).all():
        return forged, "values" if array.dtype.kind == "f" else "integers"
    return forged, "not finite"


def _parts(file: Path) -> tuple[Any, dict[str, Any]]:
    """Header and arrays of a learner file."""
    with np.load(file) as archive:
        arrays = {name.removeprefix("a"): archive[name] for name in archive.files if name != "json"}
        return json.loads(archive["json"].tobytes()), arrays


def _write_parts(file: Path, header: Any, arrays: dict[str, Any]) -> None:
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(file, json=text, **{f"a{name}": array for name, array in arrays.items()})


def _goes_on(learner: adadim.Learner) -> list[int]:
    arms = []
    for t in range(8):
        arm = learner.select()
        learner.update(arm, math.sin(t))
        arms.append(int(arm))
    return arms
