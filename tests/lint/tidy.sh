#!/bin/bash
# Runs clang-tidy (.clang-tidy) over the project's C files. Prints the findings, and exits with 1 if
# there are any.
#
#   tests/lint/tidy.sh [--checks=CHECKS] [FILE...]      default: every .c file of the tree
#
# CHECKS narrows .clang-tidy: --checks=-clang-analyzer-* omits the path-sensitive checks, which take
# nine tenths of the time.
#
# The flags of the compiler are listed by hand. They are those flags of third_party/tps.bzl that
# change the meaning of the code.
set -euo pipefail

options=(--quiet)
if [[ ${1-} == --checks=* ]]; then
  options+=("$1")
  shift
fi

cd "$(dirname "$(readlink -f "$0")")/../.."

generated=$(mktemp -d)
trap 'rm -rf "$generated"' EXIT
for idl in thrift/*.thrift bench/peers/*.thrift; do
  /usr/bin/thrift --gen c_glib -out "$generated" "$idl"
done
sed -i -E 's/\<toString_/tps_wire_toString_/g' "$generated"/*
mkdir -p "$generated"/{json,plugin/{client,glib,python/native,service,wire}}
for idl in thrift/*.thrift; do
  /usr/bin/thrift --gen json -out "$generated/json" "$idl"
done
export PYTHONPATH=thrift:plugin/wire PYTHONDONTWRITEBYTECODE=1
/usr/bin/python3 plugin/wire/wire.py "$generated/plugin/wire" "$generated"/json/*
/usr/bin/python3 plugin/service/methods.py "$generated/plugin/service/methods.h" "$generated"/json/*
/usr/bin/python3 plugin/client/stubs.py "$generated"/plugin/client/stubs.{h,c} "$generated"/json/*
/usr/bin/python3 plugin/python/native/flat_functions.py \
  "$generated"/plugin/python/native/{flat_functions.{h,c},_methods.py} "$generated"/json/*
/usr/bin/python3 plugin/glib/handlers.py "$generated"/plugin/glib/handlers.{h,c} "$generated"/json/*

read -ra packages < <(pkg-config --cflags thrift_c_glib gio-2.0 json-glib-1.0 openblas libxxhash libsoup-3.0)
flags=(-std=c11 -D_GNU_SOURCE -DTPS_NO_TARGET_CLONES -pthread -iquote . -Iplugin/include -iquote "$generated" -isystem "$generated")
for flag in "${packages[@]}"; do
  flags+=("${flag/#-I/-isystem}")
done

# Files that call CUDA are checked only if its headers are installed.
cuda_headers=${CUDA_PATH:-/usr/local/cuda}/include
cuda_folders=()
if [ -e "$cuda_headers/cuda_runtime_api.h" ]; then
  flags+=(-isystem "$cuda_headers")
  cuda_folders=(cuda)
fi

if [ $# -eq 0 ]; then
  folders=()
  for folder in runtime plugin bench "${cuda_folders[@]}"; do
    [ ! -d "$folder" ] || folders+=("$folder")
  done
  mapfile -t files < <(find "${folders[@]}" -type f -name '*.c' | sort)
else
  files=("$@")
fi

check () {
  clang-tidy "${options[@]}" "$1" -- "${flags[@]}" 2>/dev/null || { echo "tidy: $1" >&2; return 1; }
}

n_failed=0
running=0
for file in "${files[@]}"; do
  if [ "$running" -ge "$(nproc)" ]; then
    wait -n || n_failed=$((n_failed + 1))
    running=$((running - 1))
  fi
  check "$file" &
  running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
  wait -n || n_failed=$((n_failed + 1))
  running=$((running - 1))
done

echo "tidy: $((${#files[@]} - n_failed)) files clean, $n_failed not"
[ "$n_failed" -eq 0 ]
