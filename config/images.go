package config

import (
	"regexp"
	"strings"
)

// Registry is the registry and the organization of this project's images. Files that cannot read this constant repeat
// it, such as the manifests, the values of the chart, the Makefile and the release workflow: TestImageNames in
// test/docs compares all of them.
const Registry = "ghcr.io/kedify"

// The names of the images below a registry. The image of the plugins has the repository's name, and the others are
// below it, so that no name is that of another product's image.
const (
	PluginImage      = "argo-rollouts-plugin"
	InterceptorImage = PluginImage + "/interceptor"
	ScalerImage      = PluginImage + "/scaler"
	AgentImage       = PluginImage + "/agent"
	// SampleImage is the guides' application.
	SampleImage = PluginImage + "/rollouts-demo"
)

// Images returns the names of all images.
func Images() []string {
	return []string{PluginImage, InterceptorImage, ScalerImage, AgentImage, SampleImage}
}

// WithImages returns a manifest of [Files] with the images of a tag in a registry.
func WithImages(manifest []byte, registry, tag string) []byte {
	images := regexp.MustCompile(regexp.QuoteMeta(Registry) + `/(` + PluginImage + `(?:/[a-z-]+)?):dev\b`)
	literal := func(text string) string { return strings.ReplaceAll(text, "$", "$$") }
	return images.ReplaceAll(manifest, []byte(literal(registry)+"/${1}:"+literal(tag)))
}
