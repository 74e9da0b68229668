# Offline jobs, and slices that run on another server, where that speaks TLS, asks for a certificate and for a key.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1
unset TANGRAM_TOKEN
cp -r "$SOURCE/examples" .
export XDG_STATE_HOME="$WORK/state"
servers=()
trap '{ kill -9 "${servers[@]}"; wait; } 2>/dev/null; chmod -R u+w "$WORK"; rm -rf "$WORK"' EXIT

expect 0 key make --tenant jobs; cp out jobs.key; sed -n '/^tenants/,$p' err >access.yaml
sed 's/.$/~/' jobs.key >bent.key

authority() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key.pem" -out "$1.pem" -days 2 -subj "/CN=$1" 2>/dev/null; }
issue() { # NAME ALTERNATIVES
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key.pem" -out "$1.csr" -subj "/CN=$1" 2>/dev/null
  echo "subjectAltName=$2" >"$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key.pem -CAcreateserial -out "$1.pem" -days 2 -extfile "$1.ext" 2>/dev/null
}
authority ca; authority other; issue server DNS:localhost; issue client DNS:client.example

# start NAME ARGUMENTS...: a server with free ports, which are then in HTTP and METRICS.
start() {
  local name=$1
  shift
  "$TANGRAM" serve "${plan[@]}" --measurements examples/measurements.csv --http-port 0 --grpc-port 0 --metrics-port 0 "$@" >"$name.out" 2>"$name.err" &
  servers+=($!)
  for _ in $(seq 200); do grep -q '"event":"serving"' "$name.err" && break; sleep 0.05; done
  HTTP=$(sed -n 's/.*"event":"serving".*"http":"https*:..[0-9.]*:\([0-9]*\)".*/\1/p' "$name.err")
  METRICS=$(sed -n 's/.*"metrics":"https*:..[0-9.]*:\([0-9]*\)\/.*/\1/p' "$name.err")
  [[ -n $HTTP ]] || fail "the server did not start: $(cat "$name.err")"
}
secure=(--access access.yaml --tls-certificate server.pem --tls-key server.key.pem --tls-client-ca ca.pem)
mine=(--ca ca.pem --server-name localhost --certificate client.pem --certificate-key client.key.pem)

# ---- A job over TLS with a key ----
# Its services are called as their models are, so that another server can have its batches run there.
for file in plan.json services.yaml; do sed 's/rank-answers/text-encoder/; s/classify-photos/mobile-vision/' examples/serving/$file >far.$file; done
plan=(far.plan.json --services far.services.yaml)
start far "${secure[@]}"
FAR=$HTTP
python3 - >rows.jsonl <<'PYTHON'
import random
random.seed(4)
for i in range(300):
    print(f'{{"id": "r{i}", "input_ids": {[random.randint(1, 9999) for _ in range(random.randint(1, 60))]}}}')
PYTHON
submit=(batch submit --model text-encoder --http-port "$FAR" --input rows.jsonl)
expect 0 "${submit[@]}" --output whole.jsonl "${mine[@]}" --token-file jobs.key
[[ $(wc -l <whole.jsonl) == 300 ]] || fail "$(wc -l <whole.jsonl) answers"
TANGRAM_TOKEN=$(cat jobs.key) expect 0 "${submit[@]}" --output token.jsonl "${mine[@]}"
cmp whole.jsonl token.jsonl || fail "the key of the environment has other answers"

# Who is not known is told so; who does not trust the server waits for another, and says why.
expect 3 "${submit[@]}" --output x "${mine[@]}" --token-file bent.key; has err "key"
expect 3 "${submit[@]}" --output x "${mine[@]}"; has err "no tenant has the name in this client certificate"
expect 3 "${submit[@]}" --output x --ca other.pem --server-name localhost --token-file jobs.key --wait 0.1s; has err "certificate verify failed"
expect 3 "${submit[@]}" --output x --ca ca.pem --token-file jobs.key --wait 0.1s; has err "certificate verify failed"
expect 3 status --port "$METRICS" --ca other.pem --server-name localhost
has err "the TLS handshake failed"; grep -q "no server was found" err && fail "a server that was found is said not to be: $(cat err)"
expect 3 status --port 1; has err "no server was found"

# Killed, and resumed by itself: files are found from wherever it runs, and the answers are the same.
"$TANGRAM" "${submit[@]}" --output killed.jsonl --store killed "${mine[@]}" --token-file jobs.key >/dev/null 2>&1 & CLIENT=$!
for _ in $(seq 200); do [[ $("$TANGRAM" batch status --store killed) == *running* ]] && break; sleep 0.02; done
kill -9 $CLIENT; wait $CLIENT 2>/dev/null
expect 0 batch resume text-encoder-1 --store killed --detach "${mine[@]}" --token-file jobs.key
for _ in $(seq 400); do [[ $("$TANGRAM" batch status --store killed) == *done* ]] && break; sleep 0.05; done
cmp killed.jsonl whole.jsonl || fail "a job that was killed has other answers: $(cat killed/*.log)"

# ---- Batches run on that server ----
plan=(examples/serving/plan.json --services examples/serving/services.yaml)
expect 2 serve "${plan[@]}" --measurements examples/measurements.csv --remote-ca ca.pem; has err "--engine remote"
front=(--engine remote --remote "127.0.0.1:$FAR" --remote-server-name localhost)
shown=(--remote-certificate client.pem --remote-certificate-key client.key.pem)
start near "${front[@]}" --remote-ca ca.pem "${shown[@]}" --remote-token-file jobs.key
for _ in $(seq 200); do grep -q '"event":"ready"' near.err && break; sleep 0.05; done
has near.err '"event":"ready"'
expect 0 batch submit --model rank-answers --http-port "$HTTP" --input rows.jsonl --output near.jsonl
python3 - <<'PYTHON' || fail "answers through a second server are others"
import json
far, near = ([json.loads(line)["outputs"] for line in open(name)] for name in ("whole.jsonl", "near.jsonl"))
assert far == near
PYTHON
start nobody "${front[@]}" --remote-ca ca.pem "${shown[@]}"
start wary "${front[@]}" --remote-ca other.pem --remote-token-file jobs.key
for _ in $(seq 200); do grep -q "denies access" nobody.err && grep -q "certificate verify failed" wary.err && break; sleep 0.05; done
has nobody.err "it denies access"; has wary.err "certificate verify failed"
finish
