// Package provider gets a Kubernetes cluster to show and test canaries on, and
// gives it back: the embedded one, one that the user has, or one of kind.
package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
)

// Provider is where a cluster comes from.
type Provider interface {
	// Up makes a cluster ready and returns it. When Up fails, Owns tells whether
	// something is there that Down would end.
	Up(ctx context.Context, spec Spec) (*Cluster, error)
	// Owns reports whether the cluster was started by Up, so that Down ends it. A
	// cluster that was there before is nobody's to end.
	Owns() bool
	// Down ends the cluster, if Owns says so.
	Down(ctx context.Context) error
}

// Cluster is a cluster that is ready.
type Cluster struct {
	kube.Runner

	// Name says to a reader which cluster it is.
	Name string
	// Kubeconfig is the file that gives access to it.
	Kubeconfig string
	// Bin is the folder with kubectl and kubectl-argo-rollouts; empty where they
	// are found by the user's PATH.
	Bin string
	// Logs is the folder with the logs of the node's components; empty if they
	// cannot be read from here.
	Logs string
	// Node is the first process of the embedded cluster's namespaces; 0 elsewhere.
	Node int
	// StartSeconds is how long the start took; 0 if that is not known.
	StartSeconds float64
	// Addresses are those of this machine that lead to Services of the cluster, by
	// name. ProxyAddress may be missing: then `kubectl port-forward` leads there.
	Addresses map[string]string
}

// ProxyAddress names the address of Service kedify-proxy in the demo's namespace.
const ProxyAddress = "proxy"

// IngressAddress names the address of the embedded cluster's Ingress controller, IngressTarget is where it leads.
const (
	IngressAddress = "ingress"
	IngressTarget  = "traefik.traefik.svc.cluster.local:80"
)

// Spec are what a cluster is to have beyond the canary's own parts.
type Spec struct {
	// Keep says that the cluster is to outlive the process that asks for it.
	Keep bool
	// Addons are further parts, such as "envoy-gateway".
	Addons []string
	// Forwards are Services that an address of this machine is to lead to, as
	// host:port by name.
	Forwards map[string]string
	// Programs are binaries that take the place of this checkout's own, by name.
	Programs map[string]string
	// ExtraArgs are further arguments of the node's components, as
	// component=argument.
	ExtraArgs []string
}

// ErrUnfit means that a provider cannot give what was asked for.
var ErrUnfit = errors.New("this cluster does not do")

// The names of the providers.
const (
	NameEmbedded = "embedded"
	NameExisting = "existing"
	NameKind     = "kind"
)

// Options are what providers are made from.
type Options struct {
	// Local is the command localcluster, which builds the embedded cluster and the
	// programs that other providers need.
	Local LocalCluster
	// Environ is the environment of the user.
	Environ []string
	// Cache returns the folder that kubectl keeps its caches in. It is asked for
	// when the cluster is up.
	Cache func(c *Cluster) string
	// Report shows the user what happens.
	Report func(line string)
	// Command bounds a command that only asks or says something.
	Command time.Duration
}

// New returns the provider of that name.
func New(name string, o Options) (Provider, error) {
	all := map[string]func() Provider{
		NameEmbedded: func() Provider { return &embedded{Options: o} },
		NameExisting: func() Provider { return &existing{Options: o} },
		NameKind:     func() Provider { return &kind{Options: o} },
	}
	create, known := all[name]
	if !known {
		return nil, fmt.Errorf("there is no provider %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return create(), nil
}

// Names are the names of all providers.
func Names() []string {
	names := []string{NameEmbedded, NameExisting, NameKind}
	slices.Sort(names)
	return names
}

// variable is the last value of a variable in an environment.
func variable(environ []string, name string) string {
	for _, entry := range slices.Backward(environ) {
		if key, value, _ := strings.Cut(entry, "="); key == name {
			return value
		}
	}
	return ""
}
