"""Dataclasses as tables, and back."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from adadim.core.codec import (
    check_table,
    fields,
    from_table,
    parameters_of,
    parse_policy,
    plain,
    to_table,
    without_none,
)
from adadim.errors import InvalidTypeError, InvalidValueError


@dataclass(frozen=True)
class Leaf:
    size: int = 1
    label: str | None = None
    double: int = field(init=False, default=0)

    def __post_init__(self):
        if not isinstance(self.size, int) or self.size < 0:
            raise ValueError(f"size must not be negative, got {self.size!r}")
        object.__setattr__(self, "double", 2 * self.size)


@dataclass(frozen=True)
class Tree:
    leaves: tuple[Any, ...]
    best: Leaf = field(default_factory=Leaf)
    rates: tuple[float, ...] = (0.5, 0.25)
    names: dict[str, Any] = field(default_factory=dict)


KINDS = {"Leaf": Leaf, "Tree": Tree}
TREES = [
    Tree(()),
    Tree((Leaf(2), Leaf(3, "x")), best=Leaf(4)),
    Tree((Tree((Leaf(),), rates=()), Leaf()), names={"a": Leaf(5), "b": (1, 2)}),
]


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("defaults", [True, False])
def test_tables_survive_json_and_give_the_same_object(tree, defaults):
    table = to_table(tree, defaults=defaults)
    assert json.loads(json.dumps(table)) == table
    assert from_table(table, KINDS) == tree


def test_a_table_holds_all_fields_that_the_constructor_takes():
    assert to_table(Tree((Leaf(2),))) == {
        "kind": "Tree",
        "leaves": [{"kind": "Leaf", "size": 2, "label": None}],
        "best": {"kind": "Leaf", "size": 1, "label": None},
        "rates": [0.5, 0.25],
        "names": {},
    }
    assert fields(Leaf(3)) == {"size": 3, "label": None}


def test_a_table_without_defaults_holds_what_differs():
    assert to_table(Tree((Leaf(2), Leaf()), best=Leaf(1)), defaults=False) == {
        "kind": "Tree",
        "leaves": [{"kind": "Leaf", "size": 2}, {"kind": "Leaf"}],
    }
    assert to_table(Leaf(True), defaults=False) == {"kind": "Leaf", "size": True}  # equal to 1, and something else


def test_arrays_and_their_numbers_become_plain():
    table = to_table(Tree((np.int64(3), np.float32(0.5)), rates=np.array([[1, 2], [3, 4]])), defaults=False)
    assert table == {"kind": "Tree", "leaves": [3, 0.5], "rates": [[1, 2], [3, 4]]}
    assert [type(number) for number in table["leaves"]] == [int, float]


def test_functions_stay_for_the_writer_to_refuse():
    assert to_table(Leaf(label=len))["label"] is len
    assert plain([len]) == [len]


def test_plain_copies_and_puts_the_kind_first():
    inner = {"size": 1, "kind": "Leaf"}
    copied = plain({"leaves": [inner], "kind": "Tree"})
    assert list(copied) == ["kind", "leaves"]
    assert list(copied["leaves"][0]) == ["kind", "size"]
    copied["leaves"][0]["size"] = 2
    assert inner["size"] == 1


def test_names_are_filled_in_at_every_depth():
    table = {"kind": "Tree", "leaves": [{"kind": "Leaf", "size": "@n"}, "@n"], "names": {"a": "@word"}}
    assert from_table(table, KINDS, parameters={"n": 7, "word": "x"}) == Tree((Leaf(7), 7), names={"a": "x"})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (3, r"^policy: expected a table with the key 'kind', got 3$"),
        ({"size": 1}, r"^policy: the key 'kind' is missing; it names what this is, e\.g\. kind = \"Leaf\"$"),
        ({"kind": 3}, r"^policy: the key 'kind' is missing"),
        ({"kind": "Laef"}, r"^policy\.kind: no policy 'Laef'; did you mean 'Leaf'\?$"),
        ({"kind": "Leaf", "sise": 1}, r"^policy\.sise: Leaf has no parameter 'sise'; did you mean 'size'\?$"),
        ({"kind": "Leaf", "double": 1}, r"^policy\.double: Leaf has no parameter 'double'; choose from size, label$"),
        ({"kind": "Tree"}, r"^policy\.leaves: missing; Tree has no default for it$"),
        ({"kind": "Leaf", "size": -1}, r"^policy: Leaf\(size=-1\) is not possible: size must not be negative, got -1$"),
        (
            {"kind": "Tree", "leaves": [{"kind": "Leaf"}, {"kind": "Leaf", "lable": "x"}]},
            r"^policy\.leaves\[1\]\.lable: .*did you mean 'label'\?$",
        ),
        ({"kind": "Tree", "leaves": [], "names": {"a": {"kind": "Lef"}}}, r"^policy\.names\.a\.kind: no policy 'Lef'"),
        ({"kind": "Leaf", "size": "@nn"}, r"^policy\.size: '@nn' stands for a parameter that .*did you mean 'n'\?$"),
    ],
)
def test_tables_that_describe_nothing_are_refused_with_key_and_fix(table, message):
    with pytest.raises(InvalidValueError, match=message):
        from_table(table, KINDS, parameters={"n": 1})


def test_the_caller_chooses_words():
    with pytest.raises(InvalidValueError, match=r"^learner\.json\.best\.kind: no policy 'Lef'"):
        from_table({"kind": "Tree", "leaves": [], "best": {"kind": "Lef"}}, KINDS, "learner.json")
    with pytest.raises(InvalidValueError, match=r"^here\.kind: no tree 'Lef'"):
        check_table({"kind": "Lef"}, KINDS, "here", noun="tree")


def test_without_parameters_no_name_is_filled_in():
    with pytest.raises(InvalidValueError, match=r"^policy\.size: '@n' stands for a parameter .*there is none here$"):
        from_table({"kind": "Leaf", "size": "@n"}, KINDS)


@pytest.mark.parametrize("value", [3, "Leaf", {"kind": "Leaf"}, Leaf])
def test_what_is_no_dataclass_instance_has_no_table(value):
    with pytest.raises(InvalidTypeError, match="expected a dataclass instance"):
        to_table(value)


def test_a_field_called_kind_is_refused():
    @dataclass(frozen=True)
    class Sort:
        kind: str = "a"

    with pytest.raises(InvalidTypeError, match="Sort has a field 'kind'"):
        to_table(Sort())


def make(*, count, colour=None, seed=0):
    return count, colour, seed


def test_functions_are_kinds_too():
    kinds = {"make": make}
    assert parameters_of(make)["seed"] == 0
    assert check_table({"kind": "make", "count": 3}, kinds, "here") is make
    assert from_table({"kind": "make", "count": 3}, kinds) == (3, None, 0)
    with pytest.raises(InvalidValueError, match=r"here\.seed: make has no parameter 'seed'"):
        check_table({"kind": "make", "count": 3, "seed": 1}, kinds, "here", reserved=["seed"])


def test_none_is_dropped_where_it_is_the_default_and_only_there():
    table = {"kind": "Tree", "leaves": [{"kind": "Leaf", "size": None, "label": None}], "best": None}
    assert without_none(table, KINDS) == {"kind": "Tree", "leaves": [{"kind": "Leaf", "size": None}], "best": None}
    unknown = {"kind": "Bush", "label": None}
    assert without_none(unknown, KINDS) == unknown
    assert without_none({"kind": "make", "colour": None}, {"make": make}) == {"kind": "make"}


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("LinUCB", {"kind": "LinUCB"}),
        (" LinUCB() ", {"kind": "LinUCB"}),
        ("LinUCB:", {"kind": "LinUCB"}),
        ("LinUCB:dim=5, bonus=norm,ridge=0.5", {"kind": "LinUCB", "dim": 5, "bonus": "norm", "ridge": 0.5}),
        ("LinUCB(dim=5, bonus='norm', ridge=0.5)", {"kind": "LinUCB", "dim": 5, "bonus": "norm", "ridge": 0.5}),
        (
            "Mine(levels=[1, 2], on=True, word='a:b,c=d')",
            {"kind": "Mine", "levels": [1, 2], "on": True, "word": "a:b,c=d"},
        ),
    ],
)
def test_a_policy_on_the_command_line_is_a_table(text, table):
    assert parse_policy(text) == table


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("LinUCB:dim", "--policy LinUCB:dim: expected KEY=VALUE after the colon, got 'dim'"),
        ("LinUCB(5)", "--policy must look like NAME or 'NAME"),
        ("LinUCB(**{'dim': 5})", "--policy must look like"),
        ("LinUCB(kind='UCB')", "--policy must look like"),
        ("LinUCB(dim=print())", "--policy must look like"),
        ("a.LinUCB(dim=5)", "--policy must look like"),
        ("(" * 500 + ")" * 500, "--policy must look like"),
    ],
)
def test_what_describes_no_policy_is_refused_and_not_run(text, message):
    with pytest.raises(InvalidValueError, match=re.escape(message)):
        parse_policy(text)
