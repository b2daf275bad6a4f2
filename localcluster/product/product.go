// Package product describes this project's programs and their images. The embedded cluster, `make docker-build` and
// releases all use it.
package product

import (
	"maps"
	"path"
	"path/filepath"

	"github.com/kedify/argo-rollouts-plugin/localcluster/images"
)

// Program is one of this project's own programs, by the name of its binary.
type Program string

// The programs.
const (
	Plugin        Program = "rollouts-plugin-kedify"
	GatewayPlugin Program = "gatewayapi-plugin"
	Interceptor   Program = "interceptor"
	Scaler        Program = "scaler"
	Agent         Program = "agent"
	// Sample is the guides' application.
	Sample Program = "rollouts-demo"
)

// Packages maps each program to its package, relative to the repository's root.
func Packages() map[Program]string {
	return map[Program]string{
		Plugin:        "./cmd/rollouts-plugin-kedify",
		GatewayPlugin: "./cmd/gatewayapi-plugin",
		Interceptor:   "./cmd/interceptor",
		Scaler:        "./cmd/scaler",
		Agent:         "./cmd/agent",
		Sample:        "./examples/rollouts-demo",
	}
}

// Registry and Organization are those of the images. They repeat config.Registry of the repository, which is another
// module: TestImageNamesWithoutImport in test/docs compares them, and the names of the images.
const (
	Registry     = "ghcr.io"
	Organization = "kedify"
)

// Charts is the folder of Helm charts below the organization.
const Charts = "charts"

// Names of the images below the organization.
const (
	PluginImage      = "argo-rollouts-plugin"
	InterceptorImage = PluginImage + "/interceptor"
	ScalerImage      = PluginImage + "/scaler"
	AgentImage       = PluginImage + "/agent"
	SampleImage      = PluginImage + "/rollouts-demo"
)

// Published are the images of a release.
func Published() []string {
	return []string{PluginImage, InterceptorImage, ScalerImage, AgentImage, SampleImage}
}

// Programs returns the programs of an image, its entrypoint first.
func Programs(image string) []Program {
	return map[string][]Program{
		PluginImage:      {Plugin, GatewayPlugin},
		InterceptorImage: {Interceptor},
		ScalerImage:      {Scaler},
		AgentImage:       {Agent},
		SampleImage:      {Sample},
	}[image]
}

// NonRoot is the user of the images: the user that distroless images call nonroot.
const NonRoot = "65532"

// Image describes an image with the given names. Built are the paths of the existing programs; missing ones are
// omitted. The root folder contains only the programs.
func Image(image string, built map[Program]string, names ...string) images.Spec {
	out := images.Spec{Names: names, User: NonRoot}
	for _, program := range Programs(image) {
		source, found := built[program]
		if !found {
			continue
		}
		inside := "/" + string(program)
		if out.Entrypoint == nil {
			out.Entrypoint = []string{inside}
		}
		out.Files = append(out.Files, images.File{Path: inside, Source: source})
		if program == Plugin {
			// The path in the published image.
			out.Files = append(out.Files, images.File{Path: path.Join("/plugin", string(program)), LinkTo: inside})
		}
	}
	return out
}

// Documents returns the files of a published image in addition to its programs, below /licenses: the license and the
// notice of the repository in a folder, and a file with the licenses of other projects.
func Documents(repo, thirdParty string) []images.File {
	var files []images.File
	for _, source := range []string{
		filepath.Join(repo, "LICENSE"), filepath.Join(repo, "NOTICE"), thirdParty,
	} {
		files = append(files, images.File{Path: path.Join("/licenses", filepath.Base(source)), Source: source, Mode: 0o644})
	}
	return files
}

// Release contains the properties of a published image.
type Release struct {
	// Version and Revision are those of the source: a tag without its v, and a commit.
	Version, Revision string
}

// Labels are the image's annotations as the OCI image specification defines them (annotations.md). Tools show them as
// an image's origin.
func (r Release) Labels(image string) map[string]string {
	const source = "https://github.com/kedify/argo-rollouts-plugin"
	const key = "org.opencontainers.image."
	labels := map[string]string{
		key + "title":    path.Base(image),
		key + "source":   source,
		key + "licenses": "Apache-2.0",
		key + "version":  r.Version,
		key + "revision": r.Revision,
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	return labels
}
