// Package provider provides a Kubernetes cluster for demos and tests of canaries: the embedded one, an existing one of
// the user, or one of kind.
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

// Provider provides a cluster.
type Provider interface {
	// Up starts or updates a cluster and returns it. If Up fails, Owns reports whether Down has something to end.
	Up(ctx context.Context, spec Spec) (*Cluster, error)
	// Owns reports whether Up started the cluster, so that Down ends it. A cluster that already ran is never ended.
	Owns() bool
	// Down ends the cluster if it is owned.
	Down(ctx context.Context) error
}

// Cluster is a ready cluster.
type Cluster struct {
	kube.Runner

	// Name is a display name.
	Name string
	// Kubeconfig is the path of the kubeconfig.
	Kubeconfig string
	// Bin is the folder with kubectl and kubectl-argo-rollouts; empty if they are in the user's PATH.
	Bin string
	// Logs is the folder with the logs of the node's components; empty if it is not accessible.
	Logs string
	// Node is the first process of the embedded cluster's namespaces; 0 for other clusters.
	Node int
	// StartSeconds is the duration of the start; 0 if unknown.
	StartSeconds float64
	// Addresses are this machine's addresses that forward to Services of the cluster, by name. If ProxyAddress is missing,
	// `kubectl port-forward` is used instead.
	Addresses map[string]string
}

// ProxyAddress is the name of the address of Service kedify-proxy in the demo's namespace.
const ProxyAddress = "proxy"

// IngressAddress names the address of the embedded cluster's Ingress controller, IngressTarget is where it leads.
const (
	// IngressAddress is the name of the address of the embedded cluster's Ingress controller, IngressTarget the Service
	// behind it.
	IngressAddress = "ingress"
	IngressTarget  = "traefik.traefik.svc.cluster.local:80"
)

// Spec describes what a cluster must have in addition to the canary's components.
type Spec struct {
	// Keep makes the cluster outlive the process that starts it.
	Keep bool
	// Addons are additional components, such as "envoy-gateway".
	Addons []string
	// Forwards are the Services, as host:port by name, that an address of this machine forwards to.
	Forwards map[string]string
	// Programs are binaries that replace this checkout's programs, by name.
	Programs map[string]string
	// ExtraArgs are additional arguments of the node's components, as component=argument.
	ExtraArgs []string
}

// ErrUnsupported means that a provider cannot fulfill the spec.
var ErrUnsupported = errors.New("this cluster is not supported")

// The names of the providers.
const (
	NameEmbedded = "embedded"
	NameExisting = "existing"
	NameKind     = "kind"
)

// Options configures the providers.
type Options struct {
	// Local is the command localcluster. It builds the embedded cluster and the programs for the other providers.
	Local LocalCluster
	// Environ is the user's environment.
	Environ []string
	// Cache returns the folder for kubectl's caches. It is called when the cluster is ready.
	Cache func(c *Cluster) string
	// Report prints progress for the user.
	Report func(line string)
	// Command is the time limit of a short command.
	Command time.Duration
}

// New returns the provider with that name.
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

// Names returns the names of all providers.
func Names() []string {
	names := []string{NameEmbedded, NameExisting, NameKind}
	slices.Sort(names)
	return names
}

// variable returns the last value of a variable in an environment.
func variable(environ []string, name string) string {
	for _, entry := range slices.Backward(environ) {
		if key, value, _ := strings.Cut(entry, "="); key == name {
			return value
		}
	}
	return ""
}
