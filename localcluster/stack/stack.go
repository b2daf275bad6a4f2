// Package stack describes what is built from the components and from this project's own programs: the images that the
// cluster serves, the host addresses of its forwards, and the folder of programs that its processes use.
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
	"github.com/kedify/argo-rollouts-plugin/localcluster/product"
)

// Programs returns the programs of a cluster with these add-ons.
func Programs(addons []Addon) []product.Program {
	out := []product.Program{product.Plugin, product.Interceptor, product.Sample}
	if slices.ContainsFunc(addons, Addon.gateway) {
		out = append(out, product.GatewayPlugin)
	}
	if slices.ContainsFunc(addons, Addon.scaling) {
		out = append(out, product.Scaler, product.Agent)
	}
	return out
}

// Restarts returns the steps that make changed programs run. Only the user restarts the sample.
func Restarts(programs []string) []install.Step {
	var out []install.Step
	has := func(p product.Program) bool { return slices.Contains(programs, string(p)) }
	if has(product.Plugin) || has(product.GatewayPlugin) {
		out = append(out, install.RestartController())
	}
	if has(product.Interceptor) {
		out = append(out, install.RestartInterceptor())
	}
	if has(product.Scaler) {
		out = append(out, install.RestartScaler())
	}
	if has(product.Agent) {
		out = append(out, install.RestartAgent())
	}
	return out
}

// Colors are the tags of the sample image.
func Colors() []string {
	return []string{"blue", "yellow", "green", "orange", "purple", "red"}
}

// Forwards are the host addresses of every cluster: the API server, and the HTTP port of the sample's data plane.
func Forwards(apiServer string) []node.Forward {
	return []node.Forward{
		{Name: host.APIAddress, Target: apiServer},
		{Name: "proxy", Target: "kedify-proxy.rollouts-demo.svc.cluster.local:8080"},
	}
}

// BareImages returns the images of a cluster with DNS only. Components are the folders of the built components.
func BareImages(components map[string]string) []images.Spec {
	return []images.Spec{
		{
			Names: []string{"pause:3.10"}, Entrypoint: []string{"/pause"}, User: product.NonRoot,
			Files: []images.File{{Path: "/pause", Source: program(components, "pause", "pause")}},
		},
		{
			Names: []string{"coredns/coredns:" + build.CoreDNSVersion}, Entrypoint: []string{"/coredns"},
			Files: []images.File{{Path: "/coredns", Source: program(components, "coredns", "coredns")}},
		},
	}
}

// Images returns the images of the cluster's registry. Components are the folders of the built components, programs the
// paths of the project's own programs.
func Images(components map[string]string, programs map[product.Program]string) []images.Spec {
	out := append(BareImages(components),
		argoRollouts(program(components, "argo-rollouts", "rollouts-controller")),
		envoy(program(components, "envoy", "envoy"), components["glibc"]),
		projectImage(product.PluginImage, programs),
		projectImage(product.InterceptorImage, programs),
	)
	for _, color := range Colors() {
		names := []string{"argoproj/rollouts-demo:" + color}
		if color == Colors()[0] {
			names = append(names, localName(product.SampleImage)) // the name in releases
		}
		sample := product.Image(product.SampleImage, programs, names...)
		sample.Env = []string{"COLOR=" + color}
		out = append(out, sample)
	}
	return out
}

func program(components map[string]string, component, name string) string {
	return filepath.Join(components[component], "bin", name)
}

// projectImage is an image of this project under the name in its manifests.
func projectImage(image string, programs map[product.Program]string) images.Spec {
	return product.Image(image, programs, localName(image))
}

// localName is the name of an image of this project in the cluster's registry.
func localName(image string) string { return product.Organization + "/" + image + ":dev" }

// argoRollouts has the layout of the official image: the official manifests rely on user 999 with a home directory.
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
	return images.Spec{
		Names: []string{"envoyproxy/envoy:v" + build.EnvoyVersion}, Entrypoint: []string{"/usr/local/bin/envoy"}, User: "101",
		Files: append([]images.File{{Path: "/usr/local/bin/envoy", Source: program}},
			libraries(glibc, "libc.so.6", "libm.so.6", "librt.so.1", "libdl.so.2", "libpthread.so.0")...),
		Folders: []images.Folder{{Path: "/tmp", Mode: 0o1777}},
	}
}

// libraries returns libraries of the C library, and its loader.
func libraries(glibc string, names ...string) []images.File {
	folder := filepath.Join(glibc, "usr", "lib", "*-linux-gnu")
	var files []images.File
	for _, name := range names {
		files = append(files, images.File{Path: "/lib/" + name, Source: filepath.Join(folder, name)})
	}
	// Programs contain the path of the loader (the psABI of their processor).
	loader := map[string]string{
		"amd64": "/lib64/ld-linux-x86-64.so.2", "arm64": "/lib/ld-linux-aarch64.so.1",
	}[runtime.GOARCH]
	return append(files, images.File{Path: loader, Source: filepath.Join(folder, filepath.Base(loader))})
}

// LinkPrograms creates links to the components' programs in the folder bin, so that one folder in a search path is
// enough.
func LinkPrograms(components map[string]string, bin string) error {
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return fmt.Errorf("create the program folder: %w", err)
	}
	for _, folder := range components {
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
	return link(components["debian"], filepath.Join(bin, "debian"))
}

func link(target, path string) error {
	if err := os.Symlink(target, path); err != nil {
		return fmt.Errorf("link %s: %w", path, err)
	}
	return nil
}
