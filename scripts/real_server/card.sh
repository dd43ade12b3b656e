#!/usr/bin/env bash
# vLLM-Omni on one GPU with the small voice, and the bundled server beside it on the same card and texts.
#
#   scripts/real_server/card.sh [KEY=VALUE ...]      from the top of a checkout, with omni-bench installed
#
# vLLM-Omni 0.20.0 and vLLM 0.20.0 are the pair for torch 2.11 (CUDA 13). SERVER_PYTHON: the interpreter of an environment
# that has them already; without it one is built in .venv-real-server-card. PYTHON: omni-bench's interpreter.
set -euo pipefail
python=${PYTHON:-.venv/bin/python}
server=${SERVER_PYTHON:-.venv-real-server-card/bin/python}
voice=build/real_server/voice

if [ ! -x "$server" ]; then
  echo "card: vLLM-Omni into .venv-real-server-card"
  python3 -m venv .venv-real-server-card
  "$server" -m pip install vllm==0.20.0 vllm-omni==0.20.0
fi
echo "card: the small voice into $voice"
rm -rf "$voice" && mkdir -p "$(dirname "$voice")"
"$python" -m omni_bench voice "$voice"
ulimit -n 65536 2>/dev/null || true

code=0
"$python" -m omni_bench run scenario=vllm_omni_card "target.python=$server" "$@" || code=$?
"$python" -m omni_bench run scenario=qwen3_tts client.voice=heart reference.graphs=full_step "$@" || code=$?
exit "$code"
