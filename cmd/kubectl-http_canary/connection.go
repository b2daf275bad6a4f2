package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

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

// rolloutReader parses a Rollout argument, NAME or rollout/NAME. It returns a reader for its namespace and its full
// name.
func (w *connection) rolloutReader(argument string) (*gather.Reader, types.NamespacedName, error) {
	namespace, _, err := w.config().Namespace()
	if err != nil {
		return nil, types.NamespacedName{}, fmt.Errorf("kubeconfig: namespace: %w", err)
	}
	client, err := w.client()
	name := strings.TrimPrefix(strings.TrimPrefix(argument, "rollout/"), "rollouts/")
	return gather.New(client, namespace), types.NamespacedName{Namespace: namespace, Name: name}, err
}

// completionTimeout bounds a completion, because the shell waits for it.
const completionTimeout = 3 * time.Second

// completeRollout completes the name of a Rollout. It offers nothing if the API server is unreachable.
func (w *connection) completeRollout(command *cobra.Command, args []string, _ string) ([]string,
	cobra.ShellCompDirective,
) {
	reader, name, err := w.rolloutReader("")
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(command.Context(), completionTimeout)
	defer cancel()
	names, err := reader.RolloutNames(ctx, name.Namespace)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
