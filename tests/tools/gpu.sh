#!/usr/bin/env bash
# What a real GPU does, in one command that builds nothing and ends within six minutes: the kernels' self-test, then the benches
# over context lengths, on a Linux machine with Vulkan.
#
#   tests/tools/gpu.sh (or ./build.sh gpu-bench) [--adapter NAME] [--bin FILE] [--model FILE.gguf] [--budget SECONDS] [--quick] OUT
#
# The companion is --bin, or $RIVULET_BIN, or target/rivulet of this clone (`./build.sh test` and `bench --peers` leave it there; a release build of
# another machine does as well). The model is --model, or SmolLM2 in $RIVULET_MODELS; without one only models by name are
# measured, whose weights are noise. A libvulkan.so.1 that lies beside the companion is used. --quick proves the script on a
# machine without a GPU.
#
# Into the folder OUT come: summary.json, which holds all the rest and is whole after every step, one JSON file for each step that
# was done, and log.txt. A step that fails or runs past its limit is said so, and the next one is done. Exit status: 0, or 1
# where a step failed, or 2 where nothing could be measured.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../.." && pwd)
say() { printf '== gpu: %s\n' "$*" >&2; }
die() { printf 'gpu.sh: %s\n' "$*" >&2; exit 2; }
usage() { die "usage: gpu.sh [--adapter NAME] [--bin FILE] [--model FILE.gguf] [--budget SECONDS] [--quick] OUT"; }

adapter='' bin=${RIVULET_BIN:-$repo/target/rivulet} model='' budget=345 quick='' out=''
while [ $# -gt 0 ]; do
  case "$1" in
    --quick) quick=1; shift; continue ;;
    --adapter | --bin | --model | --budget)
      [ $# -ge 2 ] || usage
      case "$1" in --adapter) adapter=$2 ;; --bin) bin=$2 ;; --model) model=$2 ;; --budget) budget=$2 ;; esac
      shift 2 ;;
    -*) usage ;;
    *) [ -z "$out" ] || usage; out=$1; shift ;;
  esac
done
[ -n "$out" ] || usage
[[ $budget =~ ^[1-9][0-9]{0,4}$ ]] || usage
[ -x "$bin" ] || die "no companion at $bin: name one with --bin or RIVULET_BIN (\`./build.sh companion\` makes it)"
bin=$(cd "$(dirname "$bin")" && pwd)/$(basename "$bin")
version=$(timeout 20 "$bin" --version 2>&1) || die "$bin does not start here: $version"
smollm2=SmolLM2-135M-Instruct.Q4_1.gguf
if [ -z "$model" ] && [ -e "${RIVULET_MODELS:-}/$smollm2" ]; then model=$RIVULET_MODELS/$smollm2; fi
[ -z "$model" ] || [ -e "$model" ] || die "no model at $model"

mkdir -p "$out" || die "cannot make the folder $out"
out=$(cd "$out" && pwd)
rm -f "$out"/*.part "$out/summary.json" # an old one would be taken for this run's
scratch=$(mktemp -d)
trap 'rm -rf "$scratch" "$out"/*.part' EXIT
trap 'exit 130' INT TERM
# Without one Mesa complains at every start.
export XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-$scratch}

# ---------------------------------------------------------------------------------------------- is there Vulkan?

# library NAME: whether the dynamic linker would find it.
library() {
  local folder folders
  IFS=: read -ra folders <<<"${LD_LIBRARY_PATH:-}"
  for folder in "${folders[@]}"; do [ ! -e "$folder/$1" ] || return 0; done
  if command -v ldconfig >/dev/null; then ldconfig -p; else /sbin/ldconfig -p; fi 2>/dev/null | grep -qF "$1"
}

LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
if [ -e "$(dirname "$bin")/libvulkan.so.1" ]; then LD_LIBRARY_PATH=$(dirname "$bin")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; fi
export LD_LIBRARY_PATH
library libvulkan.so.1 || die "the Vulkan loader is missing: no libvulkan.so.1, neither installed nor beside the companion. \
Install it (Debian, Ubuntu: apt-get install libvulkan1; Fedora: dnf install vulkan-loader), or copy libvulkan.so.1 beside $bin"

# drivers: the manifests that the loader reads, one a line.
drivers() {
  local given=${VK_DRIVER_FILES:-${VK_ICD_FILENAMES:-}} folder folders
  if [ -n "$given" ]; then
    IFS=: read -ra folders <<<"$given"
    for folder in "${folders[@]}"; do if [ -d "$folder" ]; then ls "$folder"/*.json 2>/dev/null; else ls "$folder" 2>/dev/null; fi; done
    return
  fi
  for folder in "${XDG_CONFIG_HOME:-$HOME/.config}" /etc "${XDG_DATA_HOME:-$HOME/.local/share}" /usr/local/share /usr/share; do
    ls "$folder"/vulkan/icd.d/*.json 2>/dev/null
  done
}

# use_driver FILE: before those that are there, so that a software driver stays to be had.
use_driver() {
  local all
  all=$(printf '%s\n' "$1" "$(drivers)" | paste -sd: | sed 's/:*$//')
  export VK_DRIVER_FILES=$all VK_ICD_FILENAMES=$all
}

# NVIDIA's container tools can bring the driver without the manifest, or with it in a place where no loader looks.
if [ -z "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ] && ! drivers | grep -qi nvidia; then
  manifest=$(find /usr/local /opt -maxdepth 6 -name 'nvidia_icd*.json' 2>/dev/null | head -n 1)
  if [ -z "$manifest" ] && library libGLX_nvidia.so.0; then
    manifest=$scratch/nvidia_icd.json
    printf '{"file_format_version":"1.0.0","ICD":{"library_path":"libGLX_nvidia.so.0","api_version":"1.3.0"}}\n' >"$manifest"
  fi
  if [ -n "$manifest" ]; then use_driver "$manifest"; say "NVIDIA's driver is named to the loader by $manifest"; fi
fi
found=$(drivers)
[ -n "$found" ] || die "no Vulkan driver is installed (no manifest in /usr/share/vulkan/icd.d or /etc/vulkan/icd.d, no libGLX_nvidia.so.0). \
NVIDIA: install the driver's Vulkan part; in a container run with NVIDIA_DRIVER_CAPABILITIES=all and install libx11-6 and libxext6, \
which the driver wants. Without a GPU: mesa-vulkan-drivers"

# ---------------------------------------------------------------------------------------------- steps

started=$SECONDS
left() { echo $((budget - (SECONDS - started))); }
names=() records=() failures=0

# quoted TEXT: as a JSON string.
quoted() { printf '"%s"' "$(printf %s "$1" | tr '\n\t\r' '   ' | LC_ALL=C tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g')"; }

# summarise DONE: writes summary.json, whole.
summarise() {
  local part=$out/summary.json.part i file
  {
    printf '{\n"kind": "rivulet-gpu",\n"format": 1,\n"complete": %s,\n' "$1"
    printf '"date": %s,\n"seconds": %d,\n"quick": %s,\n' "$(quoted "$(date -u +%Y-%m-%dT%H:%M:%SZ)")" $((SECONDS - started)) "$([ -n "$quick" ] && echo true || echo false)"
    printf '"version": %s,\n"machine": %s,\n"gpu": %s,\n' "$(quoted "$version")" "$(quoted "$machine")" "$(quoted "$gpu")"
    printf '"drivers": %s,\n"steps": [\n' "$(quoted "$found")"
    for i in "${!names[@]}"; do
      file=$out/${names[$i]}.json
      printf '%s{%s, "report": ' "$([ "$i" = 0 ] || echo ', ')" "${records[$i]}"
      if [ -e "$file" ]; then cat "$file"; else printf 'null\n'; fi
      printf '}\n'
    done
    printf ']\n}\n'
  } >"$part" && mv "$part" "$out/summary.json"
}

# record NAME STATUS SECONDS LIMIT WHY
record() {
  names+=("$1")
  records+=("\"name\": $(quoted "$1"), \"status\": $(quoted "$2"), \"seconds\": $3, \"limit\": $4, \"why\": $(quoted "$5")")
  if [ "$2" != ok ]; then failures=$((failures + 1)); fi
  say "$1: $2 after $3 s${5:+: $5}"
  summarise false
}

# step NAME LIMIT ARGUMENTS…: one call of the companion, whose JSON object becomes NAME.json. `bench` writes it by --out and a
# table to stdout; the others print it.
step() {
  local name=$1 limit=$2 status begin=$SECONDS part=$out/$1.json.part why=''; shift 2
  rm -f "$out/$name.json"
  [ "$(left)" -ge 8 ] || { record "$name" skipped 0 "$limit" "the $budget seconds of the whole run were spent"; return; }
  if [ "$limit" -gt "$(left)" ]; then limit=$(left); fi
  [ -z "$adapter" ] || set -- "$@" --adapter "$adapter"
  printf '\n== %s: rivulet %s\n' "$name" "$*" >>"$out/log.txt"
  if [ "$1" = bench ]; then
    timeout --foreground -k 3 "$limit" "$bin" "$@" --out "$part" >"$scratch/out" 2>"$scratch/err" </dev/null; status=$?
    cat "$scratch/out" >&2
  else
    timeout --foreground -k 3 "$limit" "$bin" "$@" --json >"$part" 2>"$scratch/err" </dev/null; status=$?
    cp "$part" "$scratch/out"
  fi
  cat "$scratch/out" "$scratch/err" >>"$out/log.txt"
  # A report is kept where it is whole; a self-test that found something wrong writes one and fails.
  if [ "$(tail -c 2 "$part" 2>/dev/null | tr -d '\n')" = '}' ] && [ "$status" -lt 124 ]; then mv "$part" "$out/$name.json"; else rm -f "$part"; fi
  case "$status" in
    0) [ -e "$out/$name.json" ] && { record "$name" ok $((SECONDS - begin)) "$limit" ''; return; }; why='it wrote no report' ;;
    124 | 137) record "$name" 'timed out' $((SECONDS - begin)) "$limit" "it was ended after its $limit s"; return ;;
    *) why=$(grep -v '^run [0-9]' "$scratch/err" | tail -n 2 | cut -c -600) ;;
  esac
  [ -n "$why" ] || { [ ! -e "$out/$name.json" ] || why='its report says what'; }
  record "$name" failed $((SECONDS - begin)) "$limit" "exit status $status${why:+: $why}"
}

machine="$(uname -srm); $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1); $(nproc 2>/dev/null || echo '?') cores"
gpu=$(command -v nvidia-smi >/dev/null && timeout 10 nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.memory,clocks.max.sm --format=csv,noheader 2>/dev/null || true)
: >"$out/log.txt"
say "$version, ${gpu:-no nvidia-smi}, $(printf '%s\n' "$found" | wc -l) Vulkan driver(s), $budget s at most"

if [ -n "$quick" ]; then
  # As little as shows that each step works; a self-test of everything takes minutes on a software adapter.
  contexts=(--contexts 0,32 --prompt-tokens 8 --max-tokens 4 --runs 1)
  step selftest 20 selftest
  [ -z "$model" ] || step smollm2 40 bench "$model" "${contexts[@]}"
  step qwen3-0.6b-q4_0 60 bench --synthetic qwen3-0.6b:q4_0 "${contexts[@]}"
  step profile 40 bench --synthetic qwen3-0.6b:q4_0 --profile --contexts 32 --runs 1
else
  contexts=(--contexts 0,512,2048,8192)
  step selftest 90 selftest
  [ -z "$model" ] || step smollm2 40 bench "$model" "${contexts[@]}"
  measure() { step "${1//:/-}" 60 bench --synthetic "$1" "${contexts[@]}"; }
  # What matters most comes first: what no time is left for is skipped.
  for name in llama-3.2-1b:q4_k llama-3.1-8b:q4_k qwen3-4b:q4_k qwen3-0.6b:q4_0; do measure "$name"; done
  step profile 30 bench --synthetic llama-3.2-1b:q4_k --profile --contexts 0,2048
  for name in llama-3.2-1b:f16 llama-3.2-1b:q8_0 llama-3.1-8b:q8_0; do measure "$name"; done
fi

summarise true
if [ -z "$adapter" ] && grep -qi 'llvmpipe\|swiftshader' "$out/summary.json"; then say "the adapter is a CPU: Vulkan found no GPU, and these figures say nothing about one"; fi
say "$((${#names[@]} - failures)) of ${#names[@]} steps done in $((SECONDS - started)) s: $out/summary.json"
[ "$failures" -lt ${#names[@]} ] || exit 2
[ "$failures" = 0 ]
