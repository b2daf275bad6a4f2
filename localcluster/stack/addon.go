package stack

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/localcluster/build"
	"github.com/kedify/argo-rollouts-plugin/localcluster/images"
	"github.com/kedify/argo-rollouts-plugin/localcluster/install"
	"github.com/kedify/argo-rollouts-plugin/localcluster/product"
)

// Addon is an optional component of a cluster. The first implementation of the Gateway API adds the API's CRDs, the
// router plugin for it, and the apps of its guides. KEDA adds the scaler and the agent.
type Addon string

// The add-ons.
const (
	// EnvoyGateway deploys an Envoy for each Gateway.
	EnvoyGateway Addon = "envoy-gateway"
	// Traefik is one proxy for all Gateways.
	Traefik Addon = "traefik"
	// KEDA scales workloads by metrics that it queries from scalers.
	KEDA Addon = "keda"
	// KEDAAPI is the API of KEDA without KEDA, so that the scaler and the agent can run while KEDA is still compiling.
	KEDAAPI Addon = build.KEDAAPIComponent
	// Contour is an Ingress controller that configures Envoy.
	Contour Addon = "contour"
	// ContourGateway deploys a Contour and an Envoy for each Gateway.
	ContourGateway Addon = "contour-gateway"
	// Istio deploys an Envoy for each Gateway. It runs without sidecars.
	Istio Addon = build.IstioComponent
	// OldGatewayAPI are older CRDs of the Gateway API instead of the usual ones. Envoy Gateway needs newer ones.
	OldGatewayAPI Addon = build.OldGatewayAPIComponent
	// OldRollouts is the image of an older Argo Rollouts controller. It runs only if a manifest uses its tag.
	OldRollouts Addon = build.OldRolloutsComponent
	// HTTPAddOn are the images of the KEDA HTTP add-on. Its objects have the names of this project's: a test installs them.
	HTTPAddOn Addon = build.HTTPAddOnComponent
	// Busybox is the image of the Pod of `helm test`.
	Busybox Addon = "busybox"
)

// Addons are all add-ons. Other versions of KEDA are named after their components, such as "keda-v2.20.2".
func Addons() []Addon {
	out := []Addon{
		EnvoyGateway, Traefik, Istio, ContourGateway, OldGatewayAPI, KEDA, KEDAAPI, Contour, OldRollouts, HTTPAddOn, Busybox,
	}
	for _, version := range build.OtherKEDAVersions() {
		out = append(out, Addon(build.KEDAComponentOf(version)))
	}
	return out
}

// gateway reports whether the add-on is an implementation of the Gateway API.
func (a Addon) gateway() bool {
	return slices.Contains([]Addon{EnvoyGateway, Traefik, Istio, ContourGateway}, a)
}

// keda returns the add-on's version of KEDA; empty if it is not KEDA.
func (a Addon) keda() string {
	for _, version := range append(build.OtherKEDAVersions(), build.KEDAVersion) {
		if build.KEDAComponentOf(version) == string(a) {
			return version
		}
	}
	return ""
}

// isKEDA reports whether the add-on is a version of KEDA.
func (a Addon) isKEDA() bool { return a.keda() != "" }

// scaling reports whether the add-on includes the scaler and the agent.
func (a Addon) scaling() bool { return a.isKEDA() || a == KEDAAPI }

// ErrUnknownAddon is returned for an unknown name.
var ErrUnknownAddon = errors.New("unknown add-on")

// ErrTwoKEDAs is returned for two versions of KEDA: both have the same objects.
var ErrTwoKEDAs = errors.New("a cluster has one version of KEDA")

// ParseAddons parses the names of add-ons. Duplicates count once. KEDA includes its API.
func ParseAddons(names []string) ([]Addon, error) {
	var out []Addon
	for _, name := range names {
		addon := Addon(name)
		if !slices.Contains(Addons(), addon) {
			return nil, fmt.Errorf("%w: %q: the add-ons are %v", ErrUnknownAddon, name, Addons())
		}
		if slices.Contains(out, addon) {
			continue
		}
		if addon.isKEDA() && slices.ContainsFunc(out, Addon.isKEDA) {
			return nil, fmt.Errorf("%w: specify only one of %v", ErrTwoKEDAs, names)
		}
		out = append(out, addon)
	}
	if slices.ContainsFunc(out, Addon.isKEDA) {
		out = slices.DeleteFunc(out, func(a Addon) bool { return a == KEDAAPI })
	}
	return out, nil
}

// Components returns the names of the add-on's components in build.OnDemand.
func (a Addon) Components() []string {
	switch a {
	case EnvoyGateway:
		return []string{build.GatewayAPIComponent, build.EnvoyGatewayComponent}
	case Traefik:
		return []string{build.GatewayAPIComponent, build.TraefikComponent}
	case Istio:
		return []string{build.GatewayAPIComponent, build.IstioComponent}
	case ContourGateway:
		return []string{build.GatewayAPIComponent, build.ContourComponent}
	case Busybox:
		return []string{build.DashComponent, build.WgetComponent}
	default: // named after its component
		return []string{string(a)}
	}
}

// AddonImages returns the images in the add-ons' objects, and in the objects that those create. Components are the
// folders of the built components. Programs are the paths of the project's own programs, of which a bare cluster has
// none.
func AddonImages(addons []Addon, components map[string]string, programs map[product.Program]string) []images.Spec {
	var out []images.Spec
	for _, addon := range addons {
		switch addon {
		case Traefik:
			out = append(out, traefik(program(components, build.TraefikComponent, "traefik")))
		case EnvoyGateway:
			out = append(out, envoyImage(build.EnvoyGatewayProxy, components),
				envoyGateway(program(components, build.EnvoyGatewayComponent, "envoy-gateway")))
		case Contour, ContourGateway:
			if addon == ContourGateway && slices.Contains(addons, Contour) {
				continue // both have the same images
			}
			out = append(out, envoyImage(build.ContourProxy, components),
				contour(program(components, build.ContourComponent, "contour")))
		case Istio:
			out = append(out, istio(components)...)
		case OldRollouts:
			controller := argoRollouts(program(components, build.OldRolloutsComponent,
				"rollouts-controller-"+build.OldRolloutsVersion))
			controller.Names = []string{"argoproj/argo-rollouts:" + build.OldRolloutsVersion}
			out = append(out, controller)
		case HTTPAddOn:
			out = append(out, httpAddOn(components)...)
		case Busybox:
			out = append(out, busybox(components))
		case KEDAAPI, OldGatewayAPI: // objects and no image
		default:
			out = append(out, keda(components, addon.keda())...)
		}
	}
	if slices.ContainsFunc(addons, Addon.scaling) && programs != nil {
		out = append(out, projectImage(product.ScalerImage, programs), projectImage(product.AgentImage, programs))
	}
	if slices.ContainsFunc(addons, Addon.gateway) && programs != nil {
		out = append(out, guideApps(programs)...)
	}
	return out
}

// AddonBundles returns the objects of the add-ons. A bare cluster gets none of this project's objects.
func AddonBundles(addons []Addon, components map[string]string, sources install.Sources, bare bool) []install.Bundle {
	share := func(component string, elements ...string) string {
		return filepath.Join(append([]string{components[component], "share"}, elements...)...)
	}
	gateways := slices.ContainsFunc(addons, Addon.gateway)
	var out []install.Bundle
	if gateways {
		crds := share(build.GatewayAPIComponent, "experimental")
		if slices.Contains(addons, OldGatewayAPI) {
			crds = share(build.OldGatewayAPIComponent)
		}
		out = append(out, install.GatewayAPI(crds))
	}
	for _, addon := range addons {
		switch addon {
		case Traefik:
			out = append(out, install.Traefik(sources))
		case EnvoyGateway:
			out = append(out, install.EnvoyGateway(sources, share(build.EnvoyGatewayComponent, "crds"),
				share(build.EnvoyGatewayComponent, "install.yaml")))
		case Contour:
			out = append(out, install.Contour(share(build.ContourComponent, "manifests")))
		case ContourGateway:
			out = append(out, install.ContourGateway(share(build.ContourComponent, "manifests", "01-crds.yaml"),
				share(build.ContourComponent, "gateway-provisioner")))
		case Istio:
			out = append(out, install.Istio(sources, share(build.IstioComponent, "base.yaml"),
				share(build.IstioComponent, "istiod.yaml")))
		case OldRollouts, HTTPAddOn, Busybox, OldGatewayAPI: // no objects of its own
		case KEDAAPI:
			out = append(out, install.KEDAAPI(share(build.KEDAAPIComponent, "crd")))
		default:
			out = append(out, install.KEDA(share(build.KEDAComponentOf(addon.keda()), "config")))
		}
	}
	if slices.ContainsFunc(addons, Addon.scaling) && !bare {
		out = append(out, install.Scaling(sources))
	}
	if gateways && !bare {
		out = append(out, install.GatewayPlugin(sources))
	}
	return out
}

// guideApps are this project's sample under the app names of the Gateway API guides: an answer is the name of the app's
// version.
func guideApps(programs map[product.Program]string) []images.Spec {
	app := func(name string, env ...string) images.Spec {
		spec := product.Image(product.SampleImage, programs, name)
		spec.Env = env
		return spec
	}
	var out []images.Spec
	for _, version := range []string{"v1.0.0", "v1.1.0", "v1.2.0"} {
		out = append(out, app("my-app:"+version, "COLOR="+version, "COLOR_PATH=/my-app"))
	}
	for _, version := range []string{"v1", "v2", "v3"} {
		name := "istio/examples-bookinfo-reviews-" + version + ":1.20.2"
		out = append(out, app(name, "COLOR="+version, "COLOR_PATH=/reviews/0", "LISTEN_ADDR=:9080"))
	}
	return out
}

// envoyImage is this project's Envoy under another project's image name.
func envoyImage(name string, components map[string]string) images.Spec {
	proxy := envoy(program(components, "envoy", "envoy"), components["glibc"])
	proxy.Names = []string{name}
	return proxy
}

// contour has the layout of the official image. It is the controller, the generator of its certificates and of the
// proxies' bootstrap, and the proxies' shutdown manager.
func contour(program string) images.Spec {
	return images.Spec{
		Names: []string{"projectcontour/contour:" + build.ContourVersion}, Entrypoint: []string{"/bin/contour"},
		User: product.NonRoot, Files: []images.File{{Path: "/bin/contour", Source: program}},
	}
}

// envoyGateway has the layout of the official image. It is the controller, the generator of its certificates, and the
// proxies' shutdown manager.
func envoyGateway(program string) images.Spec {
	return images.Spec{
		Names:      []string{"envoyproxy/gateway:" + build.EnvoyGatewayVersion},
		Entrypoint: []string{"/usr/local/bin/envoy-gateway"},
		User:       product.NonRoot,
		Files:      []images.File{{Path: "/usr/local/bin/envoy-gateway", Source: program}},
		Folders:    []images.Folder{{Path: "/tmp", Mode: 0o1777}},
	}
}

// istio are istiod and the proxy, with the layout of the official images. The proxy is this project's Envoy. Its agent
// reads a token and writes the configuration below the working directory.
func istio(components map[string]string) []images.Spec {
	const user = "1337"
	agent := "/usr/local/bin/pilot-agent"
	proxy := envoyImage("istio/proxyv2:"+build.IstioTag, components)
	proxy.User, proxy.WorkingDir, proxy.Entrypoint = user, "/", []string{agent}
	proxy.Files = append(proxy.Files,
		images.File{Path: agent, Source: program(components, build.IstioComponent, "pilot-agent")},
		images.File{
			Path: "/var/lib/istio/envoy/envoy_bootstrap_tmpl.json", Mode: 0o644,
			Source: filepath.Join(components[build.IstioComponent], "share", "envoy_bootstrap.json"),
		})
	discovery := "/usr/local/bin/pilot-discovery"
	return []images.Spec{proxy, {
		Names: []string{"istio/pilot:" + build.IstioTag}, Entrypoint: []string{discovery}, User: user, WorkingDir: "/",
		Files:   []images.File{{Path: discovery, Source: program(components, build.IstioComponent, "pilot-discovery")}},
		Folders: []images.Folder{{Path: "/tmp", Mode: 0o1777}},
	}}
}

// keda have the layout of the official images. The manifests of the source tree use the image tags of its main branch,
// and a release replaces them by its version: the images have both names.
func keda(components map[string]string, version string) []images.Spec {
	var out []images.Spec
	for _, image := range []struct{ name, program, built string }{
		{"kedacore/keda", "/keda", "operator"},
		{"kedacore/keda-metrics-apiserver", "/keda-adapter", "adapter"},
		{"kedacore/keda-admission-webhooks", "/keda-admission-webhooks", "webhooks"},
	} {
		out = append(out, images.Spec{
			Names:      []string{image.name + ":main", image.name + ":" + strings.TrimPrefix(version, "v")},
			Entrypoint: []string{image.program},
			User:       product.NonRoot,
			Files: []images.File{
				{Path: image.program, Source: program(components, build.KEDAComponentOf(version), image.built)},
			},
			Folders: []images.Folder{{Path: "/tmp", Mode: 0o1777}},
		})
	}
	return out
}

// httpAddOn have the layout and the names of the official images.
func httpAddOn(components map[string]string) []images.Spec {
	var out []images.Spec
	for _, name := range []string{"interceptor", "operator", "scaler"} {
		inside := "/ko-app/" + name
		out = append(out, images.Spec{
			Names:      []string{"kedacore/http-add-on-" + name + ":" + strings.TrimPrefix(build.HTTPAddOnVersion, "v")},
			Entrypoint: []string{inside}, User: product.NonRoot,
			Files: []images.File{
				{Path: inside, Source: program(components, build.HTTPAddOnComponent, build.HTTPAddOnPrefix+name)},
			},
			Folders: []images.Folder{{Path: "/tmp", Mode: 0o1777}},
		})
	}
	return out
}

// traefik contains only the program.
func traefik(program string) images.Spec {
	return images.Spec{
		Names: []string{"library/traefik:v" + build.TraefikVersion}, Entrypoint: []string{"/traefik"}, User: product.NonRoot,
		Files:   []images.File{{Path: "/traefik", Source: program}},
		Folders: []images.Folder{{Path: "/tmp", Mode: 0o1777}},
	}
}

// busybox has the name of the image in the values of the chart, and what the chart uses of it: a shell and wget. Debian's
// busybox is none: its wget has no timeout.
func busybox(components map[string]string) images.Spec {
	return images.Spec{
		Names: []string{"library/busybox:1.37"}, Entrypoint: []string{"/bin/sh"}, User: product.NonRoot,
		Files: append(libraries(components["glibc"], "libc.so.6"),
			images.File{Path: "/bin/sh", Source: filepath.Join(components[build.DashComponent], "usr", "bin", "dash")},
			images.File{Path: "/bin/wget", Source: program(components, build.WgetComponent, "chart-wget")}),
	}
}
