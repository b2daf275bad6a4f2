package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
)

// existing is the user's cluster in $KUBECONFIG. The provider installs nothing into it and deletes nothing.
type existing struct{ Options }

// Up implements Provider. It only checks that the components of a canary are installed, and reports each missing one
// with the fix.
func (e *existing) Up(ctx context.Context, spec Spec) (*Cluster, error) {
	if len(spec.Addons)+len(spec.Forwards)+len(spec.Programs)+len(spec.ExtraArgs) > 0 {
		return nil, fmt.Errorf("%w: nothing is installed into a cluster of the user's: use the embedded one", ErrUnsupported)
	}
	kubeconfig := variable(e.Environ, "KUBECONFIG")
	if kubeconfig == "" {
		return nil, fmt.Errorf("%w: $KUBECONFIG is not set: the cluster that ~/.kube/config happens to name is not taken by "+
			"surprise; "+
			`set it, as by export KUBECONFIG="$HOME/.kube/config", to use that one`, ErrUnsupported)
	}
	if err := checkInPath("kubectl", "kubectl-argo-rollouts"); err != nil {
		return nil, err
	}
	c := &Cluster{Kubeconfig: kubeconfig}
	c.Runner = kube.Exec{Env: e.Environ}
	if err := e.identify(ctx, c); err != nil {
		return nil, err
	}
	e.Report(c.Name + " is used as it is: nothing is installed into it, and only the demo's namespace is made and " +
		"removed.")
	return c, e.inspect(ctx, c)
}

// identify sets the cluster's name to kubectl's current context.
func (e *existing) identify(ctx context.Context, c *Cluster) error {
	out, err := e.kubectl(ctx, c, "config", "view", "--minify", "-o",
		"jsonpath={.current-context} at {.clusters[0].cluster.server}")
	if err != nil {
		return fmt.Errorf("%w: $KUBECONFIG (%s) names no cluster: %w", ErrUnsupported, c.Kubeconfig, err)
	}
	c.Name = "The cluster of context " + strings.TrimSpace(out)
	return nil
}

// requirement is a component that a canary requires.
type requirement struct {
	// args are the arguments of kubectl. The command must succeed and print the text.
	args   []string
	prints string
	// missing describes what is missing otherwise, fix what to do.
	missing, fix string
}

// requirements returns the components that docs/how-to/install.md installs.
func requirements() []requirement {
	const install = "follow docs/how-to/install.md"
	return []requirement{
		{
			[]string{"auth", "can-i", "create", "namespaces"},
			"yes", "permission to create namespaces",
			"use a kubeconfig that has it",
		},
		{
			[]string{"get", "crd", "rollouts.argoproj.io", "-o", "name"},
			"rollouts.argoproj.io", "Argo Rollouts",
			"install it: https://argo-rollouts.readthedocs.io/en/stable/installation/",
		},
		{
			[]string{"get", "crd", "httpscaledobjects.http.keda.sh", "-o", "name"},
			"httpscaledobjects",
			"the HTTPScaledObject API", install,
		},
		{
			[]string{
				"get", "configmaps", "-A", "--field-selector", "metadata.name=argo-rollouts-config", "-o",
				"jsonpath={.items[*].data.trafficRouterPlugins}",
			},
			"kedify/http", "the plugin kedify/http in ConfigMap argo-rollouts-config", install,
		},
		{
			[]string{"get", "deployments", "-A", "-l", "app.kubernetes.io/component=interceptor", "-o", "name"},
			"interceptor",
			"the interceptor", install,
		},
	}
}

// inspect checks all requirements and reports every missing one.
func (e *existing) inspect(ctx context.Context, c *Cluster) error {
	var missing []error
	for _, r := range requirements() {
		out, err := e.kubectl(ctx, c, r.args...)
		switch {
		case strings.Contains(out, r.prints):
		case err != nil:
			missing = append(missing, fmt.Errorf("%s is not found: %s (%w)", r.missing, r.fix, err))
		default:
			missing = append(missing, fmt.Errorf("%s is not installed: %s", r.missing, r.fix))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s: %w:\n%w", c.Name, ErrUnsupported, errors.Join(missing...))
	}
	return nil
}

// kubectl runs kubectl with a time limit.
func (e *existing) kubectl(ctx context.Context, c *Cluster, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, e.Command)
	defer cancel()
	return c.Run(ctx, append([]string{"kubectl"}, args...)...)
}

// Owns implements Provider.
func (*existing) Owns() bool { return false }

// Down implements Provider.
func (*existing) Down(context.Context) error { return nil }
