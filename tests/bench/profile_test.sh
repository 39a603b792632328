#!/bin/bash
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
#
# bench/profile.sh must know its hot paths and refuse others.

set -euo pipefail
script=$1

fail() {
  echo "FAIL: $*" >&2
  exit 1
}

names=$("$script" --list)
[ "$(wc -w <<< "$names")" -ge 8 ] || fail "--list names too few: $names"

status=0
said=$("$script" push_shm nonsense 2>&1) || status=$?
[ "$status" = 2 ] || fail "an unknown name ends with $status: $said"
[[ $said == *nonsense*expected*push_tcp* ]] || fail "an unknown name is answered with: $said"

grep -q "BENCH_BIN" <<< "$("$script" --help)" || fail "--help does not name BENCH_BIN"
