#!/bin/bash
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
#
# bench/profile.sh must know its hot paths and refuse others, and bench/PROFILES.md must mention
# each path.

set -euo pipefail
script=$1
profiles=$2

fail() {
  echo "FAIL: $*" >&2
  exit 1
}

names=$("$script" --list)
[ "$(wc -w <<< "$names")" -ge 8 ] || fail "--list names too few: $names"
for name in $names; do
  grep -qF "\`$name\`" "$profiles" || fail "PROFILES.md says nothing of $name"
done

status=0
said=$("$script" push_shm nonsense 2>&1) || status=$?
[ "$status" = 2 ] || fail "an unknown name ends with $status: $said"
[[ $said == *nonsense*expected*push_tcp* ]] || fail "an unknown name is answered with: $said"

grep -q "BENCH_BIN" <<< "$("$script" --help)" || fail "--help does not name BENCH_BIN"
