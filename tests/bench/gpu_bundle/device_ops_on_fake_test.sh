#!/bin/bash
# device_ops on a fake GPU (LD_LIBRARY_PATH, THRIFTPS_CUDA_LIBRARY) whose memory is inaccessible to
# host code.
set -u
table=$("$1" --device=cuda:1 --smoke --rounds=1)
status=$?
lines=$(grep -c ' 0$' <<<"$table") n=$("$1" --list | wc -l)
if [ "$status" -ne 0 ] || [ "$lines" -ne "$n" ] || [ "$n" -lt 40 ]; then
  echo "FAILED: exit code $status, $lines operations right of $n"
  echo "$table"
  exit 1
fi
