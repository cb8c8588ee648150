#!/usr/bin/env bash
# Checks what every change must pass: gofmt, go vet, the tests.
#
#   ./test.sh           the tests in their short forms: some minutes on two cores
#   ./test.sh -race     the same; the packages of the main module with the race detector, which needs a C compiler
#   ./test.sh -full     the tests in full: half an hour on an idle machine; make check runs the other long checks
#   ./test.sh ./actors  only the tests of these packages
#
# The tests need Go and redis-server; each test starts its own servers on its own ports. On Debian and Ubuntu the script installs missing
# programs, if it can do so without a password. HOLDFAST_REDIS_SERVER names the redis-server to use instead of the one in PATH. Exit code 1: a
# check failed; 2: a program is missing, or a flag is wrong.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

GO_AT_LEAST=1.26
REDIS_AT_LEAST=6.2

. ./.ci/install.sh

missing() {
  printf 'test.sh: %s\n' "$@" >&2
  exit 2
}

need_go() {
  local found
  command -v go >/dev/null || missing "go is missing: install Go $GO_AT_LEAST or later, see https://go.dev/doc/install"
  found=$(GOTOOLCHAIN=local go version | grep -oE 'go[0-9]+\.[0-9]+(\.[0-9]+)?' | head -n 1)
  at_least "$GO_AT_LEAST" "${found#go}" || missing "$found is too old: install Go $GO_AT_LEAST or later, see https://go.dev/doc/install"
}

has_compiler() {
  local compiler
  compiler=$(go env CC)
  command -v "${compiler%% *}" >/dev/null && [ "$(CGO_ENABLED= go env CGO_ENABLED)" = 1 ]
}

need_compiler() {
  has_compiler && return
  { can_install && install gcc libc6-dev && has_compiler; } || missing \
    'a C compiler is missing, and the race detector needs one: install gcc and the headers of the C library' \
    '(Debian, Ubuntu: apt-get install gcc libc6-dev; Fedora: gcc glibc-devel; macOS: xcode-select --install)'
}

need_redis() {
  local found server=${HOLDFAST_REDIS_SERVER:-redis-server}
  command -v "$server" >/dev/null || { [ "$server" = redis-server ] && can_install && install redis-server; } || true
  command -v "$server" >/dev/null || missing \
    "$server is missing: install Redis $REDIS_AT_LEAST or later, so that redis-server is in PATH" \
    '(Debian, Ubuntu: apt-get install redis-server; Fedora, macOS with Homebrew: the package redis).' \
    'It need not run: each test starts its own.'
  found=$("$server" --version | grep -oE 'v=[0-9]+\.[0-9]+(\.[0-9]+)?' | head -n 1)
  at_least "$REDIS_AT_LEAST" "${found#v=}" || missing "$server ${found#v=} is too old: install $REDIS_AT_LEAST or later"
}

check_format() {
  local wrong
  wrong=$("$(go env GOROOT)/bin/gofmt" -l .)
  [ -z "$wrong" ] || {
    printf 'test.sh: not formatted by gofmt:\n%s\n' "$wrong" >&2
    exit 1
  }
}

# The packages whose tests take longest come first, so that none of them runs alone at the end.
slowest=(./internal/faults ./internal/promises ./internal/kinds ./cmd/holdfast)

flags=(-short -timeout 15m)
race= full=
packages=()
for argument in "$@"; do
  case $argument in
    -race) race=-race ;;
    -full) flags=(-timeout 90m) full=yes ;;
    . | ./*) packages+=("$argument") ;;
    *) missing "unknown argument $argument" 'usage: ./test.sh [-race] [-full] [./package...]' ;;
  esac
done

[ "$race$full" ] || # short tests wait for servers and leases much of the time, so one package more than there are processors runs at once
  flags+=(-p $(($(getconf _NPROCESSORS_ONLN) + 1)))

need_go
need_redis
if [ "$race" ]; then
  need_compiler
  export CGO_ENABLED=1
fi

# go_test ARGUMENTS... runs go test with all checks of go vet.
go_test() {
  say "go test $*"
  go test -vet=all "$@"
}

say gofmt
check_format
if [ ${#packages[@]} -gt 0 ]; then
  go_test $race "${flags[@]}" "${packages[@]}"
else
  go_test $race "${flags[@]}" "${slowest[@]}" ./...
  for module in $(git ls-files '*/go.mod'); do # the nested modules, which ./... does not include
    say "in $(dirname "$module"):"
    (cd "$(dirname "$module")" && go_test "${flags[@]}" ./...)
  done
fi
say 'all checks passed'
