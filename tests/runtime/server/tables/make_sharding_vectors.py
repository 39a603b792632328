#!/usr/bin/env python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Writes sharding_vectors.txt from the description in runtime/embedding/sharding.h, in another
language. In the folder of this script:

    python3 make_sharding_vectors.py > sharding_vectors.txt
"""

import random

FACTORS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9)


def permute(row, rows):
    k = max((rows - 1).bit_length(), 1)
    mask = (1 << k) - 1
    h = max(k // 2, 1)
    x = row
    while True:
        for factor in FACTORS:
            x ^= x >> h
            x = x * factor & mask
        x ^= x >> h
        if x < rows:
            return x


def main():
    print("# rows row permute(row, rows); made by make_sharding_vectors.py")
    choose = random.Random(1)
    for rows in (1, 2, 3, 5, 8):
        for row in range(rows):
            print(rows, row, permute(row, rows))
    for rows in (300, 1 << 16, 1000003, 20000000, (1 << 40) + 1, (1 << 63) - 1):
        for row in (0, 1, rows // 2, rows - 1, choose.randrange(rows)):
            print(rows, row, permute(row, rows))


if __name__ == "__main__":
    main()
