package apiserver_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

// metrics are metrics of an API server.
const metrics = `# HELP apiserver_request_total [STABLE] Counter of apiserver requests broken out for each verb, resource and code.
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",group="a",resource="routes",scope="resource",subresource="",verb="APPLY",version="v1"} 7
apiserver_request_total{code="200",group="a",resource="routes",scope="resource",subresource="",verb="GET",version="v1"} 3
apiserver_request_total{code="404",group="a",resource="routes",scope="resource",subresource="",verb="GET",version="v1"} 1
apiserver_request_total{code="200",group="a",resource="routes",scope="namespace",subresource="",verb="LIST",version="v1"} 1.2e+06
apiserver_request_total{code="200",group="a",resource="routes",scope="resource",subresource="",verb="PATCH",version="v1"} 10
apiserver_request_total{code="200",group="a",resource="routes",scope="resource",subresource="status",verb="PATCH",version="v1"} 20
apiserver_request_total{code="201",group="a",resource="routes",scope="namespace",subresource="",verb="POST",version="v1"} 100
apiserver_request_total{code="200",group="a",resource="routes",scope="resource",subresource="",verb="PUT",version="v1"} 1000
apiserver_request_total{code="0",group="a",resource="routes",scope="namespace",subresource="",verb="WATCH",version="v1"} 9
apiserver_request_total{code="200",group="a",resource="otherroutes",scope="resource",subresource="",verb="GET",version="v1"} 5
apiserver_longrunning_requests{group="a",resource="routes",scope="namespace",subresource="",verb="GET",version="v1"} 6
`

func TestCountRequests(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, metrics)
	}))
	t.Cleanup(server.Close)
	client, err := rest.UnversionedRESTClientFor(&rest.Config{
		Host:          server.URL,
		ContentConfig: rest.ContentConfig{NegotiatedSerializer: serializer.NewCodecFactory(runtime.NewScheme())},
	})
	if err != nil {
		t.Fatal(err)
	}
	counts, err := apiserver.CountRequests(t.Context(), client, "routes")
	want := apiserver.RequestCounts{
		"APPLY": 7, "GET": 4, "LIST": 1_200_000, "PATCH": 30, "POST": 100, "PUT": 1000, "WATCH": 9,
	}
	if diff := cmp.Diff(want, counts); err != nil || diff != "" {
		t.Errorf("counts (-want +got):\n%s%v", diff, err)
	}
	if counts.Reads() != 1_200_004 || counts.Writes() != 1137 {
		t.Errorf("%d reads and %d writes, want 1200004 and 1137", counts.Reads(), counts.Writes())
	}
	if counts, err := apiserver.CountRequests(t.Context(), client, "route"); err == nil {
		t.Errorf("a resource that does not exist has the counts %v", counts)
	}
}
