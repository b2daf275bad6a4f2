// Module pause is the program of every pod's sandbox.
module github.com/kedify/argo-rollouts-plugin/localcluster/components/pause

go 1.26.0
