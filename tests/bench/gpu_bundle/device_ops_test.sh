#!/bin/bash
# device_ops on the CPU, and on a machine without the requested device.
set -u
program=$1
failed=0

expect () {  # DESCRIPTION CONDITION...
  local description=$1
  shift
  "$@" || { echo "FAILED: $description"; failed=1; }
}

export THRIFTPS_CUDA_LIBRARY=none

table=$("$program" --device=cpu --smoke --rounds=2)
expect 'every operation agrees with itself on the CPU' [ $? -eq 0 ]
list=$("$program" --list)
expect 'one line for each operation, one above and one below' [ "$(wc -l <<<"$table")" -eq $(($(wc -l <<<"$list") + 2)) ]
expect 'the list has the names of the table' \
  [ "$(cut -c-28 <<<"$list")" = "$(sed -e 1d -e '$d' <<<"$table" | cut -c-28)" ]
for name in accumulate 'accumulate float16' 'cast to bfloat16' 'divide to bfloat16' sgd 'row-wise adagrad, dim 64' \
  'adagrad of rows, dim 64' 'adam of rows, dim 64' 'ftrl of rows, dim 64' adam 'gather, dim 64' 'gather, dim 64, zipf' \
  'pool of 20, dim 128'; do
  expect "$name has a target" grep -q "^$name  *0\.85$" <<<"$list"
done
expect 'so have pushes' grep -q '^push, dim 64, zipf  *0\.50$' <<<"$list"
expect 'a process continues where another one ended' \
  [ "$("$program" --device=cpu --smoke --rounds=1 --skip=27 | sed -e 1d -e '$d' | cut -c-28)" = "$(tail -n +28 <<<"$list" | cut -c-28)" ]

# Arrays grow by a factor of 16. Then the memory is too small for the requested size: five arrays of
# 1 GiB.
expect 'results of larger arrays are right' [ "$("$program" --device=cpu --mib=16 --rounds=1 --skip=40 | grep -c ' 0$')" -ge 3 ]
table=$(ulimit -v 1500000 && "$program" --device=cpu --rounds=1 --only='gather, dim 64')
expect 'arrays are smaller if memory is short' grep -q -E '^operation, +(32|64|128) MiB ' <<<"$table"
expect 'one operation runs alone' [ "$(wc -l <<<"$table") $(grep -c '^gather, dim 64 .* 0$' <<<"$table")" = '3 1' ]

line=$("$program" --device=cuda:0 --smoke 2>&1)
expect 'no such device is exit code 3' [ $? -eq 3 ]
expect 'and one line with the reason' [ "$line" = \
  'device_ops: unknown device "cuda:0"; known: cpu; cuda: none: turned off' ]

"$program" --rounds=0 2>/dev/null
expect 'bad flags are exit code 2' [ $? -eq 2 ]

# Kills a process. The file must have its first lines long before the process exits.
"$program" --device=cpu --smoke --rounds=1000 >"$TEST_TMPDIR/table" &
pid=$!
deadline=$((SECONDS + 30))
until [ -s "$TEST_TMPDIR/table" ] || [ "$SECONDS" -ge "$deadline" ]; do sleep 0.01; done
kill -KILL "$pid"
wait "$pid" 2>/dev/null
expect 'a kill takes place before the end' [ $? -eq 137 ]
expect 'the lines until then are kept' grep -q '^operation, ' "$TEST_TMPDIR/table"

exit "$failed"
