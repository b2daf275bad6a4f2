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

// way is how the API server is reached, and which namespace is meant: as kubectl has it, by the same flags.
type way struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
}

// addFlags declares kubectl's flags.
func (w *way) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&w.kubeconfig, "kubeconfig", "", "kubeconfig `file` (default: $KUBECONFIG or ~/.kube/config)")
	clientcmd.BindOverrideFlags(&w.overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))
}

// config finds the API server. Nothing is contacted.
func (w *way) config() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = w.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &w.overrides)
}

// client asks the API server.
func (w *way) client() (*kube.Client, error) {
	config, err := w.config().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config.UserAgent = rest.DefaultKubernetesUserAgent() + " kubectl-http_canary"
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	return kube.NewClient(func() (*rest.Config, error) { return config, nil }), nil
}

// rollout is the one that an argument names, NAME or rollout/NAME, in the namespace that is meant, and who reads it.
func (w *way) rollout(argument string) (*gather.Reader, types.NamespacedName, error) {
	namespace, _, err := w.config().Namespace()
	if err != nil {
		return nil, types.NamespacedName{}, fmt.Errorf("kubeconfig: namespace: %w", err)
	}
	client, err := w.client()
	name := strings.TrimPrefix(strings.TrimPrefix(argument, "rollout/"), "rollouts/")
	return gather.New(client, namespace), types.NamespacedName{Namespace: namespace, Name: name}, err
}

// completionLimit bounds a completion: the shell waits for it.
const completionLimit = 3 * time.Second

// completeRollout completes the name of a Rollout. Where the API server cannot be asked there is nothing to offer.
func (w *way) completeRollout(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	reader, name, err := w.rollout("")
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(command.Context(), completionLimit)
	defer cancel()
	names, err := reader.RolloutNames(ctx, name.Namespace)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
