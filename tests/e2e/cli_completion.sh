# Completion as a shell runs it.
source "${SOURCE:?}/tests/e2e/lib.sh" || exit 1

"$TANGRAM" completion bash > tangram.bash || fail "no script"
source ./tangram.bash
touch "my fleet.yaml" fleet.yaml

# complete_words WORDS...: what bash would offer for the last word, one a line in `offered`.
complete_words() {
  COMP_WORDS=(tangram "$@")
  COMP_CWORD=$#
  _tangram 2>/dev/null
  printf '%s\n' "${COMPREPLY[@]}" > offered
}
offers() { grep -qxF -- "$1" offered || fail "${COMP_WORDS[*]}: $1 is not offered, only: $(tr '\n' ' ' <offered)"; }
lacks() { grep -qxF -- "$1" offered && fail "${COMP_WORDS[*]}: $1 is offered"; }

complete_words ge; offers geometry; lacks doctor
complete_words ""; offers demo; offers completion
complete_words geometry a; offers a30; offers a100-80gb; lacks b300
complete_words geometry --s; offers --set; offers --svg; lacks --kind
complete_words geometry --set ""; offers base; offers me; lacks a30
complete_words geometry a30 --output y; offers yaml; lacks json
complete_words geometry a30 --output = j; offers json
complete_words --output json geo; offers geometry
complete_words validate fl; offers fleet.yaml
complete_words import ""; offers parvagpu
complete_words import parvagpu fl; offers fleet.yaml; lacks parvagpu
complete_words completion ""; offers zsh
complete_words help do; offers doctor
complete_words schema ""; offers fleet
complete_words geometry a30 --svg fl; offers fleet.yaml
complete_words geometry a30 a; [[ -z $(cat offered) ]] || fail "a second type is offered"

"$TANGRAM" completion zsh > _tangram
"$TANGRAM" completion fish > tangram.fish
if command -v zsh >/dev/null; then zsh -n _tangram || fail "zsh does not understand its script"; fi
if command -v fish >/dev/null; then fish --no-execute tangram.fish || fail "fish does not understand its script"; fi
finish
