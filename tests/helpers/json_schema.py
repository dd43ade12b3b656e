"""The parts of a JSON schema."""


def nodes(schema, path="$"):
    """Every property of the schema with its path."""
    for name, node in schema.get("properties", {}).items():
        yield f"{path}.{name}", node
        yield from nodes(node, f"{path}.{name}")
        if isinstance(node.get("items"), dict):
            yield from nodes(node["items"], f"{path}.{name}[]")
    for name, node in schema.get("$defs", {}).items():
        yield from nodes(node, f"#{name}")
