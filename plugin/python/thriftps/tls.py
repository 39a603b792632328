# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""What encrypts connections to servers."""

from __future__ import annotations

import dataclasses
import os
from typing import Optional, Union

from thriftps import _native

__all__ = ["Tls"]

Path = Union[str, "os.PathLike[str]"]


def _encode(path: Optional[Path]) -> Optional[bytes]:
    return None if path is None else os.fsencode(path)


@dataclasses.dataclass(frozen=True)
class Tls:
    """Encrypts TCP connections with TLS 1.3; those to Unix sockets stay as they are. The certificate
    of a server must be for the host of its address: otherwise calls raise Unauthenticated.

    authorities  PEM file with those that may have issued the server's certificate; None: those
                 of the system
    certificate  PEM file of this client, for servers that ask for one
    key          PEM file with its private key; None: it is in `certificate`
    allow_tls_1_2  else TLS 1.3 only

    InvalidArgument, from connect() or Server(): a file cannot be used.
    """

    authorities: Optional[Path] = None
    certificate: Optional[Path] = None
    key: Optional[Path] = None
    allow_tls_1_2: bool = False


def to_native(tls: Optional[Tls]) -> Optional[_native.Tls]:
    if tls is None:
        return None
    return _native.Tls(
        _encode(tls.certificate), _encode(tls.key), _encode(tls.authorities), tls.allow_tls_1_2
    )
