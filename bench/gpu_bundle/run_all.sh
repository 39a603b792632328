#!/bin/bash
# Runs one stage of what needs a GPU, on a machine with a driver and nothing of ours but this folder.
#
#   ./run_all.sh STAGE       conformance | sanitizer | huge_arrays | device_ops | nccl | pytorch | parameter_server | all
#
# Each stage ends within 8 minutes. What the machine refuses is skipped, with the reason. Ends with a table of
# `STAGE NAME passed|failed|skipped [reason]`; exit code 1 where something failed.
set -u
cd "$(dirname "$(readlink -f "$0")")" || exit 2

STAGES=(conformance sanitizer huge_arrays device_ops nccl pytorch parameter_server)
LIMIT_S=470  # of a stage
PART_S=150   # of a part of a stage that has several
libraries=$(mktemp -d) || exit 2
store=$(mktemp -d) || exit 2
trap 'rm -rf "$libraries" "$store"' EXIT
tar -C "$libraries" -xzf lib.tar.gz || exit 2
export LD_LIBRARY_PATH=$libraries/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export THRIFTPS_CUDA_LIBRARY=$PWD/libtps_cuda.so

table=()
failed=0

note () {  # STAGE NAME RESULT [REASON]
  table+=("$(printf '%-12s %-22s %-8s %s' "$1" "$2" "$3" "${4:-}")")
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

# An exit code of 3 says that the machine has not what is needed; the last line says what.
run () {  # STAGE NAME COMMAND...
  local stage=$1 name=$2 status limit=${limit:-$LIMIT_S}
  shift 2
  echo "== $stage: $name"
  timeout "$limit" "$@" 2>&1 | tee "$libraries/said"
  status=${PIPESTATUS[0]}
  case $status in
    0) note "$stage" "$name" passed ;;
    3) note "$stage" "$name" skipped "$(tail -n 1 "$libraries/said")" ;;
    124) note "$stage" "$name" failed "took longer than $limit s" ;;
    *) note "$stage" "$name" failed "exit code $status" ;;
  esac
}

suites () {  # prints the conformance tests of this folder
  (cd bin && printf '%s\n' ./*_on_gpu_test | sed 's|^\./||')
}

stage_conformance () {
  local suite
  export CONFORMANCE_DEVICES=cuda
  for suite in $(suites); do
    run conformance "$suite" "./bin/$suite" --gtest_brief=1
  done
}

stage_sanitizer () {
  local suite tool
  export CONFORMANCE_DEVICES=cuda
  tool=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
  if [ -z "$tool" ]; then
    note sanitizer all skipped 'no compute-sanitizer on the PATH or in /usr/local/cuda/bin'
    return
  fi
  for suite in $(suites); do
    run sanitizer "$suite memcheck" "$tool" --error-exitcode=9 --tool=memcheck "./bin/$suite" --gtest_brief=1
  done
  run sanitizer 'rows racecheck' "$tool" --error-exitcode=9 --tool=racecheck ./bin/rows_on_gpu_test --gtest_brief=1
}

stage_huge_arrays () {
  run huge_arrays cuda:0 ./bin/huge_arrays
}

stage_device_ops () {
  run device_ops cuda:0 ./bin/device_ops --device=cuda:0
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
  mkdir "$store/one"
  run nccl 'one rank' ./bin/nccl_ranks --store="$store/one"
  run nccl 'two ranks' bash -c "$TWO_RANKS" two_ranks "$store"
}

stage_pytorch () {
  if [ -z "$python" ]; then
    note pytorch all skipped 'no python3 on the PATH'
    return
  fi
  run pytorch 'operations' "$python" ./bin/pytorch_ops.py
}

# The same work with servers on the CPU and on the GPU, and PyTorch's own beside the latter.
stage_parameter_server () {
  local limit=$PART_S
  run parameter_server 'CPU server' ./bin/parameter_server --nserver=1
  run parameter_server 'CUDA server' ./bin/parameter_server --nserver=0 --ncudaserver=1
  if [ -n "$python" ] && "$python" -c 'import torch' 2>/dev/null; then
    run parameter_server 'beside PyTorch' ./bin/parameter_server --nserver=0 --ncudaserver=1 --peer=pytorch
  else
    note parameter_server 'beside PyTorch' skipped "no PyTorch in ${python:-a python3}"
  fi
}

usage () {
  sed -n '2,7s/^# \{0,1\}//p' "$0"
  exit 2
}

wanted=("$@")
[ $# -gt 0 ] || usage
[ "$1" != all ] || wanted=("${STAGES[@]}")
reason=$(why_no_gpu)
for stage in "${wanted[@]}"; do
  case " ${STAGES[*]} " in
    *" $stage "*) ;;
    *) usage ;;
  esac
  if [ -n "$reason" ]; then
    note "$stage" all skipped "$reason"
  else
    "stage_$stage"
  fi
done

echo
printf '%s\n' "${table[@]}"
exit "$failed"
