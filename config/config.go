// Package config contains the manifests of this project's components.
package config

import "embed"

// Files are the manifests by their paths in this folder. They name the images of the embedded cluster:
// [Registry]/NAME:dev.
//
//go:embed agent argo-rollouts crd interceptor kedify-proxy scaler
var Files embed.FS
