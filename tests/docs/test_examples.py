"""The examples run, at a reduced size, and show what they say."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import runpy
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import adadim
from adadim import study
from adadim.experiments import comparison
from browsers import SKIPPED, find_chromium
from command_line import adadim_

EXAMPLES = Path(__file__).parents[2] / "examples"
PNG = b"\x89PNG\r\n\x1a\n"


SETTINGS = {"COLUMNS": "80", "TERM": "dumb"}


def run(name, *arguments, cwd):
    """An example as a script, in this process: most of its time as a process of its own would go into imports."""
    call, code, output, errors = [str(EXAMPLES / name), *map(str, arguments)], 0, io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        patch.chdir(cwd)
        patch.setattr(sys, "argv", call)
        for key, value in SETTINGS.items():
            patch.setenv(key, value)
        warnings.simplefilter("default")
        try:
            runpy.run_path(call[0], run_name="__main__")
        except SystemExit as end:
            code = end.code or 0
    assert "…" not in output.getvalue()  # names are whole, also in 80 columns
    return subprocess.CompletedProcess(call, code, output.getvalue(), errors.getvalue())


def run_process(name, *arguments, cwd, **environment):
    """An example as a process of its own."""
    call = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    settings = {**os.environ, **SETTINGS, **environment}
    return subprocess.run(call, cwd=cwd, env=settings, capture_output=True, text=True, timeout=120)


def table(text):
    """Rows of a printed table, by their first cell; a line without a last cell belongs to the row before it."""
    rows = []
    for line in text.splitlines():
        if line.startswith("│"):
            cells = [cell.strip() for cell in line.split("│")[1:-1]]
            if cells[-1] or not rows:
                rows.append(cells)
            else:
                rows[-1] = [f"{before} {cell}".strip() for before, cell in zip(rows[-1], cells, strict=True)]
    return {row[0]: row[1:] for row in rows}


def test_every_example_is_tested():
    tests = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    names = [path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".toml")]
    assert {"demo.py", "digits.py", "my_policy.py", "my_study.toml"} <= set(names)
    assert [name for name in names if f'"{name}"' not in tests] == []


def test_demo(tmp_path):
    done = run("demo.py", "--horizon", 200, "--trials", 2, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "demo.png").read_bytes().startswith(PNG)
    assert "wrote out/demo.png" in done.stdout
    assert "Regret after 200 rounds, 2 replications" in done.stdout
    rows = table(done.stdout)
    assert len(rows) == 6
    assert float(rows["recommended"][0]) < float(rows["LinUCB++"][0])
    assert float(rows["LinUCB++"][2]) < float(rows["LinUCB++"][0])  # tuned
    told, untold = rows["LinUCB, told d* = 4"], rows["LinUCB, all features"]
    assert float(told[0]) < float(untold[0]) / 2
    instance = adadim.instances.sphere(arms=300, dim=150, intrinsic_dim=4, horizon=200, replications=range(2))
    final = adadim.simulate(adadim.LinUCBPlusPlus(), instance).final
    half = 12.7062 * final.std(ddof=1) / np.sqrt(2)  # Student's t with one degree of freedom
    assert rows["LinUCB++"][:2] == [f"{final.mean():.1f}", f"{final.mean() - half:.1f} to {final.mean() + half:.1f}"]


def test_late(tmp_path):
    done = run("late.py", "--horizon", 150, "--trials", 2, "--jobs", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "late.png").read_bytes().startswith(PNG)
    rows = table(done.stdout)
    assert len(rows) == 9
    instance = adadim.instances.sphere(
        arms=60, dim=20, intrinsic_dim=4, horizon=150, noise=0.3, replications=range(2), delay=30
    )
    assert rows["LinUCB"][2] == f"{adadim.simulate(adadim.LinUCB(), instance).final.mean():.0f}"  # of 0, 10, 30, 100


def test_certified(tmp_path):
    done = run("certified.py", "--trials", 2, "--horizon", 32, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("mu = 1 ") == 6
    assert done.stdout.count("the optimist of") == 2


def test_needed_radius(tmp_path):
    done = run("needed_radius.py", "--trials", 2, "--horizon", 20, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "proved" in done.stdout


def test_guarded(tmp_path):
    done = run("guarded.py", "--trials", 1, "--horizon", 32, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mean regret after 32 rounds, 1 trials" in done.stdout
    assert "LinUCB in" in done.stdout


def test_late_families(tmp_path, monkeypatch):
    name = "late-100-contexts-correlated-flip-10/60"
    (family,) = [family for family in comparison.FAMILIES if family.name == name]
    monkeypatch.setattr(comparison, "FAMILIES", [replace(family, instance={**family.instance, "horizon": 1000})])
    done = run("late_families.py", "--trials", 1, "--family", name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ((group, (family, *shares)),) = table(done.stdout).items()
    assert (group, family.replace(" ", "")) == ("late", name)
    assert all(0.5 < float(share) < 1.2 for share in shares)


@pytest.mark.parametrize("units", [[], ["--raw"]], ids=["like units", "raw units"])
def test_homepage(units, tmp_path):
    done = run("homepage.py", "--rounds", 1500, *units, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    clicks = {name: float(cells[0]) for name, cells in table(done.stdout).items()}
    assert clicks["chance"] < clicks["told at once"] < clicks["best possible"]
    assert clicks["told late"] < clicks["told at once"]
    kept = (clicks["told late"] - clicks["chance"]) / (clicks["told at once"] - clicks["chance"])
    assert abs(float(re.search(r"keeps (-?[0-9.]+) of what", done.stdout)[1]) - kept) < 0.02


def test_clicks(tmp_path):
    done = run("clicks.py", "--rounds", 1200, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    cells = table(done.stdout)
    packages = {"bayesianbandits, by hand": "bayesianbandits", "Vowpal Wabbit, by hand": "vowpalwabbit"}
    absent = {name for name, package in packages.items() if importlib.util.find_spec(package) is None}
    assert len(cells) == 11
    assert {name for name, row in cells.items() if row[0] == "not installed"} == absent
    rows = {name: [float(cell) for cell in row] for name, row in cells.items() if name not in absent}
    best = rows["best possible"]
    assert best[1] == best[3] == 1
    for stays, share, changes, share_of_changing in rows.values():
        assert 0 < stays <= best[0]
        assert 0 < changes <= best[2]
        assert (share, share_of_changing) == pytest.approx((stays / best[0], changes / best[2]), abs=0.005)
    assert rows["agent of clicks"] == rows["memory=None"]  # no change is noticed before most clicks are told
    assert min(rows["agent of clicks"][0], rows["features by hand"][0]) > 2 * rows["random"][0]


def test_the_home_page_of_clicks_changes_half_way():
    page = runpy.run_path(str(EXAMPLES / "clicks.py"))["HomePage"]
    stays, changes = page(3, rounds=100), page(3, rounds=100, drift="once")
    same = [np.array_equal(stays.probabilities(t), changes.probabilities(t)) for t in range(100)]
    assert same == [True] * 50 + [False] * 50


def test_growing(tmp_path):
    done = run("growing.py", "--horizon", 120, "--trials", 2, "--arms", 30, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = table(done.stdout)
    there = adadim.instances.growing(
        arms=30, dim=100, intrinsic_dim=4, horizon=120, initial_arms=20, best=60, replications=range(2)
    )
    final = adadim.simulate(adadim.LinUCBPlusPlus(), there).final
    assert rows["LinUCB++"][2].startswith(f"{final.mean():.1f} ")


def test_demo_with_one_trial(tmp_path):
    done = run_process("demo.py", "--horizon", 20, "--trials", 1, "--out", "elsewhere", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "elsewhere" / "demo.png").exists()


@pytest.mark.parametrize("plain", [False, True])
def test_digits(tmp_path, plain):
    pytest.importorskip("sklearn")
    flags = ["--plain"] if plain else []
    done = run("digits.py", "--horizon", 300, "--trials", 2, "--images", 600, *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "digits.png").read_bytes().startswith(PNG)
    rows = table(done.stdout)
    dim = 65 if plain else 201
    chance = [float(cell.split()[0]) for cell in rows["at random"]]
    ends = {name: [float(cell.split()[0]) for cell in cells] for name, cells in rows.items() if "+/-" in cells[0]}
    assert len(ends) == 5
    assert chance == pytest.approx([0.8 * 0.9 * 300] * 2, rel=0.1)
    # What the text says: three features do for threes, and not for eights; seventeen for both; the rest lies between.
    assert ends["LinUCB, first 3"][0] < 0.2 * chance[0]
    assert ends["LinUCB, first 3"][1] > 0.9 * chance[1]
    assert max(ends["LinUCB, first 17"]) < min(ends[f"LinUCB, all {dim} features"])
    assert max(ends["LinUCB++"]) < max(chance)
    shares = [[int(cell.rstrip("%")) for cell in rows[f"explained by the first {count}"]] for count in (3, 17, dim)]
    assert (np.diff(shares, axis=0) > 0).all()
    assert shares[0][1] < 10 < shares[1][1]


def test_digits_without_scikit_learn(tmp_path):
    (tmp_path / "sklearn").mkdir()
    (tmp_path / "sklearn" / "__init__.py").write_text("raise ImportError('not here')\n")
    done = run_process("digits.py", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "this example needs scikit-learn: pip install scikit-learn\n"


def test_actg175(tmp_path):
    if importlib.util.find_spec("lifelines") is None:
        pytest.skip("lifelines is not installed: pip install --no-deps lifelines")
    done = run("actg175.py", "--shuffles", 3, "--orders", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "actg175.png").read_bytes().startswith(PNG)
    reached = {name: float(cells[0].split()[0]) for name, cells in table(done.stdout).items()}
    assert len(reached) == 16
    # What the text says: covariates cost LinUCB, with either radius; EvidenceLinUCB beats LinUCB with all.
    for scale in ("1", "0.35"):
        assert reached[f"LinUCB({scale}), no covariates"] > reached[f"LinUCB({scale}), and lab: all"] + 4
    assert reached["EvidenceLinUCB"] > reached["LinUCB(1), and lab: all"] + 4
    assert reached["at random"] == pytest.approx(371, abs=6)
    assert "counted first: 20 of 80 features matter, up to 'arm'," in done.stdout
    assert "a model for each treatment: 65 of 65 features matter" in done.stdout


def test_labels(tmp_path):
    pytest.importorskip("sklearn")
    done = run("labels.py", "--rounds", 300, "--trials", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    wrong = {name: float(cells[0].split()[0]) for name, cells in table(done.stdout).items()}
    assert wrong["at random"] == pytest.approx(270, abs=20)
    assert wrong["LinUCB(scale=0.35), 5 components"] < wrong["LinUCB(scale=0.35), 61 components"] - 20
    assert re.search(r"matter: components up to pc\d+ \(90%: pc\d+ to pc\d+\)", done.stdout)


def test_a_policy_of_ones_own(tmp_path, monkeypatch, one_format):
    text = (EXAMPLES / "my_study.toml").read_text()
    (call,) = re.findall(r"^# adadim (run .*)$", text, re.MULTILINE)
    assert call in (EXAMPLES / "my_policy.py").read_text()
    monkeypatch.chdir(EXAMPLES.parent)
    _, error = adadim_(*call.split(), "--trials", 2, "--jobs", 2, "--out", tmp_path / "results")
    assert error == ""
    results = study.load(tmp_path / "results")
    assert results.policies == ("epsilon 0.05", "epsilon 0.2", "LinUCB", "LinUCB++", "oracle")
    assert study.status(tmp_path / "results").complete
    assert (tmp_path / "results" / "figures" / "my_study.png").exists()


def test_the_policy_does_what_it_says():
    kind = study.load_plugin(EXAMPLES / "my_policy.py")["EpsilonGreedy"]
    assert (kind(), kind(epsilon=0.5)) == (kind(epsilon=0.05), kind(0.5))
    instance = adadim.instances.sphere(arms=40, dim=8, intrinsic_dim=2, horizon=400, replications=range(5))
    greedy, wild = (adadim.simulate(kind(epsilon=e), instance) for e in (0.0, 1.0))
    assert (wild.pulls > 0).mean() > 0.99  # any arm
    assert wild.final.mean() > 2 * adadim.simulate(kind(), instance).final.mean()
    # What it learns is a ridge regression on all that it pulled.
    for r, learner in enumerate(greedy.learner.learners):
        counts, features = greedy.pulls[r], instance.problem.actions.base[r]
        design = features.T @ (counts[:, None] * features) + 0.1 * np.eye(8)
        np.testing.assert_allclose(learner.inverse, np.linalg.inv(design), rtol=1e-6, atol=1e-9)
    alone = adadim.instances.sphere(arms=40, dim=8, intrinsic_dim=2, horizon=400, replications=[3])
    np.testing.assert_array_equal(
        adadim.simulate(kind(0.1), alone).final, adadim.simulate(kind(0.1), instance).final[3:4]
    )


def test_the_first_study(tmp_path, monkeypatch, one_format):
    text = (EXAMPLES / "first_study.toml").read_text()
    (call,) = re.findall(r"^# adadim (run .*)$", text, re.MULTILINE)
    monkeypatch.chdir(EXAMPLES.parent)
    _, error = adadim_(*call.split(), "--trials", 1, "--jobs", 1, "--quiet", "--out", tmp_path / "results")
    assert error == ""
    assert (tmp_path / "results" / "figures" / "first_study.png").read_bytes().startswith(PNG)


# The vectorised policy


def vectorised(**parameters):
    return study.load_plugin(EXAMPLES / "vectorised_policy.py")["WidthUCB"](**parameters)


def test_the_vectorised_policy_is_short_and_names_no_device():
    text = (EXAMPLES / "vectorised_policy.py").read_text()
    assert len(text.splitlines()) <= 40
    assert not re.search(r"\b(import|from) +_|\._[a-z]|torch|cuda|gpu|device|kernel|mask", text, re.IGNORECASE)
    walk_through = (EXAMPLES.parent / "docs" / "architecture.md").read_text()
    assert text.partition('"""\n\n')[2] in walk_through


def test_the_vectorised_policy_runs_in_a_study(tmp_path, monkeypatch, one_format):
    text = (EXAMPLES / "vectorised_study.toml").read_text()
    (call,) = re.findall(r"^# adadim (run .*)$", text, re.MULTILINE)
    assert call in (EXAMPLES / "vectorised_policy.py").read_text()
    monkeypatch.chdir(EXAMPLES.parent)
    _, error = adadim_(*call.split(), "--trials", 2, "--jobs", 1, "--out", tmp_path / "results")
    assert error == ""
    assert study.load(tmp_path / "results").policies == ("width 0.5", "width 0.1", "UCB", "LinUCB")


def test_the_vectorised_policy_chooses_the_same_on_torch(torch):
    instance = adadim.instances.sphere(arms=20, dim=6, intrinsic_dim=2, horizon=200, replications=range(3))
    ours, theirs = (adadim.simulate(vectorised(), which, seed=1) for which in (instance, instance.to("cpu")))
    np.testing.assert_array_equal(ours.pulls, theirs.pulls)
    assert ours.learner.sequence() == "WidthUCBLearner"  # so its rounds can be recorded


def test_the_vectorised_policy_by_hand():
    """Mean plus width / sqrt(pulls), an arm never pulled counting as pulled once."""
    learner = vectorised(width=0.5).start(adadim.Problem(np.eye(3), horizon=20))
    learner.learn([0, 0, 1, 1, 1, 1, 2], [0.4, 0.2, 0.5, 0.5, 0.5, 0.5, 0.0])
    scores = {0: 0.3 + 0.5 / 2**0.5, 1: 0.5 + 0.5 / 2, 2: 0.5}
    assert learner.select() == max(scores, key=scores.get)


def test_the_vectorised_policy_under_a_master_and_in_a_file(tmp_path, torch):
    instance = adadim.instances.sphere(arms=20, dim=6, intrinsic_dim=2, horizon=60, replications=range(3))
    master = adadim.SmoothCorral(bases=(vectorised(), adadim.LinUCB()))
    ours, theirs = (adadim.simulate(master, which, seed=1) for which in (instance, instance.to("cpu")))
    np.testing.assert_array_equal(ours.pulls, theirs.pulls)
    ours.learner.save(tmp_path / "learner")
    plugins = study.load_plugin(EXAMPLES / "vectorised_policy.py")
    restored = adadim.load(tmp_path / "learner", instance.problem, plugins=plugins)
    assert restored.select().tolist() == ours.learner.select().tolist()


def test_the_live_page_of_a_shop(tmp_path):
    if find_chromium() is None:
        pytest.skip(SKIPPED)
    for package in ("fastapi", "uvicorn", "selenium"):
        pytest.importorskip(package)
    done = run_process("live_page.py", "--picture", "page.png", "--days", 2, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "wrote page.png\n"), done.stderr
    assert (tmp_path / "page.png").read_bytes().startswith(PNG)


def test_the_list_of_examples_is_complete():
    linked = set(re.findall(r"\]\(([^)]+)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8")))
    there = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".toml")} | {"compose/README.md"}
    assert linked == there
