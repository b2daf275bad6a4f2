// Module wget is a program for the Pod of the chart's test.
module github.com/kedify/argo-rollouts-plugin/localcluster/components/wget

go 1.26.0
