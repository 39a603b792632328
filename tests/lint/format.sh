#!/bin/bash
# Checks the project's C and C++ files against .clang-format. With --fix, formats them instead.
#
#   tests/lint/format.sh [--fix] [FILE...]      default: all files of the tree
set -euo pipefail

if [ "${1:-}" = --fix ]; then
  shift
  mode=(-i)
else
  mode=(--dry-run --Werror --ferror-limit=3)
fi

if [ $# -eq 0 ]; then
  # In Bazel's runfiles, this script is a link to the script in the checkout.
  cd "$(dirname "$(readlink -f "$0")")/../.."
  folders=()
  for folder in runtime plugin cuda bench tests third_party; do
    [ ! -d "$folder" ] || folders+=("$folder")
  done
  mapfile -t files < <(find "${folders[@]}" -type f \
    \( -name '*.c' -o -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) | sort)
else
  files=("$@")
fi

[ ${#files[@]} -gt 0 ] || { echo 'format: no files found' >&2; exit 1; }
if ! printf '%s\0' "${files[@]}" |
     xargs -0 -P "$(nproc)" -n 20 /usr/bin/clang-format --style=file "${mode[@]}"; then
  echo 'format: run tests/lint/format.sh --fix' >&2
  exit 1
fi
echo "format: ${#files[@]} files"
