"""W3C trace context, carried along when OpenTelemetry is installed; without it nothing happens here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ["TRACE_HEADERS", "inject", "trace_of"]

TRACE_HEADERS: Final = ("traceparent", "tracestate")


def _find() -> TraceContextTextMapPropagator | None:
    try:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        return None
    return TraceContextTextMapPropagator()


_propagator: Final = _find()


def inject(headers: MutableMapping[str, str]) -> None:
    """Add the current span, if there is one, to the headers of a request."""
    if _propagator is not None:
        _propagator.inject(headers)


@contextmanager
def trace_of(metadata: Mapping[str, str]) -> Iterator[None]:
    """Make the trace that an event came with the current one for the length of the block."""
    if _propagator is None or "traceparent" not in metadata:
        yield
        return
    from opentelemetry import context

    token = context.attach(_propagator.extract({name: metadata[name] for name in TRACE_HEADERS if name in metadata}))
    try:
        yield
    finally:
        context.detach(token)
