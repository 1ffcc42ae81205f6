"""What a study may name: adadim's policies and instance generators, and those in a file of the user's own."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import linecache
import sys
import types
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from adadim import instances, policies
from adadim.errors import StudyError
from adadim.policies.base import Policy

__all__ = [
    "Generator",
    "PluginSource",
    "Plugins",
    "check_plugins",
    "instance_kinds",
    "load_plugin",
    "load_source",
    "plugin_source",
    "policy_kinds",
]

Generator = Callable[..., Any]

Plugins = Mapping[str, Any]
"""Policy classes and instance generators that are not adadim's, by name."""


class PluginSource(NamedTuple):
    """The text of a plugin's file, which is how it travels to other machines.

    Attributes
    ----------
    stem : str
        Name of the file, without ``.py``.
    text : str
        What is in it.
    """

    stem: str
    text: str


_SOURCES: weakref.WeakKeyDictionary[Any, PluginSource] = weakref.WeakKeyDictionary()
"""Where the classes and functions of plugins come from."""


def policy_kinds(plugins: Plugins | None = None) -> dict[str, type[Policy]]:
    """Policies that a study may name: those of the library, then those of `plugins`.

    Examples
    --------
    >>> policy_kinds()["LinUCB"](dim=3)
    LinUCB(ridge=0.1, bonus='norm', dim=3, ...)
    """
    return policies.kinds() | {name: value for name, value in (plugins or {}).items() if _usable(value)}


def instance_kinds(plugins: Plugins | None = None) -> dict[str, Generator]:
    """Generators of instances that a study may name: functions with a parameter `replications`.

    Examples
    --------
    >>> list(instance_kinds())
    ['anisotropic', 'ball', 'biased_arms', 'clicks', 'contexts', 'growing', 'interval', 'labelled', ...]
    """
    found = {name: getattr(instances, name) for name in instances.__all__}
    return {name: value for name, value in {**found, **(plugins or {})}.items() if _generates(value)}


def load_plugin(path: str | Path) -> dict[str, Any]:
    """Run a Python file and collect the policies and instance generators it defines.

    This executes the file: load only files you would run yourself. Nothing else in a study does.

    Parameters
    ----------
    path : path
        A Python file that defines subclasses of `adadim.Policy` (frozen dataclasses), functions that take
        `replications` (and, if they draw anything, `seed`) and return an `adadim.Instance`, or both.

    Returns
    -------
    dict
        Name to class or function: what `Study` and `Study.from_toml` take as ``plugins``.

    Notes
    -----
    Results of a plugin are filed under its name, its hyper-parameters and the text of what its class or function
    uses in its own file: an edited policy is computed anew, a new comment elsewhere in the file is not.

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
    source = importlib.util.spec_from_file_location(_module_name(file.stem), file)
    if source is None or source.loader is None:
        raise StudyError(f"{file}: not a Python file; a plugin's name ends in .py")
    module = importlib.util.module_from_spec(source)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{file}: cannot be read as text: {error}") from error
    loader = source.loader
    return _defined(module, lambda: loader.exec_module(module), str(file), PluginSource(file.stem, text))


def load_source(source: PluginSource) -> dict[str, Any]:
    """Run the text of a plugin that was loaded from its file on another machine; see `load_plugin`."""
    # Python finds the lines of a file that is not there in this cache; a cell's hash needs them.
    file = f"<plugin {source.stem}.py {hashlib.sha256(source.text.encode()).hexdigest()[:12]}>"
    linecache.cache[file] = (len(source.text), None, source.text.splitlines(keepends=True), file)
    module = types.ModuleType(_module_name(source.stem))
    module.__file__ = file
    return _defined(module, lambda: exec(compile(source.text, file, "exec"), vars(module)), file, source)


def plugin_source(value: Any) -> PluginSource | None:
    """The file that a class or function was loaded from by `load_plugin`, if it was."""
    return _SOURCES.get(value)


def _module_name(stem: str) -> str:
    return f"adadim_plugin_{stem}"


def _defined(module: types.ModuleType, execute: Callable[[], None], file: str, source: PluginSource) -> dict[str, Any]:
    """Policies and generators that a module defines when it is executed."""
    # Registered only while it runs (dataclasses look their module up): what is in no importable module travels to
    # worker processes by value.
    sys.modules[module.__name__] = module
    try:
        execute()
    except Exception as error:
        raise StudyError(f"{file}: the plugin raised {type(error).__name__}: {error}") from error
    finally:
        del sys.modules[module.__name__]
    own = {
        key: value
        for key, value in vars(module).items()
        if not key.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
        and (_usable(value) or _generates(value))
    }
    if not own:
        raise StudyError(
            f"{file}: defines no policy; it should define a frozen dataclass that derives from adadim.Policy"
        )
    check_plugins(own)
    for value in own.values():
        _SOURCES[value] = source
    return own


def check_plugins(plugins: Plugins) -> None:
    """Raise unless every plugin is a policy class or a generator, under a name adadim does not use."""
    for name, value in plugins.items():
        if not (_usable(value) or _generates(value)):
            raise StudyError(
                f"plugins.{name}: neither a policy class nor a function that makes instances (one with a parameter "
                f"'replications'), but {value!r}"
            )
        if {**policy_kinds(), **instance_kinds()}.get(name, value) is not value:
            raise StudyError(f"plugins.{name}: adadim has a {name} of its own; give yours another name")
        if isinstance(value, type):
            for part in value.__mro__:
                if "__init__" in vars(part) and "__dataclass_params__" not in vars(part) and part is not object:
                    raise StudyError(
                        f"plugins.{name}: {part.__name__} defines __init__, which hides its hyper-parameters; make it "
                        "a frozen dataclass with one field for each"
                    )


def _usable(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Policy) and not inspect.isabstract(value)


def _generates(value: Any) -> bool:
    if not inspect.isfunction(value):
        return False
    takes = inspect.signature(value).parameters
    return "replications" in takes and "frame" not in takes  # a study is a text file, which holds no table
