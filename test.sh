#!/usr/bin/env bash
# Everything that must hold before a change goes in: gofmt, go vet, all tests with the race detector.
#
#   ./test.sh           all of it
#   ./test.sh -short    without the tests that take long
#
# The tests need Go, a C compiler (for the race detector) and redis-server; each test starts its own servers on ports of its
# own. On Debian and Ubuntu what is missing is installed, where that needs no password. HOLDFAST_REDIS_SERVER names another
# redis-server than the one in PATH. Exit code 1: something does not hold; 2: something is missing, or a bad flag.
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
    printf 'test.sh: not as gofmt writes it:\n%s\n' "$wrong" >&2
    exit 1
  }
}

flags=()
for argument in "$@"; do
  case $argument in
    -short) flags+=(-short) ;;
    *) missing "unknown argument $argument" 'usage: ./test.sh [-short]' ;;
  esac
done

need_go
need_compiler
need_redis
export CGO_ENABLED=1

say gofmt
check_format
say go vet
go vet ./...
say go test -race ${flags[@]+"${flags[@]}"} ./...
go test -race -timeout 15m ${flags[@]+"${flags[@]}"} ./...
if [ -f bench/go.mod ]; then
  say 'go vet and go test in bench/'
  (cd bench && go vet ./... && go test -timeout 5m ${flags[@]+"${flags[@]}"} ./...)
fi
say 'everything holds'
