"""The command `adadim dimension`."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import adadim
from command_line import adadim_, refused

NAMES = ["one", "price", "age", "clicks", "rest"]


@pytest.fixture(autouse=True)
def choices(working_folder):
    """A table of choices of which the first three features matter, as Parquet and CSV."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((150, 5)) * [1, 1000, 1, 0.01, 1]
    features[:, 0] = 1.0
    rewards = 0.5 + features[:, 1] / 1000 - features[:, 2] + 0.5 * rng.standard_normal(150)
    frame = pl.DataFrame(
        {"id": [f"c{i}" for i in range(150)], "sales": rewards} | dict(zip(NAMES, features.T, strict=True))
    )
    frame.write_parquet("choices.parquet")
    frame.write_csv("choices.csv")
    return features, rewards


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_one_line_says_it(choices, kind):
    printed, error = adadim_("dimension", f"choices.{kind}", "--reward", "sales", "--features", ", ".join(NAMES))
    assert printed == f"{adadim.dimension(*choices)}\n"
    assert printed.startswith("3 of 5 features matter")
    assert error == ""


def test_a_constant_in_the_rewards_is_no_feature_s():
    rng = np.random.default_rng(0)
    price, weekday = rng.uniform(5, 15, size=500), rng.integers(7, size=500)
    rating, stock = rng.uniform(1, 5, size=500), rng.integers(100, size=500)
    sales = 10 - 0.3 * price + 0.5 * weekday + rng.standard_normal(500)
    columns = {"sales": sales, "price": price, "weekday": weekday, "rating": rating, "stock": stock}
    pl.DataFrame(columns).write_csv("sales.csv")
    call = ["dimension", "sales.csv", "--reward", "sales", "--features", "price,weekday,rating,stock"]
    assert adadim_(*call)[0].startswith("2 of 4 features matter (probability 0.9")
    wrong = adadim_(*call, "--no-constant")[0]
    assert wrong.startswith("4 of 4 features matter (probability 1,")
    assert wrong.endswith("; 500 choices, no free constant\n")
    found = [json.loads(adadim_(*call, option, "--json")[0]) for option in ("--constant", "--no-constant")]
    assert [entry["constant"] for entry in found] == [True, False]
    assert found[0]["noise"] == pytest.approx(1.0, abs=0.1)


def test_json_has_all_of_it(choices):
    call = ["dimension", "choices.csv", "-r", "sales", "-f", ",".join(NAMES), "--levels", "known=2,all=5", "--json"]
    entry = json.loads(adadim_(*call)[0])
    expected = adadim.dimension(*choices, levels={"known": 2, "all": 5})
    assert entry["features"] == NAMES
    assert entry["levels"] == expected.levels
    assert entry["support"] == [2, 5]
    np.testing.assert_allclose(entry["probabilities"], expected.probabilities, atol=1e-9)
    np.testing.assert_allclose(entry["tail"], expected.tail, atol=1e-9)
    assert (entry["mode"], entry["median"], entry["choices"]) == (5, 5, 150)
    assert entry["interval90"] == [5, 5]
    assert entry["noise"] == pytest.approx(expected.noise)


def test_a_fixed_ridge_and_plain_levels(choices):
    call = ["dimension", "choices.csv", "-r", "sales", "-f", ",".join(NAMES), "--levels", "2,5", "--ridge", 3, "--json"]
    entry = json.loads(adadim_(*call)[0])
    expected = adadim.dimension(*choices, levels=[2, 5], ridge=3.0).probabilities
    np.testing.assert_allclose(entry["probabilities"], expected, atol=1e-9)


def test_all_other_columns_by_default(choices):
    pl.read_csv("choices.csv").drop("id").write_csv("plain.csv")
    printed, _ = adadim_("dimension", "plain.csv", "--reward", "sales")
    assert printed == f"{adadim.dimension(*choices)}\n"
    refused("dimension", "choices.csv", "--reward", "sales", message="column 'id' of choices.csv must hold numbers")


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("new/b.svg", b"<?xml"), ("c.pdf", b"%PDF")])
def test_a_picture(name, start):
    printed, _ = adadim_("dimension", "choices.csv", "-r", "sales", "-f", ",".join(NAMES), "--out", name)
    assert printed.endswith(f"wrote {name}\n")
    first = Path(name).read_bytes()
    assert first.startswith(start)
    adadim_("dimension", "choices.csv", "-r", "sales", "-f", ",".join(NAMES), "--out", name)
    assert Path(name).read_bytes() == first  # no date goes in


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--features", "one,prise"], "choices.csv has no column 'prise'; did you mean 'price'"),
        (["--features", "one,id"], "column 'id' of choices.csv must hold numbers, got 'c0'"),
        (["--features", "one", "--reward", "gain"], "choices.csv has no column 'gain'"),
        (["--features", "one,price", "--levels", "a=3"], r"levels must be an integer in 1\.\.2"),
        (["--features", "one,price", "--levels", "a=b"], "levels must look like price=3,text=67"),
        (["--features", "one,price", "--levels", "a=1,a=2"], "levels must have names that differ"),
        (["--features", "one,price", "--ridge", "0"], "ridge must be a positive finite number"),
        (["--features", "one", "--out", "picture.gif"], r"--out must end in \.png, \.pdf or \.svg, got picture.gif"),
    ],
)
def test_refusals(options, message):
    refused("dimension", "choices.csv", "--reward", "sales", *options, message=message)


def test_files_that_cannot_be_read():
    options = ["--reward", "sales", "--features", "one"]
    refused("dimension", "nowhere.csv", *options, message="nowhere.csv")
    refused("dimension", "choices.xlsx", *options, message=r"choices.xlsx must be a .parquet or .csv file")
    Path("broken.parquet").write_text("no table")
    refused("dimension", "broken.parquet", *options, message="broken.parquet cannot be read")
    Path("gap.csv").write_text("one,sales\n1,2\n,3\n")
    refused("dimension", "gap.csv", *options, message="column 'one' of gap.csv has no finite number in row 2")


def test_help_teaches():
    printed, _ = adadim_("dimension", "--help")
    assert "Example: adadim dimension choices.csv" in printed
    assert "most basic first" in printed
