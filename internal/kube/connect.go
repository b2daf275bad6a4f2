package kube

import (
	"errors"
	"fmt"
	"net/http"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Config returns the configuration of the API server's client. It comes from the file kubeconfig if that isn't empty,
// else from the file in $KUBECONFIG, else from the Pod's ServiceAccount, else, outside a Pod, from ~/.kube/config.
// Config opens no connection. Requests have userAgent and no rate limit: with client-go's default of 5 per second, a
// weight change in a large cluster would wait for earlier ones. While the API server starts, the caller decides when to
// retry. Warnings in responses, such as that Endpoints are deprecated, are dropped: they address the author of the
// client.
func Config(kubeconfig, userAgent string) (*rest.Config, error) {
	config, err := find(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = userAgent
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return noRetryAfter{next} })
	return config, nil
}

// noRetryAfter removes the header Retry-After from the response of an API server that is starting: it is 5 s however
// soon the server is ready (k8s.io/apiserver, notfoundhandler), and client-go would wait for that inside the request.
// The header of an overloaded API server (429) stays.
type noRetryAfter struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p noRetryAfter) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := p.next.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusServiceUnavailable {
		response.Header.Del("Retry-After")
	}
	return response, err
}

// WrappedRoundTripper returns the wrapped transport for client-go.
func (p noRetryAfter) WrappedRoundTripper() http.RoundTripper { return p.next }

// find loads the configuration in the order that Config documents.
func find(kubeconfig string) (*rest.Config, error) {
	if kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("cannot connect to the API server: kubeconfig %q of --kubeconfig: %w", kubeconfig,
				err)
		}
		return config, nil
	}
	if config, err := fromEnvironment(); config != nil || err != nil {
		return config, err
	}
	config, err := rest.InClusterConfig()
	if err == nil {
		return config, nil
	}
	if !errors.Is(err, rest.ErrNotInCluster) {
		return nil, fmt.Errorf("cannot connect to the API server: the Pod's ServiceAccount has no token: "+
			"check automountServiceAccountToken: %w", err)
	}
	files := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(files,
		&clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the API server: this is not a Pod, and neither $KUBECONFIG nor "+
			"~/.kube/config can be used: %w", err)
	}
	return config, nil
}

// fromEnvironment returns the configuration in $KUBECONFIG, nil if the variable is empty or its file doesn't exist.
func fromEnvironment() (*rest.Config, error) {
	path := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	if path == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	loaded, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	var config *rest.Config
	switch {
	case err == nil && api.IsConfigEmpty(loaded):
		return nil, nil //nolint:nilnil // as documented
	case err == nil:
		config, err = clientcmd.NewDefaultClientConfig(*loaded, &clientcmd.ConfigOverrides{}).ClientConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the API server: $KUBECONFIG (%s): %w", path, err)
	}
	return config, nil
}
