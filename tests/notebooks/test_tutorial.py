"""The tutorial notebook runs, shows what it says, and has ten cells."""

from pathlib import Path

import pytest

from shown_output import agrees

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.ipynb"


def test_the_tutorial_runs(tmp_path, monkeypatch):
    nbformat, client = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = nbformat.read(TUTORIAL, as_version=4)
    assert len(notebook.cells) == 10
    stored = shown(notebook)
    client.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert [kinds for kinds, _ in shown(notebook)] == [kinds for kinds, _ in stored]
    texts = [text for _, text in shown(notebook)]
    assert [text for text, (_, kept) in zip(texts, stored, strict=True) if not agrees(kept, text)] == []
    assert "constant, price, age" in texts[0]
    assert "3 of 8 features matter, up to 'age'," in texts[2]
    assert "recommended on sphere" in texts[3]
    assert [kinds for kinds, _ in stored].count({"image/png"}) == 2
    assert list(tmp_path.iterdir()) == []


def shown(notebook):
    """Kinds of output and text of every cell with code, bars and warnings aside."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            kinds = {kind for output in outputs for kind in output.get("data", {})} - {"text/plain"}
            text = "".join(output.get("text", "") + output.get("data", {}).get("text/html", "") for output in outputs)
            found.append((kinds, text))
    return found
