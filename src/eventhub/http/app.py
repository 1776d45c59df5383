"""The ASGI application: a route for every path, and answers for what has none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from eventhub.http.documentation import make_documents
from eventhub.http.endpoint import Endpoint
from eventhub.http.operations import Operation
from eventhub.http.problems import Problem
from eventhub.http.routes import OPERATIONS
from eventhub.http.service import Service

__all__ = ["build_app"]


def build_app(service: Service) -> Starlette:
    """The application of one server process; it opens the service when it starts and closes it at its end."""
    service.documents = make_documents(OPERATIONS)
    by_path: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, []).append(operation)

    @asynccontextmanager
    async def life(_: Any) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.close()

    # Paths without parameters first: /events/subscribe is not an event's id.
    routes = [
        Route(path, Endpoint(service, operations))
        for path, operations in sorted(by_path.items(), key=lambda item: ("{" in item[0], item[0] != "/events"))
    ]
    return Starlette(routes=routes, lifespan=life, exception_handlers={HTTPException: _no_route})


async def _no_route(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    answer = Problem(status, "no-such-route", "There is nothing here; GET /openapi.json lists what there is.").answer()
    return Response(answer.body, status, media_type="application/problem+json")
