#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""torch.save as a peer of //bench:durability.

    pytorch_save.py FILE BYTES

It prints "torch VERSION" when it has created a tensor of BYTES bytes. For each line "save" it
writes the tensor to FILE, syncs the file, removes it, and replies "ok SECONDS" (without the
removal). It ends at the end of its standard input.
"""

import os
import sys
import time

import torch


def save(tensor, path):
    start = time.perf_counter()
    with open(path, "wb") as file:
        torch.save(tensor, file)
        file.flush()
        os.fsync(file.fileno())
    seconds = time.perf_counter() - start
    os.unlink(path)
    return seconds


def main():
    path, n_bytes = sys.argv[1], int(sys.argv[2])
    tensor = torch.rand(n_bytes // 4)
    print("torch " + torch.__version__, flush=True)
    for _ in sys.stdin:
        try:
            print("ok %.6f" % save(tensor, path), flush=True)
        except OSError as error:
            print(error, flush=True)


if __name__ == "__main__":
    main()
