# Prints the packages of packages.txt with their dependencies, sorted by name, as lines
# `NAME VERSION SHA256`. Of alternatives it takes the first. The end is 1 if a package is unknown.
#
# usage: apt-cache dumpavail | awk -f closure.awk packages.txt -

FNR == NR && /^[ \t]*(#|$)/ { next }
FNR == NR && /^-/ { left_out[substr($1, 2)] = 1; next }
FNR == NR { queue[++n_queued] = $1; wanted_by[$1] = "packages.txt"; next }

/^Package: / { name = $2 }
/^Version: / { version[name] = $2 }
/^SHA256: / { sha256[name] = $2 }
/^(Pre-)?Depends: / { sub(/^[^:]*: */, ""); depends[name] = depends[name] "," $0 }
/^Provides: / {
  sub(/^[^:]*: */, "")
  n = split($0, names, / *, */)
  for (i = 1; i <= n; i++) {
    sub(/[ :(].*/, "", names[i])
    if (!(names[i] in provider)) provider[names[i]] = name
  }
}

function follow(package,    all, alternatives, n, i) {
  n = split(depends[package], all, / *, */)
  for (i = 1; i <= n; i++) {
    if (all[i] == "") continue
    split(all[i], alternatives, / *\| */)
    # libc6:any (>= 2.34)
    sub(/[ :(].*/, "", alternatives[1])
    queue[++n_queued] = alternatives[1]
    if (!(alternatives[1] in wanted_by)) wanted_by[alternatives[1]] = package
  }
}

END {
  for (at = 1; at <= n_queued; at++) {
    package = queue[at]
    if (package in left_out) continue
    if (!(package in version) && package in provider) {
      wanted_by[provider[package]] = wanted_by[package]
      package = provider[package]
    }
    if (package in left_out || package in done) continue
    done[package] = 1
    if (!(package in sha256)) {
      printf "lock.sh: apt has no package %s, which %s needs\n", package, wanted_by[package] \
        > "/dev/stderr"
      failed = 1
      continue
    }
    print package, version[package], sha256[package] | "LC_ALL=C sort"
    follow(package)
  }
  close("LC_ALL=C sort")
  exit failed
}
