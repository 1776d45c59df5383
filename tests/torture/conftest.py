"""What is told also when tests pass."""

from tests.crash.conftest import say

__all__ = ["say"]
