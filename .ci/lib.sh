# For .ci/run and .ci/full: runs of Bazel whose results are counted at the end.
# shellcheck shell=bash

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

events=$(mktemp -d)
trap 'rm -rf "$events"' EXIT
runs=()

# run_tests NAME ARGUMENT...: one `./bazelw test`, counted under NAME. A failure does not end the script.
run_tests () {
  local name=$1
  shift
  echo "== $name: ./bazelw test $*"
  runs+=("$name=$events/$name.json")
  ./bazelw test --keep_going --noshow_progress --noshow_loading_progress --color=no \
    --build_event_json_file="$events/$name.json" "$@" ||
    echo "== $name: exit code $?"
}

# Prints the counts, last of all `N passed, N failed[, N skipped]`; its exit code is the script's.
print_counts () {
  if [ ! -x /usr/bin/python3 ]; then
    echo 'there is no /usr/bin/python3: ./bazelw could not install it'
    echo '0 passed, 1 failed'
    return 1
  fi
  /usr/bin/python3 .ci/count.py "$@" "${runs[@]}"
}
