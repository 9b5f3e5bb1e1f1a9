"""The JSON schema of manifests, for people, editors and models that write one.

The schemas of the kinds come from their forms. A node is one of them; a nested graph is a manifest again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphrt._arguments import is_list, is_mapping
from graphrt.specs.forms import MANIFEST, Form
from graphrt.specs.manifest import GraphSpec, NodeSpec

_REF = "#/$defs/{model}"


def json_schema(kinds: Mapping[str, type[Form]]) -> dict[str, Any]:
    """Return the schema of manifests whose nodes and routers are of these kinds."""
    root = GraphSpec.model_json_schema(ref_template=_REF)
    definitions: dict[str, Any] = root.pop("$defs")
    common = NodeSpec.model_json_schema(ref_template=_REF)
    definitions |= common.pop("$defs", {})
    nodes: list[dict[str, str]] = []
    routers: list[dict[str, str]] = []
    for kind, form in kinds.items():
        schema = form.model_json_schema(ref_template=_REF)
        definitions |= schema.pop("$defs", {})
        if not form.is_router:
            outer = {name: common["properties"][name] for name in ("name", "policy")}
            schema["properties"] = {"name": outer["name"], **schema["properties"], "policy": outer["policy"]}
        required = [name for name in schema.get("required", ()) if name != "kind"]
        schema["required"] = ["kind", *required] if form.is_router else ["name", "kind", *required]
        definitions[form.__name__] = schema
        (routers if form.is_router else nodes).append({"$ref": f"#/$defs/{form.__name__}"})
        schema["properties"]["kind"] = {"const": kind, "type": "string"}
    definitions["NodeSpec"] = {"anyOf": nodes}
    named: dict[str, Any] = {"type": "string", "minLength": 1}
    definitions["ConditionalSpec"]["properties"]["router"] = {"anyOf": [named, *routers]}
    definitions["GraphSpec"] = root
    return {"$ref": "#/$defs/GraphSpec", "$defs": _linked(definitions)}


def _linked(schema: Any) -> Any:
    """Return *schema* with references in the places of nested manifests."""
    if schema == MANIFEST:
        return {"$ref": "#/$defs/GraphSpec"}
    if is_mapping(schema):
        return {key: _linked(value) for key, value in schema.items()}
    if is_list(schema):
        return [_linked(value) for value in schema]
    return schema
