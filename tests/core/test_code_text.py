"""Code as text for digests: what changes it and what does not, and that every version of Python gives the same."""

import hashlib

import pytest

from adadim.core.code_text import code_text

# All that versions of Python have parsed differently, and much that they have not.
EVERYTHING = '''
"""A module."""
from __future__ import annotations
import a.b as c, d
from .e import (f, g as h)  # relative

X: int = 0x10_0
"""What X is."""
Y, *Z = 1e-3, -2j, b"\\x00", "\\u00e9\\u200b", ..., None, "", ("a" 'b'), 10 ** 20

@dec(1, *args, key=2, **kw)
class K(Base, metaclass=M):
    """A class."""
    async def m(self, p, /, q: "int" = 3, *r, s=lambda t, *u: (yield), **v) -> list[int]:
        """A method."""
        async with open(p) as o, q: await o
        async for i in [j async for j in o if j]: pass
        else: return f"{i!r:>{q}} {i=} {{}}" f"{q:{s}.{v}}" "tail"

def generator():
    global X
    try:
        x = y = {**a, 'k': [*b]}; x @= y[1:2, ::3, ...]; del x.y, (z)
        assert not x < y <= 3 is not None, "text"
    except* (ValueError, KeyError) as error: raise error from None
    finally: yield from {k: v for k, v in x if (w := k)}
    while True:
        if x: break
        elif y: continue
        else: nonlocal_ = x if y else ~z
    match x:
        case {"k": [1, *_], **rest} | K(p=-1) as whole if whole: pass
        case _: print(x, sep='')
'''


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_every_version_of_python_gives_one_text():
    assert digest(code_text(EVERYTHING)) == "df9e22767425c6e3"


@pytest.mark.parametrize(
    "other",
    [
        "def f(x):\n    return x + 1  # more",
        "def f(x):\n    'Documented.'\n    return x + 1",
        "def f(\n    x\n):\n\n    return (x + 1)",
        "def f(x):\r\n    return x + 1\r\n",
        "    def f(x):\n        return x + 1\n",
        "\tdef f(x):\n\t\treturn x + 1\n",
    ],
)
def test_what_does_not_change_the_text(other):
    assert code_text(other) == code_text(other.encode()) == code_text("def f(x):\n    return x + 1\n")


@pytest.mark.parametrize(
    "other",
    [
        "def f(x):\n    return x + 2",
        "def f(x):\n    return x",
        "def f(x=None):\n    return x + 1",
        "def f(x):\n    x + 1",
    ],
)
def test_what_changes_the_text(other):
    assert code_text(other) != code_text("def f(x):\n    return x + 1\n")


def test_strings_that_are_values_stay():
    assert code_text("x = ['', 'a']") != code_text("x = ['a']")
    assert code_text("f('a')") != code_text("f('b')")
    assert code_text("def f():\n    return 'a'") != code_text("def f():\n    return 'b'")
