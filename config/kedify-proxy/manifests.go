// Package kedifyproxy has the manifests of kedify-proxy as text, so that what the agent applies is what a user
// applies by kustomization.yaml.
package kedifyproxy

import "embed"

// Files are the manifests of this folder. None of them names a namespace.
//
//go:embed *.yaml
var Files embed.FS
