package guide

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/shell"
)

// The names of the guide's objects.
const (
	// Namespace is where they live.
	Namespace = "rollouts-demo"
	// App is the name of the Rollout, the Ingress, the ScaledObject and the HTTPScaledObject.
	App = "rollouts-demo"
	// Stable and Canary are the Services of the two sides.
	Stable = "rollouts-demo-stable"
	Canary = "rollouts-demo-canary"
	// Image is the image of the sample application, without its tag.
	Image = "argoproj/rollouts-demo"
	// Host is the host that requests are sent for.
	Host = "rollouts-demo.example.com"
	// BrowserHost is a host for browsers: names under localhost lead to the machine itself.
	BrowserHost = "rollouts-demo.localhost"
	// proxied is the Service that the Ingress names once it is wired.
	proxied = "kedify-proxy"
)

// Colors are the answers that the sample app may give.
func Colors() []string { return []string{"blue", "yellow", "green", "orange", "purple", "red"} }

// ErrCheck means that something that must hold doesn't.
var ErrCheck = errors.New("does not hold")

// Guide is the guide in a cluster.
type Guide struct {
	// Shell is where its commands run and are shown.
	Shell shell.Shell
	// Repo is the folder with examples/, config/ and e2e/demo/.
	Repo string
	// ByHand says that the cluster has no KEDA: the HTTPScaledObject and the proxies are applied as files, and the
	// Ingress leads to the app itself.
	ByHand bool
	// Ingress is the address of the Ingress controller, as host:port. Empty is the one that it publishes.
	Ingress string
	// Patience bounds how long anything may take to be ready, Delete the end of a namespace that is left from an
	// earlier run.
	Patience, Delete time.Duration
}

// IsSupported reports whether the cluster has what the guide's objects need: KEDA, the agent and the scaler.
func IsSupported(ctx context.Context, terminal shell.Shell) (bool, error) {
	for _, args := range [][]string{
		{"get", "crd", "scaledobjects.keda.sh", "-o", "name", "--ignore-not-found"},
		{"get", "deployments", "-A", "-l", "app.kubernetes.io/component=agent", "-o", "name"},
		{"get", "deployments", "-A", "-l", "app.kubernetes.io/component=scaler", "-o", "name"},
	} {
		out, err := terminal.Run(ctx, append([]string{"kubectl"}, args...)...)
		if err != nil || len(shell.Lines(out)) == 0 {
			return false, err
		}
	}
	return true, nil
}

// Apply applies the guide's objects to an empty namespace.
func (g Guide) Apply(ctx context.Context) error {
	if err := g.Shell.Free(ctx, Namespace, g.Delete); err != nil {
		return err
	}
	create := []string{"kubectl", "create", "-f", filepath.Join(g.Repo, "e2e", "demo", "namespace.yaml")}
	return g.Shell.ShowAll(ctx, slices.Concat([][]string{create}, g.Commands())...)
}

// Commands are those that apply the guide's objects.
func (g Guide) Commands() [][]string {
	var commands [][]string
	object := "scaledobject.yaml"
	if g.ByHand {
		object = "httpscaledobject.yaml"
		commands = append(commands, Kubectl("apply", "-k", filepath.Join(g.Repo, "config", "kedify-proxy")))
	}
	example := filepath.Join(g.Repo, "examples", "argo-rollouts-canary")
	return append(commands, Kubectl("apply", "-f", filepath.Join(example, "manifests.yaml"), "-f",
		filepath.Join(example, object)))
}

// Ready waits until the proxies have what the agent makes of the ScaledObject and the Ingress leads to them, and shows
// all of it. KEDA may still be missing. What is applied by hand needs no waiting.
func (g Guide) Ready(ctx context.Context) error {
	if g.ByHand {
		return nil
	}
	for _, args := range [][]string{
		{"rollout/" + App, "--for=jsonpath={.status.phase}=Healthy"},
		{"ingress/" + App, "--for=jsonpath={.status.loadBalancer.ingress}"},
		{"ingress/" + App, "--for=jsonpath={.spec.rules[0].http.paths[0].backend.service.name}=" + proxied},
	} {
		if err := g.wait(ctx, args...); err != nil {
			return err
		}
	}
	if err := g.Shell.ShowAll(ctx, Kubectl("get", "rollout,httpso,scaledobject")); err != nil {
		return err
	}
	service, err := g.Shell.Run(ctx, Kubectl("get", "httpso", App, "-o", "jsonpath={.spec.scaleTargetRef.service}")...)
	if err == nil && service != Stable {
		err = fmt.Errorf("%w: the HTTPScaledObject is for Service %q, want that of the Rollout's stable side, %s",
			ErrCheck, service, Stable)
	}
	return err
}

// Scales waits until KEDA scales the ScaledObject.
func (g Guide) Scales(ctx context.Context) error {
	return g.wait(ctx, "scaledobject/"+App, "--for=condition=Ready")
}

// wait shows a kubectl wait that ends after Patience.
func (g Guide) wait(ctx context.Context, args ...string) error {
	slow := g.Shell
	slow.Within = g.Patience + g.Shell.Within
	_, err := slow.Show(ctx, Kubectl(append([]string{"wait"},
		append(args, fmt.Sprintf("--timeout=%.0fs", g.Patience.Seconds()))...)...)...)
	return err
}

// The requests a second that a replica is to have.
const (
	// GuidesTarget is the guide's.
	GuidesTarget = "5"
	// MeasuringTarget takes its place while splits are measured: at the rate by which that takes seconds, the guide's
	// would ask for more Pods than a laptop has room for.
	MeasuringTarget = "1000"
)

// Target changes how many requests a second a replica is to have.
func (g Guide) Target(ctx context.Context, value string) error {
	return g.Shell.ShowAll(ctx, Kubectl("patch", "scaledobject", App, "--type=json", "-p",
		`[{"op":"replace","path":"/spec/triggers/0/metadata/targetValue","value":"`+value+`"}]`))
}

// IngressAddress is the address that requests for the Ingress are sent to.
func (g Guide) IngressAddress(ctx context.Context) (string, error) {
	if g.Ingress != "" {
		return g.Ingress, nil
	}
	published, err := g.Shell.Run(ctx, Kubectl("get", "ingress", App, "-o",
		"jsonpath={.status.loadBalancer.ingress[0].ip}{.status.loadBalancer.ingress[0].hostname}")...)
	if err != nil {
		return "", err
	}
	host := strings.TrimSpace(published)
	if host == "" {
		return "", fmt.Errorf("%w: Ingress %s/%s has no address in its status: see whether an Ingress controller runs",
			ErrCheck, Namespace, App)
	}
	return net.JoinHostPort(host, "80"), nil
}

// Browser lets browsers in: the trigger gets BrowserHost beside the guide's host, and the host an Ingress of its own.
func (g Guide) Browser(ctx context.Context) error {
	return g.Shell.ShowAll(ctx,
		Kubectl("patch", "scaledobject", App, "--type=json", "-p",
			`[{"op":"replace","path":"/spec/triggers/0/metadata/hosts","value":"`+Host+","+BrowserHost+`"}]`),
		Kubectl("create", "ingress", "browser", "--rule="+BrowserHost+"/*="+Stable+":80"),
	)
}

// Kubectl is a command in the guide's namespace.
func Kubectl(args ...string) []string {
	return append([]string{"kubectl", "-n", Namespace}, args...)
}

// Argo is a command of kubectl-argo-rollouts in the guide's namespace.
func Argo(args ...string) []string {
	return append([]string{"kubectl", "argo", "rollouts", "-n", Namespace}, args...)
}
