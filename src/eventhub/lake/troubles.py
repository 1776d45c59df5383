"""What can be wrong with the place of a lake, in our words: it cannot be reached, read or written just now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from eventhub.errors import StoreUnavailable

__all__ = ["told"]


@contextmanager
def told(url: str) -> Iterator[None]:
    """Errors of files, networks and Delta's own become one that can be waited for."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except TimeoutError:  # of a program that waits for itself
        raise
    except (OSError, DeltaError) as error:
        words = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise StoreUnavailable(
            f"The lake {url} cannot be used ({words}). Check that it can be reached and written, then try again."
        ) from error
