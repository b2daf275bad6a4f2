package httpso_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

const routeConfig = `{"interceptorRoute":"web"}`

// routeServer makes the HTTPScaledObjects of an API server InterceptorRoutes: requests for these go to the paths of
// HTTPScaledObjects, and the responses are converted.
type routeServer struct {
	http.RoundTripper

	conditions []metav1.Condition // of every InterceptorRoute
	paths      []string           // of the requests for InterceptorRoutes
}

// RoundTrip implements http.RoundTripper.
func (s *routeServer) RoundTrip(request *http.Request) (*http.Response, error) {
	if !strings.Contains(request.URL.Path, "/v1beta1/") {
		return s.RoundTripper.RoundTrip(request)
	}
	s.paths = append(s.paths, request.Method+" "+request.URL.Path)
	request = request.Clone(request.Context())
	request.URL.Path = strings.NewReplacer("/v1beta1/", "/v1alpha1/", "/interceptorroutes", "/httpscaledobjects").
		Replace(request.URL.Path)
	response, err := s.RoundTripper.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	defer response.Body.Close()
	var from httpv1alpha1.HTTPScaledObject
	if err := json.NewDecoder(response.Body).Decode(&from); err != nil {
		return nil, err
	}
	route := httpv1beta1.InterceptorRoute{
		ObjectMeta: from.ObjectMeta,
		Spec:       httpv1beta1.InterceptorRouteSpec{Target: httpv1beta1.TargetRef{Service: from.Spec.ScaleTargetRef.Service}},
		Status:     httpv1beta1.InterceptorRouteStatus{Conditions: s.conditions},
	}
	if from.Status.DataPlane != nil {
		report, err := json.Marshal(map[string]any{"uid": from.UID, "dataPlane": from.Status.DataPlane})
		if err != nil {
			return nil, err
		}
		metav1.SetMetaDataAnnotation(&route.ObjectMeta, httpv1alpha1.AnnotationStatus, string(report))
	}
	text, err := json.Marshal(route)
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return response, err
}

// newRouteRouter returns a router on the API server, without a watch, and its InterceptorRoutes.
func newRouteRouter(api *routertest.APIServer, conditions ...metav1.Condition) (*httpso.Router, *routeServer) {
	server := &routeServer{conditions: conditions}
	connect := func() (*rest.Config, error) {
		config := api.Config()
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			server.RoundTripper = next
			return server
		})
		return config, nil
	}
	return httpso.New(httpso.NewClient(connect), lease, slog.New(slog.DiscardHandler)), server
}

// TestInterceptorRoute sets weights on an InterceptorRoute, with the owner mark, and removes them.
func TestInterceptorRoute(t *testing.T) {
	t.Parallel()
	api := routertest.NewAPIServer(t, routertest.ScaledObject(map[string]string{foreign: "stays"}))
	router, server := newRouteRouter(api)
	rollout := routertest.Rollout(httpso.Type, routeConfig)
	for _, step := range []struct {
		weight int32
		want   string
	}{{20, at20}, {20, at20}, {0, ""}} {
		if err := router.SetWeight(t.Context(), rollout, step.weight, nil); err != nil {
			t.Fatalf("SetWeight(%d): %v", step.weight, err)
		}
		live := api.Object("shop", "web")
		if got := live.Annotations[httpv1alpha1.AnnotationWeightedBackends]; got != step.want || live.Annotations[foreign] != "stays" {
			t.Errorf("after SetWeight(%d): annotations %v", step.weight, live.Annotations)
		}
		if mark := live.Annotations[httpv1alpha1.AnnotationWeightedBackendsOwner]; (mark != "") != (step.want != "") {
			t.Errorf("after SetWeight(%d): owner mark %q", step.weight, mark)
		}
	}
	for _, path := range server.paths {
		if _, after, _ := strings.Cut(path, " "); after != "/apis/http.keda.sh/v1beta1/namespaces/shop/interceptorroutes/web" {
			t.Errorf("request %s", path)
		}
	}
	if requests := api.Requests(http.MethodPatch); len(requests) != 2 {
		t.Errorf("%d writes, want 2", len(requests))
	}
}

// TestInterceptorRouteVerification verifies a weight by the report in the annotation. An InterceptorRoute with the name
// of an HTTPScaledObject is not served, so its weights are never verified.
func TestInterceptorRouteVerification(t *testing.T) {
	t.Parallel()
	superseded := metav1.Condition{
		Type: httpv1alpha1.ConditionAccepted, Status: metav1.ConditionFalse,
		Reason: httpv1beta1.ReasonHTTPScaledObjectExists, Message: "HTTPScaledObject shop/web has the same name: delete it",
	}
	for name, c := range map[string]struct {
		report     *httpv1alpha1.DataPlaneStatus
		conditions []metav1.Condition
		want       bool
	}{
		"acknowledged":             {ackedReport(at20, 2), nil, true},
		"about another annotation": {ackedReport("", 2), nil, false},
		"no proxy":                 {ackedReport(at20, 0), nil, false},
		"an HTTPScaledObject has its name": {
			ackedReport(at20, 2), []metav1.Condition{superseded}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewInMemory(t, reported(at20, c.report))
				renew(api)
				router, _ := newRouteRouter(api, c.conditions...)
				got, err := router.VerifyWeight(deadlined(t), routertest.Rollout(httpso.Type, routeConfig), 20, nil)
				if err != nil || got != c.want {
					t.Errorf("VerifyWeight = %v, %v; want %v", got, err, c.want)
				}
			})
		})
	}
}

// TestInterceptorRouteErrors: messages name the kind, the key and the fix.
func TestInterceptorRouteErrors(t *testing.T) {
	t.Parallel()
	const field = `spec.strategy.canary.trafficRouting.plugins["kedify/http"]`
	for config, parts := range map[string][]string{
		`{"interceptorRoute":"web","httpScaledObjectName":"web"}`: {field + ` has both httpScaledObjectName and interceptorRoute: remove one`},
		`{"interceptorRoute":""}`:                                 {field + `.interceptorRoute is missing or not a name: write the name of an InterceptorRoute`},
		`{"interceptorRoute":"a/b"}`:                              {field + `.interceptorRoute is "a/b", which cannot be an object's name`},
		`{"interceptorRoute":"wbe"}`: {
			`InterceptorRoute "shop/wbe" of rollout "shop/web"`, `CustomResourceDefinition interceptorroutes.http.keda.sh`,
			`or correct ` + field + `.interceptorRoute`,
		},
	} {
		router, _ := newRouteRouter(routertest.NewAPIServer(t, routertest.ScaledObject(nil)))
		err := router.SetWeight(t.Context(), routertest.Rollout(httpso.Type, config), 20, nil)
		for _, part := range parts {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %v, want one with %q", config, err, part)
			}
		}
	}
	other := routertest.ScaledObject(weighted(at20))
	other.Annotations[httpv1alpha1.AnnotationWeightedBackendsOwner] = "shop/api uid"
	api := routertest.NewAPIServer(t, other)
	owner := routertest.Rollout(httpso.Type, routeConfig)
	owner.Name, owner.UID = "api", "uid"
	api.PutOther("/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/api", owner)
	router, _ := newRouteRouter(api)
	err := router.SetWeight(t.Context(), routertest.Rollout(httpso.Type, routeConfig), 30, nil)
	if err == nil || !strings.Contains(err.Error(), `an InterceptorRoute of its own in `+field+`.interceptorRoute`) {
		t.Errorf("another Rollout owns the weights: %v", err)
	}
}
