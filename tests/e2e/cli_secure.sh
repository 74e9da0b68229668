# A server that speaks TLS and asks who calls, as curl, gRPC and the verbs meet it.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1
unset TANGRAM_TOKEN
cp -r "$SOURCE/examples" .

# Keys: shown once, kept as digests, told apart.
expect 0 key make --tenant search --expires 2999-01-01; cp out search.key; cp err search.txt
has err "shown only once"; has err "sha256:"; has err "2999-01-01"
grep -qF "$(cut -d_ -f3- out)" err && fail "the entry holds the secret"
expect 0 key make --tenant ops --role admin; cp out ops.key; cp err ops.txt
expect 0 key make --tenant watch --role viewer; cp out watch.key; cp err watch.txt
expect 2 key make --expires 2001-01-01; has err "a date in the future"
{ echo "tenants:"; for t in search ops watch; do sed -n '/^tenants/,$p' "$t.txt" | tail -n +2; done; } >access.yaml
expect 0 validate access.yaml; has out "3 tenants"
expect 0 key check access.yaml --token-file search.key; has out "belongs to tenant search"
sed 's/.$/~/' search.key >bent.key
expect 1 key check access.yaml --token-file bent.key; has out "unknown key"
expect 2 key check access.yaml; has err "--token-file"
echo 'tenants: [{name: a}]' >wrong.yaml
expect 2 validate wrong.yaml --kind access; has err "wrong.yaml:1:18: a tenant needs keys"

# An authority, a server, a client; a second authority that nobody knows.
authority() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key.pem" -out "$1.pem" -days 2 -subj "/CN=$1" 2>/dev/null; }
issue() { # NAME ALTERNATIVES
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key.pem" -out "$1.csr" -subj "/CN=$1" 2>/dev/null
  echo "subjectAltName=$2" >"$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key.pem -CAcreateserial -out "$1.pem" -days 2 -extfile "$1.ext" 2>/dev/null
}
authority ca; authority other; issue server DNS:localhost,IP:127.0.0.1; issue client DNS:client.example

plan=(examples/serving/plan.json --services examples/serving/services.yaml --measurements examples/measurements.csv)
expect 2 serve "${plan[@]}" --tls-certificate server.pem; has err "must be given together"
expect 2 serve "${plan[@]}" --tls-client-ca ca.pem; has err "needs --tls-certificate"
expect 2 serve "${plan[@]}" --tls-certificate server.pem --tls-key client.key.pem; has err "private key"
expect 2 serve "${plan[@]}" --access wrong.yaml; has err "wrong.yaml:1:18"
expect 3 serve "${plan[@]}" --access missing.yaml; has err "missing.yaml"

# start NAME ARGUMENTS...: a server with free ports, which are then in HTTP, GRPC and METRICS.
start() {
  local name=$1
  shift
  "$TANGRAM" serve "${plan[@]}" --http-port 0 --grpc-port 0 --metrics-port 0 "$@" >"$name.out" 2>"$name.err" &
  SERVER=$!
  for _ in $(seq 200); do grep -q '"event":"ready"' "$name.err" && break; sleep 0.05; done
  HTTP=$(sed -n 's/.*"event":"serving".*"http":"https*:..[0-9.]*:\([0-9]*\)".*/\1/p' "$name.err")
  GRPC=$(sed -n 's/.*"grpc":"[0-9.]*:\([0-9]*\)".*/\1/p' "$name.err")
  METRICS=$(sed -n 's/.*"metrics":"https*:..[0-9.]*:\([0-9]*\)\/.*/\1/p' "$name.err")
  [[ -n $HTTP && -n $METRICS ]] || fail "the server did not start: $(cat "$name.err")"
}
ended() { local code=0; wait "$SERVER" || code=$?; [[ $code == 0 ]] || fail "the server ended with $code: $(tail -c 300 "$1.err")"; }

# asks WANTED CURL-ARGUMENTS...: the status that curl sees, or 000 where there is no connection.
asks() {
  local wanted=$1 got
  shift
  got=$(curl -s -o answer -D head -w '%{http_code}' --max-time 20 "$@")
  [[ $got == "$wanted" ]] || fail "curl $*: $got, expected $wanted: $(head -c 300 answer)"
}
question='{"inputs": [{"name": "input_ids", "datatype": "INT64", "shape": [1, 3], "data": [101, 2023, 102]}], "parameters": {"tangram_deadline_ms": 60000}}'
infer=v2/models/rank-answers/infer
bearer() { echo "Authorization: Bearer $(cat "$1.key")"; }

for threads in 1 2; do
  start "s$threads" --threads "$threads" --access access.yaml --tls-certificate server.pem --tls-key server.key.pem \
    --admin-socket "$WORK/admin.sock" --record "r$threads"
  base=https://localhost:$HTTP
  asks 200 --cacert ca.pem "$base/v2/health/ready"
  asks 000 --cacert other.pem "$base/v2/health/ready"
  asks 400 "http://localhost:$HTTP/v2"; has answer "HTTPS"
  asks 401 --cacert ca.pem "$base/$infer" -d "$question"; has answer '{"error":'; has head "WWW-Authenticate: Bearer"
  asks 401 --cacert ca.pem "$base/$infer" -d "$question" -H "$(bearer bent)"
  asks 400 --cacert ca.pem "$base/$infer" -d "$question" -H "$(bearer search)" -H "$(bearer search)"; has answer "several Authorization"
  asks 200 --cacert ca.pem "$base/$infer" -d "$question" -H "$(bearer search)"; has answer '"outputs"'
  asks 200 --cacert ca.pem "$base/$infer" -d "$question" -H "X-Api-Key: $(cat search.key)"
  asks 200 --cacert ca.pem --tls-max 1.2 "$base/$infer" -d "$question" -H "$(bearer search)"
  asks 000 --cacert ca.pem --tls-max 1.2 --ciphers ECDHE-ECDSA-AES128-SHA "$base/v2/health/ready"
  asks 403 --cacert ca.pem "$base/v2/repository/models/rank-answers/unload" -d '{}' -H "$(bearer search)"
  asks 200 --cacert ca.pem "$base/v2/repository/models/rank-answers/load" -d '{}' -H "$(bearer ops)"
  # A body that is not wanted is not read, and the answer comes all the same.
  head -c 4000000 /dev/zero >large
  asks 401 --cacert ca.pem "$base/$infer" --data-binary @large -H "Expect:"
  asks 401 --cacert ca.pem "https://localhost:$METRICS/metrics"
  asks 200 --cacert ca.pem "https://localhost:$METRICS/metrics" -H "$(bearer watch)"
  has answer 'tangram_tenant_requests_total{tenant="search",outcome="served"}'

  # The verbs.
  expect 3 status --port "$METRICS" --ca ca.pem; has err "--token-file"
  expect 3 status --port "$METRICS" --ca ca.pem --token-file search.key; has err "has no permission to watch"
  expect 3 status --port "$METRICS" --ca other.pem --token-file ops.key; has err "certificate verify failed"
  expect 3 status --port "$METRICS" --token-file ops.key; has err "HTTPS"
  expect 0 status --port "$METRICS" --ca ca.pem --token-file watch.key; has out "search"
  TANGRAM_TOKEN=$(cat watch.key) expect 0 top --port "$METRICS" --ca ca.pem --server-name localhost --times 1
  expect 3 reload --port "$METRICS" --ca ca.pem --token-file watch.key; has err "has no permission to administer"
  expect 0 log-level --socket admin.sock; has out "info"
  expect 0 log-level requests --port "$METRICS" --ca ca.pem --token-file ops.key; has out "requests"
  asks 200 --cacert ca.pem "$base/$infer" -d "$question" -H "$(bearer search)"
  sleep 0.2; has "s$threads.err" '"tenant":"search"'
  grep -qF "$(cut -d_ -f3- search.key)" "s$threads.err" && fail "a key stands in the log"

  # Load, over both protocols.
  answers --services examples/serving/services.yaml --seconds 1 --rate-scale 0.5 --protocol both \
    --http-port "$HTTP" --grpc-port "$GRPC" --ca ca.pem --token-file search.key
  expect 3 load --services examples/serving/services.yaml --seconds 0.3 --protocol both \
    --http-port "$HTTP" --grpc-port "$GRPC" --ca ca.pem; has err "expected a key"
  expect 3 load --services examples/serving/services.yaml --seconds 0.3 --http-port "$HTTP" --ca other.pem

  # Another certificate, of another authority, and one tenant less.
  cp ca.pem old.pem; cp access.yaml access.old
  authority ca; issue server DNS:localhost,IP:127.0.0.1
  { echo "tenants:"; for t in ops watch; do sed -n '/^tenants/,$p' "$t.txt" | tail -n +2; done; } >access.yaml
  expect 0 reload --socket admin.sock
  asks 000 --cacert old.pem "$base/v2/health/ready"
  asks 401 --cacert ca.pem "$base/v2" -H "$(bearer search)"
  asks 200 --cacert ca.pem "$base/v2" -H "$(bearer ops)"
  cp wrong.yaml access.yaml
  changes=$(grep -c plan_changed "s$threads.err")
  expect 1 reload --socket admin.sock; has out "access.yaml:1:18: a tenant needs keys"
  [[ $(grep -c plan_changed "s$threads.err") == "$changes" ]] || fail "half of a reload was taken"
  has "s$threads.err" "access.yaml:1:18: a tenant needs keys"
  asks 200 --cacert ca.pem "$base/v2" -H "$(bearer ops)"
  cp access.old access.yaml; issue client DNS:client.example

  expect 0 drain --socket admin.sock; ended "s$threads"
  [[ ! -e admin.sock ]] || fail "the socket outlived the server"
  expect 0 replay "r$threads"; has out "the same decisions"
  expect 3 drain --socket admin.sock; has err "--admin-socket"
done

# Certificates of clients, and a tenant that has nothing else.
printf 'tenants:\n  - {name: search, certificate_names: [client.example], quota_per_day: 1}\n' >access.yaml
start mutual --access access.yaml --tls-certificate server.pem --tls-key server.key.pem --tls-client-ca ca.pem
base=https://localhost:$HTTP
asks 000 --cacert ca.pem "$base/v2"
# What makes no sense takes nothing of the quota of one.
asks 400 --cacert ca.pem --cert client.pem --key client.key.pem "$base/$infer" -d '{'
asks 400 --cacert ca.pem --cert client.pem --key client.key.pem "$base/$infer" -d '{"parameters": {"timeout": "1"}}'
asks 200 --cacert ca.pem --cert client.pem --key client.key.pem "$base/$infer" -d "$question"
asks 429 --cacert ca.pem --cert client.pem --key client.key.pem "$base/$infer" -d "$question"; has head "Retry-After: "
expect 3 status --port "$METRICS" --ca ca.pem
expect 3 status --port "$METRICS" --ca ca.pem --certificate client.pem --certificate-key client.key.pem; has err "has no permission to watch"
kill -TERM "$SERVER"; ended mutual

# Open to others without anything that asks: said loudly, and done. Metrics stay at home.
start open --address 0.0.0.0
has open.err '"level":"warning"'; has open.err "without authentication"; has open.err '"metrics":"http://127.0.0.1:'
kill -TERM "$SERVER"; ended open
expect 0 key make --tenant a; sed -n '/^tenants/,$p' err >one.yaml
start clear --address 0.0.0.0 --access one.yaml
has clear.err "without TLS"
kill -TERM "$SERVER"; ended clear
# Two addresses that are one: said once.
start both --address 0.0.0.0 --admin-address 0.0.0.0 --access one.yaml
[[ $(grep -c "without TLS" both.err) == 1 ]] || fail "warned more than once: $(cat both.err)"
python3 -c 'import json; [json.loads(line) for line in open("both.err")]' || fail "not valid JSON: $(cat both.err)"
kill -TERM "$SERVER"; ended both
finish
