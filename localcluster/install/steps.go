// Package install lists what is installed into the embedded cluster after its start, as kubectl commands that a person
// could type.
package install

import (
	"path/filepath"
	"time"
)

// Step is one kubectl command.
type Step struct {
	// Title describes the step, for progress and errors.
	Title string `json:"title"`
	// Args are the arguments of kubectl.
	Args []string `json:"args"`
	// Timeout bounds the step on an ordinary machine.
	Timeout time.Duration `json:"timeout"`
	// Wait reports that the step only waits and changes nothing.
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
	// readyTimeout bounds the wait for a Deployment. Image pulls are local, so a longer wait means an error.
	readyTimeout = 90 * time.Second
)

// Bundle is a set of objects that are installed together.
type Bundle struct {
	// Apply are the steps that create the objects, in order.
	Apply []Step
	// Ready are the steps that wait until the objects are ready.
	Ready []Step
}

// Steps joins bundles: it applies all of them before the first wait, so that the components start in parallel.
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

// DNS is everything that a bare cluster contains.
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
			apply("the interceptor", "-k", filepath.Join(s.Repo, "localcluster", "install", "interceptor")),
		},
		Ready: []Step{
			ready("argo-rollouts", "argo-rollouts"),
			ready(kedaNamespace, interceptor),
		},
	}
}

// GatewayAPI installs the Gateway API's CRDs from a folder with a kustomization.
func GatewayAPI(folder string) Bundle {
	return Bundle{Apply: []Step{apply("the Gateway API", "-k", folder)}}
}

// EnvoyGateway is an implementation of the Gateway API: the folder with its own CRDs, and the objects of its chart.
func EnvoyGateway(s Sources, crds, chart string) Bundle {
	return Bundle{
		Apply: []Step{
			apply("Envoy Gateway's CRDs", "-f", crds),
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

// Istio is an implementation of the Gateway API without sidecars: the objects of its two charts. It creates its
// GatewayClasses itself.
func Istio(s Sources, base, istiod string) Bundle {
	return Bundle{
		Apply: []Step{
			namespace(s, istioNamespace),
			apply("Istio's CRDs and roles", "-f", base),
			apply("istiod's official chart", "-f", istiod),
		},
		Ready: []Step{ready(istioNamespace, "istiod")},
	}
}

// Contour is an Ingress controller: the folder of its official manifests, and the address that a cloud's load balancer
// would assign to its Service. Contour publishes that address in the status of Ingresses.
func Contour(manifests string) Bundle {
	return Bundle{
		Apply: []Step{
			apply("Contour's official manifests", "-f", manifests),
			{
				Title: "give Contour's Service an address", Timeout: applyTimeout, Args: []string{
					"patch", "service", "envoy", "-n", "projectcontour", "--subresource=status",
					"-p", `{"status": {"loadBalancer": {"ingress": [{"hostname": "envoy.projectcontour.svc.cluster.local"}]}}}`,
				},
			},
		},
		Ready: []Step{ready("projectcontour", "contour"), {
			Title: "wait for Contour's proxies", Args: []string{"rollout", "status", "-n", "projectcontour", "daemonset/envoy"},
			Timeout: readyTimeout, Wait: true,
		}},
	}
}

// ContourGateway is an implementation of the Gateway API: the file with Contour's CRDs, and the folder of the official
// manifests of its provisioner, which deploys a Contour and an Envoy for each Gateway.
func ContourGateway(crds, provisioner string) Bundle {
	return Bundle{
		Apply: []Step{
			apply("Contour's CRDs", "-f", crds),
			apply("the official manifests of Contour's provisioner", "-f", provisioner),
		},
		Ready: []Step{ready("projectcontour", "contour-gateway-provisioner")},
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

// KEDA installs KEDA from the folder of its own manifests: the operator, the metrics adapter that the API server
// aggregates, and the admission webhooks.
func KEDA(manifests string) Bundle {
	adapter := Step{
		Title: "wait for the external metrics API",
		// Without a timeout of its own kubectl gives up after 30 s.
		Args:    []string{"wait", "--for=condition=Available", "--timeout=1h", "apiservice/v1beta1.external.metrics.k8s.io"},
		Timeout: kedaTimeout,
		Wait:    true,
	}
	out := Bundle{Apply: []Step{apply("KEDA's official manifests", "-k", filepath.Join(manifests, "default"))}}
	for _, deployment := range []string{"keda-operator", "keda-metrics-apiserver", "keda-admission"} {
		step := ready(kedaNamespace, deployment)
		step.Timeout = kedaTimeout
		out.Ready = append(out.Ready, step)
	}
	out.Ready = append(out.Ready, adapter)
	return out
}

// KEDAAPI installs KEDA's CustomResourceDefinitions from their folder.
func KEDAAPI(crds string) Bundle {
	return Bundle{Apply: []Step{apply("KEDA's CustomResourceDefinitions", "-k", crds)}}
}

// Scaling is this project's addition to KEDA: the external scaler, and the agent that creates HTTPScaledObjects from
// ScaledObjects.
func Scaling(s Sources) Bundle {
	return Bundle{
		Apply: []Step{
			apply("the scaler", "-k", filepath.Join(s.Repo, "config", "scaler")),
			apply("the agent", "-k", filepath.Join(s.Repo, "config", "agent")),
		},
		Ready: []Step{ready(kedaNamespace, scaler), ready(kedaNamespace, agent)},
	}
}

// kedaTimeout bounds the wait for KEDA. The operator creates its certificates, exits, and restarts with them, with 20 s
// before its first probe both times. The adapter fails and restarts until it has them.
const kedaTimeout = 4 * time.Minute

// gatewayNamespace is the namespace in Envoy Gateway's documentation.
const gatewayNamespace = "envoy-gateway-system"

// istioNamespace is the namespace in Istio's documentation.
const istioNamespace = "istio-system"

func apply(title string, args ...string) Step {
	return Step{
		Title:   "apply " + title,
		Args:    append([]string{"apply", "--server-side", "--force-conflicts"}, args...),
		Timeout: applyTimeout,
	}
}

// namespace creates a namespace unless it exists. Each has a manifest of its own, because `kubectl apply` is idempotent
// and `kubectl create` is not.
func namespace(s Sources, name string) Step {
	return apply("namespace "+name, "-f", filepath.Join(s.Repo, "localcluster", "install", "namespaces", name+".yaml"))
}

// RestartController makes the Rollouts controller reload its plugins.
func RestartController() Step { return restart("argo-rollouts", "argo-rollouts") }

// RestartInterceptor makes the interceptor run its newest image.
func RestartInterceptor() Step { return restart(kedaNamespace, interceptor) }

// RestartScaler makes the scaler run its newest image.
func RestartScaler() Step { return restart(kedaNamespace, scaler) }

// RestartAgent makes the agent run its newest image.
func RestartAgent() Step { return restart(kedaNamespace, agent) }

// Deployments and their namespaces.
const (
	kedaNamespace = "keda"
	interceptor   = "keda-add-ons-http-interceptor"
	scaler        = "keda-add-ons-http-external-scaler"
	agent         = "kedify-http-agent"
)

func restart(namespace, deployment string) Step {
	return Step{
		Title:   "restart " + namespace + "/" + deployment,
		Args:    []string{"rollout", "restart", "-n", namespace, "deployment/" + deployment},
		Timeout: applyTimeout,
	}
}

// loadPlugin makes the controller's Pod load a plugin by an init container.
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
