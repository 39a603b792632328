#!/bin/bash
# device_ops on a device with faults (faulty_library.cc). It must detect one wrong result among
# many, and must end at a fault. After the fault, another process must be able to continue.
set -u
program=$1
failed=0

expect () {  # DESCRIPTION CONDITION...
  local description=$1
  shift
  "$@" || { echo "FAILED: $description"; failed=1; }
}

table=$("$program" --device=cuda:0 --smoke --rounds=1)
expect 'wrong results and faults are a failure' [ $? -eq 1 ]
expect 'an operation without a fault is right' grep -q '^copy .* 0$' <<<"$table"
expect 'a wrong element of many is seen' grep -q '^accumulate  .* 1$' <<<"$table"
expect 'the operation that loses the device is the last line' grep -q '^sgd  .* - .*lost' <(tail -n 1 <<<"$table")

n=$(sed 1d <<<"$table" | wc -l)
table=$("$program" --device=cuda:0 --smoke --rounds=1 --skip="$n")
expect 'the operations after it run in another process' \
  grep -q '^row-wise adagrad, dim 64 .* 0$' <(sed -n 2p <<<"$table")
for name in adagrad "pool's gradient, dim 64" 'cross-entropy with loss'; do
  expect "a wrong state, id or loss of many is seen: $name" \
    grep -q "^$name  .* 1$" <("$program" --device=cuda:0 --smoke --rounds=1 --only="$name")
done
expect 'a gradient without a loss is right' \
  grep -q '^cross-entropy  .* 0$' <("$program" --device=cuda:0 --smoke --rounds=1 --only=cross-entropy)

"$program" --device=cuda:0 --only=nonsense 2>/dev/null
expect 'an unknown operation is refused' [ $? -eq 2 ]
[ "$failed" -eq 0 ] || printf '%s\n' "$table"

exit "$failed"
