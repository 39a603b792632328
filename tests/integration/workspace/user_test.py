# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The package thriftps in another workspace: a push and a lookup on a server, without NumPy.

usage: thriftps_test.py THRIFTPS_SERVER
"""

import subprocess
import sys

import thriftps
from thriftps.tensor.ttypes import DType


def main(server):
    assert DType.FLOAT32 == thriftps.DType.FLOAT32
    with subprocess.Popen(
        [server, "--listen=127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            address = process.stdout.readline().split()[-1]
            with thriftps.connect(address) as tables:
                table = tables.create("t", 10, 2, initializer=thriftps.Zeros())
                table.push([3], [[1, 2]])
                rows = table.lookup([3]).tolist()
        finally:
            process.terminate()
    assert process.returncode == 0, process.returncode
    assert all(abs(got - sent) < 1e-6 for got, sent in zip(rows[0], (-0.01, -0.02))), rows


if __name__ == "__main__":
    main(*sys.argv[1:])
