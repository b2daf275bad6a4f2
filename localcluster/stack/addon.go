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

// Addon is something that a cluster has only when it was asked for. With the
// first implementation of the Gateway API come the API's definitions, the router
// plugin for it, and the apps of its guides; with KEDA come the scaler and the agent.
type Addon string

// The add-ons.
const (
	// EnvoyGateway deploys an Envoy for each Gateway.
	EnvoyGateway Addon = "envoy-gateway"
	// Traefik is one proxy for all Gateways.
	Traefik Addon = "traefik"
	// KEDA scales workloads by metrics that it asks scalers for.
	KEDA Addon = "keda"
	// KEDAAPI is the API of KEDA without KEDA, so that the scaler and the agent are there while KEDA is still compiled.
	KEDAAPI Addon = build.KEDAAPIPart
	// Contour is an Ingress controller that configures Envoy.
	Contour Addon = "contour"
	// OldRollouts is the image of an older Argo Rollouts controller; nothing runs it
	// until somebody asks for its tag.
	OldRollouts Addon = build.OldRolloutsPart
)

// Addons are all of them. Other versions of KEDA are called as their parts are, such as "keda-v2.20.2".
func Addons() []Addon {
	out := []Addon{EnvoyGateway, Traefik, KEDA, KEDAAPI, Contour, OldRollouts}
	for _, version := range build.OtherKEDAVersions() {
		out = append(out, Addon(build.KEDAPartOf(version)))
	}
	return out
}

// gateway says whether the add-on is an implementation of the Gateway API.
func (a Addon) gateway() bool { return a == EnvoyGateway || a == Traefik }

// keda returns the version of KEDA that the add-on is; empty if it is something else.
func (a Addon) keda() string {
	for _, version := range append(build.OtherKEDAVersions(), build.KEDAVersion) {
		if build.KEDAPartOf(version) == string(a) {
			return version
		}
	}
	return ""
}

// isKEDA says whether the add-on is a version of KEDA.
func (a Addon) isKEDA() bool { return a.keda() != "" }

// scaling says whether the scaler and the agent come with the add-on.
func (a Addon) scaling() bool { return a.isKEDA() || a == KEDAAPI }

// ErrUnknownAddon says that there is no add-on of a name.
var ErrUnknownAddon = errors.New("there is no such add-on")

// ErrTwoKEDAs says that two versions of KEDA are asked for. Both have the same objects.
var ErrTwoKEDAs = errors.New("a cluster has one version of KEDA")

// ParseAddons reads the names of add-ons. One that is named twice counts once, and KEDA has its API.
func ParseAddons(names []string) ([]Addon, error) {
	var out []Addon
	for _, name := range names {
		addon := Addon(name)
		if !slices.Contains(Addons(), addon) {
			return nil, fmt.Errorf("%w: %q; there are %v", ErrUnknownAddon, name, Addons())
		}
		if slices.Contains(out, addon) {
			continue
		}
		if addon.isKEDA() && slices.ContainsFunc(out, Addon.isKEDA) {
			return nil, fmt.Errorf("%w: leave out all but one of %v", ErrTwoKEDAs, names)
		}
		out = append(out, addon)
	}
	if slices.ContainsFunc(out, Addon.isKEDA) {
		out = slices.DeleteFunc(out, func(a Addon) bool { return a == KEDAAPI })
	}
	return out, nil
}

// Parts names the parts of build.OnDemand that the add-on is made of.
func (a Addon) Parts() []string {
	switch a {
	case EnvoyGateway:
		return []string{build.GatewayAPIPart, build.EnvoyGatewayPart}
	case Traefik:
		return []string{build.GatewayAPIPart, build.TraefikPart}
	default: // called as its part is
		return []string{string(a)}
	}
}

// AddonImages lists what the add-ons' objects, and those that they make, ask
// for. Parts are the folders of the built parts, programs the paths of the
// project's own programs, of which a bare cluster has none.
func AddonImages(addons []Addon, parts map[string]string, programs map[product.Program]string) []images.Spec {
	var out []images.Spec
	for _, addon := range addons {
		switch addon {
		case Traefik:
			out = append(out, traefik(program(parts, build.TraefikPart, "traefik")))
		case EnvoyGateway:
			out = append(out, proxyAs(build.EnvoyGatewayProxy, parts), envoyGateway(program(parts, build.EnvoyGatewayPart, "envoy-gateway")))
		case Contour:
			out = append(out, proxyAs(build.ContourProxy, parts), contour(program(parts, build.ContourPart, "contour")))
		case OldRollouts:
			controller := argoRollouts(program(parts, build.OldRolloutsPart, "rollouts-controller-"+build.OldRolloutsVersion))
			controller.Names = []string{"argoproj/argo-rollouts:" + build.OldRolloutsVersion}
			out = append(out, controller)
		case KEDAAPI: // objects and no image
		default:
			out = append(out, keda(parts, addon.keda())...)
		}
	}
	if slices.ContainsFunc(addons, Addon.scaling) && programs != nil {
		out = append(out, own(product.ScalerImage, programs), own(product.AgentImage, programs))
	}
	if slices.ContainsFunc(addons, Addon.gateway) && programs != nil {
		out = append(out, guideApps(programs)...)
	}
	return out
}

// AddonBundles lists what the add-ons install. A bare cluster gets nothing of
// this project's.
func AddonBundles(addons []Addon, parts map[string]string, sources install.Sources, bare bool) []install.Bundle {
	share := func(part string, elements ...string) string {
		return filepath.Join(append([]string{parts[part], "share"}, elements...)...)
	}
	gateways := slices.ContainsFunc(addons, Addon.gateway)
	var out []install.Bundle
	if gateways {
		out = append(out, install.GatewayAPI(share(build.GatewayAPIPart, "experimental")))
	}
	for _, addon := range addons {
		switch addon {
		case Traefik:
			out = append(out, install.Traefik(sources))
		case EnvoyGateway:
			out = append(out, install.EnvoyGateway(sources, share(build.EnvoyGatewayPart, "crds"), share(build.EnvoyGatewayPart, "install.yaml")))
		case Contour:
			out = append(out, install.Contour(share(build.ContourPart, "manifests")))
		case OldRollouts: // an image and nothing else
		case KEDAAPI:
			out = append(out, install.KEDAAPI(share(build.KEDAAPIPart, "crd")))
		default:
			out = append(out, install.KEDA(share(build.KEDAPartOf(addon.keda()), "config")))
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

// guideApps are this project's sample under the names that the Gateway API
// guides have for their apps: an answer is the name of the app's version.
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

// proxyAs is our Envoy by the name that somebody's manifests have for theirs.
func proxyAs(name string, parts map[string]string) images.Spec {
	proxy := envoy(program(parts, "envoy", "envoy"), parts["glibc"])
	proxy.Names = []string{name}
	return proxy
}

// contour is built as the official image is. It is the controller, what makes its certificates and the proxies' bootstrap, and what drains these.
func contour(program string) images.Spec {
	return images.Spec{
		Names: []string{"projectcontour/contour:" + build.ContourVersion}, Entrypoint: []string{"/bin/contour"}, User: product.NonRoot,
		Files: []images.File{{Path: "/bin/contour", Source: program}},
	}
}

// envoyGateway is built as the official image is. It is the controller, what
// makes its certificates, and what drains the proxies beside them.
func envoyGateway(program string) images.Spec {
	return images.Spec{
		Names:      []string{"envoyproxy/gateway:" + build.EnvoyGatewayVersion},
		Entrypoint: []string{"/usr/local/bin/envoy-gateway"},
		User:       product.NonRoot,
		Files:      []images.File{{Path: "/usr/local/bin/envoy-gateway", Source: program}},
		Folders:    []images.Folder{{Path: "/tmp", Mode: 0o1777}},
	}
}

// keda are built as the official images are. The manifests of the source tree
// name the images of its main branch, a release puts its version there: the
// images have both names.
func keda(parts map[string]string, version string) []images.Spec {
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
			Files:      []images.File{{Path: image.program, Source: program(parts, build.KEDAPartOf(version), image.built)}},
			Folders:    []images.Folder{{Path: "/tmp", Mode: 0o1777}},
		})
	}
	return out
}

// traefik is the program and nothing else.
func traefik(program string) images.Spec {
	return images.Spec{
		Names: []string{"library/traefik:v" + build.TraefikVersion}, Entrypoint: []string{"/traefik"}, User: product.NonRoot,
		Files:   []images.File{{Path: "/traefik", Source: program}},
		Folders: []images.Folder{{Path: "/tmp", Mode: 0o1777}},
	}
}
