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

// Config returns how to reach the API server: by the kubeconfig file of that name where one is given; else by
// $KUBECONFIG, where that names a file; else as the ServiceAccount of the Pod; else, outside of a Pod, by
// ~/.kube/config. Nothing is contacted. Requests carry userAgent and are not limited in number: client-go's default of
// 5 a second would make each weight change of a large cluster wait for those before it. An API server that starts is
// asked again by the caller, when the caller likes. Warnings in its answers, such as that Endpoints are deprecated, are
// dropped: they are for whoever wrote the client.
func Config(kubeconfig, userAgent string) (*rest.Config, error) {
	config, err := find(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = userAgent
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return prompt{next} })
	return config, nil
}

// prompt hides from client-go for how long an API server that starts asks to be left alone: 5 s, whenever it is ready
// (k8s.io/apiserver, notfoundhandler). client-go would wait for that inside the request. One that is overloaded (429)
// is left alone as it asks.
type prompt struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p prompt) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := p.next.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusServiceUnavailable {
		response.Header.Del("Retry-After")
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (p prompt) WrappedRoundTripper() http.RoundTripper { return p.next }

// find looks for the API server in the order that Config documents.
func find(kubeconfig string) (*rest.Config, error) {
	if kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("no way to the API server: kubeconfig %q, named by --kubeconfig, cannot be used: %w",
				kubeconfig, err)
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
		return nil, fmt.Errorf("no way to the API server: the Pod's ServiceAccount cannot be used (is "+
			"automountServiceAccountToken off?): %w", err)
	}
	files := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(files,
		&clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no way to the API server: this is not a Pod, and neither $KUBECONFIG nor "+
			"~/.kube/config can be used: %w", err)
	}
	return config, nil
}

// fromEnvironment is what $KUBECONFIG says, and nil where it says nothing: it is empty, or what it names isn't there.
func fromEnvironment() (*rest.Config, error) {
	given := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	if given == "" {
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
		return nil, fmt.Errorf("no way to the API server: $KUBECONFIG (%s) cannot be used: %w", given, err)
	}
	return config, nil
}
