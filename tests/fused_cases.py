"""Operations on tensors of which the tests of `adadim.core.fusion` say that they give the same when they are fused."""

from __future__ import annotations

import types

import numpy as np

from adadim.core.arrays import indices
from adadim.core.rows import Replications
from adadim.core.ties import argmax, draw_indices

COUNT, WIDTH = 5, 7
LAST_DIGITS = 1e-14


def tensors(seed=5, device="cpu"):
    """Numbers of every shape: (R,), (R, 1), (R, n), (n,), (R, m, n); positions below n, and flags."""
    import torch

    rng = np.random.default_rng(seed)
    parts = {
        "each": rng.standard_normal(COUNT),
        "other": rng.standard_normal(COUNT),
        "column": rng.standard_normal((COUNT, 1)),
        "row": rng.standard_normal((COUNT, WIDTH)),
        "square": rng.standard_normal((COUNT, COUNT)),
        "shared": rng.standard_normal(WIDTH),
        "places": rng.integers(WIDTH, size=COUNT),
        "mask": rng.random(COUNT) < 0.5,
        "masks": rng.random((COUNT, WIDTH)) < 0.5,
        "cube": rng.standard_normal((COUNT, 3, WIDTH)),
    }
    parts["row"][0, 2], parts["row"][1, 3], parts["row"][2, :] = np.nan, np.inf, -np.inf
    return types.SimpleNamespace(**{name: torch.from_numpy(part).to(device) for name, part in parts.items()})


def compare(fused, function, given, tolerance):
    """The function gives the same, and leaves the same behind, fused as on its own."""
    import torch

    here, there = (types.SimpleNamespace(**{k: part.clone() for k, part in vars(given).items()}) for _ in range(2))
    expected, result = (as_tuple(one) for one in (function(here), fused(function, there)))
    pairs = [*zip(result, expected, strict=True), *((getattr(there, k), part) for k, part in vars(here).items())]
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=tolerance, atol=0, equal_nan=True)


def as_tuple(values):
    return tuple(values) if isinstance(values, tuple | list) else (values,)


def all_of(rows, mask=None):
    return Replications.all(rows) if mask is None else Replications.where(mask)


def side_by_side(n):
    import torch

    both = torch.cat([n.row * 2.0, n.cube[:, 0, :3]], dim=1)
    return both, both[:, -1] + both[:, 0], both.amin(-1)


def counted(n):
    rows = all_of(n.each, n.mask)
    rows.add(n.row, n.places, n.each)
    rows.add(n.row, n.places, 1.0)
    return n.row.clamp(0.0), rows.at(n.row, n.places)


def shifted(n):
    for i in range(3):
        n.row[:, i] += n.row[:, i + 1]
    n.row[:, 3] = 7.0
    return n.row * 1.0


def put(n):
    all_of(n.each, n.mask).put(n.row, n.row * 2.0)
    all_of(n.each).put(n.each, n.each + 1.0)
    return n.row + n.each[:, None]


def changed_while_used(n):
    first = n.each + 0.0
    n.each.copy_(n.other)
    second = n.each * 2.0
    n.each += 1.0
    return first, second, n.each + first


def written_through_an_index(n):
    numbers = indices(n.each)
    n.cube[numbers, n.places.clamp(None, 2), n.places] = n.each
    return n.cube[numbers, 0, n.places]


def operators(n):
    return 2.0 * n.row + n.column * n.shared - 1.0 / n.each[:, None] + -n.row


def numbers(n):
    return n.row * 1e-10, n.each + 0.1, n.places * 2**40 - 1, n.places.double() / 3.0, n.each - 1e300


def comparisons(n):
    return (n.row > 0.1) & ~(n.row >= n.column) | (n.masks == (n.row < n.shared))


def functions(n):
    logs = n.row.abs().log().clamp(-1.0, 1.0), n.each.abs().log1p(), n.each.abs().log2().floor()
    return n.each.abs().sqrt(), n.row.exp() * n.shared, n.row.floor(), *logs


def limits(n):
    return n.row.clamp(0.0), n.row.maximum(n.column), n.row.minimum(n.shared), n.places.clamp(None, 3)


def where(n):
    return n.row.where(n.mask[:, None], n.shared), n.row.new_zeros((COUNT, WIDTH)).where(n.masks, n.row)


def types_of_numbers(n):
    return n.mask.long(), n.masks.double() * n.mask[:, None], (n.each * 9).long(), n.places.bool()


def largest(n):
    return n.row.amax(-1), n.row.amin(-1, keepdim=True), n.row.isfinite().any(-1), n.masks.all(-1)


def one_of_one(n):
    flags = n.column > 0
    return n.column.amax(-1), flags.long().argmax(-1), n.column.cumsum(-1), flags.any(-1)


def entries(n):
    here = n.cube[indices(n.each), n.places.clamp(None, 2)]
    return n.shared[n.places], here, n.cube[:, 1].gather(1, n.column.long() * 0)


def positions_from_the_end(n):
    return n.shared[n.places - WIDTH], n.cube[indices(n.each), 1, n.places - WIDTH]


def in_place(n):
    return n.row.mul_(2.0), n.each.add_(1.0), n.places.add_(n.mask), n.column.zero_(), n.square.fill_(2)


def copied(n):
    return n.row.copy_(n.column), n.each.copy_(n.mask), n.row.clone(), n.column.expand(COUNT, 4) * 1.0


def new_and_changed(n):
    return (n.row * 0.0).scatter_add_(1, n.places[:, None], n.each[:, None]) + 1.0


ONE_KERNEL = {
    "operators": operators,
    "a number alone": lambda n: (n.each * 2.0 - n.other, n.column[:, 0] / n.each),
    "comparisons": comparisons,
    "numbers": numbers,
    "functions": functions,
    "powers": lambda n: (n.row**2, n.row**3, n.row**0.5, n.row.abs() ** 1.7),
    "limits": limits,
    "where": where,
    "types": types_of_numbers,
    "largest": largest,
    "sums of flags": lambda n: (n.masks.sum(-1), n.masks.long().argmax(-1), n.masks.long().cumsum(-1)),
    "one of one": one_of_one,
    "entries": entries,
    "positions from the end": positions_from_the_end,
    "in place": in_place,
    "copies": copied,
    "a count of a column": counted,
    "columns of one array": shifted,
    "where a mask holds": put,
    "used before it is changed": changed_while_used,
    "side by side": side_by_side,
    "a view of what waits": lambda n: (n.row + 1.0)[:, -1] * (n.row * 2.0)[:, 0],
    "what is new is changed": new_and_changed,
    "numbers of the replications": lambda n: indices(n.each) * 2 + n.places,
    "written through an index": written_through_an_index,
    "ties": lambda n: (argmax(n.row, n.each - n.each.floor()), argmax(n.cube[:, 0], None)),
    "drawn": lambda n: draw_indices(n.cube[:, 0].abs(), n.each - n.each.floor()),
}


def turned(n):
    double = n.square * 2.0
    return double + double.T


def changed_and_turned(n):
    before = n.square.T + 1.0
    n.square += 1.0
    return before, n.square.T * 1.0


def through_unknown_positions(n):
    permutation = n.places * 0 + (COUNT - 1 - indices(n.each))
    double = n.each * 2.0
    return double[permutation]


def row_as_column(n):
    double = n.each * 2.0
    return n.square + double, double.exp()


SEVERAL = {
    "turned": turned,
    "changed and turned": changed_and_turned,
    "through unknown positions": through_unknown_positions,
    "numbers of all replications as a row": row_as_column,
    "in between something done by torch": lambda n: ((n.row * 2.0).nan_to_num() + 1.0, n.cube.sum() + 1.0),
    "sums over replications, done by torch": lambda n: (n.row * 2.0).sum(0) + n.shared,
    "another number of replications": lambda n: (n.shared * 2.0, n.each * 2.0),
}


def random_operations(n, seed, steps=40):
    """Operations drawn at random, on tensors given and made, and on parts of them; gives what was made last."""
    rng = np.random.default_rng(seed)
    made = [n.row.nan_to_num(0.1, 2.0, -2.0), n.each * 1.0, n.square * 1.0]

    def one_of(shape):
        found = [x for x in (*made, *vars(n).values()) if tuple(x.shape) == shape and x.is_floating_point()]
        return found[rng.integers(len(found))]

    def row():
        return one_of((COUNT, WIDTH)) if rng.random() < 0.7 else n.cube[:, rng.integers(3)]

    def each():
        wide = row() if rng.random() < 0.5 else one_of((COUNT, COUNT))
        return one_of((COUNT,)) if rng.random() < 0.6 else wide[:, rng.integers(COUNT)]

    def square():
        x = one_of((COUNT, COUNT))
        return x.T if rng.random() < 0.3 else x

    choices = [
        lambda: made.append(row() * 0.5 + each()[:, None]),
        lambda: made.append(row().maximum(row()) - n.shared),
        lambda: made.append(each() * 0.5 - each()),
        lambda: made.append(square() * 0.5 + each()[:, None]),
        lambda: made.append(square() * 0.5 - each()),
        lambda: made.append(row().amax(-1)),
        lambda: made.append(row().where(n.masks, each()[:, None])),
        lambda: made.append(row().gather(1, n.places[:, None])[:, 0]),
        lambda: made.append(n.cube[indices(n.each), n.places % 3]),
        lambda: made.append(each()[(n.places + int(rng.integers(3))) % COUNT]),
        lambda: row().mul_(0.5),
        lambda: each().copy_(each() * 1.0),
        lambda: each().add_(1.0),
        lambda: square().add_(0.25),
        lambda: row().scatter_add_(1, n.places[:, None], each()[:, None] * 1.0),
        lambda: n.cube.index_put_((indices(n.each), n.places % 3, n.places), each() * 1.0),
        lambda: all_of(n.each, n.mask).put(row(), row() * 0.5),
        lambda: made.pop(rng.integers(len(made))) if len(made) > 6 else None,
    ]
    for _ in range(steps):
        choices[rng.integers(len(choices))]()
    return made
