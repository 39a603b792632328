#!/bin/bash
# Runs all tests and benchmarks that need a GPU. The machine needs a driver, and no other files of
# this project.
#
#   ./run_all.sh [--out=FOLDER] 1|2|3|4|all|PART...
#   ./run_all.sh --compare FOLDER
#
#   1  identity conformance tables cuda_ipc huge_arrays device_ops
#   2  pytorch nccl                                    (compared with PyTorch; one rank and two)
#   3  cuda_rpc lookup ddp_rpc parameter_server        (on the CPU and on the GPU)
#   4  sanitizer profile                               (compute-sanitizer, Nsight Compute)
#
# A numbered stage ends within 9 minutes. Each result is appended to FOLDER/results.txt (./out) as
# soon as it is known: `PART NAME passed|failed|skipped [figure or reason]`, and the output to
# FOLDER/PART.log. A test that fails or ends its process runs again alone, and those after it in a
# new process. Parts that the machine refuses are skipped. The exit code is 1 after a failure. With
# THRIFTPS_SMOKE=1, the benchmarks are small. THRIFTPS_PYTHON is the Python with PyTorch.
#
# --compare prints each figure of FOLDER/results.txt next to its target: reached, behind, or not
# measured. The exit code is 1 if a figure is behind.
set -u
self=$(readlink -f "$0")
compared=
case ${1:-} in
  --out=*) out=$(mkdir -p "${1#--out=}" && cd "${1#--out=}" && pwd) || exit 2; shift ;;
  --compare) compared=$(readlink -f "${2:-.}") ;;
esac
cd "$(dirname "$self")" || exit 2
[ -n "$compared" ] || [ -n "${out:-}" ] || { mkdir -p out && out=$PWD/out; } || exit 2

PARTS_OF=('' 'identity conformance tables cuda_ipc huge_arrays device_ops'
  'pytorch nccl' 'cuda_rpc lookup ddp_rpc parameter_server' 'sanitizer profile')
LIMIT_S=525  # of a stage; the first stage includes the start of this script
RUN_S=150    # of a single command, which may hang
HUGE_S=150   # of huge_arrays
TOOL_S=30    # of a tool that describes the machine
OPERATIONS_S=240  # of device_ops
NO_TIME="the $LIMIT_S s of the stage are over"
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
if [ ! -d bin ]; then  # unless the files were unpacked by hand
  mkdir "$scratch/files" && tar -C "$scratch/files" -xzf files.tar.gz && cd "$scratch/files" || exit 2
fi
# Only programs of this folder use these libraries: tools of the machine need their own.
export LIBRARIES=$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export THRIFTPS_CUDA_LIBRARY=$PWD/libtps_cuda.so

failed=0
stage_end=$LIMIT_S
size=(${THRIFTPS_SMOKE:+--smoke})

note () {  # PART NAME RESULT [FIGURE OR REASON]
  printf '%-16s %-36s %-8s %s\n' "$1" "$2" "$3" "${4:-}" | tee -a "$out/results.txt"
  [ "$3" != failed ] || failed=1
}

# -- time --

time_left () {  # LIMIT; prints the seconds that remain for one command
  local left=$((stage_end - SECONDS))
  [ "$left" -gt 0 ] || left=0
  echo $((left < $1 ? left : $1))
}

# Runs a command for at most LIMIT seconds and until the end of the stage; 124 if it takes longer.
limited () {  # LIMIT COMMAND...
  local limit command
  limit=$(time_left "$1")
  shift
  [ "$limit" -gt 0 ] || return 124  # `timeout 0` is no limit
  add_libraries "$@"
  timeout --kill-after=5 "$limit" "${command[@]}"
}

# Sets `command` to COMMAND, in which only a program of this folder finds its libraries.
add_libraries () {  # COMMAND...
  local is_added=
  command=()
  while [ $# -gt 0 ]; do
    case $is_added$1 in
      ./bin/*.py) is_added=1 ;;  # for the Python before it
      ./bin/*) command+=(env "LD_LIBRARY_PATH=$LIBRARIES"); is_added=1 ;;
    esac
    command+=("$1")
    shift
  done
}

note_figures () {  # PART PREFIX; standard input has one NAME|FIGURE on each line
  local name figure
  while IFS='|' read -r name figure; do
    note "$1" "$2$(sed 's/ *$//' <<<"$name")" passed "$figure"
  done
}

# -- the machine --

# Prints the first Python with PyTorch; without PyTorch, the first Python.
find_python () {
  local candidate first=
  if [ -n "${THRIFTPS_PYTHON:-}" ]; then  # an explicit choice
    [ ! -x "$THRIFTPS_PYTHON" ] || echo "$THRIFTPS_PYTHON"
    return
  fi
  for candidate in ${VIRTUAL_ENV:+"$VIRTUAL_ENV/bin/python3"} \
    "$(command -v python3)" /opt/*/bin/python3 /usr/local/bin/python3 /usr/bin/python3; do
    [ -x "$candidate" ] || continue
    : "${first:=$candidate}"
    if limited "$TOOL_S" "$candidate" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "$first"
}

# Prints the folders of NVIDIA's libraries (NCCL, cuBLAS) in the packages of that Python.
nvidia_folders () {
  limited "$TOOL_S" "$1" -c 'import glob, sys
print(":".join(f for p in sys.path if p for f in sorted(glob.glob(p + "/nvidia/*/lib"))))' 2>/dev/null
}

[ -n "$compared" ] || python=$(find_python)
export THRIFTPS_PYTHON=none
if [ -n "${python:=}" ]; then
  THRIFTPS_PYTHON=$scratch/python  # starts Python without the libraries of this folder
  printf '#!/bin/bash\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "${LD_LIBRARY_PATH:-}" "$python" >"$scratch/python"
  chmod +x "$scratch/python"
  folders=$(nvidia_folders "$python")
  LIBRARIES=$LIBRARIES${folders:+:$folders}
fi

why_no_gpu () {  # prints nothing if there is a device
  local said status
  said=$(limited 60 ./bin/device_ops --device=cuda:0 --only=copy --smoke --rounds=1 2>&1)
  status=$?
  [ "$status" -ne 3 ] || printf '%s\n' "$said" | tail -n 1
}

# Sets `tool`, which inspects the driver; otherwise notes why it cannot be used here.
find_tool () {  # PART NAME
  local reason=
  tool=$(command -v "$2" || ls "/usr/local/cuda/bin/$2" 2>/dev/null) || reason="no $2 on the PATH or in /usr/local/cuda/bin"
  if grep -qi gvisor /proc/version /proc/sys/kernel/version 2>/dev/null || limited "$TOOL_S" dmesg 2>/dev/null | grep -qi gvisor; then
    reason='gVisor: the driver cannot be inspected'
  fi
  [ -z "$reason" ] || { note "$1" all skipped "$reason"; return 1; }
}

# -- running --

# Runs a command whose output goes directly to the log of the part, and then to $scratch/said.
logged () {  # PART COMMAND...
  local log=$out/$1.log status n_before
  shift
  n_before=$(wc -c <"$log")
  "$@" >>"$log" 2>&1
  status=$?
  tail -c "+$((n_before + 1))" "$log" >"$scratch/said"
  return "$status"
}

# Exit code 3 means that the machine lacks a requirement, which the last line of output names; so
# does output that matches `refusal`. It must match `wanted`. `figure`, a script for sed, extracts
# the figure. Returns true if the command has passed.
run () {  # PART NAME COMMAND...
  local part=$1 name=$2 status limit reason
  limit=$(time_left "${limit_s:-$RUN_S}")
  shift 2
  if [ "$limit" -eq 0 ]; then
    note "$part" "$name" skipped "$NO_TIME"
    return 1
  fi
  echo "== $name: $*" >>"$out/$part.log"
  logged "$part" limited "$limit" "$@"
  status=$?
  if [ -n "${refusal:-}" ] && reason=$(grep -m 1 -E "$refusal" "$scratch/said"); then
    note "$part" "$name" skipped "$reason"
    return 3
  fi
  if [ "$status" -eq 0 ] && [ -n "${wanted:-}" ] && ! grep -q -E "$wanted" "$scratch/said"; then
    note "$part" "$name" failed "no $wanted in the output"
    return 1
  fi
  case $status in
    0) note "$part" "$name" passed "$(sed -n "${figure:-}" "$scratch/said" | tail -n 1)" ;;
    3) note "$part" "$name" skipped "$(tail -n 1 "$scratch/said")" ;;
    124 | 137) note "$part" "$name" failed "took longer than $limit s" ;;
    *) note "$part" "$name" failed "exit code $status: $(tail -n 1 "$scratch/said")" ;;
  esac
  return "$status"
}

list_tests () {  # PROGRAM [FILTER]; prints one test per line
  limited 60 "$1" --gtest_list_tests ${2:+--gtest_filter="$2"} 2>/dev/null |
    sed -n -e 's/ *#.*//' -e '/^[^ ].*\.$/{s/ *$//;h}' -e '/^  /{s/^ *//;G;s/^\(.*\)\n\(.*\)$/\2\1/p}'
}

# Runs the tests listed in a file, of which those remain that failed or did not run.
run_tests () {  # PART FILE COMMAND...
  local part=$1 file=$2
  shift 2
  logged "$part" limited "${limit_s:-$RUN_S}" "$@" --gtest_filter="$(paste -sd: "$file")"
  echo "exit code $?" >>"$scratch/said"
  sed -n 's/^\[ *\(OK\|SKIPPED\) *\] \([^ (]*\).*/\2/p' "$scratch/said" | sort -u >"$scratch/ended"
  grep -vxF -f "$scratch/ended" "$file" >"$scratch/left"
  mv "$scratch/left" "$file"
}

# Runs a suite of tests. After a fault of the GPU, every later test of the process fails. The first
# remaining test has failed, or was running when the process exited: it runs again alone, and the
# others run in another process.
suite () {  # PART NAME PROGRAM
  local part=$1 name=$2 program=$3 n_tests n_failed=0 n_alone=0 culprit
  if [ "$(time_left 1)" -eq 0 ]; then
    note "$part" "$name" skipped "$NO_TIME"
    return
  fi
  list_tests "$program" >"$scratch/tests"
  n_tests=$(wc -l <"$scratch/tests")
  if [ "$n_tests" -eq 0 ]; then
    note "$part" "$name" failed 'it lists no tests'
    return
  fi
  while [ -s "$scratch/tests" ] && [ "$(time_left 1)" -gt 0 ]; do
    echo "== $name: $(wc -l <"$scratch/tests") tests" >>"$out/$part.log"
    run_tests "$part" "$scratch/tests" "$program"
    [ -s "$scratch/tests" ] || break
    culprit=$(head -n 1 "$scratch/tests")
    echo "$culprit" >"$scratch/alone"
    limit_s=60 run_tests "$part" "$scratch/alone" "$program"
    if [ ! -s "$scratch/alone" ]; then
      note "$part" "$culprit" passed 'only alone, not within the suite'
      n_alone=$((n_alone + 1))
    else
      note "$part" "$culprit" failed "alone too: $(grep -v '^\[' "$scratch/said" | grep -m 1 -i -E 'failure|error|fault|exit code' )"
      n_failed=$((n_failed + 1))
    fi
    sed -i 1d "$scratch/tests"
  done
  if [ -s "$scratch/tests" ]; then
    note "$part" "$name" failed "$(wc -l <"$scratch/tests") of $n_tests tests were not reached in time"
  elif [ "$n_failed" -gt 0 ]; then
    note "$part" "$name" failed "$n_failed of $n_tests tests"
  else
    note "$part" "$name" passed "$n_tests tests$([ "$n_alone" -eq 0 ] || echo ", $n_alone of them only alone")"
  fi
}

stream () {  # PART LIMIT COMMAND...; prints and logs the output; $scratch/status = exit code
  limited "${@:2}" 2>&1 | tee -a "$out/$1.log"
  echo "${PIPESTATUS[0]}" >"$scratch/status"
}

# Runs the cases of a program, whose names --list prints. It prints one line for each case, with the
# name in 28 columns. If it exits at a failed case, the cases after it run in another process, with
# --skip. NOTING is called for each case with PART, the name, the rest of the line, and, without a
# line, the reason. It must count failures in n_failed, and must set is_over if the program exits
# after such a line. Returns 3 if this is the exit code of the program. Sets n_cases and n_done.
each_case () {  # PART NOTING LIMIT COMMAND...
  local part=$1 noting=$2 limit=$3 line names status is_over
  shift 3
  n_done=0 n_failed=0
  mapfile -t names < <(limited "$TOOL_S" "$@" --list 2>/dev/null | cut -c-28 | sed 's/ *$//')
  n_cases=${#names[@]}
  while [ "$n_done" -lt "$n_cases" ] && [ "$(time_left 1)" -gt 0 ]; do
    echo "== $((n_cases - n_done)) cases" >>"$out/$part.log"
    is_over=
    while IFS= read -r line; do
      [ "$n_done" -lt "$n_cases" ] && [[ $line == "${names[n_done]}  "* ]] || continue
      "$noting" "$part" "${names[n_done]}" "${line:28}" ''
      n_done=$((n_done + 1))
    done < <(stream "$part" "$limit" "$@" --skip="$n_done")
    status=$(cat "$scratch/status")
    [ "$n_done" -lt "$n_cases" ] || return 0
    [ "$status" -ne 3 ] || return 3
    if [ -z "$is_over" ]; then  # the failed case has no line
      "$noting" "$part" "${names[n_done]}" '' "exit code $status: $(tail -n 1 "$out/$part.log")"
      n_done=$((n_done + 1))
    fi
  done
}

# Runs each_case(), and notes one result for all cases. NOUN is the plural of the name of a case.
cases () {  # PART NOUN NOTING LIMIT COMMAND...
  local part=$1 noun=$2 n_cases n_done n_failed
  if ! each_case "$part" "${@:3}"; then
    note "$part" cuda:0 skipped "$(tail -n 1 "$out/$part.log")"
  elif [ "$n_cases" -eq 0 ]; then
    note "$part" cuda:0 failed "it lists no $noun"
  elif [ "$n_done" -lt "$n_cases" ]; then
    note "$part" cuda:0 failed "$((n_cases - n_done)) of $n_cases $noun were not reached in time"
  elif [ "$n_failed" -gt 0 ]; then
    note "$part" cuda:0 failed "$n_failed of $n_cases $noun"
  else
    note "$part" cuda:0 passed "$n_cases $noun"
  fi
}

note_operation () {  # PART NAME REST REASON, of device_ops
  local rate of_copy to_reach n_wrong why target=
  read -r rate of_copy to_reach n_wrong why <<<"${3:-- - - - $4}"
  [ "$rate" != - ] || is_over=1
  [ "$to_reach" = 0.00 ] || target=", target $to_reach"
  if [ "$n_wrong$why" = 0 ]; then
    note "$1" "$2" passed "$rate GB/s, $of_copy of the copy$target"
    return
  fi
  n_failed=$((n_failed + 1))
  [ "$rate" = - ] || why="$n_wrong elements are wrong${why:+; $why}"
  note "$1" "$2" failed "$why"
}

note_huge () {  # PART NAME REST REASON, of huge_arrays
  local result=${3:-$4}
  result=${result#"${result%%[! ]*}"}
  case $result in
    right) note "$1" "$2" passed ;;
    'does not fit'*) note "$1" "$2" skipped "$result" ;;
    *)
      note "$1" "$2" failed "$result"
      n_failed=$((n_failed + 1))
      [ "$result" = wrong ] || is_over=1
      ;;
  esac
}

# -- stage 1 --

part_identity () {
  {
    date -u
    uname -a
    limited "$TOOL_S" nvidia-smi 2>&1
    limited "$TOOL_S" nvidia-smi -q -d CLOCK,ECC,POWER,MEMORY 2>&1
    nproc
    [ -z "$python" ] || limited 60 "$python" -c 'import sys, torch
print(sys.version, torch.__version__, torch.version.cuda, torch.cuda.nccl.version())' 2>&1
    echo "$LIBRARIES"
  } >>"$out/identity.log" 2>&1
  note identity cuda:0 passed "$(limited "$TOOL_S" nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -n 1)"
}

part_conformance () {
  local name
  export CONFORMANCE_DEVICES=cuda
  for name in $(cd bin && ls | grep '_on_gpu_test$' | grep -v -e '^device_memory_' -e '^device_tables_'); do
    suite conformance "$name" "./bin/$name"
  done
}

part_tables () {
  suite tables 'on the GPU' ./bin/device_tables_on_gpu_test
}

# A server and its trainers, each in its own process, with gradients in GPU memory.
part_cuda_ipc () {
  export THRIFTPS_SERVER=./bin/thriftps_server
  suite cuda_ipc 'two processes' ./bin/device_memory_on_gpu_test
}

part_huge_arrays () {
  cases huge_arrays cases note_huge "$HUGE_S" ./bin/huge_arrays
}

part_device_ops () {
  cases device_ops operations note_operation "$OPERATIONS_S" ./bin/device_ops --device=cuda:0 "${size[@]}"
}

# -- stage 2 --

# Notes an operation of pytorch_ops.py. A failure of PyTorch is not a failure of the part.
note_pytorch () {  # PART NAME REST REASON
  local rate of_copy ratio why
  read -r rate of_copy ratio why <<<"${3:-- - - $4}"
  if [ "$rate" = - ]; then
    is_over=1
    note "$1" "$2" skipped "$why"
  elif [ "$ratio" = - ]; then
    note "$1" "$2" passed "$rate GB/s"
  else
    note "$1" "$2" passed "$rate GB/s, ours is $ratio of it"
    n_compared=$((n_compared + 1))
    [ "${ratio%.*}" -lt 1 ] || n_level=$((n_level + 1))
  fi
}

pass_over () {  # PART NAME REST REASON; notes nothing, as stage 1 has noted the operations
  local rate
  read -r rate _ <<<"$3"
  [ "$rate" != - ] || is_over=1
}

part_pytorch () {
  local n_cases n_done n_failed n_compared=0 n_level=0 ours=$out/pytorch_ours.log
  if [ -z "$python" ]; then
    note pytorch all skipped 'no python3 on the PATH'
    return
  fi
  rm -f "$ours"
  each_case pytorch_ours pass_over "$OPERATIONS_S" ./bin/device_ops --device=cuda:0 "${size[@]}"
  touch "$ours"
  if ! each_case pytorch note_pytorch "$OPERATIONS_S" "$python" ./bin/pytorch_ops.py --beside="$ours"; then
    note pytorch operations skipped "$(tail -n 1 "$out/pytorch.log")"
  elif [ "$n_done" -lt "$n_cases" ] || [ "$n_cases" -eq 0 ]; then
    note pytorch operations failed "$((n_cases - n_done)) of $n_cases operations were not reached in time"
  else
    note pytorch operations passed "$n_level of $n_compared operations are at least level with PyTorch"
  fi
}

# Both ranks may share one GPU. NCCL before 2.30 refuses this within a host, so each rank gets its
# own host id. The ranks then communicate over the loopback interface, which is correct but slow.
# The exit code is that of the first rank or, if that is 0, that of the second rank.
export TWO_RANKS='
  folder=$(mktemp -d "$1/ranks.XXXXXX")
  export LD_LIBRARY_PATH=$LIBRARIES
  export NCCL_SOCKET_IFNAME=lo NCCL_MULTI_RANK_GPU_ENABLE=1
  NCCL_HOSTID=second ./bin/nccl_ranks --rank=1 --size=2 --store="$folder" & second=$!
  NCCL_HOSTID=first ./bin/nccl_ranks --rank=0 --size=2 --store="$folder"; first=$?
  wait "$second"; second=$?
  [ "$first" -ne 0 ] && exit "$first"
  exit "$second"'

part_nccl () {
  local limit_s=60
  mkdir -p "$scratch/one"
  run nccl 'one rank' ./bin/nccl_ranks --store="$scratch/one"
  run nccl 'two ranks' bash -c "$TWO_RANKS" two_ranks "$scratch"
}

# -- stage 3 --

# The p50 of a batch: BATCH matches the table `metrics for all trainer`, and BESIDE the comparison
# with PyTorch.
BATCH='s/^| batch_level_metric,batch_all *|\( *[^ ]* *|\)\{5\} *\([^ ]*\) .*/a batch in \2 ms/p'
BESIDE='s/^| all trainer\/batch_level_metric,batch_all *| *\([^ ]*\) *| *\([^ ]*\) *| *\([^ ]*\) *|$/a batch in \1 ms, PyTorch \2 ms: \3/p'

# The limits of this stage add up to less than LIMIT_S. Parts whose figures have targets come first.

# The same work with roles on the CPU and on the GPU.
part_parameter_server () {
  local limit_s=25 figure=$BATCH work=("${size[@]}" --repeats=2)
  run parameter_server 'CUDA trainers, server' ./bin/parameter_server "${work[@]}" --ncudatrainer=2 --ncudaserver=1
  run parameter_server 'CUDA server' ./bin/parameter_server "${work[@]}" --ncudaserver=1
  run parameter_server 'the same without sharing' \
    ./bin/parameter_server "${work[@]}" --ncudatrainer=2 --ncudaserver=1 --no-shared-memory
  run parameter_server 'CPU only' ./bin/parameter_server "${work[@]}"
}

# The p50 of an epoch, and the samples per second of all trainers.
EPOCH='s/^| All *| *\([^ ]*\) *| *[^ ]* *| *\([^ ]*\) .*/an epoch in \2 ms, \1 samples a second/p'

# Two roles of each kind: eight, as in the original, would need 16 contexts on one GPU.
part_ddp_rpc () {
  local limit_s=20 figure=$EPOCH
  local work=("${size[@]}" --number-trainers=2 --number-ps=2 --embedding-dim=256 --epochs=20)
  run ddp_rpc 'CUDA trainers, tables' ./bin/ddp_rpc "${work[@]}" --trainer-device=cuda --table-device=cuda
  run ddp_rpc 'tables in host memory' ./bin/ddp_rpc "${work[@]}" --trainer-device=cuda --table-device=cuda/host
  run ddp_rpc 'CPU only' ./bin/ddp_rpc "${work[@]}"
}

# Two trainers and a server on PyTorch's CUDA RPC, alternating with ours.
part_cuda_rpc () {
  local figure=$BESIDE reason limit_s=55
  local work=("${size[@]}" --repeats=2 --ncudatrainer=2 --ncudaserver=1 --peer=pytorch)
  if [ -z "$python" ]; then
    note cuda_rpc all skipped 'no python3 on the PATH'
  elif ! reason=$(limited "$TOOL_S" "$python" ./bin/bench/peers/pytorch_parameter_server.py --check 2>&1); then
    [ "${reason%"No module named 'torch'"*}" = "$reason" ] || reason="no PyTorch in $python"
    note cuda_rpc all skipped "$(tail -n 1 <<<"${reason:-no answer of $python}")"
  else
    run cuda_rpc 'beside PyTorch' ./bin/parameter_server "${work[@]}"
    run cuda_rpc 'beside PyTorch, dense' ./bin/parameter_server "${work[@]}" --model=DummyModel
  fi
}

# Lookups and pushes by RPC, and pooling in one process. A figure is the p50. The lookups of the
# steps are also measured for a caller on the GPU.
part_lookup () {
  local limit_s=18 device ids group prefix more
  while read -r group device ids; do
    prefix=${device}${ids:+,$ids}
    more=()
    [ "$group" != step ] || more=(--to-device --rows=200000)
    run lookup "$group on $prefix" ./bin/lookup "${size[@]}" --repeats=2 --seconds=0.5 --calls=1000 \
      --batches=100 --only="$group" --device="$device" --ids="${ids:-uniform}" "${more[@]}" --server-binary=./bin/thriftps_server \
      </dev/null || continue
    sed -n 's/^\(\(lookup\|push\|pool\|store\|step\)[, ].*[^ ]\)  *\([0-9][0-9.e+]*\)  *[0-9][0-9.e+]* \(rows\/s\|ms\|calls\/s\) .*/\1|\3 \4/p' "$scratch/said" |
      note_figures lookup "$prefix: "
  done <<<"push cuda:0
push cuda:0 zipf
remote cuda:0
step cuda:0
push cpu
push cpu zipf
remote cpu
push cuda:0/host
remote cuda:0/host
remote cuda:0 zipf
local cuda:0
local cpu"
}

# -- stage 4 --

# Some tests of each suite, because under these tools a kernel takes tens of times as long.
TOOL_FILTER='*Rows.*Tree*:*Rows.Single*:*Rows.RowGradients*:*Rows.GradientsOfEqual*:*Optimizers.*'
TOOL_FILTER+=':*Elementwise.*Divide*:*Layers.*Columns*:*Layers.*Loss*:*Layers.*Softmax*'
TOOL_FILTER+=':*Rounding.*Reference*:*Rounding.Depends*'
# Matches the lines of a tool that cannot work on this machine.
REFUSAL='Device not supported|LibraryNotLoaded|ERR_NVGPUCTRPERM'

# Each line has a tool, the limit of a run in seconds, and suites. initcheck finds reads of memory
# that was never written. Elementwise kernels write and read whole arrays, so it leaves them out.
SANITIZED='memcheck 35 rows layers optimizers rounding elementwise
initcheck 20 rows layers optimizers rounding
synccheck 20 rows layers optimizers'

part_sanitizer () {
  local name tool kind names options limit_s refusal=$REFUSAL
  find_tool sanitizer compute-sanitizer || return
  export CONFORMANCE_DEVICES=cuda
  while read -r kind limit_s names; do
    options=(--error-exitcode=9 "--tool=$kind")
    [ "$kind" != memcheck ] || options+=(--track-stream-ordered-races=all --leak-check=no)
    for name in $names; do
      if ! list_tests "./bin/${name}_on_gpu_test" "$TOOL_FILTER" | grep -q .; then
        note sanitizer "$name $kind" failed "no test of it matches $TOOL_FILTER"
        continue
      fi
      run sanitizer "$name $kind" "$tool" "${options[@]}" "./bin/${name}_on_gpu_test" \
        --gtest_brief=1 --gtest_filter="$TOOL_FILTER" </dev/null
      [ $? -ne 3 ] || return  # the machine would refuse all other runs, too
    done
  done <<<"$SANITIZED"
}

# Profiles four kernels (structs of cuda/kernels and cuda/optimizer) without locking the clocks.
part_profile () {
  local tool kernel operation wanted limit_s=45 refusal=$REFUSAL
  find_tool profile ncu || return
  while read -r kernel operation; do
    # The heading of a profiled launch, which a warning does not contain.
    wanted="\\b$kernel\\b.*, Context [0-9]"
    # The first launch belongs to the check on a few elements.
    run profile "$kernel" "$tool" --clock-control none --set detailed --kernel-name-base demangled \
      --kernel-name "regex:\\b$kernel\\b" --launch-skip 1 --launch-count 2 \
      ./bin/device_ops --device=cuda:0 --only="$operation" --rounds=1 "${size[@]}" </dev/null
    [ $? -ne 3 ] || return
  done <<<"Gather gather, dim 64
Chunks pool's gradient, dim 64
UpdateRows adam
RowwiseAdagrad row-wise adagrad, dim 64"
}

# -- targets --

list_targets () {  # prints one PART|NAME|TARGET|UNIT per line
  limited "$TOOL_S" ./bin/device_ops --list | sed -n 's/^\(.\{28\}\)  *\(.*[1-9].*\)$/device_ops|\1|\2|of the copy/p' |
    sed 's/  *|/|/'
  printf 'cuda_rpc|%s|2|times PyTorch\n' 'beside PyTorch' 'beside PyTorch, dense'
}

# Compares the figures of the last results that passed with their targets.
compare () {  # FOLDER
  if [ ! -r "$1/results.txt" ]; then
    echo "run_all.sh: $1: no results.txt in this folder" >&2
    exit 2
  fi
  list_targets >"$scratch/targets"
  # The columns are those of note().
  awk -F'|' '
    FNR == NR {
      key = substr($0, 1, 53)
      sub(/ *$/, "", key)
      results[key] = $0
      next
    }
    {
      line = results[sprintf("%-16s %s", $1, $2)]
      said = substr(line, 64)
      figure = ""
      if (substr(line, 55, 6) == "passed" && match(said, /[0-9.]+ of the copy/))
        figure = substr(said, RSTART) + 0
      else if (substr(line, 55, 6) == "passed" && match(said, /in [0-9.e+-]+ ms, PyTorch [0-9.e+-]+ ms/)) {
        split(substr(said, RSTART), words, " ")
        if (words[2] > 0)
          figure = words[5] / words[2]
      }
      verdict = figure == "" ? "not measured" : figure >= $3 ? "reached" : "behind"
      n[verdict]++
      printf "%-16s %-36s %8s  %-24s %s\n", $1, $2, figure == "" ? "-" : sprintf("%.3f", figure), \
        "target " $3 " " $4, verdict
    }
    END {
      printf "%d reached, %d behind, %d not measured\n", n["reached"], n["behind"], n["not measured"]
      exit (n["behind"] > 0)
    }' "$1/results.txt" "$scratch/targets"
}

# -- choosing --

usage () {
  sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "$self"
  exit 2
}

[ $# -gt 0 ] || usage
if [ -n "$compared" ]; then
  [ $# -eq 2 ] || usage
  compare "$compared"
  exit
fi
[ "$1" != all ] || set -- 1 2 3 4
for stage in "$@"; do
  case $stage in
    1 | 2 | 3 | 4) ;;
    *[!a-z_]*) usage ;;
    *) declare -F "part_$stage" >/dev/null || usage ;;
  esac
done
reason=$(why_no_gpu)
for stage in "$@"; do
  case $stage in [1-4]) parts=${PARTS_OF[stage]} ;; *) parts=$stage ;; esac
  for part in $parts; do
    if [ -n "$reason" ]; then
      note "$part" all skipped "$reason"
    else
      "part_$part"
    fi
  done
  stage_end=$((SECONDS + LIMIT_S))  # of the next stage
done
exit "$failed"
