package kube_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://api.test:8080"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`

// outsideOfAPod hides the Pod and the kubeconfig of this machine.
func outsideOfAPod(t *testing.T) (file string) {
	t.Helper()
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBERNETES_SERVICE_PORT", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "missing"))
	file = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestConfigIsFound(t *testing.T) {
	file := outsideOfAPod(t)
	tests := map[string]struct{ flag, environment string }{
		"by name":          {flag: file},
		"by $KUBECONFIG":   {environment: file},
		"the name goes on": {flag: file, environment: "/does/not/exist"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.environment)
			config, err := kube.Config(test.flag, "router/v1")
			if err != nil {
				t.Fatal(err)
			}
			if config.Host != "http://api.test:8080" || config.UserAgent != "router/v1" {
				t.Errorf("Config is for %s as %s", config.Host, config.UserAgent)
			}
			if config.QPS >= 0 {
				t.Errorf("requests are limited to %v a second", config.QPS)
			}
		})
	}
}

func TestTheEnvironmentComesBeforeThePod(t *testing.T) {
	file := outsideOfAPod(t)
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	t.Setenv("KUBECONFIG", file)
	config, err := kube.Config("", "")
	if err != nil || config.Host != "http://api.test:8080" {
		t.Errorf("Config is for %v, %v; want the API server of $KUBECONFIG", config, err)
	}
}

func TestWarningsAreDropped(t *testing.T) {
	config, err := kube.Config(outsideOfAPod(t), "")
	if err != nil || config.WarningHandler != (rest.NoWarnings{}) {
		t.Errorf("warnings, such as that Endpoints are deprecated, go to %T, %v", config.WarningHandler, err)
	}
}

func TestConfigErrorNamesTheSources(t *testing.T) {
	outsideOfAPod(t)
	for flag, want := range map[string]string{
		"":                "neither $KUBECONFIG nor ~/.kube/config",
		"/does/not/exist": `kubeconfig "/does/not/exist"`,
	} {
		if _, err := kube.Config(flag, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Config(%q): %v, want an error with %q", flag, err, want)
		}
	}
}

func TestConfigInPodWithoutToken(t *testing.T) {
	outsideOfAPod(t)
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	if _, err := kube.Config("", ""); err == nil || !strings.Contains(err.Error(), "ServiceAccount") {
		t.Errorf("error is %v, want one about the ServiceAccount", err)
	}
}

// TestOnlyAnOverloadedAPIServerIsWaitedFor: a request to an API server that is starting fails immediately. A request to
// an overloaded one is repeated after its Retry-After.
func TestOnlyAnOverloadedAPIServerIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for code, want := range map[int]struct {
			waited   time.Duration
			requests int
		}{
			http.StatusServiceUnavailable: {0, 1},
			http.StatusTooManyRequests:    {5 * time.Second, 2},
		} {
			requests := 0
			config, err := kube.Config(outsideOfAPod(t), "")
			if err != nil {
				t.Fatal(err)
			}
			config.Transport = answers(func(*http.Request) (*http.Response, error) {
				requests++
				if requests > 1 {
					code = http.StatusOK
				}
				return &http.Response{
					StatusCode: code, Header: http.Header{"Retry-After": {"5"}},
					Body: io.NopCloser(strings.NewReader("{}")),
				}, nil
			})
			config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
			client, err := rest.UnversionedRESTClientFor(config)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_ = client.Get().AbsPath("/api").Do(t.Context()).Error()
			if waited := time.Since(began); waited != want.waited || requests != want.requests {
				t.Errorf("%d requests in %v, want %+v", requests, waited, want)
			}
		}
	})
}

// answers is a transport.
type answers func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }
