# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Exceptions: one class for each code of thrift/node.thrift, and one for each kind of lost
connection.
"""

from __future__ import annotations

import enum
from typing import Any, Dict, Optional, Type

__all__ = [
    "Aborted",
    "AlreadyExists",
    "ConnectionLost",
    "DeadlineExceeded",
    "Duplicate",
    "ErrorCode",
    "Internal",
    "InvalidArgument",
    "NotFound",
    "PermissionDenied",
    "ProtocolError",
    "ResourceExhausted",
    "Stale",
    "ThriftPSError",
    "Unauthenticated",
    "Unavailable",
]


class ErrorCode(enum.IntEnum):
    """The reason for the failure of a call. Codes up to 12 have the values of ErrorCode in
    thrift/node.thrift.
    """

    INVALID_ARGUMENT = 1
    NOT_FOUND = 2
    ALREADY_EXISTS = 3
    STALE = 4
    DUPLICATE = 5
    DEADLINE_EXCEEDED = 6
    RESOURCE_EXHAUSTED = 7
    UNAVAILABLE = 8
    ABORTED = 9
    UNAUTHENTICATED = 10
    PERMISSION_DENIED = 11
    INTERNAL = 12
    CONNECTION_LOST = 101
    PROTOCOL = 102


class ThriftPSError(Exception):
    """A call failed. The text is the message of the server, or of the client if no server replied.

    code            the reason
    retry_after_ms  milliseconds after which a retry can succeed; None: the server gave no time
    """

    code: ErrorCode = ErrorCode.INTERNAL

    def __init__(self, message: str, retry_after_ms: Optional[int] = None):
        super().__init__(message)
        self.message = message
        self.retry_after_ms = retry_after_ms

    def __str__(self) -> str:
        return "%s: %s" % (self.code.name, self.message)

    def __reduce__(self) -> Any:
        return type(self), (self.message, self.retry_after_ms)


class InvalidArgument(ThriftPSError, ValueError):
    """The request is wrong and will be refused again; the message names the argument."""

    code = ErrorCode.INVALID_ARGUMENT


class NotFound(ThriftPSError, LookupError):
    """There is no such table, key or model."""

    code = ErrorCode.NOT_FOUND


class AlreadyExists(ThriftPSError):
    """The name is in use with another specification."""

    code = ErrorCode.ALREADY_EXISTS


class Stale(ThriftPSError):
    """The batch, push id or model version of the call is older than the oldest one that the server
    remembers or accepts.
    """

    code = ErrorCode.STALE


class Duplicate(ThriftPSError):
    """The push id has already been used, for a push with different contents."""

    code = ErrorCode.DUPLICATE


class DeadlineExceeded(ThriftPSError, TimeoutError):
    """The call did not end in time. If it waited for other trainers, the message names the missing
    ones.
    """

    code = ErrorCode.DEADLINE_EXCEEDED


class ResourceExhausted(ThriftPSError):
    """A limit on size, number, memory or disk space was reached."""

    code = ErrorCode.RESOURCE_EXHAUSTED


class Unavailable(ThriftPSError):
    """The server is starting, stopping or read-only."""

    code = ErrorCode.UNAVAILABLE


class Aborted(ThriftPSError):
    """A newer batch or a reset ended the round, or the client was closed."""

    code = ErrorCode.ABORTED


class Unauthenticated(ThriftPSError):
    """The server does not accept the identity of the caller, or the client does not accept the
    identity of the server."""

    code = ErrorCode.UNAUTHENTICATED


class PermissionDenied(ThriftPSError, PermissionError):
    """The caller may not make this call."""

    code = ErrorCode.PERMISSION_DENIED


class Internal(ThriftPSError):
    """A defect of the server or of the client."""

    code = ErrorCode.INTERNAL


class ConnectionLost(ThriftPSError, ConnectionError):
    """No server replies at the address, or the connection was closed."""

    code = ErrorCode.CONNECTION_LOST


class ProtocolError(ThriftPSError, ConnectionError):
    """The peer violated the protocol."""

    code = ErrorCode.PROTOCOL


_CLASSES: Dict[int, Type[ThriftPSError]] = {
    each.code: each
    for each in (
        InvalidArgument,
        NotFound,
        AlreadyExists,
        Stale,
        Duplicate,
        DeadlineExceeded,
        ResourceExhausted,
        Unavailable,
        Aborted,
        Unauthenticated,
        PermissionDenied,
        Internal,
        ConnectionLost,
        ProtocolError,
    )
}


def from_native(code: int, message: str, retry_after_ms: int) -> ThriftPSError:
    """Returns the exception for a TpsErrorCode (runtime/base/error.h): ErrorCode plus 100."""
    kind = _CLASSES.get(code - 100, Internal)
    return kind(message, None if retry_after_ms < 0 else retry_after_ms)
