"""What a study may name, adadim's and the user's own policies and instance generators, and the tables that name it."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeGuard, cast

from adadim import instances, policies
from adadim.core import codec
from adadim.core.checks import field_guards, shown
from adadim.core.codec import Kinds
from adadim.core.deprecated import with_present_names
from adadim.core.released_fields import RELEASED_NAMES, RELEASED_PARAMETERS
from adadim.errors import InvalidTypeError, InvalidValueError, StudyError
from adadim.instances.delay import Delay
from adadim.instances.instance import Instance
from adadim.policies.base import Policy
from adadim.policies.names import with_kind

Factory = Callable[..., Any]
Spec = dict[str, Any]

"""Policy classes and instance generators that are not adadim's, by name."""

SUPPLIED = ("replications", "seed")  # what a study decides for all of its instances at once


@contextmanager
def study_errors(where: str = "") -> Iterator[None]:
    """Raise what is wrong with a value as a `StudyError`, which begins with `where`."""
    try:
        yield
    except StudyError:
        raise
    except InvalidValueError as error:
        raise StudyError(f"{where}{error}") from error


def policy_kinds(plugins: Kinds | None = None) -> dict[str, type[Policy]]:
    """Policies that a study may name: those of the library by the alphabet, then those of `plugins`.

    Examples
    --------
    >>> policy_kinds()["LinUCB"](dim=3)
    LinUCB(ridge=0.1, bonus='norm', dim=3, ...)
    """
    library = dict(sorted(policies.kinds().items(), key=lambda item: item[0].lower()))
    return library | {name: value for name, value in (plugins or {}).items() if _is_policy(value)}


def instance_kinds(plugins: Kinds | None = None) -> dict[str, Factory]:
    """Generators of instances that a study may name: functions with a parameter `replications`.

    Examples
    --------
    >>> list(instance_kinds())
    ['anisotropic', 'ball', 'biased_arms', 'choices', 'clicks', 'contexts', ...]
    """
    library = {name: getattr(instances, name) for name in instances.__all__}
    return {name: value for name, value in {**library, **(plugins or {})}.items() if _is_generator(value)}


def load_plugin(path: str | Path) -> dict[str, Any]:
    """Run a Python file and collect the policies and instance generators it defines, by name: ``plugins`` of a `Study`.

    This executes the file: load only files you would run yourself. Nothing else in a study does. It defines subclasses
    of `adadim.Policy` (frozen dataclasses), functions that take `replications` (and, if they draw anything, `seed`) and
    return an `adadim.Instance`, or both.

    Results of a plugin are filed under its name, its hyper-parameters and the code of what its class or function
    uses in its own file: a policy whose code is edited is computed again, one whose comments or docstrings are is not.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> code = '''
    ... from dataclasses import dataclass
    ... from adadim import LinUCB, Policy
    ...
    ... @dataclass(frozen=True)
    ... class Half(Policy):
    ...     ridge: float = 1.0
    ...
    ...     def learner(self, problem, streams):
    ...         return LinUCB(ridge=self.ridge, dim=max(1, problem.dim // 2)).learner(problem, streams)
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "half.py")
    ...     _ = file.write_text(code)
    ...     plugins = load_plugin(file)
    >>> plugins["Half"](ridge=0.5)
    Half(ridge=0.5)
    """
    file = Path(path)
    if not file.is_file():
        raise StudyError(f"{file}: no such file; a plugin is a Python file that defines a policy")
    if file.suffix != ".py":
        raise StudyError(f"{file}: not a Python file; a plugin's name ends in .py")
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{file}: cannot be read as text: {error}") from error
    module = types.ModuleType(f"adadim_plugin_{file.stem}")
    module.__file__ = str(file.absolute())
    # Registered only while it runs (dataclasses look their module up): what is in no importable module travels to
    # worker processes by value.
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, module.__file__, "exec", dont_inherit=True), vars(module))
    except Exception as error:
        raise StudyError(f"{file}: the plugin raised {type(error).__name__}: {error}") from error
    finally:
        del sys.modules[module.__name__]
    defined = {
        key: value
        for key, value in vars(module).items()
        if not key.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
        and (_is_policy(value) or _is_generator(value))
    }
    if not defined:
        raise StudyError(
            f"{file}: defines no policy; it should define a frozen dataclass that derives from adadim.Policy"
        )
    check_plugins(defined)
    return defined


def check_plugins(plugins: Kinds) -> None:
    """Raise unless every plugin is a policy class or a generator, under a name adadim does not use."""
    for name, value in plugins.items():
        if not (_is_policy(value) or _is_generator(value)):
            raise StudyError(
                f"plugins.{name}: neither a policy class nor a function that makes instances (one with a parameter "
                f"'replications'), but {value!r}"
            )
        if {**policy_kinds(), **instance_kinds()}.get(name, value) is not value:
            raise StudyError(f"plugins.{name}: adadim has a {name} of its own; give yours another name")
        if isinstance(value, type):
            try:
                field_guards(value)
            except InvalidTypeError as error:
                raise StudyError(f"plugins.{name}: {error}") from error
            for part in value.__mro__:
                if "__init__" in vars(part) and "__dataclass_params__" not in vars(part) and part is not object:
                    raise StudyError(
                        f"plugins.{name}: {part.__name__} defines __init__, which hides its hyper-parameters; make it "
                        "a frozen dataclass with one field for each"
                    )


def _is_policy(value: Any) -> TypeGuard[type[Policy]]:
    return isinstance(value, type) and issubclass(value, Policy) and not inspect.isabstract(value)


def _is_generator(value: Any) -> bool:
    if not inspect.isfunction(value):
        return False
    parameters = inspect.signature(value).parameters
    return "replications" in parameters and "frame" not in parameters  # a study is a text file, which holds no table


def to_spec(policy: Policy) -> Spec:
    """Policy as a table: its kind and all hyper-parameters, those left at their default included.

    Examples
    --------
    >>> import adadim
    >>> to_spec(adadim.Greedy(dim=3))
    {'kind': 'Greedy', 'ridge': 0.1, 'dim': 3, 'ties': 'random'}
    """
    if not isinstance(policy, Policy):
        raise StudyError(f"expected a policy such as LinUCB(), got {shown(policy)}")
    return codec.to_table(policy)


def from_spec(table: Mapping[str, Any], plugins: Kinds | None = None) -> Policy:
    """Policy that a table describes; keys left out take their defaults.

    Examples
    --------
    >>> import adadim
    >>> from_spec(to_spec(adadim.LinUCB(dim=3))) == adadim.LinUCB(dim=3)
    True
    >>> from_spec({"kind": "LinUCB", "rigde": 1.0})
    Traceback (most recent call last):
    adadim.errors.StudyError: policy.rigde: LinUCB has no parameter 'rigde'; did you mean 'ridge'?
    """
    return build_policy(table, "policy", plugins)


def build_policy(
    table: Mapping[str, Any], where: str, plugins: Kinds | None, parameters: Mapping[str, Any] | None = None
) -> Policy:
    """Policy that a table describes; `parameters` of an instance replace values that start with @."""
    kinds = policy_kinds(plugins)
    table = with_kind(table, kinds)
    with study_errors():
        policy = codec.from_table(table, {**kinds, **policies.parts()}, where, parameters)
    if not isinstance(policy, Policy):
        raise StudyError(f"{where}.kind: {table['kind']!r} is a part of policies, not a policy")
    return policy


def policy_table(value: Any, where: str, plugins: Kinds) -> Spec:
    """Table of a policy given as an object or as a table; hyper-parameters that were not given are left out."""
    kinds = policy_kinds(plugins)
    written = with_kind(codec.plain(value, defaults=False), kinds)
    table: Spec = codec.without_none(written, {**kinds, **policies.parts()})
    with study_errors():
        codec.check_table(table, kinds, where)
    return table


def instance_table(value: Any, where: str, plugins: Kinds) -> Spec:
    """Table of an instance, checked: its kind is known, and its keys are those that the kind takes."""
    kinds = instance_kinds(plugins)
    table: Spec = codec.without_none(codec.plain(value), {**kinds, "Delay": Delay})
    kind = table.get("kind") if isinstance(table, Mapping) else None
    if isinstance(kind, str) and kind in kinds.keys() - plugins.keys():
        taken = codec.parameters_of(kinds[kind]).keys() | codec.parameters_of(Delay).keys()
        table = with_present_names(table, {old: name for name, old in RELEASED_NAMES.items() if name in taken})
    for key in SUPPLIED:
        if isinstance(table, Mapping) and key in table:
            raise StudyError(f"{where}.{key}: the study sets this for all instances; use its keys trials and seed")
    with study_errors():
        codec.check_table(table, kinds, where, noun="instances of kind", reserved=SUPPLIED)
    horizon = table.get("horizon")
    if isinstance(horizon, float) and horizon.is_integer():  # 1e3 is the same study as 1000
        table = {**table, "horizon": int(horizon)}
    return table


def make_instance(generator: Factory, params: Mapping[str, Any], replications: Iterable[int], seed: int) -> Instance:
    """Build the given replications; a generator without `seed` has nothing to draw."""
    seeded = {"seed": seed} if "seed" in inspect.signature(generator).parameters else {}
    return cast(Instance, generator(**params, **seeded, replications=tuple(replications)))


def instance_identity(generator: Factory, kind: str, params: Mapping[str, Any], plugins: Kinds, where: str) -> Spec:
    """What decides the instances of a generator, as plain JSON.

    Parameters that have their default are left out, so that a new one renames no results; but see
    `RELEASED_PARAMETERS`. Of a plugin all are written, and its source.
    """
    if kind in plugins:
        return {"kind": kind, "params": result_identity(params, where), "source": codec.source_digest(generator)}
    released, defaults = RELEASED_PARAMETERS.get(kind, ()), codec.parameters_of(generator)
    deciding = {key: value for key, value in params.items() if key in released or value != defaults[key]}
    return {"kind": kind, "params": _with_released_names(result_identity(deciding, where))}


def _with_released_names(table: Spec) -> Spec:
    """A table, and those in it, with keys as version 0.3 had them."""
    return {
        RELEASED_NAMES.get(key, key): _with_released_names(value) if isinstance(value, dict) else value
        for key, value in table.items()
    }


def result_identity(value: Any, where: str) -> Any:
    """What decides a result, as plain JSON; see `codec.identity`."""
    return codec.identity(value, where, {**policies.kinds(), **policies.parts()})
