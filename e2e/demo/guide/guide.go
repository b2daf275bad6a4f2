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
	// Namespace is their namespace.
	Namespace = "rollouts-demo"
	// App is the name of the Rollout, the Ingress, the ScaledObject and the HTTPScaledObject.
	App = "rollouts-demo"
	// Stable and Canary are the Services of the two sides.
	Stable = "rollouts-demo-stable"
	Canary = "rollouts-demo-canary"
	// Image is the image of the sample application, without its tag.
	Image = "argoproj/rollouts-demo"
	// Host is the host of the requests.
	Host = "rollouts-demo.example.com"
	// BrowserHost is a host for browsers: names under localhost resolve to the machine itself.
	BrowserHost = "rollouts-demo.localhost"
	// proxied is the backend Service of the autowired Ingress.
	proxied = "kedify-proxy"
)

// Colors returns the possible responses of the sample app.
func Colors() []string { return []string{"blue", "yellow", "green", "orange", "purple", "red"} }

// ErrCheck means that a check failed.
var ErrCheck = errors.New("does not hold")

// Guide applies the guide to a cluster.
type Guide struct {
	// Shell runs and prints the commands.
	Shell shell.Shell
	// Repo is the folder with examples/, config/ and e2e/demo/.
	Repo string
	// Manual is true if the cluster has no KEDA. The HTTPScaledObject and the proxies are then applied as files, and the
	// Ingress points at the app itself.
	Manual bool
	// Ingress is the address of the Ingress controller, as host:port. If it is empty, the address in the Ingress status is
	// used.
	Ingress string
	// Patience is the time limit for anything to become ready, Delete that for the deletion of a namespace from an earlier
	// run.
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

// Commands returns the commands that apply the guide's objects.
func (g Guide) Commands() [][]string {
	var commands [][]string
	object := "scaledobject.yaml"
	if g.Manual {
		object = "httpscaledobject.yaml"
		commands = append(commands, Kubectl("apply", "-k", filepath.Join(g.Repo, "config", "kedify-proxy")))
	}
	example := filepath.Join(g.Repo, "examples", "argo-rollouts-canary")
	return append(commands, Kubectl("apply", "-f", filepath.Join(example, "manifests.yaml"), "-f",
		filepath.Join(example, object)))
}

// Ready waits until the proxies have the agent's objects and the Ingress points at the proxies, and prints the result.
// KEDA may still be starting. With Manual there is nothing to wait for.
func (g Guide) Ready(ctx context.Context) error {
	if g.Manual {
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

// wait prints and runs a `kubectl wait` with the time limit Patience.
func (g Guide) wait(ctx context.Context, args ...string) error {
	slow := g.Shell
	slow.Within = g.Patience + g.Shell.Within
	_, err := slow.Show(ctx, Kubectl(append([]string{"wait"},
		append(args, fmt.Sprintf("--timeout=%.0fs", g.Patience.Seconds()))...)...)...)
	return err
}

// The target of requests per second for each replica.
const (
	// GuidesTarget is the guide's value.
	GuidesTarget = "5"
	// MeasuringTarget replaces it during the measurement of traffic splits. At the request rate of a quick measurement,
	// the guide's value requires more Pods than fit on a laptop.
	MeasuringTarget = "1000"
)

// Target sets the target of requests per second for each replica.
func (g Guide) Target(ctx context.Context, value string) error {
	return g.Shell.ShowAll(ctx, Kubectl("patch", "scaledobject", App, "--type=json", "-p",
		`[{"op":"replace","path":"/spec/triggers/0/metadata/targetValue","value":"`+value+`"}]`))
}

// IngressAddress returns the address that accepts requests for the Ingress.
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

// Browser adds access for browsers: the trigger gets BrowserHost in addition to the guide's host, and that host gets
// its own Ingress.
func (g Guide) Browser(ctx context.Context) error {
	return g.Shell.ShowAll(ctx,
		Kubectl("patch", "scaledobject", App, "--type=json", "-p",
			`[{"op":"replace","path":"/spec/triggers/0/metadata/hosts","value":"`+Host+","+BrowserHost+`"}]`),
		Kubectl("create", "ingress", "browser", "--rule="+BrowserHost+"/*="+Stable+":80"),
	)
}

// Kubectl returns a kubectl command in the guide's namespace.
func Kubectl(args ...string) []string {
	return append([]string{"kubectl", "-n", Namespace}, args...)
}

// Argo returns a kubectl-argo-rollouts command in the guide's namespace.
func Argo(args ...string) []string {
	return append([]string{"kubectl", "argo", "rollouts", "-n", Namespace}, args...)
}
