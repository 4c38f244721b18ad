"""Groups of a document that become a dataclass of the domain.

The dataclass alone defines the name, the type and the default of each field. The domain must not import pydantic, so
the document adds to each field its description, its bounds, and the form in which it is written.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

from pydantic import GetCoreSchemaHandler, SerializationInfo, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, SchemaSerializer, core_schema

from extender.config.values import Group


class InDocument:
    """Read a dataclass of the domain from a group with one key for each field: `Annotated[Kind, InDocument(_Keys)]`.

    `keys` is a class with a pydantic `Field` for each field of the dataclass. A key has a type only where the document
    limits that of the field, or writes it in another form, and a default only where it differs. The name and the
    docstring of the class describe the group.
    """

    def __init__(self, keys: type) -> None:
        self._keys = keys
        self._group: type[Group] | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # One model for all uses of the group: each further one would get a definition of its own in the JSON schema.
        group = self._group = self._group or _group_of(self._keys, source)

        def read(given: Group) -> Any:
            return source(**{name: getattr(given, name) for name in group.model_fields})

        def write(value: Any, info: SerializationInfo) -> dict[str, Any]:
            given = group.model_construct(**{name: getattr(value, name) for name in group.model_fields})
            return given.model_dump(mode=info.mode)

        return core_schema.no_info_after_validator_function(
            read,
            handler.generate_schema(group),
            serialization=core_schema.plain_serializer_function_ser_schema(write, info_arg=True),
        )


def _group_of(keys: type, source: Any) -> type[Group]:
    """Return the model of the group. Raises `TypeError` unless there is exactly one key for each field."""
    infos = {name: info for name, info in vars(keys).items() if not name.startswith("_")}
    defined = {one.name: one for one in fields(source)}
    if differing := sorted(infos.keys() ^ defined.keys()):
        raise TypeError(f"{keys.__name__} must have the fields of {source.__name__}: {', '.join(differing)}")
    types = {**get_type_hints(source), **get_type_hints(keys, include_extras=True)}
    model: dict[str, Any] = {
        name: (Annotated[types[name], info], _default(defined[name]) if info.is_required() else info.default)
        for name, info in infos.items()
    }
    return create_model(keys.__name__.lstrip("_"), __base__=Group, __doc__=keys.__doc__, **model)


def _default(field: Field[Any]) -> Any:
    """Return the default of a field for `create_model`, where an ellipsis makes a field required."""
    if field.default_factory is not MISSING:
        return field.default_factory()
    return ... if field.default is MISSING else field.default


class DocumentSchema(GenerateJsonSchema):
    """Write defaults that are values of the domain in the form that they have in the document."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Return the JSON schema of a key with a default."""
        found, default = super().default_schema(schema), schema.get("default")
        if is_dataclass(default) and "serialization" in schema["schema"]:
            found["default"] = SchemaSerializer(schema["schema"]).to_python(default, mode="json")
        return found
