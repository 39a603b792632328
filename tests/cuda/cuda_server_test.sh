#!/bin/bash
# parameter_server with servers and trainers on devices. Whole worlds of processes run on a fake
# CUDA (LD_LIBRARY_PATH, THRIFTPS_CUDA_LIBRARY) whose memory is inaccessible to host code.
set -u
program=$1
failed=0

# Runs a world and prints a hash of the final model.
run () {  # DESCRIPTION FLAG...
  local description=$1 said
  shift
  said=$("$program" --smoke --rpc-timeout=60 "$@" 2>&1) || echo "FAILED: $description: $said" >&2
  grep '^parameters (xxh3-128): ' <<<"$said"
}

same () {  # DESCRIPTION A B
  [ -n "$2" ] && [ "$2" = "$3" ] || { echo "FAILED: $1: $2 and $3"; failed=1; }
}

plain=$(run 'a server of the CPU' --nserver=1)
half=$(run 'half floats there' --nserver=1 --compress=bf16)
same 'a device' "$plain" "$(run 'a server on a device' --nserver=0 --ncudaserver=1)"
same 'one of each kind' "$plain" "$(run 'one of each kind' --nserver=1 --ncudaserver=1)"
same 'more servers than devices' "$plain" \
  "$(run 'more servers than devices' --nserver=0 --ncudaserver=3 --server=AverageBatchParameterServer)"
same 'half floats' "$half" "$(run 'half floats on a device' --nserver=0 --ncudaserver=1 --compress=bf16)"

# The bits of matrix products on a device differ from the CPU's, so only runs on devices are
# compared.
trainers=$(run 'trainers on devices' --nserver=1 --ntrainer=0 --ncudatrainer=2)
same 'trainers and a server on devices' "$trainers" \
  "$(run 'trainers and a server on devices' --nserver=0 --ncudaserver=1 --ntrainer=0 --ncudatrainer=2)"

exit "$failed"
