"""Paths and names mean themselves: no character of a folder's name stands for others, no study writes elsewhere."""

from __future__ import annotations

import json

import pytest
from small_studies import contents, one_instance

from adadim.errors import StoreError, StudyError
from adadim.report import draw_and_save
from adadim.study import Study, load, run, status
from adadim.study.store import manifest_digest

ODD = ["exp [v2]", "run[1]", "a*b", "who?", "{x}", "~", "%41", "file:x", " blank "]


@pytest.mark.parametrize("name", ODD)
def test_a_folder_may_have_any_name(tmp_path, name):
    results = run(one_instance(), tmp_path / name, jobs=1)
    assert len(results.frame()) == 16
    assert status(tmp_path / name).complete
    run(one_instance(), tmp_path / name, jobs=1)


def test_a_pattern_does_not_read_another_folder(tmp_path):
    run(one_instance(seed=1), tmp_path / "run1", jobs=1)
    run(one_instance(seed=2), tmp_path / "run[1]", jobs=1)
    one, two = (load(tmp_path / name).frame() for name in ("run1", "run[1]"))
    assert not one.equals(two)
    assert load(tmp_path / "run[1]").study["seed"] == 2


BAD_NAMES = {
    "../../important": "name of a file",
    "/etc/important": "name of a file",
    "..": "name of a file",
    ".": "name of a file",
    "": "non-empty",
    "  ": "non-empty",
    "a\x00b": "control characters",
    "a\nb": "control characters",
    "x" * 300: "at most 200 bytes",
}


@pytest.mark.parametrize(("name", "message"), BAD_NAMES.items())
def test_a_study_is_called_what_a_file_can_be_called(name, message, tmp_path):
    with pytest.raises(StudyError, match=f"name: must .*{message}"):
        one_instance(name=name)
    file = tmp_path / "study.toml"
    file.write_text(one_instance().to_toml().replace('"small"', json.dumps(name)))
    with pytest.raises(StudyError, match=rf"study\.toml: name: must .*{message}"):
        Study.from_toml(file)


@pytest.mark.parametrize("name", [*BAD_NAMES, 3, None, ["x"]])
def test_a_received_manifest_cannot_name_a_file_elsewhere(folder, name):
    manifest = folder / "manifest.json"
    content = json.loads(manifest.read_text())
    content["study"]["name"] = name
    content["digest"] = manifest_digest(content)
    manifest.write_text(json.dumps(content))
    before = contents(folder.parent)
    for action in (load, status, lambda path: draw_and_save(load(path), path / "figures" / load(path).name)):
        with pytest.raises(StoreError, match=r"manifest\.json: study\.name must"):
            action(folder)
    assert contents(folder.parent) == before


@pytest.mark.parametrize("key", ["instances", "policies"])
def test_other_names_have_no_control_characters(key):
    study = one_instance().to_dict()
    study[key] = {"a\x1b[2J": next(iter(study[key].values()))}
    with pytest.raises(StudyError, match=f"{key}: names must have no control characters"):
        Study.from_dict(study)
