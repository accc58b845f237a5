#!/usr/bin/env bash
# Builds real Kubernetes v1.36.4 and the programs it is compared and tested with, from their published Go modules:
#   build.sh [--dry-run] [NAME...]    all programs, or those named; --dry-run only says what would be done
#   build.sh --clean                  removes the programs, and the modules and build cache they were made with
# Everything goes to ${XDG_CACHE_HOME:-~/.cache}/kubesched/control-plane: v1.36.4/{bin,stages,stamps} and go/{mod,build}.
# A program whose stamp says that it was made of these very sources is left alone, so a second clone builds nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=${XDG_CACHE_HOME:-$HOME/.cache}/kubesched/control-plane
target=$root/v1.36.4
needed_gb=10 # modules 2.4, build cache 5.5, programs 0.9, and some air

# name | module folder | package | the module whose version counts | that version | version to stamp in
programs="
etcd|v1.36|./etcd|go.etcd.io/etcd/server/v3|v3.6.8|
kube-apiserver|v1.36|./kube-apiserver|k8s.io/kubernetes|v1.36.4|1.36.4
kube-controller-manager|v1.36|./kube-controller-manager|k8s.io/kubernetes|v1.36.4|1.36.4
kube-scheduler|v1.36|./kube-scheduler|k8s.io/kubernetes|v1.36.4|1.36.4
kubectl|v1.36|./kubectl|k8s.io/kubectl|v0.36.4|1.36.4
kwok|kwok|sigs.k8s.io/kwok/cmd/kwok|sigs.k8s.io/kwok|v0.8.0|
ginkgo|v1.36|github.com/onsi/ginkgo/v2/ginkgo|github.com/onsi/ginkgo/v2|v2.28.1|
e2e.test|v1.36|k8s.io/kubernetes/test/e2e|k8s.io/kubernetes|v1.36.4|1.36.4
kubectl-1.32|v1.32|./kubectl|k8s.io/kubectl|v0.32.9|1.32.9
kube-scheduler-1.29|v1.29|./kube-scheduler|k8s.io/kubernetes|v1.29.15|1.29.15
helm|helm|helm.sh/helm/v3/cmd/helm|helm.sh/helm/v3|v3.22.0|
go-extender|extender|./go-extender|k8s.io/kube-scheduler|v0.36.4|
"

say() { echo "control-plane: $*" >&2; }
fail() { say "$*"; exit 1; }

row_of() { grep -F -m1 -- "$1|" <<<"$programs" | grep -E "^${1//./\\.}\|" || fail "there is no program '$1'"; }

stamp_of() { # What a program is made of: its row, the module's pins and its own main.
  local folder=$2 package=$3
  { echo "$*"; cat "$here/$folder/go.mod" "$here/$folder/go.sum"
    if [[ $package == ./* ]]; then cat "$here/$folder/$package"/*.go; fi
  } | sha256sum | cut -c1-32
}

is_built() { # A program without a stamp counts if it says itself that it was made of the right module.
  local name=$1 module=$4 version=$5 stamp
  [ -x "$target/bin/$name" ] || return 1
  stamp=$(stamp_of "$@")
  if [ -f "$target/stamps/$name" ]; then [ "$(cat "$target/stamps/$name")" = "$stamp" ]; return; fi
  go version -m "$target/bin/$name" 2>/dev/null |
    awk -v m="$module" -v v="$version" '($1 == "dep" || $1 == "mod" || $1 == "=>") && $2 == m && $3 == v { found = 1 }
      END { exit !found }' || return 1
  if [ -z "$dry_run" ]; then mkdir -p "$target/stamps"; echo "$stamp" >"$target/stamps/$name"; fi
}

check_space() {
  local place free
  for place in "$@"; do
    mkdir -p "$place"
    free=$(df -Pk "$place" | awk 'NR == 2 { print int($4 / 1024 / 1024) }')
    [ "$free" -ge "$needed_gb" ] ||
      fail "building needs $needed_gb GB of free disk space and $place has $free GB: free some, or set XDG_CACHE_HOME to a larger disk"
  done
}

build() {
  local name=$1 folder=$2 package=$3 release=$6 flags="-s -w" started=$SECONDS
  if [ -n "$release" ]; then
    local version=k8s.io/component-base/version minor=${release#1.}
    flags+=" -X $version.gitVersion=v$release -X $version.gitMajor=1 -X $version.gitMinor=${minor%%.*}"
  fi
  local how=(build)
  if [[ $name == *.test ]]; then how=(test -c); fi
  mkdir -p "$target/bin" "$target/stamps"
  (cd "$here/$folder" && go "${how[@]}" -trimpath -ldflags "$flags" -o "$target/bin/$name.$$" "$package") ||
    { rm -f "$target/bin/$name.$$"; fail "$name could not be built"; }
  mv "$target/bin/$name.$$" "$target/bin/$name"
  stamp_of "$@" >"$target/stamps/$name"
  say "$name built in $((SECONDS - started)) s"
}

copy_stages() { # KWOK's own descriptions of how nodes and pods come to life.
  local stages file
  [ -f "$target/stages/pod-ready.yaml" ] && return
  stages=$(cd "$here/kwok" && go mod download -json sigs.k8s.io/kwok | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')/kustomize/stage
  mkdir -p "$target/stages"
  for file in "$stages"/node/fast/*.yaml "$stages"/node/heartbeat-with-lease/*.yaml "$stages"/pod/fast/*.yaml; do
    [[ $file == *kustomization.yaml ]] || install -m 644 "$file" "$target/stages/"
  done
  say "KWOK's stages copied"
}

dry_run=
case "${1:-}" in
--clean)
  chmod -R u+w "$root" 2>/dev/null || true
  rm -rf "$root"
  say "removed $root"
  exit 0
  ;;
--dry-run)
  dry_run=yes
  shift
  ;;
esac

command -v go >/dev/null || fail "the Go toolchain is needed (1.26 or later): no 'go' on PATH"
# Caches of its own, so that --clean gives back what was taken and nothing else. What Go has downloaded for others is
# taken from there, though.
known=$(go env GOMODCACHE)/cache/download
proxies=$(go env GOPROXY)
if [ -d "$known" ]; then proxies="file://$known,$proxies"; fi
export GOPROXY=$proxies GOMODCACHE=$root/go/mod GOCACHE=$root/go/build GOFLAGS=-modcacherw CGO_ENABLED=0

wanted=("$@")
if [ ${#wanted[@]} -eq 0 ]; then mapfile -t wanted < <(grep -o '^[^|]\+' <<<"$programs"); fi
missing=()
for name in "${wanted[@]}"; do
  row=$(row_of "$name")
  IFS='|' read -r -a fields <<<"$row|"
  if is_built "${fields[@]}"; then say "$name ${fields[4]}: already built"; else missing+=("$row"); fi
done

if [ ${#missing[@]} -gt 0 ]; then
  if [ -n "$dry_run" ]; then
    for row in "${missing[@]}"; do
      IFS='|' read -r -a fields <<<"$row|"
      say "${fields[0]} ${fields[4]}: would be built of ${fields[2]} in ${fields[1]}"
    done
    exit 0
  fi
  check_space "$GOMODCACHE" "$GOCACHE" "$target"
  say "${#missing[@]} programs to build; all of them take about 20 minutes on two cores when nothing is cached"
  count=0
  for row in "${missing[@]}"; do
    IFS='|' read -r -a fields <<<"$row|"
    count=$((count + 1))
    say "building ${fields[0]} ${fields[4]} ($count of ${#missing[@]})"
    build "${fields[@]}"
  done
fi
if [ -z "$dry_run" ]; then copy_stages; say "done in $SECONDS s: $target"; fi
