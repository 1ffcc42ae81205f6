"""Study files, results folders, blocks and learner files, damaged in every way."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import adadim
from adadim import policies
from adadim.core.codec import to_toml
from adadim.study import Study, load, status
from adadim.study.store import manifest_digest
from attack.damage import changed, damaged, generator
from attack.tally import Tally
from attack.worlds import TABLE, contents, small_folder, study

KEYS = ("mine.toml", "instances", "policies", "trials", "seed", "record", "only", "labels", "name", "plugins")


def study_files(count: int, folder: Path) -> Tally:
    """TOML files with changed tables and with damaged bytes: refused as a study, or a study that can be checked."""
    tally, draw = Tally(), generator(1)
    file = folder / "mine.toml"
    good = study().to_toml().encode()
    for i in range(count):
        if i % 2:
            file.write_bytes(damaged(good, draw))
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
    blocks, kind = results / "blocks", draw.integers(8)
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


def _goes_on(learner: adadim.Learner) -> list[int]:
    arms = []
    for t in range(8):
        arm = learner.select()
        learner.update(arm, math.sin(t))
        arms.append(int(arm))
    return arms
