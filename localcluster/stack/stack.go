// Package stack says what is put together from the built parts and from this
// project's own programs: the images that the cluster serves, the host
// addresses that lead into it, and the folder of programs that its processes
// use.
package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/localcluster/build"
	"github.com/kedify/argo-rollouts-plugin/localcluster/host"
	"github.com/kedify/argo-rollouts-plugin/localcluster/images"
	"github.com/kedify/argo-rollouts-plugin/localcluster/install"
	"github.com/kedify/argo-rollouts-plugin/localcluster/node"
)

// Program is one of this project's own programs.
type Program string

// The project's programs that run in the cluster.
const (
	Plugin      Program = "rollouts-plugin-kedify"
	Interceptor Program = "interceptor"
	Sample      Program = "rollouts-demo"
	// GatewayPlugin is only in clusters with a Gateway API implementation.
	GatewayPlugin Program = "gatewayapi-plugin"
	// Scaler and Agent are only in clusters with KEDA.
	Scaler Program = "scaler"
	Agent  Program = "agent"
)

// Sources maps each program of a cluster with these add-ons to the package that
// it is built from, relative to the repository's root.
func Sources(addons []Addon) map[Program]string {
	out := map[Program]string{
		Plugin:      "./cmd/rollouts-plugin-kedify",
		Interceptor: "./cmd/interceptor",
		Sample:      "./examples/rollouts-demo",
	}
	if slices.ContainsFunc(addons, Addon.gateway) {
		out[GatewayPlugin] = "./cmd/gatewayapi-plugin"
	}
	if slices.Contains(addons, KEDA) {
		out[Scaler], out[Agent] = "./cmd/scaler", "./cmd/agent"
	}
	return out
}

// Restarts are the steps that let programs that have changed run. The sample is
// nobody's to restart but its user's.
func Restarts(programs []string) []install.Step {
	var out []install.Step
	has := func(p Program) bool { return slices.Contains(programs, string(p)) }
	if has(Plugin) || has(GatewayPlugin) {
		out = append(out, install.RestartController())
	}
	if has(Interceptor) {
		out = append(out, install.RestartInterceptor())
	}
	if has(Scaler) {
		out = append(out, install.RestartScaler())
	}
	if has(Agent) {
		out = append(out, install.RestartAgent())
	}
	return out
}

// Colors are the tags of the sample image.
func Colors() []string {
	return []string{"blue", "yellow", "green", "orange", "purple", "red"}
}

// Forwards are the host addresses of every cluster: the API server, and the
// HTTP port of the sample's data plane.
func Forwards(apiServer string) []node.Forward {
	return []node.Forward{
		{Name: host.APIAddress, Target: apiServer},
		{Name: "proxy", Target: "kedify-proxy.rollouts-demo.svc.cluster.local:8080"},
	}
}

// nonRoot is the user of images that name none in their manifests.
const nonRoot = "65532"

// BareImages lists what a cluster serves that only has DNS in it. Parts are the
// folders of the built parts.
func BareImages(parts map[string]string) []images.Spec {
	return []images.Spec{
		{
			Names: []string{"pause:3.10"}, Entrypoint: []string{"/pause"}, User: nonRoot,
			Files: []images.File{{Path: "/pause", Source: program(parts, "pause", "pause")}},
		},
		{
			Names: []string{"coredns/coredns:" + build.CoreDNSVersion}, Entrypoint: []string{"/coredns"},
			Files: []images.File{{Path: "/coredns", Source: program(parts, "coredns", "coredns")}},
		},
	}
}

// Images lists what the cluster's registry serves. Parts are the folders of the
// built parts, programs the paths of the project's own programs.
func Images(parts map[string]string, programs map[Program]string) []images.Spec {
	out := append(BareImages(parts),
		argoRollouts(program(parts, "argo-rollouts", "rollouts-controller")),
		envoy(program(parts, "envoy", "envoy"), parts["glibc"]),
		plugins(programs),
		own("kedify/interceptor:dev", programs[Interceptor]),
	)
	for _, color := range Colors() {
		sample := own("argoproj/rollouts-demo:"+color, programs[Sample])
		sample.Env = []string{"COLOR=" + color}
		out = append(out, sample)
	}
	return out
}

func program(parts map[string]string, part, name string) string {
	return filepath.Join(parts[part], "bin", name)
}

// plugins is the image that the plugins are installed from; the one for the
// Gateway API is in it where it was built.
func plugins(programs map[Program]string) images.Spec {
	spec := own("kedify/argo-rollouts-plugin:dev", programs[Plugin])
	if path, built := programs[GatewayPlugin]; built {
		spec.Files = append(spec.Files, images.File{Path: "/" + filepath.Base(path), Source: path})
	}
	return spec
}

// own is an image of one of this project's programs and nothing else.
func own(name, program string) images.Spec {
	path := "/" + filepath.Base(program)
	return images.Spec{
		Names: []string{name}, Entrypoint: []string{path}, User: nonRoot,
		Files: []images.File{{Path: path, Source: program}},
	}
}

// argoRollouts is built as the official image is: user 999 with a home of its
// own, which the official manifests rely on.
func argoRollouts(program string) images.Spec {
	return images.Spec{
		Names:      []string{"argoproj/argo-rollouts:latest", "argoproj/argo-rollouts:" + build.ArgoRolloutsVersion},
		Entrypoint: []string{"/bin/rollouts-controller"},
		Env:        []string{"HOME=/home/argo-rollouts"},
		User:       "999", WorkingDir: "/home/argo-rollouts",
		Files: []images.File{{Path: "/bin/rollouts-controller", Source: program}},
		Folders: []images.Folder{
			{Path: "/home/argo-rollouts", Owner: 999, Mode: 0o755},
			{Path: "/tmp", Mode: 0o1777},
		},
	}
}

// envoy is the proxy with the C library that it is linked against.
func envoy(program, glibc string) images.Spec {
	spec := images.Spec{
		Names: []string{"envoyproxy/envoy:v" + build.EnvoyVersion}, Entrypoint: []string{"/usr/local/bin/envoy"}, User: "101",
		Files:   []images.File{{Path: "/usr/local/bin/envoy", Source: program}},
		Folders: []images.Folder{{Path: "/tmp", Mode: 0o1777}},
	}
	libraries := filepath.Join(glibc, "usr", "lib", "*-linux-gnu")
	for _, name := range []string{"libc.so.6", "libm.so.6", "librt.so.1", "libdl.so.2", "libpthread.so.0"} {
		spec.Files = append(spec.Files, images.File{Path: "/lib/" + name, Source: filepath.Join(libraries, name)})
	}
	// The path of the loader stands in the program (the psABI of its processor).
	loader := map[string]string{"amd64": "/lib64/ld-linux-x86-64.so.2", "arm64": "/lib/ld-linux-aarch64.so.1"}[runtime.GOARCH]
	spec.Files = append(spec.Files, images.File{Path: loader, Source: filepath.Join(libraries, filepath.Base(loader))})
	return spec
}

// LinkPrograms fills the folder bin with links to the parts' programs, so that
// one folder in a search path is all that a component or a user needs.
func LinkPrograms(parts map[string]string, bin string) error {
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return fmt.Errorf("make the program folder: %w", err)
	}
	for _, folder := range parts {
		programs, err := filepath.Glob(filepath.Join(folder, "bin", "*"))
		if err != nil {
			return fmt.Errorf("list programs of %s: %w", folder, err)
		}
		for _, program := range programs {
			if err := link(program, filepath.Join(bin, filepath.Base(program))); err != nil {
				return err
			}
		}
	}
	return link(parts["debian"], filepath.Join(bin, "debian"))
}

func link(target, path string) error {
	if err := os.Symlink(target, path); err != nil {
		return fmt.Errorf("link %s: %w", path, err)
	}
	return nil
}
