package gather_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
)

// responses contains the responses of an API server by the suffix of the path.
type responses map[string]string

// RoundTrip implements http.RoundTripper.
func (a responses) RoundTrip(request *http.Request) (*http.Response, error) {
	code, body := http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","reason":"NotFound","code":404}`
	for end, text := range a {
		if strings.HasSuffix(request.URL.Path, end) {
			code, body = http.StatusOK, text
		}
	}
	header := http.Header{"Content-Type": []string{"application/json"}}
	return &http.Response{
		StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader(body)),
		Request: request,
	}, nil
}

// TestAllTriggersAreRead: the Rollout references one HTTPScaledObject of a ScaledObject with two triggers.
func TestAllTriggersAreRead(t *testing.T) {
	t.Parallel()
	const rollout = `{"metadata":{"name":"web","namespace":"shop"},"spec":{"strategy":{"canary":{"stableService":"stable","canaryService":"canary",` +
		`"trafficRouting":{"plugins":{"kedify/http":{"httpScaledObjectName":"web"}}}}}}}`
	object := func(name, scaled string) string {
		owners := ""
		if scaled != "" {
			owners = `,"ownerReferences":[{"apiVersion":"keda.sh/v1alpha1","kind":"ScaledObject","name":"` + scaled +
				`","controller":true}]`
		}
		return `{"metadata":{"namespace":"shop","name":"` + name + `"` + owners + `}}`
	}
	all := `{"items":[` + object("web-api", "web") + "," + object("web", "web") + "," + object("next", "next") + `]}`
	for name, test := range map[string]struct {
		scaled string
		want   []string
	}{
		"of a ScaledObject": {"web", []string{"web", "web-api"}},
		"of none":           {"", []string{"web"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := responses{
				"/rollouts/web": rollout, "/httpscaledobjects/web": object("web", test.scaled),
				"/httpscaledobjects": all,
			}
			client := kube.NewClient(func() (*rest.Config, error) {
				return &rest.Config{Host: "https://api.test", Transport: server, QPS: -1}, nil
			})
			cluster, err := gather.New(client, "shop").Rollout(t.Context(),
				types.NamespacedName{Namespace: "shop", Name: "web"})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, object := range cluster.ObjectsOf(&cluster.Rollouts[0]) {
				got = append(got, object.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestInterceptorRouteIsRead: the Rollout references an InterceptorRoute, and not the HTTPScaledObject of that name.
func TestInterceptorRouteIsRead(t *testing.T) {
	t.Parallel()
	server := responses{
		"/rollouts/web": `{"metadata":{"name":"web","namespace":"shop"},"spec":{"strategy":{"canary":{"stableService":"stable",` +
			`"canaryService":"canary","trafficRouting":{"plugins":{"kedify/http":{"interceptorRoute":"web"}}}}}}}`,
		"/interceptorroutes/web": `{"metadata":{"namespace":"shop","name":"web"},"spec":{"target":{"service":"stable","port":80}}}`,
		"/httpscaledobjects/web": `{"metadata":{"namespace":"shop","name":"web"}}`,
	}
	client := kube.NewClient(func() (*rest.Config, error) {
		return &rest.Config{Host: "https://api.test", Transport: server, QPS: -1}, nil
	})
	cluster, err := gather.New(client, "shop").Rollout(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	got := cluster.ObjectsOf(&cluster.Rollouts[0])
	if len(got) != 1 || facts.KindOf(got[0]) != "InterceptorRoute" || got[0].Spec.ScaleTargetRef.Service != "stable" {
		t.Errorf("got %+v", got)
	}
}
