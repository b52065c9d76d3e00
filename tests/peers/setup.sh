#!/usr/bin/env bash
# setup.sh FOLDER MODEL.gguf: fetches the peers by name into FOLDER and makes transformers.js its files of MODEL. What is in
# place, in the version that is asked for, is left alone. From nothing it takes about 15 minutes and 8 GB: llama.cpp is compiled,
# and the tool that writes ONNX brings PyTorch.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -eq 2 ] || { echo "usage: setup.sh FOLDER MODEL.gguf" >&2; exit 2; }
folder=$1 model=$2
say() { printf '== peers: %s\n' "$*" >&2; }
die() { printf 'setup.sh: %s\n' "$*" >&2; exit 1; }

mkdir -p "$folder"

# ------------------------------------------------------------------------------------------------ from npm

have_modules() {
  node -e '
    const fs = require("node:fs");
    const [wanted, folder] = process.argv.slice(1);
    for (const [name, version] of Object.entries(JSON.parse(fs.readFileSync(wanted)).dependencies)) {
      const file = `${folder}/node_modules/${name}/package.json`;
      if (!fs.existsSync(file) || JSON.parse(fs.readFileSync(file)).version !== version) process.exit(1);
    }' "$here/package.json" "$folder"
}

if ! have_modules; then
  say "fetching wllama and transformers.js"
  cp "$here/package.json" "$folder/package.json"
  # Scripts are refused: onnxruntime's would fetch libraries for Node, which nothing here uses.
  (cd "$folder" && npm install --no-audit --no-fund --ignore-scripts --loglevel=error </dev/null >&2) || die "npm could not install the peers"
fi

# ------------------------------------------------------------------------------------------------ from PyPI

python=$folder/venv/bin/python

have_packages() {
  [ -x "$python" ] && "$python" - "$here/requirements.txt" <<'PY'
import sys
from importlib.metadata import PackageNotFoundError, version
try:
    for line in open(sys.argv[1], encoding="utf-8"):
        name, _, wanted = line.partition("#")[0].strip().partition("==")
        if name and version(name) != wanted:
            sys.exit(1)
except PackageNotFoundError:
    sys.exit(1)
PY
}

if ! have_packages; then
  say "fetching llama.cpp and the ONNX exporter, and compiling the former (about 15 minutes, once)"
  [ -x "$python" ] || python3 -m venv "$folder/venv" || die "python3 could not make a virtual environment"
  "$python" -m pip install --quiet --disable-pip-version-check --upgrade pip </dev/null >&2 || say "pip stays as it is"
  # For this machine's processor, as somebody who wants it fast would build it.
  CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAMA_CURL=OFF" "$python" -m pip install --quiet --disable-pip-version-check --progress-bar off \
    -r "$here/requirements.txt" </dev/null >&2 || die "pip could not install the peers"
fi

# ------------------------------------------------------------------------------------------------ the model as ONNX

stamp=$(cat "$here/export_onnx.py" "$here/requirements.txt" <(stat -c %s "$model") | sha256sum | cut -d' ' -f1)
if [ "$(cat "$folder/onnx-models/stamp" 2>/dev/null || true)" != "$stamp" ]; then
  say "writing $(basename "$model") as ONNX for transformers.js (about 2 minutes, once)"
  rm -rf "$folder/onnx-models" "$folder"/onnx-models.part.*
  part=$(mktemp -d "$folder/onnx-models.part.XXXXXX")
  chmod 755 "$part"
  HF_HUB_OFFLINE=1 TQDM_DISABLE=1 "$python" "$here/export_onnx.py" "$model" "$part" >&2 || { rm -rf "$part"; die "the model could not be written as ONNX"; }
  printf '%s\n' "$stamp" >"$part/stamp"
  mv "$part" "$folder/onnx-models"
fi
