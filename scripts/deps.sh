#!/bin/bash
# deps.sh PACKAGE...: installs what is missing of these Debian packages. With nothing missing it
# does nothing; without root it says what to install.
set -euo pipefail

if ! command -v dpkg-query >/dev/null; then
	echo "deps: not a Debian system; have the counterparts of these installed: $*"
	exit 0
fi
missing=()
for package in "$@"; do
	status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ]; then
	echo "deps: missing packages; as root: apt-get install ${missing[*]}" >&2
	exit 1
fi
echo "deps: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -o DPkg::Lock::Timeout=600 -q)
"${apt[@]}" update
"${apt[@]}" install -y --no-install-recommends "${missing[@]}"
