"""Object stores: the options that Delta is given, read the same way for the files themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyarrow import fs

__all__ = ["S3", "s3_filesystem"]

S3: Final = "s3://"
_ARGUMENTS: Final = {
    "AWS_ACCESS_KEY_ID": "access_key",
    "AWS_SECRET_ACCESS_KEY": "secret_key",
    "AWS_SESSION_TOKEN": "session_token",
    "AWS_REGION": "region",
    "AWS_DEFAULT_REGION": "region",
    "AWS_ENDPOINT_URL": "endpoint_override",
    "AWS_ENDPOINT_URL_S3": "endpoint_override",
}


def s3_filesystem(options: Mapping[str, str]) -> fs.S3FileSystem:
    """S3, or what speaks like it, as the options say; what they leave out is found as every AWS program finds it."""
    from pyarrow import fs

    given = {argument: options[name] for name, argument in _ARGUMENTS.items() if options.get(name)}
    return fs.S3FileSystem(**given)
