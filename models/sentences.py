"""The sentence under each field of a shape, read from the source when somebody asks for it.

Pydantic can collect them while classes are made, but that doubles the time to import the vocabulary.
"""

import ast
import sys
from functools import cache
from inspect import cleandoc, getdoc
from pathlib import Path

from models.shape import Shape


def sentence(shape: type[Shape]) -> str:
    """What a shape is, in the first sentence of its docstring."""
    return (getdoc(shape) or "").partition("\n")[0]


@cache
def field_sentences(shape: type[Shape]) -> dict[str, str]:
    """What each field of a shape means; fields without a sentence are left out."""
    found: dict[str, str] = {}
    for owner in reversed(shape.__mro__):
        if issubclass(owner, Shape):
            found |= _in_module(owner.__module__).get(owner.__qualname__, {})
    return {name: found[name] for name in shape.model_fields if name in found}


@cache
def _in_module(module: str) -> dict[str, dict[str, str]]:
    source = sys.modules[module].__file__
    if source is None:
        return {}
    tree = ast.parse(Path(source).read_text(encoding="utf-8"))
    return {node.name: _in_class(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _in_class(node: ast.ClassDef) -> dict[str, str]:
    pairs = zip(node.body, node.body[1:], strict=False)
    return {
        field.target.id: cleandoc(text.value.value)
        for field, text in pairs
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
