"""Python code as text that changes with what the code does, and not with its comments, docstrings and layout."""

from __future__ import annotations

import ast
from typing import Any


def code_text(source: str | bytes) -> str:
    r"""The syntax tree of source code as text, without the strings that are statements: docstrings, in effect.

    The source may be indented, as that of a method is. The text is the same in all versions of Python that can read
    the source: fields without a value, which come and go with the versions of `ast`, are left out.

    Examples
    --------
    >>> code_text("def f(x):\n    'Twice.'\n    return 2*x") == code_text("def f( x ): return 2 * x  # twice")
    True
    >>> code_text("x = 2") == code_text("x = 3")
    False
    """
    text = source if isinstance(source, str) else source.decode("utf-8-sig")
    indented = text[:1] in (" ", "\t")
    tree = ast.parse(f"if True:\n{text}" if indented else text)
    return _node_text(tree.body[0].body if indented and isinstance(tree.body[0], ast.If) else tree.body)


def _node_text(node: Any) -> str:
    if isinstance(node, list):
        return f"[{','.join([_node_text(item) for item in node if not is_string_statement(item)])}]"
    if not isinstance(node, ast.AST):
        return ascii(node)  # unlike that of `repr`, its result does not depend on the version of Unicode
    if isinstance(node, ast.JoinedStr):  # Python 3.12 has an empty constant in some f-strings
        node.values = [value for value in node.values if not isinstance(value, ast.Constant) or value.value]
    parts = []
    for name in node._fields:
        value = getattr(node, name, None)
        if value is not None and value != []:
            parts.append(f"{name}={_node_text(value)}")
    return f"{type(node).__name__}({','.join(parts)})"


def is_string_statement(node: Any) -> bool:
    """Whether a node of a syntax tree is a statement that is a string, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
