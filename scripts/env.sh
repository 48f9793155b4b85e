# shellcheck shell=bash disable=SC2034
# Sourced by every script: where tools and caches live, and what this machine can do.

# What fails in $(…) ends that, too: what a function prints last would hide it.
shopt -s inherit_errexit

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ -d /usr/local/go/bin ]] && PATH=$PATH:/usr/local/go/bin
PATH=$PATH:/usr/sbin:/sbin

# A user without a home of their own (nobody) still needs a build cache.
if [[ ! -w ${HOME:-/nonexistent} ]]; then
  HOME=${TMPDIR:-/tmp}/kvm2d-home-$(id -u)
  [[ -d $HOME ]] || mkdir -m 700 "$HOME"
  [[ -O $HOME ]] || { echo "$HOME belongs to somebody else" >&2; exit 1; }
  unset GOPATH GOCACHE GOMODCACHE XDG_CACHE_HOME
fi
apt_log=${TMPDIR:-/tmp}/kvm2d-apt-$(id -u).log
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kvm2d
export PATH HOME

# git refuses to read a tree that belongs to another user, and go build then fails; such builds carry no revision.
git -C "$root" rev-parse HEAD >/dev/null 2>&1 || export GOFLAGS="${GOFLAGS:-} -buildvcs=false"

step() { printf '\n==> %s\n' "$*"; }

# can_install: this is root on Debian, of whose packages lab and guests are made.
can_install() { [[ $(id -u) == 0 ]] && grep -qs '^ID=debian$' /etc/os-release && command -v apt-get >/dev/null; }

# install_packages NAME…: installs what is missing; says false where that cannot be done.
install_packages() {
  local name missing=()
  for name; do
    dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
  done
  ((${#missing[@]} == 0)) && return
  can_install || return
  echo "installing: ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -yqq --no-install-recommends "${missing[@]}" \
    </dev/null >"$apt_log" 2>&1 || { tail -n 20 "$apt_log" >&2; return 1; }
}

# left_out PART WHY: says that a part was not done. That is fine on a machine which cannot do it, and a failure
# where it could have been done: as root on Debian, and in CI.
left_out() {
  echo "LEFT OUT: $1 ($2)"
  ! can_install && [[ -z ${CI:-} ]]
}
