package main

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kedify/argo-rollouts-plugin/internal/apiserver"
)

// way is how the API server is reached, and which namespace is meant: as kubectl has it, by the same flags.
type way struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
}

// addFlags declares kubectl's flags.
func (w *way) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&w.kubeconfig, "kubeconfig", "", "kubeconfig `file`; by default $KUBECONFIG or ~/.kube/config")
	clientcmd.BindOverrideFlags(&w.overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))
}

// config finds the API server. Nothing is contacted.
func (w *way) config() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = w.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &w.overrides)
}

// client asks the API server.
func (w *way) client() (*apiserver.Client, error) {
	config, err := w.config().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no way to the API server: %w", err)
	}
	config.UserAgent = rest.DefaultKubernetesUserAgent() + " kubectl-http_canary"
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	return apiserver.NewClient(func() (*rest.Config, error) { return config, nil }), nil
}
