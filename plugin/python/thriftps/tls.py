# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The encryption of connections to servers."""

from __future__ import annotations

import dataclasses
import os
from typing import Optional, Union

from thriftps import _native

__all__ = ["Tls"]

Path = Union[str, "os.PathLike[str]"]


@dataclasses.dataclass(frozen=True)
class Tls:
    """Encrypts TCP connections with TLS 1.3; connections to Unix sockets are not encrypted. The
    certificate of a server must contain the host name or IP address to which the client connects.
    Otherwise, calls raise Unauthenticated.

    authorities  PEM file with the certificate authorities that the client trusts; None: the
                 authorities of the operating system
    certificate  PEM file of this client, for servers that require one
    key          PEM file with its private key; None: it is in `certificate`
    allow_tls_1_2  permits TLS 1.2, too

    connect() and Server() raise InvalidArgument if a file cannot be used.
    """

    authorities: Optional[Path] = None
    certificate: Optional[Path] = None
    key: Optional[Path] = None
    allow_tls_1_2: bool = False


def to_native(tls: Optional[Tls]) -> Optional[_native.Tls]:
    if tls is None:
        return None
    return _native.Tls(tls.certificate, tls.key, tls.authorities, tls.allow_tls_1_2)
