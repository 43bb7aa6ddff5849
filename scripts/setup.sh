#!/usr/bin/env bash
# Makes .venv with the pinned packages and sees to the system packages: installs them when that is possible without a
# password (root, or sudo -n), otherwise says what to install. With an argument: a further extra of pyproject.toml ("demo", "docs").
set -euo pipefail
cd "$(dirname "$0")/.."
extras=${1:-test,synth,formal}
stamp=.venv/.ready${1:+_$1}

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

apt_install() {
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        sudo -n true 2>/dev/null || return 1
        as_root=(sudo -n)
    fi
    command -v apt-get >/dev/null || return 1
    say "installing $*"
    "${as_root[@]}" apt-get update -qq </dev/null >&2 || true
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >&2
}

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3.11 python3 python3.12 python3.13 python; do
        [ -n "$candidate" ] || continue
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

python=$(find_python) || fail "needs Python 3.11 or newer; install it, or name it: PYTHON=/path/to/python3 make setup"

missing=()
command -v g++ >/dev/null || missing+=(g++)
command -v make >/dev/null || missing+=(make)
command -v iverilog >/dev/null || missing+=(iverilog)
if [ ${#missing[@]} -gt 0 ] && ! apt_install "${missing[@]}"; then
    fail "these programs are missing: ${missing[*]}; on Debian or Ubuntu run: sudo apt-get install ${missing[*]}"
fi

# Debian ships venv without pip unless python3-venv is installed.
if [ ! -x .venv/bin/python ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    rm -rf .venv
    if ! "$python" -m venv .venv >/dev/null 2>&1; then
        rm -rf .venv
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        apt_install "python$version-venv" || apt_install python3-venv ||
            fail "Python lacks its venv module; on Debian or Ubuntu run: sudo apt-get install python3-venv"
        "$python" -m venv .venv || fail "could not make the environment .venv with $python"
    fi
fi

say "installing the pinned packages ($extras) into .venv (a few minutes the first time)"
.venv/bin/python -m pip install --quiet --disable-pip-version-check -e ".[$extras]" ||
    fail "could not install the packages that pyproject.toml names; see the messages above"
# Networks for the tests, which need none of what these wheels ask for.
if [ -z "${1:-}" ] && ! .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps silero-vad==6.2.3 pymicro-wakeword==2.5.0; then
    say "silero-vad and pymicro-wakeword are not there: tests of their networks are left out"
fi
touch "$stamp"
say "done"
