#!/bin/sh
# The versions and origins of the Debian packages of --config=hermetic. See README.md.
#
#   third_party/lock.sh --update         writes hermetic/packages.lock, with apt's current versions
#   third_party/lock.sh --fetch FOLDER   makes FOLDER/NAME.deb of each package of the lock
#
# apt is used as it is configured, but with its own lists, so that nothing of the system changes and
# root is not needed. Packages are fetched once, and kept under their hashes in
# ~/.cache/thriftps/debian (XDG_CACHE_HOME).

set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
lock=$here/hermetic/packages.lock
cache=${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/thriftps/debian

say () {
  printf 'lock.sh: %s\n' "$*" >&2
}

refuse () {
  say "$@"
  exit 1
}

need () {
  for program; do
    command -v "$program" >/dev/null ||
      refuse "$program is missing: install Debian's apt, or build without --config=hermetic"
  done
}

# Sets apt's options for lists in $work. With them, apt-cache does not depend on installed packages.
begin_apt () {
  need apt-get apt-cache
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs"
  : >"$work/status"
  cat >"$work/apt.conf" <<CONFIGURATION
APT::Architecture "amd64";
APT::Sandbox::User "$(id -un)";
Dir::State::lists "$work/lists";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
CONFIGURATION
  say 'apt-get update, into a folder of its own'
  apt-get -q=2 -c "$work/apt.conf" update >&2 ||
    say 'apt-get update failed; the lists that it got are used'
}

update () {
  begin_apt
  apt-cache -c "$work/apt.conf" dumpavail >"$work/available"
  {
    echo '# Debian packages of --config=hermetic, for x86-64: name, version, SHA-256 of the .deb.'
    echo '# Written by third_party/lock.sh --update from packages.txt.'
  } >"$work/lock"
  awk -f "$here/hermetic/closure.awk" "$here/hermetic/packages.txt" "$work/available" \
    >>"$work/lock" || refuse 'packages.lock is unchanged'
  { diff -U0 "$lock" "$work/lock" 2>/dev/null || :; } | sed -n '/^[-+][^-+]/p'
  cat "$work/lock" >"$lock"
  say "$(grep -vc '^#' "$lock") packages in $lock"
}

# Succeeds if the file $1 has the SHA-256 $2.
has_sum () {
  printf '%s  %s\n' "$2" "$1" | sha256sum --check --status 2>/dev/null
}

# If apt lacks packages of the list $1, names them and ends.
refuse_vanished () {
  # shellcheck disable=SC2046 # package names have no spaces
  apt-cache -c "$work/apt.conf" madison $(cut -d ' ' -f 1 "$1") >"$work/madison" 2>/dev/null || :
  awk '
    FNR == NR { split($0, field, / *\| */); sub(/^ */, "", field[1])
                has[field[1], field[2]] = 1; newest[field[1]] = newest[field[1]] " " field[2]; next }
    !(($1, $2) in has) { print "  " $1, $2, "(apt has:" (newest[$1] ? newest[$1] : " none") ")" }
  ' "$work/madison" "$1" >"$work/vanished"
  if [ -s "$work/vanished" ]; then
    say 'apt does not have these packages of packages.lock (any more):'
    cat "$work/vanished" >&2
    refuse 'to lock the versions that it has: third_party/lock.sh --update'
  fi
}

# Downloads the packages of the list $1 into the cache.
download () {
  begin_apt
  refuse_vanished "$1"
  say "downloading $(wc -l <"$1") Debian packages: $(cut -d ' ' -f 1 "$1" | paste -s -d ' ')"
  # shellcheck disable=SC2046 # package names and versions have no spaces
  (cd "$work/debs" &&
    apt-get -q=1 -c "$work/apt.conf" download $(sed 's/ [^ ]*$//; s/ /=/' "$1")) >&2 ||
    refuse 'apt-get download failed'
  while read -r name version sha256; do
    # apt writes the colon of an epoch as %3a.
    file=$(find "$work/debs" -name "${name}_*.deb" | head -n 1)
    { [ -n "$file" ] && has_sum "$file" "$sha256"; } ||
      refuse "$name $version: the package that apt got has another SHA-256 than $lock"
    mv "$file" "$cache/$sha256.new"
    mv "$cache/$sha256.new" "$cache/$sha256.deb"
  done <"$1"
}

fetch () {
  mkdir -p "$1" "$cache"
  absent=$(mktemp)
  while read -r name version sha256; do
    case $name in '#'*) continue ;; esac
    has_sum "$cache/$sha256.deb" "$sha256" || printf '%s %s %s\n' "$name" "$version" "$sha256"
    ln -sf "$cache/$sha256.deb" "$1/$name.deb"
  done <"$lock" >"$absent"
  # Runs in a subshell, so that the list is also removed after an error.
  result=0
  if [ -s "$absent" ]; then (download "$absent") || result=$?; fi
  rm -f "$absent"
  return "$result"
}

case ${1:-} in
  --update) update ;;
  --fetch) fetch "${2:?folder}" ;;
  *)
    sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
