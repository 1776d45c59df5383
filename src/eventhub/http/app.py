"""The ASGI application: a route for every path, and answers for what has none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from eventhub.http.documentation import make_documents
from eventhub.http.endpoint import SECURITY, Endpoint
from eventhub.http.operations import Operation
from eventhub.http.problems import Problem
from eventhub.http.routes import OPERATIONS, PAGES
from eventhub.http.routing import Routes
from eventhub.http.service import Service

__all__ = ["Application", "build_app"]


class Application:
    """Finds the endpoint of a known path in a table; everything else is left to Starlette.

    Starlette tries one pattern after the other and wraps ``receive`` and ``send`` three times on the way.
    """

    def __init__(self, endpoints: dict[str, Endpoint], rest: Starlette) -> None:
        self._routes = Routes(endpoints)
        self._rest = rest

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        found = self._routes.find(scope) if scope["type"] == "http" else None
        await (found or self._rest)(scope, receive, send)


def build_app(service: Service) -> Application:
    """The application of one server process; it opens the service when it starts and closes it at its end."""
    service.documents = make_documents(OPERATIONS)
    by_path: dict[str, list[Operation]] = {}
    for operation in (*OPERATIONS, *PAGES):
        by_path.setdefault(operation.path, []).append(operation)

    @asynccontextmanager
    async def life(_: Any) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.close()

    endpoints = {path: Endpoint(service, operations) for path, operations in by_path.items()}
    rest = Starlette(lifespan=life, exception_handlers={HTTPException: _no_route})
    rest.router.redirect_slashes = False  # a redirect would name whatever Host the client claims
    return Application(endpoints, rest)


async def _no_route(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    answer = Problem(status, "no-such-route", "There is nothing here; GET /openapi.json lists what there is.").answer()
    headers = {name.decode(): value.decode() for name, value in SECURITY}
    return Response(answer.body, status, headers, media_type="application/problem+json")
