"""Results know which code made them: blocks carry a digest of the source, and another's are never served as new."""

from __future__ import annotations

import ast
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from small_studies import blocks, contents, done_by, one_instance
from test_store_folder import forged

import adadim
from adadim.study import MadeBy, StoreError, StudyError, load, run, source, status, store

PACKAGE = Path(adadim.__file__).parent
STUDY = """
trials = 3

[instances.easy]
kind = "sphere"
arms = 20
dim = 6
intrinsic_dim = 2
horizon = 60

[policies.LinUCB]
kind = "LinUCB"
"""
SAID = "blocks were computed by another source than this"


def copied(folder: Path, caches: bool = False) -> Path:
    """The package in another place."""
    left_out = shutil.ignore_patterns(*([] if caches else ["__pycache__"]))
    return shutil.copytree(PACKAGE, folder / "adadim", ignore=left_out)


# Calls the command for each line of words, in one process, which imports once.
COMMANDS = """
import json, sys
from typer.testing import CliRunner
from adadim import cli
from adadim.report import figures

figures.FORMATS = ['png']
for line in sys.stdin:
    result = CliRunner().invoke(cli.app, json.loads(line))
    print(json.dumps([result.exit_code, result.stdout, result.stderr]), flush=True)
"""


class CommandOf:
    """The command of a copy of the package, as it is when this is made; gives exit code, output and errors."""

    def __init__(self, package: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(package.parent), "COLUMNS": "500"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMANDS],
            cwd=package.parents[1],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self.process.stdin.write(json.dumps(arguments) + "\n")
        return tuple(json.loads(self.process.stdout.readline()))

    def __enter__(self) -> CommandOf:
        return self

    def __exit__(self, *_: object) -> None:
        with self.process:
            self.process.stdin.close()


def computed_by(monkeypatch, folder, made_by, study=None, **options):
    """Run a study as another source would."""
    with monkeypatch.context() as patch:
        patch.setattr(store, "present", lambda: made_by)
        patch.setattr(source, "present", lambda: made_by)
        run(study or one_instance(), folder, jobs=1, batch=2, **options)


def without_source(path):
    """Make a block what adadim 0.2 wrote."""
    meta = json.loads(pl.read_parquet_metadata(path)["adadim"])
    forged(path, lambda frame: frame, {key: value for key, value in meta.items() if key != "source"})


def test_a_changed_policy_is_never_served_as_before_and_a_changed_comment_is(tmp_path):
    package = copied(tmp_path / "site", caches=True)
    (tmp_path / "study.toml").write_text(STUDY)
    ran = ("run", "study.toml", "--out", "results", "--jobs", "1", "--quiet")
    with CommandOf(package) as command:
        assert command(*ran) == (0, "", "")
    before = contents(tmp_path / "results")
    file = package / "policies" / "confidence.py"
    file.write_text(file.read_text().replace('"""Radius by', '"""The radius by') + "# a comment\n")
    with CommandOf(package) as command:
        assert command(*ran) == (0, "", "")
    assert contents(tmp_path / "results") == before
    file.write_text(file.read_text().replace("score *= radius", "score *= 0.5 * radius"))

    with CommandOf(package) as command:
        code, _, error = command(*ran)
        assert code == 2
        for words in (SAID, "--fresh", "--keep"):
            assert words in error
        assert error.count("\n") == 1
        assert contents(tmp_path / "results") == before
        code, printed, _ = command("status", "results")
        assert code == 0
        assert "(not the present one)" in printed

        (block,) = blocks(tmp_path / "results")
        assert command(*ran, "--keep")[0] == 0
        assert block.read_bytes() == before[f"blocks/{block.name}"]
        assert command(*ran, "--fresh")[0] == 0
        assert command(*ran)[0] == 0
        assert not pl.read_parquet(block).equals(pl.read_parquet(io.BytesIO(before[f"blocks/{block.name}"])))
        (told,) = json.loads(command("status", "results", "--json")[1])
    assert told["current"] is True
    assert [entry["source"] for entry in told["made_by"]] == [source.digest_of(source.source_files(package), package)]


def test_a_block_says_what_computed_it(folder):
    for path in blocks(folder):
        meta = json.loads(pl.read_parquet_metadata(path)["adadim"])
        assert (meta["adadim"], meta["source"]) == (adadim.__version__, source.present().source)
    assert status(folder).made_by == {MadeBy(adadim.__version__, source.present().source): 4}
    assert status(folder).current
    assert status(folder) in {status(folder)}


@pytest.mark.parametrize("known", [True, False])
def test_blocks_of_another_source_are_refused_kept_or_computed_again(folder, tmp_path, monkeypatch, known):
    good, other = contents(folder), tmp_path / "other"
    computed_by(monkeypatch, other, MadeBy("0.2.0", "0123456789ab"))
    if not known:
        for path in blocks(other):
            without_source(path)
    before, made_by = contents(other), MadeBy("0.2.0", "0123456789ab" if known else None)
    assert (status(other).made_by, status(other).current) == ({made_by: 4}, False)
    with pytest.raises(StoreError) as caught:
        run(one_instance(), other, jobs=1, batch=2)
    assert f"4 of 4 {SAID}" in str(caught.value)
    assert str(made_by) in str(caught.value)
    assert "--fresh (fresh=True) computes them again, --keep (keep=True) uses them" in str(caught.value)
    assert contents(other) == before

    assert done_by(one_instance(), other, jobs=1, batch=2, keep=True) == []
    assert contents(other)["blocks/" + blocks(other)[0].name] == before["blocks/" + blocks(other)[0].name]
    assert load(other).frame().equals(load(folder).frame())  # old results are read as ever

    assert len(done_by(one_instance(), other, jobs=1, batch=2, fresh=True)) == 4
    assert contents(other) == good
    assert done_by(one_instance(), other, jobs=1, batch=2) == []


def test_only_what_another_source_computed_is_computed_again(folder, monkeypatch):
    more = one_instance(trials=6)
    computed_by(monkeypatch, folder, MadeBy("9.0", "f" * 12), more, keep=True)
    assert set(status(folder).made_by) == {source.present(), MadeBy("9.0", "f" * 12)}
    with pytest.raises(StoreError, match=f"2 of 6 {SAID}"):
        run(more, folder, jobs=1, batch=2)
    assert {unit.start for unit in done_by(more, folder, jobs=1, batch=2, fresh=True)} == {4}
    assert status(folder).current


def test_blocks_that_the_study_does_not_use_do_not_matter(folder, monkeypatch):
    computed_by(monkeypatch, folder, MadeBy("9.0", "f" * 12), one_instance(seed=5))
    run(one_instance(), folder, jobs=1, batch=2)
    assert status(folder).current
    assert status(folder).unused == 4


def test_what_computed_a_block_is_no_part_of_its_name(folder, tmp_path, monkeypatch):
    computed_by(monkeypatch, tmp_path / "other", MadeBy("9.0", "f" * 12))
    assert [path.name for path in blocks(folder)] == [path.name for path in blocks(tmp_path / "other")]


def test_one_of_the_two_is_asked_for(tmp_path):
    with pytest.raises(StudyError, match="fresh, keep: blocks of another source are computed again or kept, not both"):
        run(one_instance(), tmp_path, fresh=True, keep=True)


def test_a_source_that_is_no_text_is_refused(folder):
    path = blocks(folder)[0]
    meta = json.loads(pl.read_parquet_metadata(path)["adadim"])
    forged(path, lambda frame: frame, {**meta, "source": 7})
    with pytest.raises(StoreError, match="source must be a string, got 7"):
        run(one_instance(), folder, jobs=1, batch=2)


def test_the_digest_is_the_same_wherever_the_package_is(tmp_path):
    package = copied(tmp_path)
    for file in package.rglob("*.py"):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    cache = package / "policies" / "__pycache__"
    cache.mkdir()
    (cache / "base.cpython-311.pyc").write_bytes(b"anything")
    assert source.digest_of(reversed(source.source_files(package)), package) == source.present().source


def test_what_can_change_a_number_is_in_the_digest(tmp_path):
    package = copied(tmp_path)
    deciding = {file.relative_to(package).as_posix() for file in source.source_files(package)}
    assert deciding >= {
        "policies/masters/corral.py",
        "models/fixed.py",
        "instances/drawn.py",
        "play/simulate.py",
        "core/randomness.py",
        "theory.py",
    }
    assert not deciding & {"core/display.py", "study/store.py", "report/figures.py"}
    with (package / "theory.py").open("a") as file:
        file.write("number = 1\n")
    assert source.digest_of(source.source_files(package), package) != source.present().source


def test_comments_docstrings_and_layout_are_not_in_the_digest(tmp_path):
    package = copied(tmp_path)
    for file in source.source_files(package):
        text = ast.unparse(ast.parse(file.read_text()))  # comments go, and the layout is another
        file.write_text(f'"""Another docstring."""\n{text}\n# a comment\n')
    assert source.digest_of(source.source_files(package), package) == source.present().source


def test_what_is_left_out_is_there():
    assert [name for name in source.EXCLUDED if not (PACKAGE / name).is_file()] == []
    assert [name for name in source.ROOMS if not (PACKAGE / name).exists()] == []


def test_two_files_cannot_trade_places(tmp_path):
    (tmp_path / "a.py").write_text("one\n")
    (tmp_path / "b.py").write_text("two\n")
    first = source.digest_of(tmp_path.glob("*.py"), tmp_path)
    (tmp_path / "a.py").write_text("one\nb.py\n4\ntwo\n")
    (tmp_path / "b.py").unlink()
    assert source.digest_of(tmp_path.glob("*.py"), tmp_path) != first
