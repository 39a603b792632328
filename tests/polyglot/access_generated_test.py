# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The calls of access_test that use tables, with generated code that calls the services on behalf
of its caller."""

import junit
from access_test import Tables  # noqa: F401

if __name__ == "__main__":
    junit.main()
