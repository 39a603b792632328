#!/bin/bash
# Runs one stage of what needs a GPU, on a machine with a driver and nothing of ours but this folder.
#
#   ./run_all.sh STAGE       conformance | sanitizer | huge_arrays | device_ops | pytorch | nccl | cuda_ipc | tables |
#                            parameter_server | ddp_rpc | cuda_rpc | all
#
# Each stage ends within 8 minutes. What the machine refuses is skipped, with the reason. Ends with a table of
# `STAGE NAME passed|failed|skipped [figure or reason]`; exit code 1 where something failed. With THRIFTPS_SMOKE=1 in the
# environment benchmarks are small, and their figures say nothing.
set -u
cd "$(dirname "$(readlink -f "$0")")" || exit 2

STAGES=(conformance sanitizer huge_arrays device_ops pytorch nccl cuda_ipc tables parameter_server ddp_rpc cuda_rpc)
LIMIT_S=470  # of a stage
PART_S=150   # of a part of a stage that may hang
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
tar -C "$scratch" -xzf lib.tar.gz || exit 2
export LD_LIBRARY_PATH=$scratch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export THRIFTPS_CUDA_LIBRARY=$PWD/libtps_cuda.so

table=()
failed=0
stage_end=0
size=(${THRIFTPS_SMOKE:+--smoke})

note () {  # STAGE NAME RESULT [FIGURE OR REASON]
  table+=("$(printf '%-16s %-28s %-8s %s' "$1" "$2" "$3" "${4:-}")")
  [ "$3" != failed ] || failed=1
}

python=${THRIFTPS_PYTHON:-$(command -v python3)}
export THRIFTPS_PYTHON=${python:-none}

# Empty where there is a device, else the line that says why there is none.
why_no_gpu () {
  local said status
  said=$(./bin/device_ops --device=cuda:0 --smoke --rounds=1 2>&1)
  status=$?
  [ "$status" -ne 3 ] || printf '%s\n' "$said" | tail -n 1
}

# An exit code of 3 says that the machine has not what is needed; the last line says what. `figure`, a script for sed, finds
# in what was said what stands in the table.
run () {  # STAGE NAME COMMAND...
  local stage=$1 name=$2 status left=$((stage_end - SECONDS)) limit=${limit:-$LIMIT_S}
  shift 2
  if [ "$left" -le 0 ]; then
    note "$stage" "$name" skipped "the $LIMIT_S s of the stage are over"
    return
  fi
  [ "$limit" -le "$left" ] || limit=$left
  echo "== $stage: $name"
  timeout --kill-after=5 "$limit" "$@" 2>&1 | tee "$scratch/said"
  status=${PIPESTATUS[0]}
  case $status in
    0) note "$stage" "$name" passed "$(sed -n "${figure:-}" "$scratch/said" | tail -n 1)" ;;
    3) note "$stage" "$name" skipped "$(tail -n 1 "$scratch/said")" ;;
    124 | 137) note "$stage" "$name" failed "took longer than $limit s" ;;
    *) note "$stage" "$name" failed "exit code $status" ;;
  esac
}

# The tests of this folder, but for those with a stage of their own.
suites () {
  (cd bin && printf '%s\n' ./*_on_gpu_test | sed 's|^\./||' | grep -v -e '^device_memory_' -e '^device_tables_')
}

stage_conformance () {
  local suite
  export CONFORMANCE_DEVICES=cuda
  for suite in $(suites); do
    run conformance "$suite" "./bin/$suite" --gtest_brief=1
  done
}

stage_sanitizer () {
  local suite tool limit=120
  export CONFORMANCE_DEVICES=cuda
  tool=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
  if [ -z "$tool" ]; then
    note sanitizer all skipped 'no compute-sanitizer on the PATH or in /usr/local/cuda/bin'
    return
  fi
  run sanitizer 'rows racecheck' "$tool" --error-exitcode=9 --tool=racecheck ./bin/rows_on_gpu_test --gtest_brief=1
  for suite in $(suites) device_tables_on_gpu_test; do
    run sanitizer "${suite%_on_gpu_test} memcheck" \
      "$tool" --error-exitcode=9 --tool=memcheck "./bin/$suite" --gtest_brief=1
  done
}

stage_huge_arrays () {
  run huge_arrays cuda:0 ./bin/huge_arrays
}

stage_device_ops () {
  local figure='/ operations reach what is asked of them/p'
  run device_ops cuda:0 ./bin/device_ops --device=cuda:0 "${size[@]}"
}

# After device_ops, whose figures stand beside.
stage_pytorch () {
  local figure='/ at least level with PyTorch/p'
  if [ -z "$python" ]; then
    note pytorch all skipped 'no python3 on the PATH'
    return
  fi
  ./bin/device_ops --device=cuda:0 "${size[@]}" >"$scratch/ours" 2>&1
  run pytorch operations "$python" ./bin/pytorch_ops.py --beside="$scratch/ours"
}

# Both ranks may share one GPU: NCCL before 2.30 refuses that within a host, so each gets a host of its own, and they talk
# over the loopback interface. That is right, and slow. The exit code is the first rank's, or the second's.
export TWO_RANKS='
  folder=$(mktemp -d "$1/ranks.XXXXXX")
  export NCCL_SOCKET_IFNAME=lo NCCL_MULTI_RANK_GPU_ENABLE=1
  NCCL_HOSTID=second ./bin/nccl_ranks --rank=1 --size=2 --store="$folder" & second=$!
  NCCL_HOSTID=first ./bin/nccl_ranks --rank=0 --size=2 --store="$folder"; first=$?
  wait "$second"; second=$?
  [ "$first" -ne 0 ] && exit "$first"
  exit "$second"'

stage_nccl () {
  local limit=$PART_S
  mkdir "$scratch/one"
  run nccl 'one rank' ./bin/nccl_ranks --store="$scratch/one"
  run nccl 'two ranks' bash -c "$TWO_RANKS" two_ranks "$scratch"
}

# A server and its trainers, processes each, with gradients in the GPU's memory.
stage_cuda_ipc () {
  export THRIFTPS_SERVER=./bin/thriftps_server
  run cuda_ipc 'two processes' ./bin/device_memory_on_gpu_test
}

stage_tables () {
  run tables 'on the GPU' ./bin/device_tables_on_gpu_test --gtest_brief=1
}

# p50 of a batch: in the first form of what `metrics for all trainer` says, in the second beside PyTorch's.
BATCH='s/^| batch_level_metric,batch_all *|\( *[^ ]* *|\)\{5\} *\([^ ]*\) .*/a batch in \2 ms/p'
BESIDE='s/^| all trainer\/batch_level_metric,batch_all *| *\([^ ]*\) *| *\([^ ]*\) *| *\([^ ]*\) *|$/a batch in \1 ms, PyTorch \2 ms: \3/p'

# The same work with roles on the CPU and on the GPU.
stage_parameter_server () {
  local limit=$PART_S figure=$BATCH
  run parameter_server 'CPU only' ./bin/parameter_server "${size[@]}"
  run parameter_server 'CUDA server' ./bin/parameter_server "${size[@]}" --ncudaserver=1
  run parameter_server 'CUDA trainers, server' ./bin/parameter_server "${size[@]}" --ncudatrainer=2 --ncudaserver=1
  run parameter_server 'the same without sharing' \
    ./bin/parameter_server "${size[@]}" --ncudatrainer=2 --ncudaserver=1 --no-shared-memory
}

# p50 of an epoch, and samples a second of all trainers.
EPOCH='s/^| All *| *\([^ ]*\) *| *[^ ]* *| *\([^ ]*\) .*/an epoch in \2 ms, \1 samples a second/p'

stage_ddp_rpc () {
  local limit=$PART_S figure=$EPOCH
  run ddp_rpc 'CPU only' ./bin/ddp_rpc "${size[@]}"
  run ddp_rpc 'CUDA trainers, tables' ./bin/ddp_rpc "${size[@]}" --trainer-device=cuda --table-device=cuda
  run ddp_rpc 'tables in host memory' ./bin/ddp_rpc "${size[@]}" --trainer-device=cuda --table-device=cuda/host
}

# Two trainers and a server with PyTorch's CUDA RPC, in turn with ours.
stage_cuda_rpc () {
  local figure=$BESIDE reason
  if [ -z "$python" ]; then
    note cuda_rpc all skipped 'no python3 on the PATH'
  elif ! "$python" -c 'import torch' 2>/dev/null; then
    note cuda_rpc all skipped "no PyTorch in $python"
  elif ! reason=$("$python" ./bin/bench/peers/pytorch_parameter_server.py --check 2>&1); then
    note cuda_rpc all skipped "$(tail -n 1 <<<"$reason")"
  else
    local limit=230
    run cuda_rpc 'beside PyTorch' ./bin/parameter_server "${size[@]}" --ncudatrainer=2 --ncudaserver=1 --peer=pytorch
    run cuda_rpc 'beside PyTorch, dense' \
      ./bin/parameter_server "${size[@]}" --ncudatrainer=2 --ncudaserver=1 --peer=pytorch --model=DummyModel
  fi
}

usage () {
  sed -n '2,11s/^# \{0,1\}//p' "$0"
  exit 2
}

wanted=("$@")
[ $# -gt 0 ] || usage
[ "$1" != all ] || wanted=("${STAGES[@]}")
for stage in "${wanted[@]}"; do
  case " ${STAGES[*]} " in
    *" $stage "*) ;;
    *) usage ;;
  esac
done
reason=$(why_no_gpu)
for stage in "${wanted[@]}"; do
  stage_end=$((SECONDS + LIMIT_S))
  if [ -n "$reason" ]; then
    note "$stage" all skipped "$reason"
  else
    "stage_$stage"
  fi
done

echo
printf '%s\n' "${table[@]}"
exit "$failed"
