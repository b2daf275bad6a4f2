package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// connection has the connection flags of kubectl: API server, user and namespace.
type connection struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
}

// addFlags adds kubectl's connection flags.
func (w *connection) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&w.kubeconfig, "kubeconfig", "", "kubeconfig `file` (default: $KUBECONFIG or ~/.kube/config)")
	clientcmd.BindOverrideFlags(&w.overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))
}

// config returns the client configuration without connecting.
func (w *connection) config() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = w.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &w.overrides)
}

// client returns a client for the API server.
func (w *connection) client() (*kube.Client, error) {
	config, err := w.config().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config.UserAgent = rest.DefaultKubernetesUserAgent() + " kubectl-http_canary"
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	return kube.NewClient(func() (*rest.Config, error) { return config, nil }), nil
}

// scope returns the namespace of applications for a command that has flag --all-namespaces: that of --namespace or of
// the context, or "default" if neither names one. It is empty for all namespaces.
func (w *connection) scope(isAll bool) (string, error) {
	if isAll {
		return "", nil
	}
	namespace, _, err := w.config().Namespace()
	if err != nil {
		return "", fmt.Errorf("kubeconfig: namespace: %w", err)
	}
	return namespace, nil
}

// namedScope is like scope, except that it selects all namespaces if neither --namespace nor the context names one: for
// commands that examine an installation.
func (w *connection) namedScope(isAll bool) (string, error) {
	if isAll {
		return "", nil
	}
	if namespace := w.overrides.Context.Namespace; namespace != "" {
		return namespace, nil
	}
	raw, err := w.config().RawConfig()
	if err != nil {
		return "", fmt.Errorf("kubeconfig: %w", err)
	}
	if context := raw.Contexts[cmp.Or(w.overrides.CurrentContext, raw.CurrentContext)]; context != nil {
		return context.Namespace, nil
	}
	return "", nil
}

// addAllNamespaces adds flag --all-namespaces.
func addAllNamespaces(flags *pflag.FlagSet, isAll *bool) {
	flags.BoolVarP(isAll, "all-namespaces", "A", false, "include the applications of all namespaces")
}

// errKind reports an argument KIND/NAME of an unknown kind.
var errKind = errors.New("unknown kind: use NAME, rollout/NAME or httpscaledobject/NAME")

// rolloutReader parses an argument: NAME or rollout/NAME, or httpscaledobject/NAME for the Rollout that references the
// object. It returns a reader for its namespace and the full name of the Rollout. If no Rollout references the object, it
// returns the facts about the object.
func (w *connection) rolloutReader(ctx context.Context, argument string) (*gather.Reader, types.NamespacedName,
	*facts.Facts, error,
) {
	name := types.NamespacedName{}
	namespace, err := w.scope(false)
	if err != nil {
		return nil, name, nil, err
	}
	client, err := w.client()
	if err != nil {
		return nil, name, nil, err
	}
	reader := gather.New(client, namespace)
	kind, object, hasKind := strings.Cut(argument, "/")
	if !hasKind {
		kind, object = "rollout", argument
	}
	name = types.NamespacedName{Namespace: namespace, Name: object}
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	switch kind {
	case "rollout", "rollouts", "ro":
		return reader, name, nil, nil
	case "httpscaledobject", "httpscaledobjects", "hso":
		rollout, cluster, err := reader.RolloutOf(ctx, name)
		if cluster != nil {
			rollout = name
		}
		return reader, rollout, cluster, err
	}
	return nil, name, nil, usageError(fmt.Errorf("%s: %w", argument, errKind))
}

// completionTimeout bounds a completion, because the shell waits for it.
const completionTimeout = 3 * time.Second

// completeRollout completes the name of a Rollout or, after "httpscaledobject/", of an HTTPScaledObject. It offers
// nothing if the API server is unreachable.
func (w *connection) completeRollout(command *cobra.Command, args []string, typed string) ([]string,
	cobra.ShellCompDirective,
) {
	namespace, err := w.scope(false)
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	client, err := w.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(command.Context(), completionTimeout)
	defer cancel()
	reader := gather.New(client, namespace)
	prefix, list := "", reader.RolloutNames
	switch kind, _, _ := strings.Cut(typed, "/"); kind {
	case typed:
	case "httpscaledobject", "hso":
		prefix, list = kind+"/", reader.ObjectNames
	default:
		prefix = kind + "/"
	}
	names, err := list(ctx, namespace)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	for i := range names {
		names[i] = prefix + names[i]
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
