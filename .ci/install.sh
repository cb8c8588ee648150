# Functions for other scripts (test.sh, interop/run, .ci/page, .ci/smoke) to source. They install Debian packages if that needs no password.

say() { printf '\n== %s\n' "$*"; }

# at_least WANTED FOUND succeeds if version FOUND (such as 1.26.8) is not older than WANTED (such as 1.26).
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_install() {
  command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

# install PACKAGE... installs packages. A temporary policy-rc.d keeps apt-get from starting services that come with them.
install() {
  local policy=/usr/sbin/policy-rc.d made='' failed=''
  say "installing $*"
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod +x "$policy"
    made=yes
  fi
  as_root apt-get -qq update || true # one source may be unreachable while another has the package
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 install -y --no-install-recommends "$@" </dev/null || failed=yes
  [ -z "$made" ] || as_root rm -f "$policy"
  [ -z "$failed" ]
}
