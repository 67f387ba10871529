#!/usr/bin/env bash
# The recording of README: an upgrade that an addon does not support is refused, then carried out. `make cast` runs it.
set -euo pipefail
examples=$PWD/examples
cd "$(mktemp -d)"
trap 'csctl dev down --name cast > setup.log 2>&1; rm -r "$PWD"' EXIT
export KUBECONFIG=$PWD/kubeconfig
{
    csctl create "$examples/stacks/local/ranges/1-35" --remote none -o releases
    csctl create "$examples/stacks/local/ranges/1-36" --remote none -o releases
    csctl dev up --name cast --detach --release-dir releases
    csctl dev kubeconfig --name cast > kubeconfig
    kubectl apply -f "$examples/ranges/clusterstacks.yaml"
    kubectl wait --for=condition=Ready --timeout=3m clusterstack/ranges-1-35 clusterstack/ranges-1-36
    kubectl apply -f "$examples/ranges/cluster.yaml"
    kubectl wait --for=condition=ClusterStackAddonsReady --timeout=5m cluster/ranged
} > setup.log 2>&1 || { cat setup.log; exit 1; }

show() { printf '\033[1m$ %s\033[0m%s\n' "$@"; }
patch='{"spec":{"topology":{"version":"v1.36.3"}}}'
refused=$(kubectl patch cluster ranged --type merge --patch "$patch" 2>&1) && exit 1
show "kubectl patch cluster ranged --type merge --patch '$patch'" $'\n'"$refused"
sleep 6
upgrade='csctl upgrade default/ranged --to v1.36.3 --releases releases --yes'
show "$upgrade" ''
$upgrade | grep --line-buffered --extended-regexp --invert-match '^ *[0-9.]+ s  |^$|check that it runs' # without the tree
