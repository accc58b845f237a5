#!/bin/sh
# Builds the oracle, unless this very version of it is built already, and prints the path of the program as the last
# line on standard output. Progress goes to standard error.
set -eu

say() { echo "oracle: $*" >&2; }
fail() { say "$*"; exit 1; }

cd "$(dirname "$0")"
hash=$(find go.mod go.sum oracle -type f \( -name '*.go' -o -name 'go.*' \) ! -name '*_test.go' | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-16)
directory=${XDG_CACHE_HOME:-$HOME/.cache}/kubesched/oracle/$hash
program=$directory/oracle
if [ -x "$program" ]; then
  say "already built"
  echo "$program"
  exit 0
fi

command -v go >/dev/null || fail "the Go toolchain is needed (1.26 or later): no 'go' on PATH"
mkdir -p "$directory"
cache=$(go env GOCACHE)
mkdir -p "$cache"
needed=4 # GB for modules, build cache and program, when nothing is there yet
for place in "$cache" "$directory"; do
  free=$(df -Pk "$place" | awk 'NR == 2 {print int($4 / 1024 / 1024)}')
  [ "$free" -ge "$needed" ] || fail "building needs $needed GB of free disk space, $place has $free GB"
done

say "building (three or four minutes on two cores when nothing is cached)"
start=$(date +%s)
CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$program.$$" ./oracle >&2 || { rm -f "$program.$$"; fail "the build failed"; }
mv "$program.$$" "$program"
say "built in $(($(date +%s) - start)) s"
echo "$program"
