# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The doors to tables again, where generated code calls the services in the name of its caller."""

import junit
from access_test import Tables  # noqa: F401

if __name__ == "__main__":
    junit.main()
