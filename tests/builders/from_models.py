"""An object with every field that a model reads, made from the model."""

from __future__ import annotations

import types
import typing
from datetime import datetime
from typing import Any, get_args, get_origin

from pydantic import BaseModel


def sample(model: type[BaseModel]) -> dict[str, Any]:
    """Each field under the key by which it is read."""
    return {
        field.alias or _camel(model, name): _value(field.annotation, name) for name, field in model.model_fields.items()
    }


def _camel(model: type[BaseModel], name: str) -> str:
    generator = model.model_config.get("alias_generator")
    return generator(name) if callable(generator) else name


def _value(annotation: Any, name: str) -> Any:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        return _value(next(one for one in args if one is not types.NoneType), name)
    if origin is list:
        return [_value(args[0], name)]
    if origin is dict:
        return {"example.com/key": _value(args[1], name)}
    if origin is typing.Annotated:
        return _value(args[0], name)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return sample(annotation)
    if annotation is bool:
        return True
    if annotation in (int, float):
        return 1
    if annotation is datetime:
        return "2026-01-01T00:00:00Z"
    return "1"
