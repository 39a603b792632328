# For .ci/run and .ci/full: runs of Bazel whose results are counted at the end.
# shellcheck shell=bash

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

counts=$(mktemp -d)
trap 'rm -rf "$counts"' EXIT
runs=()

# read_run_names SCRIPT ARGUMENT...: the names of the runs that shall take place; none = all. The
# comment at the beginning of the script is its help; its last paragraph lists the names.
wanted=()
read_run_names () {
  local script=$1 names name
  shift
  names=" $(sed -n '/^# Runs:/,/^[^#]/s/^# \(Runs: \)\?//p' "$script" | tr '\n' ' ') "
  for name; do
    if [ "$name" = --help ]; then
      sed -n '2,/^[^#]/s/^# \?//p' "$script"
      exit 0
    elif [[ $names != *" $name "* ]]; then
      echo "$script: there is no run \"$name\"; see $script --help" >&2
      exit 2
    fi
  done
  wanted=("$@")
}

is_wanted () {
  [ ${#wanted[@]} = 0 ] || [[ " ${wanted[*]} " == *" $1 "* ]]
}

# run_tests NAME ARGUMENT...: if the run is wanted, executes one `./bazelw test` and counts its
# results under NAME. A failure does not end the script.
run_tests () {
  local name=$1
  is_wanted "$name" || return 0
  shift
  echo "== $name: ./bazelw test $*"
  runs+=("$name=$counts/$name.json")
  ./bazelw test --keep_going --noshow_progress --noshow_loading_progress --color=no \
    --build_event_json_file="$counts/$name.events" "$@" ||
    echo "== $name: exit code $?"
  # Must be done now, because the next run overwrites the XML files of this one.
  /usr/bin/python3 .ci/count.py run "$counts/$name.events" "$counts/$name.json"
}

# Prints the counts, and as the last line `N passed, N failed[, N skipped]`. The exit status is that
# of the whole script.
print_counts () {
  if [ ! -x /usr/bin/python3 ]; then
    echo 'there is no /usr/bin/python3: ./bazelw could not install it'
    echo '0 passed, 1 failed'
    return 1
  fi
  /usr/bin/python3 .ci/count.py total "$@" "${runs[@]}"
}
