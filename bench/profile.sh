#!/bin/bash
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
#
# Profiles the hot paths with perf, or with callgrind if perf is missing.
#
#   bench/profile.sh              all paths, a minute or two
#   bench/profile.sh push_shm averaging
#   bench/profile.sh --list
#
# Each path is a benchmark with flags. All processes of the benchmark are sampled. The output lists
# the libraries (and the kernel) with their samples, and then the functions, without their callers.
# The recordings stay in a folder, whose name is printed at the end. Samples follow the CPU clock,
# which also works in virtual machines without counters. Sleeping processes are not sampled.
# BENCH_BIN is a folder of built programs (bazel-bin/bench). Without it, the programs are built
# first.

set -euo pipefail
cd "$(dirname "$0")/.."

ENTRIES=18 # printed functions
RATE=1999  # samples per second

# Each line has the name of a path, the benchmark, and its flags.
PROFILES='
push_tcp     transfer --system=thriftps --transport=tcp  --op=push --bytes=16777216 --calls=200 --seconds=0
pull_tcp     transfer --system=thriftps --transport=tcp  --op=pull --bytes=16777216 --calls=200 --seconds=0
echo_tcp     transfer --system=thriftps --transport=tcp  --op=echo --bytes=16777216 --calls=100 --seconds=0
chunks       transfer --system=thriftps-chunks --chunks --op=push --bytes=67108864 --calls=60 --seconds=0
push_unix    transfer --system=thriftps --transport=unix --op=push --bytes=16777216 --calls=400 --seconds=0
push_shm     transfer --system=thriftps --transport=shm  --op=push --bytes=16777216 --calls=1000 --seconds=0
echo_shm     transfer --system=thriftps --transport=shm  --op=echo --bytes=16777216 --calls=400 --seconds=0
small        transfer --system=thriftps --transport=tcp  --op=push --bytes=1024 --calls=50000 --seconds=0
small_8      transfer --system=thriftps --transport=tcp  --op=push --bytes=64 --connections=8 --calls=200000 --seconds=0
averaging    parameter_server --model=Bucket25MiB --data=DummyDataBucket --batch-size=1 --epochs=4
fp16         parameter_server --model=Bucket25MiB --data=DummyDataBucket --batch-size=1 --epochs=4 --compress=fp16
topk         parameter_server --model=Bucket25MiB --data=DummyDataBucket --batch-size=1 --epochs=4 --compress=topk:0.01
updating     batch_update --batches=150 --in-features=2048 --out-features=2048
lookup       lookup --only=remote --seconds=2
update       ddp_rpc --number-trainers=1 --number-ps=1 --embedding-dim=512 --epochs=400
ddp_rpc      ddp_rpc --epochs=100
all_reduce   parameter_server --model=Bucket25MiB --data=DummyDataBucket --batch-size=1 --epochs=4 --ddp-hook=allreduce_hook --nserver=0
'

fail() {
  echo "profile.sh: $*" >&2
  exit 2
}

names() {
  awk 'NF { print $1 }' <<< "$PROFILES"
}

flags_of() {
  awk -v name="$1" '$1 == name { $1 = ""; print }' <<< "$PROFILES"
}

report() { # name, columns
  perf report -i "$out/$1.perf" --stdio --no-children --sort "$2" 2> /dev/null | grep -E '^ +[0-9.]+%'
}

with_perf() { # name, command
  local name=$1
  shift
  perf record --quiet -e cpu-clock -F "$RATE" -o "$out/$name.perf" -- "$@" > "$out/$name.txt" 2> "$out/$name.log"
  report "$name" dso | awk '$1 + 0 >= 1 { printf "%s %s  ", $1, $2 } END { print "" }'
  report "$name" dso,symbol | awk -v n="$ENTRIES" 'n-- > 0 { print $1, $2, $4 }' | column -t
}

with_callgrind() {
  local name=$1
  shift
  valgrind --quiet --tool=callgrind --trace-children=yes --callgrind-out-file="$out/$name.%p" "$@" > "$out/$name.txt"
  callgrind_annotate "$out/$name".[0-9]* | awk -v n="$ENTRIES" '/^ *[0-9,]+ \(/ && n-- > 0'
}

case ${1:-} in
  -h | --help)
    sed -n '3,${/^#/!q;s/^# \{0,1\}//p}' "$0"
    exit
    ;;
  --list)
    names
    exit
    ;;
esac

mapfile -t wanted < <(if [ $# -gt 0 ]; then printf '%s\n' "$@"; else names; fi)
for name in "${wanted[@]}"; do
  [ -n "$(flags_of "$name")" ] || fail "$name: expected one of $(names | xargs)"
done
if command -v perf > /dev/null; then
  tool=with_perf
elif command -v valgrind > /dev/null; then
  tool=with_callgrind
else
  fail "neither perf (package linux-perf) nor valgrind is there"
fi

out=$(mktemp -d -t thriftps-profile-XXXXXX)
if [ -z "${BENCH_BIN:-}" ]; then
  ./bazelw build //bench/...
  BENCH_BIN=$(./bazelw info bazel-bin 2> /dev/null)/bench
fi
for name in "${wanted[@]}"; do
  read -r program flags <<< "$(flags_of "$name")"
  echo "== $name: $program $flags"
  # shellcheck disable=SC2086
  "$tool" "$name" "$BENCH_BIN/$program/$program" $flags
done
echo "recordings and the benchmarks' own figures: $out"
