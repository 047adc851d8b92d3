"""Requests and responses against GitHub's own OpenAPI description.

``Checked`` wraps an ASGI application and notes every request and every response that the description does not allow.

Read generally, because the description has its own ways:

- It is OpenAPI 3.0, so ``nullable`` stands beside a schema; here it becomes a type of its own.
- Its ``oneOf`` alternatives overlap (a simple user is also an empty object); here one *or more* may hold.
- It lists few error answers; one that it does not list must still have a message and a link.
- Fields that it does not name are not allowed where it names some: a misspelt field is found on either side.

What GitHub does and its description does not say is in ``UNDOCUMENTED``, and nowhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from jsonschema import Draft7Validator, FormatChecker
from jsonschema.exceptions import best_match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Json = Any
METHODS = frozenset({"get", "post", "put", "patch", "delete"})
PARAMETER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Undocumented:
    """Something that GitHub does and that its description leaves out."""

    why: str
    schema: str
    field: str


_FORK_GONE = "a deleted fork leaves its pull requests without a head repository"
UNDOCUMENTED = (
    Undocumented(_FORK_GONE, "pull-request", "head.repo"),
    Undocumented(_FORK_GONE, "pull-request", "head.user"),
    Undocumented(_FORK_GONE, "pull-request-simple", "head.repo"),
    Undocumented("a label need not have a description", "pull-request-simple", "labels.items.description"),
)
NEWER = frozenset({"archived_at", "archived_by"})
"""Fields that GitHub has added since the pinned description; the client's own models want them."""
STALE = {("GET /app/installations", "200"): {"type": "array", "items": {"$ref": "#/components/schemas/installation"}}}
"""Answers that the description holds as an old copy in place, and what they are by now."""
REDIRECTS = (301, 307)
"""Any operation of a repository answers so after a rename, though few say it."""
ROOT_FOLDER = re.compile(r"/contents/?$")
"""A folder's path may be empty, which a template cannot say."""
BY_ID = re.compile(r"^/repositories/\d+(?=/|$)")
"""Any operation of a repository works by id too; GitHub redirects there after a rename."""


# ── schemas ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Schemas:
    """Schemas of the description as JSON Schema, references put in place; a recursive one becomes a cyclic dict."""

    def __init__(self, components: Mapping[str, Json]) -> None:
        self._components = components
        self._done: dict[str, Json] = {}

    def named(self, reference: str) -> Json:
        """The component behind ``#/components/…``."""
        kind, name = reference.removeprefix("#/components/").split("/", 1)
        return self._components[kind][name]

    def convert(self, node: Json) -> Json:
        """One schema, ready for a validator."""
        if "$ref" in node:
            return self._component(node["$ref"])
        return _nullable(node, self._plain(node))

    def _component(self, reference: str) -> Json:
        if reference not in self._done:
            self._done[reference] = {}  # what a cycle finds; filled in the next line
            self._done[reference].update(self.convert(self.named(reference)))
            for known in UNDOCUMENTED:
                if reference.endswith(f"/schemas/{known.schema}"):
                    _allow_null(self._done[reference], known.field.split("."))
        return self._done[reference]

    def _plain(self, node: Json) -> Json:
        kept = {key: value for key, value in node.items() if key not in ("nullable", "properties", "oneOf")}
        if "properties" in node:
            kept["properties"] = {name: self.convert(schema) for name, schema in node["properties"].items()}
        for key in ("items", "additionalProperties", "not"):
            if isinstance(node.get(key), dict):
                kept[key] = self.convert(node[key])
        for key in ("anyOf", "allOf"):
            if key in node:
                kept[key] = [self.convert(schema) for schema in node[key]]
        if "oneOf" in node:
            kept["allOf"] = [*kept.get("allOf", ()), {"anyOf": [self.convert(schema) for schema in node["oneOf"]]}]
        return kept


def _nullable(node: Json, plain: Json) -> Json:
    return {"anyOf": [{"type": "null"}, plain]} if node.get("nullable") else plain


def _allow_null(schema: Json, path: list[str]) -> None:
    """Let null be right at a place below ``schema``; the place gets its own copy, because schemas are shared."""
    for step in path[:-1]:
        holder = schema if step == "items" else schema["properties"]
        holder[step] = schema = _copy(holder[step])
    holder = schema["properties"]
    holder[path[-1]] = {"anyOf": [{"type": "null"}, holder[path[-1]]]}


def _copy(schema: Json) -> Json:
    return {**schema, "properties": dict(schema["properties"])} if "properties" in schema else dict(schema)


def unnamed_fields(value: Json, schemas: list[Json], path: str = "") -> Iterator[str]:
    """Fields of ``value`` that none of the alternatives in ``schemas`` names."""
    flat = list(_alternatives(schemas))
    if isinstance(value, dict):
        objects = [schema for schema in flat if "properties" in schema]
        open_ended = any(schema.get("additionalProperties") not in (None, False) for schema in flat)
        free = [schema for schema in flat if schema.get("type") == "object" and "properties" not in schema]
        if not objects or open_ended or free:
            return
        for name, inner in value.items():
            below = [schema["properties"][name] for schema in objects if name in schema["properties"]]
            if below:
                yield from unnamed_fields(inner, below, f"{path}.{name}")
            elif name not in NEWER:
                yield f"{path}.{name}".lstrip(".")
    elif isinstance(value, list):
        below = [schema["items"] for schema in flat if "items" in schema]
        for inner in value[:3] if below else ():
            yield from unnamed_fields(inner, below, f"{path}[]")


def _alternatives(schemas: list[Json]) -> Iterator[Json]:
    for schema in schemas:
        yield schema
        for key in ("anyOf", "allOf"):
            yield from _alternatives(schema.get(key, []))


FORMATS = FormatChecker(formats=())


@FORMATS.checks("date-time", raises=ValueError)
def _date_time(value: object) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value.replace("Z", "+00:00")).tzinfo is not None


@FORMATS.checks("uri")
def _uri(value: object) -> bool:
    return not isinstance(value, str) or re.match(r"[a-z][a-z0-9+.-]*:\S+$", value) is not None


class Shape:
    """A compiled schema."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        self._validator = Draft7Validator(schema, format_checker=FORMATS)

    def faults(self, value: Json) -> Iterator[str]:
        """What is wrong with ``value``, in short."""
        error = best_match(self._validator.iter_errors(value))
        if error is not None:
            yield f"at {'.'.join(map(str, error.absolute_path)) or 'the top'}: {error.message[:400]}"
        for name in unnamed_fields(value, [self._schema]):
            yield f"the field {name} is not in the description"


# ── operations ───────────────────────────────────────────────────────────────────────────────────────────────────


class Operation:
    """One operation of the description, compiled when it is first used."""

    def __init__(self, schemas: Schemas, method: str, path: str, node: Json) -> None:
        self.name = f"{method.upper()} {path}"
        self._schemas = schemas
        self._node = node
        pattern = re.escape(path).replace(r"\{", "{").replace(r"\}", "}")
        self._strict = re.compile(PARAMETER.sub(r"(?P<\1>[^/]+)", pattern))
        # The first two are owner and name of a repository, which never have a slash.
        loose = PARAMETER.sub(r"(?P<\1>.+)", PARAMETER.sub(r"(?P<\1>[^/]+)", pattern, count=2))
        self._loose = re.compile(loose)
        self.literal = len(PARAMETER.sub("", path))
        self._answers: dict[str, Shape | None] = {}

    def match(self, path: str, *, loose: bool) -> Mapping[str, str] | None:
        """The values in the path; ``loose``: they may have slashes, as names of branches do."""
        found = (self._loose if loose else self._strict).fullmatch(path)
        return found.groupdict() if found else None

    @cached_property
    def _parameters(self) -> Mapping[tuple[str, str], Shape]:
        nodes = [
            self._schemas.named(node["$ref"]) if "$ref" in node else node for node in self._node.get("parameters", ())
        ]
        return {(node["in"], node["name"]): Shape(self._schemas.convert(node["schema"])) for node in nodes}

    @cached_property
    def _body(self) -> Shape | None:
        content = self._node.get("requestBody", {}).get("content", {})
        return (
            Shape(self._schemas.convert(content["application/json"]["schema"]))
            if "application/json" in content
            else None
        )

    def request_faults(self, values: Mapping[str, str], query: str, body: bytes) -> Iterator[str]:
        for name, value in values.items():
            shape = self._parameters.get(("path", name))
            for fault in shape.faults(_coerced(unquote(value))) if shape else ():
                # A number is also a fine name, of a label for example.
                if any(shape.faults(unquote(value))):  # type: ignore[union-attr]
                    yield f"path value {name}: {fault}"
        for name, value in parse_qsl(query, keep_blank_values=True):
            shape = self._parameters.get(("query", name))
            if shape is None:
                yield f"the query parameter {name} is not in the description"
            elif any(shape.faults(value)):
                yield from (f"query parameter {name}: {fault}" for fault in shape.faults(_coerced(value)))
        yield from self._body_faults(body)

    def _body_faults(self, body: bytes) -> Iterator[str]:
        if not body:
            if self._node.get("requestBody", {}).get("required"):
                yield "a body is required"
            return
        try:
            value = json.loads(body)
        except ValueError:
            yield "the body is not JSON"
            return
        if self._body is None:
            if value:
                yield "a body is not in the description"
            return
        yield from (f"body: {fault}" for fault in self._body.faults(value))

    def response_faults(self, status: int, content_type: str, body: bytes) -> Iterator[str]:
        if status == 304 and not body:
            return  # any reader may ask for what is new only
        answer = self._node["responses"].get(str(status))
        if answer is None and status in REDIRECTS:
            answer = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/basic-error"}}}}
        if answer is None:
            if status < 400:
                yield f"the status {status} is not in the description"
                return
            answer = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/basic-error"}}}}
        elif "$ref" in answer:
            answer = self._schemas.named(answer["$ref"])
        content = answer.get("content", {})
        kind = content_type.partition(";")[0]
        if not body:
            if content:
                yield "the answer has no body"
        elif kind in content and kind != "application/json":
            return  # a diff, a file: bytes of their own kind
        elif kind != "application/json":
            if not kind.startswith("application/vnd.github"):
                yield f"the content type {kind} is not in the description"
        elif content:
            yield from self._json_faults(f"{status}", content.get("application/json"), body)
        elif status < 400:
            yield "a body is not in the description"

    def _json_faults(self, key: str, media: Json, body: bytes) -> Iterator[str]:
        if media is None:
            return
        if key not in self._answers:
            schema = STALE.get((self.name, key), media["schema"])
            self._answers[key] = Shape(self._schemas.convert(schema))
        shape = self._answers[key]
        assert shape is not None
        value = json.loads(body)
        if int(key) >= 400:
            value.pop("status", None)  # in every error by now, in few of the description's shapes
        yield from (f"answer: {fault}" for fault in shape.faults(value))
        if int(key) >= 400 and not (isinstance(value.get("message"), str) and value.get("documentation_url")):
            yield "answer: an error has a message and a link"


def _coerced(value: str) -> Json:
    if re.fullmatch(r"-?\d+", value):
        return int(value)
    return {"true": True, "false": False}.get(value, value)


class Description:
    """GitHub's description, read once.

    Args:
        path: the JSON file.
    """

    def __init__(self, path: Path) -> None:
        document = json.loads(path.read_bytes())
        self._schemas = Schemas(document["components"])
        self._webhooks = document["x-webhooks"]
        self._payloads: dict[str, Shape] = {}
        self._operations: dict[str, list[Operation]] = {method: [] for method in METHODS}
        for route, methods in document["paths"].items():
            for method in METHODS & methods.keys():
                self._operations[method].append(Operation(self._schemas, method, route, methods[method]))
        for operations in self._operations.values():
            operations.sort(key=lambda operation: -operation.literal)

    def find(self, method: str, path: str) -> tuple[Operation, Mapping[str, str]] | None:
        """The operation that a request means; the one with the most literal path wins."""
        path = ROOT_FOLDER.sub("/contents/.", BY_ID.sub("/repos/owner/repo", path))
        for loose in (False, True):
            for operation in self._operations.get(method.lower(), ()):
                values = operation.match(path, loose=loose)
                if values is not None:
                    return operation, values
        return None

    def payload_faults(self, event: str, payload: Json) -> list[str]:
        """What is wrong with a webhook's payload."""
        action = payload.get("action")
        key = "-".join([event, *([action] if action else [])]).replace("_", "-")
        if key not in self._webhooks:
            return [f"there is no webhook {key}"]
        if key not in self._payloads:
            content = self._webhooks[key]["post"]["requestBody"]["content"]
            self._payloads[key] = Shape(self._schemas.convert(content["application/json"]["schema"]))
        return [f"{key}: {fault}" for fault in self._payloads[key].faults(payload)]


# ── the middleware ───────────────────────────────────────────────────────────────────────────────────────────────


class Checked:
    """An ASGI application whose REST traffic is checked on both ways.

    Args:
        description: ``None`` checks only that no unknown operation is asked for.
        prefix: where the REST API is.
    """

    def __init__(self, description: Description | None, prefix: str) -> None:
        self._description = description
        self._prefix = prefix
        self._lenient = False
        self.violations: list[str] = []
        """What was not allowed, in order."""
        self.operations: set[str] = set()
        """Operations that were asked for."""

    @contextmanager
    def bad_requests(self) -> Iterator[None]:
        """For tests that ask for something wrong on purpose: requests are not checked, answers are."""
        self._lenient = True
        try:
            yield
        finally:
            self._lenient = False

    def wrap(self, app: ASGIApp) -> ASGIApp:
        async def checked(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or not scope["path"].startswith(f"{self._prefix}/"):
                await app(scope, receive, send)
                return
            asked, answered = bytearray(), bytearray()
            start: Message = {}

            async def hear() -> Message:
                message = await receive()
                asked.extend(message.get("body", b""))
                return message

            async def tell(message: Message) -> None:
                nonlocal start
                if message["type"] == "http.response.start":
                    start = message
                answered.extend(message.get("body", b""))
                await send(message)

            lenient = self._lenient
            await app(scope, hear, tell)
            self._check(scope, bytes(asked), start, bytes(answered), lenient)

        return checked

    def _check(self, scope: Scope, asked: bytes, start: Message, answered: bytes, lenient: bool) -> None:
        method = scope["method"]
        path = scope["raw_path"].decode("ascii", "replace").partition("?")[0].removeprefix(self._prefix)
        status = start.get("status", 0)
        if status == 501:
            self.violations.append(f"{method} {path}: the stand-in has no such operation")
        if self._description is None or status == 501:
            return
        found = self._description.find(method, path)
        if found is None:
            self.violations.append(f"{method} {path}: not in GitHub's description")
            return
        operation, values = found
        self.operations.add(operation.name)
        content_type = dict(start.get("headers", ())).get(b"content-type", b"").decode()
        query = scope["query_string"].decode()
        faults = [] if lenient else [f"asked: {f}" for f in operation.request_faults(values, query, asked)]
        faults += operation.response_faults(status, content_type, answered)
        self.violations += [f"{operation.name} ({method} {path} -> {status}): {fault}" for fault in faults]
