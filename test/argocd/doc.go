// Package argocd runs Argo CD's application controller and repo server against canaries of both routers and
// against the agent, on a real API server with the Argo Rollouts controller, without Pods. The recipes are those of the
// pages. The API server's audit log shows who wrote which weights, selectors and backends.
package argocd
