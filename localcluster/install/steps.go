// Package install lists what is put into the embedded cluster once it runs, as
// kubectl commands that a person could type.
package install

import (
	"path/filepath"
	"time"
)

// Step is one kubectl command.
type Step struct {
	// Title says what the step does, for progress and errors.
	Title string `json:"title"`
	// Args are the arguments of kubectl.
	Args []string `json:"args"`
	// Timeout bounds the step on a machine of the usual kind.
	Timeout time.Duration `json:"timeout"`
	// Wait says that the step changes nothing and only waits.
	Wait bool `json:"wait,omitempty"`
}

// Sources are the folders with manifests.
type Sources struct {
	// Repo is the root of this repository.
	Repo string
	// RolloutsManifest is Argo Rollouts' official install.yaml.
	RolloutsManifest string
}

const (
	applyTimeout = 30 * time.Second
	// readyTimeout bounds the wait for a Deployment: image pulls are local, so
	// anything longer is a fault.
	readyTimeout = 90 * time.Second
)

// Bundle is what is installed together.
type Bundle struct {
	// Apply are the steps that ask for it, in their order.
	Apply []Step
	// Ready are the steps that wait until it is there.
	Ready []Step
}

// Steps joins bundles: all is applied before the first wait, so that the parts
// start side by side.
func Steps(bundles ...Bundle) []Step {
	var out []Step
	for _, bundle := range bundles {
		out = append(out, bundle.Apply...)
	}
	for _, bundle := range bundles {
		out = append(out, bundle.Ready...)
	}
	return out
}

// DNS is all that a bare cluster has.
func DNS(s Sources) Bundle {
	return Bundle{
		Apply: []Step{apply("CoreDNS", "-f", filepath.Join(s.Repo, "localcluster", "install", "coredns.yaml"))},
		Ready: []Step{ready("kube-system", "coredns")},
	}
}

// Canaries is Argo Rollouts with this project's plugin and interceptor.
func Canaries(s Sources) Bundle {
	config := func(elements ...string) string {
		return filepath.Join(append([]string{s.Repo, "config"}, elements...)...)
	}
	return Bundle{
		Apply: []Step{
			apply("the HTTPScaledObject API", "-f", config("crd")),
			namespace(s, "argo-rollouts"),
			apply("Argo Rollouts' official install.yaml", "-n", "argo-rollouts", "-f", s.RolloutsManifest),
			apply("the plugin's RBAC", "-f", config("argo-rollouts", "rbac.yaml")),
			apply("the plugin's registration", "-f", config("argo-rollouts", "config.yaml")),
			loadPlugin("the plugin", config("argo-rollouts", "deployment-patch.yaml")),
			apply("the interceptor", "-k", config("interceptor")),
		},
		Ready: []Step{
			ready("argo-rollouts", "argo-rollouts"),
			ready("keda", interceptor),
		},
	}
}

// GatewayAPI is the Gateway API's definitions, in a folder with a kustomization.
func GatewayAPI(folder string) Bundle {
	return Bundle{Apply: []Step{apply("the Gateway API, experimental channel", "-k", folder)}}
}

// EnvoyGateway is an implementation of the Gateway API: the folder with its own
// definitions, and the objects of its chart.
func EnvoyGateway(s Sources, definitions, chart string) Bundle {
	return Bundle{
		Apply: []Step{
			apply("Envoy Gateway's definitions", "-f", definitions),
			namespace(s, gatewayNamespace),
			apply("Envoy Gateway's official chart", "-f", chart),
		},
		Ready: []Step{ready(gatewayNamespace, "envoy-gateway")},
	}
}

// Traefik is another implementation.
func Traefik(s Sources) Bundle {
	return Bundle{
		Apply: []Step{apply("Traefik", "-f", filepath.Join(s.Repo, "localcluster", "install", "traefik.yaml"))},
		Ready: []Step{ready("traefik", "traefik")},
	}
}

// GatewayPlugin adds the router for the Gateway API to what Canaries installs.
func GatewayPlugin(s Sources) Bundle {
	config := filepath.Join(s.Repo, "config", "argo-rollouts", "gatewayapi")
	return Bundle{
		Apply: []Step{
			apply("the Gateway API plugin's RBAC", "-f", filepath.Join(config, "rbac.yaml")),
			apply("the registration of both plugins", "-f", filepath.Join(s.Repo, "localcluster", "install", "plugins.yaml")),
			loadPlugin("the Gateway API plugin", filepath.Join(config, "deployment-patch.yaml")),
		},
	}
}

// gatewayNamespace is where Envoy Gateway's documents put it.
const gatewayNamespace = "envoy-gateway-system"

func apply(title string, args ...string) Step {
	return Step{
		Title:   "apply " + title,
		Args:    append([]string{"apply", "--server-side", "--force-conflicts"}, args...),
		Timeout: applyTimeout,
	}
}

// namespace makes a namespace unless it is there. Each has a manifest of its
// own: unlike `kubectl create`, applying it again is fine.
func namespace(s Sources, name string) Step {
	return apply("namespace "+name, "-f", filepath.Join(s.Repo, "localcluster", "install", "namespaces", name+".yaml"))
}

// RestartController lets the Rollouts controller load its plugins again.
func RestartController() Step { return restart("argo-rollouts", "argo-rollouts") }

// RestartInterceptor lets the interceptor run its newest image.
func RestartInterceptor() Step { return restart("keda", interceptor) }

// interceptor is the name of the interceptor's Deployment.
const interceptor = "keda-add-ons-http-interceptor"

func restart(namespace, deployment string) Step {
	return Step{
		Title:   "restart " + namespace + "/" + deployment,
		Args:    []string{"rollout", "restart", "-n", namespace, "deployment/" + deployment},
		Timeout: applyTimeout,
	}
}

// loadPlugin lets the controller's Pod load a plugin by an init container.
func loadPlugin(title, patch string) Step {
	return Step{
		Title:   "load " + title + " by an init container",
		Args:    []string{"patch", "-n", "argo-rollouts", "deployment", "argo-rollouts", "--patch-file", patch},
		Timeout: applyTimeout,
	}
}

func ready(namespace, deployment string) Step {
	return Step{
		Title:   "wait for " + namespace + "/" + deployment,
		Args:    []string{"rollout", "status", "-n", namespace, "deployment/" + deployment},
		Timeout: readyTimeout,
		Wait:    true,
	}
}
