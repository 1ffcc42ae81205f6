"""Reading results: the regret that a folder holds, and how much of a study is done."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from adadim.core.arrays import FloatArray, IntArray
from adadim.core.checks import require, shown, suggestion
from adadim.core.display import html_table
from adadim.core.files import Place
from adadim.core.frames import Tabular
from adadim.errors import InvalidTypeError, InvalidValueError, StoreError
from adadim.study.source import MadeBy
from adadim.study.store import Store, covered

MAX_SHOWN = 20  # cells in a notebook


@dataclass(frozen=True)
class CellStatus:
    """How far one policy on one instance of a study has come: replications done, and wanted (`trials`)."""

    instance: str
    policy: str
    done: int
    trials: int


@dataclass(frozen=True)
class Status:
    """How far a study has come, with every policy on every instance in the order of the study.

    `unused` counts blocks in the folder that the study, as last run, does not use; `made_by` those that it uses by what
    computed them, a pair (version, digest of the source), the digest None in results from before 0.3.
    """

    name: str
    cells: tuple[CellStatus, ...]
    unused: int
    made_by: dict[MadeBy, int] = field(default_factory=dict, hash=False)

    @property
    def done(self) -> int:
        """Replications stored, over all cells."""
        return sum(cell.done for cell in self.cells)

    @property
    def total(self) -> int:
        """Replications wanted, over all cells."""
        return sum(cell.trials for cell in self.cells)

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return self.done == self.total

    @property
    def current(self) -> bool:
        """Whether all blocks were computed by the source that runs now."""
        return all(by.current for by in self.made_by)


class Results(Tabular):
    """The results of a study, read from its folder when asked for.

    Replications come in order of their number, each once, whatever blocks they were computed in. Reading needs
    neither the study nor the policies' code, and works while a run is under way: what is stored is there.

    Parameters
    ----------
    folder : path or URL
        A results folder.
    manifest : mapping, optional
        Which of its results; by default those of the study last run in it.

    Attributes
    ----------
    name : str
        The study.
    trials : int
        Replications wanted.
    instances, policies : tuple of str
        Names, in the order of the study.
    study : dict
        The study as it was written, see `Study.to_dict`; functions appear as their names.
    labels : dict
        What the study says about itself, see `Study`; empty if nothing.
    version : str
        The adadim that last ran the study.

    Examples
    --------
    Two policies, compared on the replications that both have finished:

    >>> import tempfile, adadim
    >>> from adadim.study import Study, run
    >>> study = Study(
    ...     name="small",
    ...     instances={"easy": {"kind": "sphere", "arms": 20, "dim": 6, "intrinsic_dim": 2, "horizon": 60}},
    ...     policies={"LinUCB": adadim.LinUCB(), "random": adadim.Random()},
    ...     trials=4,
    ...     labels={"instances": {"easy": {"alpha": 0.17}}},
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = run(study, folder, jobs=1)
    ...     numbers = results.common_trials()
    ...     gained = results.final("easy", "random", trials=numbers) - results.final("easy", "LinUCB", trials=numbers)
    ...     times, regret = results.curves("easy", "LinUCB", trials=[3])
    ...     columns = results.frame().columns
    >>> numbers.tolist(), gained.shape, regret.shape == (1, len(times))
    ([0, 1, 2, 3], (4,), True)
    >>> columns
    ['instance', 'policy', 'replication', 'time', 'regret']
    >>> results.labels["instances"]["easy"]["alpha"]
    0.17
    """

    def __init__(self, folder: str | Place, manifest: Mapping[str, Any] | None = None) -> None:
        self._store = Store(folder)
        manifest = self._store.describe() if manifest is None else manifest
        self.folder = self._store.folder
        self.study: dict[str, Any] = manifest["study"]
        self.labels: dict[str, Any] = self.study.get("labels", {})
        self.version: str = manifest["adadim"]
        self.name: str = self.study["name"]
        self.trials: int = self.study["trials"]
        self.instances: tuple[str, ...] = tuple(self.study["instances"])
        self.policies: tuple[str, ...] = tuple(self.study["policies"])
        cells: list[dict[str, Any]] = manifest["cells"]
        self._cells = {(cell["instance"], cell["policy"]): cell for cell in cells}
        self._read: dict[str, tuple[IntArray, FloatArray]] = {}

    def __repr__(self) -> str:
        return f"Results({self.name!r}, {len(self._cells)} cells, {self.trials} trials)"

    def cells(self) -> tuple[tuple[str, str], ...]:
        """Pairs (instance, policy) that the study runs."""
        return tuple(self._cells)

    def parameters(self, instance: str) -> dict[str, Any]:
        """Parameters of an instance, defaults included, and its `kind`."""
        self._check_name("instance", instance, dict.fromkeys(name for name, _ in self._cells))
        written = next(cell["spec"]["instance"] for (name, _), cell in self._cells.items() if name == instance)
        return {"kind": written["kind"], **written["params"]}

    def hyper_parameters(self, instance: str, policy: str) -> dict[str, Any]:
        """Hyper-parameters of a policy on an instance, defaults included, and its `kind`."""
        written = self._cell(instance, policy)["spec"]["policy"]
        return {"kind": written["kind"], **written["params"]}

    def replications(self, instance: str, policy: str) -> IntArray:
        """Numbers of the replications that are stored."""
        return self._arrays(instance, policy)[0]

    def common_trials(self, cells: Iterable[tuple[str, str]] | None = None) -> IntArray:
        """Numbers of the replications that are stored for every one of several cells, by default all of the study.

        Policies meet the same instance and the same noise in a replication of the same number, so on these
        they can be compared pair by pair, however far a study has come.
        """
        chosen = list(self._cells if cells is None else cells)
        require(bool(chosen), "cells", "hold at least one pair (instance, policy)", chosen)
        return functools.reduce(np.intersect1d, [self.replications(*cell) for cell in chosen])

    def curves(
        self, instance: str, policy: str, trials: Sequence[int] | IntArray | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Rounds recorded (n,), and the regret after them, (replications, n), of a policy on an instance.

        `trials` are the numbers of the replications wanted, in this order; by default all that are stored.
        """
        return np.array(self._cell(instance, policy)["spec"]["times"]), self._regret(instance, policy, trials)

    def final(self, instance: str, policy: str, trials: Sequence[int] | IntArray | None = None) -> FloatArray:
        """Regret after the last recorded round, (replications,), of what `curves` takes."""
        return self._regret(instance, policy, trials)[..., -1]

    def frame(self) -> pl.DataFrame:
        """All results as a table: instance, policy, replication, time, regret."""
        parts = []
        for instance, policy in self._cells:
            numbers, (times, regret) = self.replications(instance, policy), self.curves(instance, policy)
            columns = {
                "replication": np.repeat(numbers, len(times)),
                "time": np.tile(times, len(numbers)),
                "regret": regret.ravel(),
            }
            named = [pl.lit(instance).alias("instance"), pl.lit(policy).alias("policy")]
            parts.append(pl.DataFrame(columns).select(*named, "replication", "time", "regret"))
        return pl.concat(parts)

    def _columns(self) -> dict[str, Any]:
        return {column.name: column.to_numpy() for column in self.frame()}

    to_polars = frame

    def _repr_html_(self) -> str:
        means = {
            f"{policy} on {instance}": f"{final.mean():.4g} (std {final.std(ddof=1) if len(final) > 1 else 0.0:.3g})"
            for instance, policy in self.cells()[:MAX_SHOWN]
            if len(final := self.final(instance, policy))
        }
        left = {"...": f"{len(self.cells()) - MAX_SHOWN} more"} if len(self.cells()) > MAX_SHOWN else {}
        about = {"trials": self.trials, "folder": self.folder}
        return html_table(f"Results of {self.name}: regret after the last round", {**about, **means, **left})

    def _cell(self, instance: str, policy: str) -> Mapping[str, Any]:
        self._check_name("instance", instance, self.instances)
        self._check_name("policy", policy, self.policies)
        if (instance, policy) not in self._cells:
            raise StoreError(
                f"policy {policy!r} does not run on instance {instance!r} in this study (see its key 'only')"
            )
        return self._cells[instance, policy]

    def _check_name(self, key: str, name: str, names: Collection[str]) -> None:
        if not isinstance(name, str):
            raise InvalidTypeError(f"{key} must be a name in the study, got {shown(name)}")
        if name not in names:
            raise StoreError(f"no {key} {shown(name)} in {self.folder}; {suggestion(name, names)}")

    def _regret(self, instance: str, policy: str, trials: Sequence[int] | IntArray | None) -> FloatArray:
        numbers, regret = self._arrays(instance, policy)
        if trials is None:
            return regret
        try:
            wanted = np.asarray(trials)
        except ValueError as error:
            raise InvalidValueError(f"trials must be a list of replication numbers, got {shown(trials)}") from error
        if wanted.size == 0:
            return regret[:0]
        listed = wanted.ndim == 1 and np.issubdtype(wanted.dtype, np.integer)
        require(listed, "trials", "be a list of replication numbers", trials)
        absent = wanted[~np.isin(wanted, numbers)]
        if absent.size:
            raise StoreError(
                f"{self.folder}: replication {absent[0]} of {policy!r} on {instance!r} is not stored; "
                "common_trials() says which are, and running the study adds what is missing"
            )
        return np.asarray(regret[np.searchsorted(numbers, wanted)])

    def _arrays(self, instance: str, policy: str) -> tuple[IntArray, FloatArray]:
        cell = self._cell(instance, policy)
        identifier, width = cell["id"], len(cell["spec"]["times"])
        if identifier not in self._read:
            spans = self._store.index().get(identifier, [])
            present = covered(spans, self.trials)
            regret = np.full((len(present), width), np.nan)
            for span in spans:
                if span[0] < self.trials:
                    block = self._store.read_block(identifier, span)[0][: self.trials - span[0]]
                    if block.shape[1] != width:
                        path = self._store.path(identifier, span)
                        raise StoreError(f"{path}: recorded other rounds than the manifest says; delete it")
                    regret[span[0] : span[1]] = block
            numbers = np.flatnonzero(present)
            kept = regret[numbers]
            kept.setflags(write=False)
            self._read[identifier] = (numbers, kept)
        return self._read[identifier]


def load(folder: str | Place) -> Results:
    """Open the results in a folder, complete or not.

    Examples
    --------
    >>> load("no/such/folder")
    Traceback (most recent call last):
    adadim.errors.StoreError: no/such/folder/manifest.json: there is none, so this is not a results folder; ...
    """
    return Results(folder)


def status(folder: str | Place) -> Status:
    """How far the study in a folder has come; reads every block, and raises if one is damaged.

    See `run` for an example.
    """
    store = Store(folder)
    manifest = store.describe()
    trials = manifest["study"]["trials"]
    stored, used = store.index(), dict.fromkeys(cell["id"] for cell in manifest["cells"])
    made_by = Counter(store.read_block(cell, span)[1] for cell in used for span in stored.get(cell, ()))
    cells = []
    for cell in manifest["cells"]:
        done = int(covered(stored.get(cell["id"], ()), trials).sum())
        cells.append(CellStatus(cell["instance"], cell["policy"], done, trials))
    unused = sum(len(spans) for identifier, spans in stored.items() if identifier not in used)
    return Status(manifest["study"]["name"], tuple(cells), unused, dict(made_by))
