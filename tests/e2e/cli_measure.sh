# Measuring by replay: what is written, what is refused, and Ctrl-C in the middle.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1

# A made-up model on four slices: latency follows batch / slices with a floor, batch 64 does not fit on 1g.
{
  echo device,mig_profile,model,batch,size,processes,latency_ms,latency_spread_ms,memory_mib,throughput_per_s
  for slice in 1g.10gb:1 2g.20gb:2 3g.40gb:3 7g.80gb:7; do
    for batch in 1 2 4 8 16 32 64; do
      name=${slice%:*} k=${slice#*:}
      if [[ $name == 1g.10gb && $batch == 64 ]]; then
        echo "a100-80gb,$name,made-up,$batch,1,1,,,,"
      else
        awk -v n="$name" -v k="$k" -v b="$batch" 'BEGIN {
          ms = 4 + 1.5 * b / k; printf "a100-80gb,%s,made-up,%d,1,1,%.3f,%.3f,%d,\n", n, b, ms, ms / 50, 900 + 120 * b }'
      fi
    done
  done
  echo a100-80gb,1g.10gb,other,1,1,1,3,,,
} > all.csv
expect 0 validate all.csv
measure=(measure --model made-up --device a100-80gb --engine replay --measurements all.csv)

# What is written is a part of the file, word for word where nothing varies.
expect 0 "${measure[@]}" --max-measurements 8 --target-error 0 -o few.csv
expect 0 validate few.csv
[[ $(wc -l < few.csv) == 9 ]] || fail "asked for 8 measurements, got $(($(wc -l < few.csv) - 1))"
tail -n +2 few.csv | while IFS=, read -r device profile model batch size processes latency _; do
  grep -q "^$device,$profile,$model,$batch,$size,$processes,$latency" all.csv || { echo "$profile $batch" >> wrong; }
done
[[ ! -e wrong ]] || fail "replay invented: $(cat wrong)"

# More of them go on where the file ends; the same again adds nothing.
cp few.csv first.csv
expect 0 "${measure[@]}" --max-measurements 12 --target-error 0 -o few.csv
[[ $(wc -l < few.csv) == 13 && $(head -9 few.csv) == "$(cat first.csv)" ]] || fail "12 measurements do not begin with the 8"
cp few.csv second.csv
expect 0 "${measure[@]}" --max-measurements 12 --target-error 0 -o few.csv --output json
cmp -s few.csv second.csv || fail "nothing to do, and the file changed"
has out '"stop": "budget"'; has out '"measured_before": 12'

# Every sampler reaches every point that can be reached, and nothing larger than what ran out of memory.
for sampler in active latin random grid; do
  expect 0 "${measure[@]}" --sampler $sampler --max-measurements 100 --target-error 0 -o $sampler.csv
  cmp -s <(tail -n +2 all.csv | grep made-up | cut -d, -f2,4 | sort) <(tail -n +2 $sampler.csv | cut -d, -f2,4 | sort) ||
    fail "$sampler did not measure everything"
done
expect 0 "${measure[@]}" --batches 1,3 -o odd.csv; has out "Skipped 4 configurations: the measurements file has no such run"
grep -v ',8,1,1,' all.csv > gaps.csv
expect 0 measure --model other --device a100-80gb --engine replay --measurements gaps.csv --noise -o gaps-few.csv
has err "has no spread for this model"
expect 0 measure --model made-up --device a100-80gb --engine replay --measurements gaps.csv -o gaps-all.csv
grep -q Skipped out && fail "nobody asked for the gaps"

# The sampler stops by itself before the whole table is measured.
expect 0 "${measure[@]}" --target-error 0.2 --max-measurements 28 -o early.csv
[[ $(wc -l < early.csv) -lt 29 ]] || fail "the sampler did not stop by itself"
has out "small enough"

# What others have measured in the same file stays.
printf 'device,mig_profile,model,batch,latency_ms\na100-80gb,7g.80gb,older,1,2\n' > shared.csv
expect 0 "${measure[@]}" --max-measurements 3 --target-error 0 -o shared.csv
[[ $(grep -c older shared.csv) == 1 && $(grep -c made-up shared.csv) == 3 ]] || fail "shared.csv: $(cat shared.csv)"

# Ctrl-C in the middle: exit 130, a whole file that is a beginning, and the same command ends as if nothing had happened.
slow=("${measure[@]}" --noise --seed 5 --max-measurements 20 --target-error 0 --precision 0.005)
expect 0 "${slow[@]}" -o whole.csv
"$TANGRAM" "${slow[@]}" --real-time -o broken.csv > out 2> err & process=$!
for ((i = 0; i < 600; ++i)); do
  [[ -e broken.csv && $(wc -l < broken.csv) -ge 4 ]] && break
  sleep 0.05
done
kill -INT $process
code=0; wait $process || code=$?
[[ $code == 130 ]] || fail "interrupted: exit $code: $(cat err)"
has err "run the same command to continue"
lines=$(wc -l < broken.csv)
[[ $lines -ge 4 && $lines -lt 21 ]] || fail "interrupted with $lines lines"
[[ $(head -"$lines" whole.csv) == "$(cat broken.csv)" ]] || fail "what was written when interrupted is no beginning of the whole"
[[ -z $(find . -name '.broken*') ]] || fail "something was left behind"
expect 0 "${slow[@]}" -o broken.csv
cmp -s whole.csv broken.csv || fail "resumed, the file differs from an uninterrupted one"

# Emulated between the points, in virtual and in real time.
emulated=(measure --model made-up --device a100-80gb --engine emulated --emulate all.csv --target-error 0)
expect 0 "${emulated[@]}" --batches 1,3 --profiles 7g --max-measurements 2 -o emulated.csv
has emulated.csv "a100-80gb,7g.80gb,made-up,3,1,1,4.643,"
expect 0 "${emulated[@]}" --batches 1 --profiles 7g --real-time --max-repeats 5 -o timed.csv --output json
ms=$(tail -1 timed.csv | cut -d, -f7)
awk -v ms="$ms" 'BEGIN { exit !(ms >= 4.214) }' || fail "4.214 ms in real time took only $ms ms"
expect 0 "${emulated[@]}" --batches 1,64 --profiles 7g --memory-limit 2000 -o limited.csv
has limited.csv "a100-80gb,7g.80gb,made-up,64,1,1,,,,"

expect 2 "${measure[@]}" --memory-limit 2000 -o limited-replay.csv; has err "--memory-limit applies to the engines emulated"
[[ ! -e limited-replay.csv ]] || fail "a refused limit left a file"

# Emulated by a model that was fitted to what was measured before.
expect 0 learn whole.csv -o model.json
expect 0 measure --model made-up --device a100-80gb --engine emulated --emulate model.json --batches 1,3 --profiles 7g --noise -o fitted.csv
expect 0 validate fitted.csv
awk -F, '$4 == 3 { found = 1; if ($7 < 4 || $7 > 5.5) wrong = 1 } END { exit wrong || !found }' fitted.csv ||
  fail "4.643 ms became $(tail -1 fitted.csv)"
expect 2 measure --model bert --device a100-80gb --engine emulated --emulate model.json -o x.csv; has err "it has made-up"

# A limit of time.
expect 0 "${slow[@]}" --real-time --max-minutes 0.005 -o timely.csv; has out "is used up"

# Wrong input. Nothing is run, and nothing is written.
expect 2 measure --model bert --device a100-80gb --engine replay --measurements all.csv -o x.csv
has err "all.csv: has no measurements of bert on a100-80gb; it has made-up, other"
expect 2 measure --model made-up --device h100-80gb --engine replay --measurements all.csv -o x.csv
has err "all.csv: has no measurements on h100-80gb; it has a100-80gb"
expect 2 measure --model made-up --device a100-81gb --engine replay --measurements all.csv -o x.csv; has err "did you mean a100-80gb?"
expect 2 measure --model made-up --device a100-80gb --engine replya --measurements all.csv -o x.csv; has err "did you mean replay?"
expect 2 measure --model made-up --device a100-80gb --engine replay -o x.csv; has err "expected --measurements FILE"
expect 2 measure --model made-up --device a100-80gb --engine emulated --measurements all.csv -o x.csv; has err "expected --emulate FILE"
expect 3 measure --model made-up --device a100-80gb --engine replay --measurements gone.csv -o x.csv; has err "gone.csv: cannot read"
expect 2 "${measure[@]}" --profiles 9g -o x.csv; has err "has no profile 9g"
expect 2 "${measure[@]}" --batches 0 -o x.csv
expect 2 "${measure[@]}" --batches 3,5 -o x.csv; has err "the measurements file has no such run"
expect 2 "${measure[@]}" --max-measurements 0 -o x.csv
expect 2 "${measure[@]}"; has err "--to is required"
expect 2 "${measure[@]}" -o -; has err "expected a regular file"
expect 2 "${measure[@]}" -o all.csv; has err "is the file that the engine reads its times from"
[[ ! -e x.csv ]] || fail "wrong input left a file"
echo "no measurements" > notes.txt
expect 2 "${measure[@]}" -o notes.txt
[[ $(cat notes.txt) == "no measurements" ]] || fail "a file of another kind was overwritten"

# A file that cannot be written is noticed before the first run: this one would sleep for seconds.
begin=$SECONDS
expect 3 "${slow[@]}" --real-time -o no/such/folder.csv; has err "no such file or directory"
(( SECONDS - begin < 3 )) || fail "the output was tried after the runs"
finish
