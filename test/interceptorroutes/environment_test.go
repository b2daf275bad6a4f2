package interceptorroutes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
)

// routePath returns the REST path of an InterceptorRoute.
func routePath(name string) string {
	return "/apis/" + httpv1beta1.SchemeGroupVersion.String() + "/namespaces/" + coldstart.Namespace + "/" +
		httpv1beta1.Resource + "/" + name
}

// apply applies a manifest in the namespace of the apps.
func (s *environment) apply(t *testing.T, manifest string) {
	t.Helper()
	if err := apiserver.Apply(t.Context(), s.Admin, coldstart.Namespace, manifest); err != nil {
		t.Fatal(err)
	}
}

// routeTo is the spec of an InterceptorRoute to an app without its other fields, which are in YAML.
func routeTo(app, fields string) string {
	const target, metric = "target: {service: %s, port: 80}, ", "scalingMetric: {concurrency: {targetValue: 100}}, "
	spec := fields
	if !strings.Contains(fields, "scalingMetric:") {
		spec = metric + spec
	}
	if !strings.Contains(fields, "target:") {
		spec = fmt.Sprintf(target, app) + spec
	}
	return spec
}

// manifest returns the InterceptorRoute of an app.
func manifest(app, fields string, annotations ...string) string {
	return fmt.Sprintf("apiVersion: http.keda.sh/v1beta1\nkind: InterceptorRoute\nmetadata: {name: %s, annotations: {%s}}\n"+
		"spec: {%s}\n", app, strings.Join(annotations, ", "), routeTo(app, fields))
}

// setRoute creates or replaces the InterceptorRoute of an app, with its name. It returns before the interceptor has read
// it. The route ends with the test.
func (s *environment) setRoute(t *testing.T, app, fields string, annotations ...string) {
	t.Helper()
	s.apply(t, manifest(app, fields, annotations...))
	t.Cleanup(func() {
		_ = apiserver.Delete(context.WithoutCancel(t.Context()), s.Admin, routePath(app)) // The test may have deleted it.
	})
}

// addRoute is setRoute, and waits until the proxy has the route.
func (s *environment) addRoute(t *testing.T, app, fields string, annotations ...string) {
	t.Helper()
	s.setRoute(t, app, fields, annotations...)
	s.awaitProgrammed(t, app)
}

// awaitProgrammed waits until the InterceptorRoute of an app has the condition Programmed for its present spec.
func (s *environment) awaitProgrammed(t *testing.T, app string) {
	t.Helper()
	var route httpv1beta1.InterceptorRoute
	await.Described(t, app+" is programmed", func() bool {
		route = s.route(t, app)
		found := meta.FindStatusCondition(route.Status.Conditions, httpv1alpha1.ConditionProgrammed)
		return found != nil && found.Status == metav1.ConditionTrue && found.ObservedGeneration == route.Generation
	}, func() string { return fmt.Sprintf("%+v", route.Status.Conditions) })
}

// awaitReason waits until a condition of the InterceptorRoute of an app has a reason.
func (s *environment) awaitReason(t *testing.T, app, condition, reason string) {
	t.Helper()
	await.Described(t, fmt.Sprintf("%s: %s has reason %s", app, condition, reason), func() bool {
		found := meta.FindStatusCondition(s.route(t, app).Status.Conditions, condition)
		return found != nil && found.Reason == reason
	}, func() string { return fmt.Sprintf("%+v", s.route(t, app).Status.Conditions) })
}

// route reads the InterceptorRoute of an app.
func (s *environment) route(t *testing.T, app string) httpv1beta1.InterceptorRoute {
	t.Helper()
	var route httpv1beta1.InterceptorRoute
	if err := apiserver.Get(t.Context(), s.Admin, routePath(app), &route); err != nil {
		t.Fatal(err)
	}
	return route
}

// remove deletes the InterceptorRoute of an app.
func (s *environment) remove(t *testing.T, app string) {
	t.Helper()
	if err := apiserver.Delete(t.Context(), s.Admin, routePath(app)); err != nil {
		t.Fatal(err)
	}
}

// request is a request of a client.
type request struct {
	host, path string // The path / may be missing.
	header     string // such as "X-Tenant: a", or empty
	body       string // of a POST; empty for a GET
}

// response is the result of a request.
type response struct {
	app    string // that responded, empty if the proxy did
	status int
	header http.Header
	body   string
}

// String returns the app that responded, or the status of the proxy's response, with the body of a static response.
func (r response) String() string {
	switch reason := r.header.Get(translate.ReasonHeader); {
	case r.app != "":
		return r.app
	case reason == translate.ReasonStatic || reason == translate.ReasonPlaceholder:
		return strings.TrimSpace(strconv.Itoa(r.status) + " " + r.body)
	default:
		return strconv.Itoa(r.status)
	}
}

// try sends a request through the proxy, on a connection of its own.
func try(ctx context.Context, r request) (response, error) {
	method := http.MethodGet
	if r.body != "" {
		method = http.MethodPost
	}
	sent, err := http.NewRequestWithContext(ctx, method, "http://"+coldstart.Proxy+"/"+strings.TrimPrefix(r.path, "/"),
		strings.NewReader(r.body))
	if err != nil {
		return response{}, err
	}
	sent.Host = r.host
	if name, value, hasHeader := strings.Cut(r.header, ":"); hasHeader {
		sent.Header.Set(name, strings.TrimSpace(value))
	}
	got, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(sent)
	if err != nil {
		return response{}, err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	return response{got.Header.Get(appHeader), got.StatusCode, got.Header, string(body)}, err
}

// send is try for a request that receives a response.
func send(t *testing.T, r request) response {
	t.Helper()
	got, err := try(await.Context(t), r)
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	return got
}

// begin sends a request in the background.
func begin(t *testing.T, r request) <-chan response {
	t.Helper()
	ctx, done := await.Context(t), make(chan response, 1)
	go func() {
		got, err := try(ctx, r)
		if err != nil {
			got.body = err.Error()
		}
		done <- got
	}()
	return done
}

// expect waits until requests receive the wanted responses, and then checks that they do so again: a worker of Envoy
// applies a configuration after Envoy has acknowledged it.
func expect(t *testing.T, want map[request]string) {
	t.Helper()
	diff := func() string {
		got := map[request]string{}
		for r := range want {
			got[r] = send(t, r).String()
		}
		return cmp.Diff(want, got, cmp.AllowUnexported(request{}))
	}
	last := ""
	await.Described(t, "the responses (-want +got)", func() bool { last = diff(); return last == "" },
		func() string { return last })
	if last = diff(); last != "" {
		t.Errorf("a response changed (-want +got):\n%s", last)
	}
}

// awaitQueueing waits until requests for a host are queued. It sends some, and cancels the one that is queued.
func (s *environment) awaitQueueing(t *testing.T, host string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ended chan struct{}
	await.True(t, "a request for "+host+" is queued", func() bool {
		if ended == nil {
			sent := make(chan struct{})
			ended = sent
			go func() {
				_, _ = try(ctx, request{host: host}) // Either the app answers, or the request is canceled.
				close(sent)
			}()
		}
		select {
		case <-ended:
			ended = nil
			return false
		default:
		}
		queued, err := s.interceptor.Queued(ctx)
		return err == nil && queued == 1
	})
	cancel()
	s.awaitQueued(t, 0)
}

// awaitQueued waits until a number of requests is queued.
func (s *environment) awaitQueued(t *testing.T, want int) {
	t.Helper()
	queued := 0
	await.Described(t, fmt.Sprint(want, " requests are queued"), func() bool {
		now, err := s.interceptor.Queued(t.Context())
		queued = now
		return err == nil && queued == want
	}, func() string { return strconv.Itoa(queued) })
}
