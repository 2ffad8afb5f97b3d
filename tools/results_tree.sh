#!/bin/sh
# results_tree.sh BRANCH [COMMIT]: the branch of results laid out in results-tree/, or an empty folder before there is one.
# A remote that cannot be asked is an error: taken for "no branch yet", everything would be measured again.
set -eu
branch=$1 commit=${2:-}
rm -rf results-tree
mkdir -p results-tree/results

# A private repository is not read without a token; a checkout without credentials hands one over here.
if [ -n "${GH_TOKEN:-}" ]; then
  basic=$(printf 'x-access-token:%s' "$GH_TOKEN" | base64 | tr -d '\n')
  export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="http.${GITHUB_SERVER_URL:-https://github.com}/.extraheader"
  export GIT_CONFIG_VALUE_0="Authorization: Basic $basic"
fi
export GIT_TERMINAL_PROMPT=0

status=0
git ls-remote --exit-code --heads origin "refs/heads/$branch" >/dev/null || status=$?
if [ "$status" = 2 ]; then
  echo "there is no branch $branch yet" >&2
  : > results-tree/.commit
  exit 0
elif [ "$status" != 0 ]; then
  rm -rf results-tree
  echo "results-tree: origin cannot be asked for $branch (git ended with status $status, its words are above);" \
    "try again, or give GH_TOKEN a token that may read the repository" >&2
  exit 2
fi
# The whole branch is fetched: --depth would make the clone a shallow one.
git fetch --quiet origin "refs/heads/$branch"
state=$(git rev-parse FETCH_HEAD)
if [ -n "$commit" ]; then
  git fetch --quiet origin "$commit"
  state=$(git rev-parse FETCH_HEAD)
fi
git archive --output results-tree/.tar "$state"
tar -xf results-tree/.tar -C results-tree
rm results-tree/.tar
echo "$state" > results-tree/.commit
