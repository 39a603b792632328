# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Unpacks the wheel and puts it at the front of sys.path, so that `import thriftps` finds the files
that users get. Import this module first."""

import os
import sys
import tempfile
import zipfile

_folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
with zipfile.ZipFile(os.environ["WHEEL"]) as _wheel:
    _wheel.extractall(_folder.name)
FOLDER = _folder.name
sys.path.insert(0, FOLDER)
