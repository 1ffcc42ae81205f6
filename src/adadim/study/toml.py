"""Studies as TOML: reading a file, and writing, which the standard library does not do."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adadim.checks import shown
from adadim.errors import StudyError

__all__ = ["dumps", "read"]

MOST_TEXT = 500

BARE = re.compile(r"[A-Za-z0-9_-]+")


def read(file: Path) -> dict[str, Any]:
    """Tables of a TOML file."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))  # some editors write a byte-order mark
    except OSError as error:
        raise StudyError(f"{file}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StudyError(f"{file}: not valid TOML: {str(error)[:MOST_TEXT]}") from error
    except ValueError as error:  # a number of thousands of digits
        raise StudyError(f"{file}: not valid TOML: {str(error)[:MOST_TEXT]}") from error
    except RecursionError:
        raise StudyError(f"{file}: not valid TOML: nested too deeply") from None


def dumps(document: Mapping[str, Any]) -> str:
    r"""TOML text of nested mappings of numbers, strings and lists.

    Examples
    --------
    >>> dumps({"name": "mine", "policies": {"LinUCB++": {"kind": "LinUCB", "radius": 0.5}}})
    'name = "mine"\n\n[policies."LinUCB++"]\nkind = "LinUCB"\nradius = 0.5\n'
    """
    lines = _pairs(document, "")
    for section, tables in document.items():
        if not isinstance(tables, Mapping):
            continue
        nested = {name: table for name, table in tables.items() if isinstance(table, Mapping)}
        flat = {name: value for name, value in tables.items() if name not in nested}
        if flat:
            lines += ["", f"[{_key(section)}]", *_pairs(flat, section)]
        for name, table in nested.items():
            where = f"{section}.{name}"
            lines += ["", f"[{_key(section)}.{_key(name)}]"]
            lines += [f"{_key(k)} = {_value(v, f'{where}.{k}')}" for k, v in table.items()]
    return "\n".join(lines) + "\n"


def _pairs(table: Mapping[str, Any], where: str) -> list[str]:
    kept = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    return [f"{_key(key)} = {_value(value, f'{where}.{key}'.lstrip('.'))}" for key, value in kept.items()]


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item, f'{where}[{i}]') for i, item in enumerate(value))}]"
    if isinstance(value, Mapping):
        pairs = (f"{_key(k)} = {_value(v, f'{where}.{k}')}" for k, v in value.items())
        return f"{{ {', '.join(pairs)} }}"
    raise StudyError(
        f"{where}: TOML has no way to write {shown(value)}; such a study can only be written in Python, or with a "
        "policy class of your own that takes numbers and strings"
    )
