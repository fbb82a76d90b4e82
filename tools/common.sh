# shellcheck shell=bash
# What quickstart and test share: finding out what is missing, and installing it. Sourced by bash.
# Sets `root`, the repository's folder. Reads `yes` (1: don't ask).

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
yes=${yes:-0}

say() { printf '%s\n' "$*" >&2; }
die() {
    say "$(basename "$0"): error: $*"
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# The first version of a clang program that is there (clang-16, the pinned one, first): prints it.
newest() {
    local version
    for version in -16 -22 -21 -20 -19 -18 -17 -15 -14 ''; do
        have "$1$version" && echo "$1$version" && return
    done
    return 1
}

can_compile() { # can_compile COMPILER [OPTION...]
    have "$1" || return 1
    printf '#include <stdio.h>\nint main(void) { return 0; }\n' |
        "$@" -x c - -o /dev/null >/dev/null 2>&1
}

python_with_pip() {
    local python
    for python in python3 /usr/bin/python3; do
        "$python" -m pip --version >/dev/null 2>&1 && echo "$python" && return
    done
    return 1
}

# has THING: whether it is here already, however it got here.
has() {
    case $1 in
    compiler) can_compile "${CC:-cc}" ;;
    clang) can_compile "$(newest clang)" ;;
    fuzzer) printf 'int LLVMFuzzerTestOneInput(const char *d, long n) { return d && n < 0; }\n' |
        "$(newest clang)" -fsanitize=fuzzer,address -x c - -o /dev/null >/dev/null 2>&1 ;;
    clang-format) have clang-format-16 || clang-format --version 2>/dev/null | grep -q ' 16\.' ;;
    clang-tidy) newest clang-tidy >/dev/null ;;
    cmake | ninja | pkg-config | python3 | git) have "$1" ;;
    pip) python_with_pip >/dev/null ;;
    glslang) have glslangValidator ;;
    volk) [ -e /usr/include/volk.h ] || [ -e /usr/include/volk/volk.h ] || [ -e /usr/local/include/volk.h ] ;;
    vulkan-headers) [ -e /usr/include/vulkan/vulkan.h ] || [ -e /usr/local/include/vulkan/vulkan.h ] ;;
    lavapipe) ls /usr/share/vulkan/icd.d/lvp_icd*.json >/dev/null 2>&1 ;;
    validation) [ -e /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json ] ;;
    *) pkg-config --exists "$1" 2>/dev/null ;;
    esac
}

# clang_version: the version suffix of the clang that apt offers, the pinned one first.
clang_version() {
    local version
    for version in -16 -22 -21 -20 -19 -18 -17 -15 -14; do
        apt-cache policy "clang$version" 2>/dev/null | grep -qE 'Candidate: [0-9]' &&
            echo "$version" && return
    done
    echo -16
}

# debian_packages THING: what brings it on Debian and Ubuntu.
debian_packages() {
    case $1 in
    compiler) echo gcc libc6-dev ;;
    clang) echo "clang$(clang_version)" ;;
    fuzzer) echo "clang$(clang_version) libclang-rt$(clang_version)-dev" ;;
    clang-format) echo clang-format-16 ;;
    clang-tidy) echo "clang-tidy$(clang_version)" ;;
    ninja) echo ninja-build ;;
    pip) echo python3-pip ;;
    cmake | pkg-config | python3 | git) echo "$1" ;;
    glslang) echo glslang-tools ;;
    volk) echo libvulkan-volk-dev ;;
    vulkan-headers) echo libvulkan-dev ;;
    lavapipe) echo mesa-vulkan-drivers libvulkan1 ;;
    validation) echo vulkan-validationlayers ;;
    jansson | cmocka) echo "lib$1-dev" ;;
    *) echo "$1-dev" ;; # libedit, libpng, libutf8proc, nettle
    esac
}

other_systems() {
    cat >&2 <<'END'
Packages with these things on other systems (install them, then run this again):
  Fedora      gcc cmake ninja-build pkgconf python3-pip jansson-devel libedit-devel
              utf8proc-devel nettle-devel libpng-devel glslang vulkan-headers
              vulkan-volk-devel
              tests: libcmocka-devel clang clang-tools-extra compiler-rt git
  Arch Linux  gcc cmake ninja pkgconf python-pip jansson libedit libutf8proc nettle libpng
              glslang vulkan-headers volk
              tests: cmocka clang compiler-rt git
  openSUSE    gcc cmake ninja pkgconf python3-pip libjansson-devel libedit-devel
              utf8proc-devel nettle-devel libpng16-devel glslang-devel vulkan-headers vulkan-volk-devel
              tests: libcmocka-devel clang git
END
}

apt_install() {
    local as=()
    [ "$(id -u)" = 0 ] || as=(sudo)
    "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$@" -q -o DPkg::Lock::Timeout=300
}

# need THING...: installs with apt what is missing of these, asking once. Ends the script where that
# can't be. WANTED (an array, may be empty) are things whose lack only makes a step be skipped.
wanted=()
need() {
    local thing missing=() optional=() names log answer
    for thing in "$@"; do has "$thing" || missing+=("$thing"); done
    for thing in "${wanted[@]}"; do has "$thing" || optional+=("$thing"); done
    [ $((${#missing[@]} + ${#optional[@]})) -gt 0 ] || return 0
    if ! have apt-get; then
        [ ${#missing[@]} -gt 0 ] || return 0
        say "Missing: ${missing[*]} ${optional[*]}"
        other_systems
        exit 1
    fi
    [ "$(id -u)" = 0 ] || have sudo ||
        die "missing: ${missing[*]} ${optional[*]}; run this as root, or install sudo"
    if [ "$yes" != 1 ]; then
        say "Missing: ${missing[*]} ${optional[*]}"
        [ -t 0 ] || die "run again with --yes to have them installed with apt"
        read -r -p "Install them with apt? [Y/n] " answer || exit 1
        case $answer in '' | [yY]*) ;; *) exit 1 ;; esac
    fi

    log=$(mktemp)
    names=$(for thing in "${missing[@]}"; do debian_packages "$thing"; done)
    # A new machine has no package lists, and an old list names files that are gone.
    if [ -n "$(apt-cache policy libjansson-dev 2>/dev/null)" ] && [ -n "$names" ] &&
        apt_install install -y --no-install-recommends $names >"$log" 2>&1; then
        say "Installed: "$names
    elif [ -n "$names" ]; then
        say "apt-get update"
        apt_install update >"$log" 2>&1 || { tail -n 20 "$log" >&2; }
        names=$(for thing in "${missing[@]}"; do debian_packages "$thing"; done)
        apt_install install -y --no-install-recommends $names >"$log" 2>&1 || {
            tail -n 20 "$log" >&2
            die "apt could not install "$names
        }
        say "Installed: "$names
    fi
    for thing in "${optional[@]}"; do
        names=$(debian_packages "$thing")
        if apt_install install -y --no-install-recommends $names >"$log" 2>&1; then
            say "Installed: $names"
        else
            say "Not to be had here: $names"
        fi
    done
    rm -f "$log"
    for thing in "${missing[@]}"; do
        has "$thing" || die "$thing is still missing after installing its package"
    done
}

# The presets need CMake 3.25.
check_cmake() {
    local version
    version=$(cmake --version | sed -n 's/^cmake version \([0-9]*\.[0-9]*\).*/\1/p')
    [ "${version%.*}" -gt 3 ] || { [ "${version%.*}" = 3 ] && [ "${version#*.}" -ge 25 ]; } ||
        die "CMake 3.25 or newer is needed, this one is $version (a newer one: pip install cmake)"
    # A build folder keeps the generator that it was made with.
    if [ -z "${CMAKE_GENERATOR:-}" ] && have ninja; then export CMAKE_GENERATOR=Ninja; fi
}

# The libraries that CMakeLists.txt asks for, by their pkg-config names.
libraries() {
    sed -n 's/^pkg_check_modules([A-Z0-9_]* REQUIRED IMPORTED_TARGET \([a-z0-9]*\).*/\1/p' \
        "$root/CMakeLists.txt"
}

n_jobs=$(nproc 2>/dev/null || echo 2)
