"""Clients of object stores: bounded in time, without credentials in URLs, with errors that can be told apart."""

from __future__ import annotations

from typing import Any

import fsspec
from fsspec.config import conf, set_conf_env
from fsspec.core import url_to_fs

from ptkstore.errors import InvalidRequest

# A request that hangs is given up after these times, and asked again so often: by botocore within one request, by s3fs
# around it (for bodies that break off). Together a store that swallows all packets is given up after three minutes.
_CONFIG = {
    "connect_timeout": 5,
    "read_timeout": 30,
    "retries": {"mode": "standard", "total_max_attempts": 3},
}
_S3FS_TRIES = 2
# What a message may name: words of the S3 protocol, which say who should act and nothing else.
_CODES = frozenset(
    {
        "AccessDenied",
        "BadDigest",
        "EntityTooLarge",
        "ExpiredToken",
        "InternalError",
        "InvalidAccessKeyId",
        "InvalidArgument",
        "InvalidRequest",
        "InvalidToken",
        "MethodNotAllowed",
        "NoSuchBucket",
        "NoSuchUpload",
        "NotImplemented",
        "QuotaExceeded",
        "RequestTimeTooSkewed",
        "RequestTimeout",
        "ServiceUnavailable",
        "SignatureDoesNotMatch",
        "SlowDown",
        "XAmzContentSHA256Mismatch",
    }
)


def read_environment() -> None:
    """Take over what the environment says of file systems now; fsspec reads it when it is imported."""
    set_conf_env(conf)


def connected(url: str) -> tuple[fsspec.AbstractFileSystem, str, tuple[type[BaseException], ...]]:
    """Return the file system behind a URL, the path of the URL in it, and what it raises.

    Credentials come from the environment, a profile or the machine's role. The `config_kwargs` of `FSSPEC_S3`, a JSON
    object in the environment, set what botocore's `Config` takes otherwise than here.
    """
    scheme, _, rest = url.partition("://")
    authority = rest.partition("/")[0]
    credentials = authority.rpartition("@")[0]
    if ":" in credentials or (scheme in {"s3", "s3a"} and (credentials or "?" in rest or "#" in rest)):
        raise InvalidRequest(f"a {scheme}:// URL here has no credentials or options: use the environment")
    if scheme not in {"s3", "s3a"}:
        filesystem, root = url_to_fs(url, use_listings_cache=False)
        return filesystem, root, (OSError,)
    chosen = conf.get("s3", {}).get("config_kwargs", {})
    filesystem, root = url_to_fs(url, use_listings_cache=False, config_kwargs={**_CONFIG, **chosen})
    filesystem.retries = _S3FS_TRIES
    return filesystem, root, _s3_faults()


def http_status(error: BaseException) -> int | None:
    """Return the HTTP status behind an error of s3fs, which wraps the client's own one."""
    status = _response(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status if isinstance(status, int) else None


def fault_code(error: BaseException) -> str:
    """Describe an error without a name, host, key or value."""
    code = _response(error).get("Error", {}).get("Code")
    if code in _CODES:
        return str(code)
    status = http_status(error)
    return f"HTTP {status}" if status is not None else type(error).__name__


def _response(error: BaseException) -> dict[str, Any]:
    response = getattr(error.__cause__ or error, "response", None)
    return response if isinstance(response, dict) else {}


def _s3_faults() -> tuple[type[BaseException], ...]:
    """Faults of connections and credentials are no `OSError` there, nor is a body that breaks off."""
    from botocore.exceptions import BotoCoreError, ClientError
    from s3fs.core import S3_RETRYABLE_ERRORS

    return (OSError, BotoCoreError, ClientError, *S3_RETRYABLE_ERRORS)
