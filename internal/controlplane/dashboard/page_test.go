package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/dashboard"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/dashboard/access"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/dashboard/view"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/endpoints"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// bed is a running Hub with a page for local callers and one for callers with tokens.
type bed struct {
	hub           *dashboard.Hub
	local, secure *httptest.Server
	end           func() // ends the Hub

	mu     sync.Mutex
	demand metrics.Report // of this replica
}

// newBed returns a bed without objects. The other replica, if there is one, reports the same as this one.
func newBed(t *testing.T, other string) *bed {
	t.Helper()
	b := &bed{}
	options := dashboard.Options{
		Replica: "self", Now: time.Now, Changes: b.changes, Logger: slog.New(slog.DiscardHandler),
		Workload: func(context.Context, view.Source) view.Workload {
			return view.Workload{Rollout: &view.Rollout{Name: "secret"}}
		},
	}
	if other != "" {
		options.WatchReplica = func(ctx context.Context, _ endpoints.Pod, receive func(metrics.Report)) error {
			b.mu.Lock()
			report := b.demand
			b.mu.Unlock()
			report.Replica, report.Fleets = other, map[model.Fleet]metrics.FleetReport{"shop": {Reporting: []string{"p2"}}}
			receive(report)
			<-ctx.Done()
			return ctx.Err()
		}
	}
	b.hub = dashboard.New(options)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = b.hub.Run(ctx) })
	b.end = func() { cancel(); running.Wait() }
	b.local = httptest.NewServer(dashboard.NewLocal(b.hub))
	b.secure = httptest.NewServer(http.StripPrefix("/dashboard", dashboard.NewWithTokens(b.hub, verifier())))
	t.Cleanup(func() {
		b.end()
		b.local.Close()
		b.secure.Close()
	})
	return b
}

// changes implements dashboard.Options.Changes with the whole report.
func (b *bed) changes(last *metrics.Report) metrics.Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	*last = b.demand
	last.Objects = map[string]metrics.ObjectReport{}
	changes := metrics.Report{ChangesOnly: true, Fleets: b.demand.Fleets, Objects: b.demand.Objects}
	return changes.ApplyTo(*last)
}

// setDemand sets the demand for an object in both replicas.
func (b *bed) setDemand(name string, rate float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.demand = metrics.Report{
		Replica: "self",
		Fleets:  map[model.Fleet]metrics.FleetReport{"shop": {Serving: []string{"p1", "p2"}, Reporting: []string{"p1"}}},
		Objects: map[string]metrics.ObjectReport{name: {Fleet: "shop", Metric: metrics.RequestRate, Target: 1, RequestRate: rate}},
	}
}

// verifier accepts the tokens of users: "anna" may list the HTTPScaledObjects of namespace shop, "rita" its
// InterceptorRoutes, and "admin" may read everything. Reviews for namespace broken fail.
func verifier() *access.Verifier {
	return access.New(access.Reviewer{
		Now: time.Now,
		Token: func(_ context.Context, review *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
			answer := *review
			answer.Status.Authenticated = slices.Contains([]string{"anna", "rita", "admin"}, review.Spec.Token)
			answer.Status.User.Username = review.Spec.Token
			return &answer, nil
		},
		Access: func(_ context.Context, review *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
			answer := *review
			about := review.Spec.ResourceAttributes
			if about.Namespace == "broken" {
				return nil, errGone
			}
			resource := map[string]string{"anna": "httpscaledobjects", "rita": "interceptorroutes"}[review.Spec.User]
			answer.Status.Allowed = review.Spec.User == "admin" || about.Namespace == "shop" && about.Resource == resource
			return &answer, nil
		},
	})
}

// object returns an object with a name.
func object(namespace, name, host string) ingest.Object {
	return ingest.Object{
		Fleet: model.Fleet(namespace),
		ScaledObject: &httpv1alpha1.HTTPScaledObject{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: httpv1alpha1.HTTPScaledObjectSpec{
				Hosts: []string{host}, ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Name: name, Service: name, Port: 80},
			},
		},
	}
}

// observe passes objects to the Hub.
func (b *bed) observe(replicas []*discoveryv1.EndpointSlice, objects ...ingest.Object) {
	pass := ingest.Pass{Objects: map[model.Key]ingest.Object{}, Replicas: replicas}
	for _, one := range objects {
		pass.Objects[model.Key{Namespace: one.ScaledObject.Namespace, Name: one.ScaledObject.Name}] = one
	}
	b.hub.Observe(pass)
}

// reply is a response whose body is closed with the test.
type reply struct{ *http.Response }

// send sends a request and returns its response, whose body ends with the test.
func send(t *testing.T, url string, header http.Header, host string) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		request.Header = header
	}
	request.Host = host
	response, err := new(http.Transport).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return reply{response}
}

// as returns the header with a token.
func as(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// listed is an answer of the list.
type listed struct {
	Objects      []view.Object          `json:"objects"`
	Gone         []string               `json:"gone"`
	Whole        bool                   `json:"whole"`
	Continue     string                 `json:"continue"`
	Interceptors dashboard.Interceptors `json:"interceptors"`
}

// list reads the list.
func list(t *testing.T, url string, header http.Header) (found listed, names []string) {
	t.Helper()
	response := send(t, url, header, "")
	if err := json.NewDecoder(response.Body).Decode(&found); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v", url, response.Status, err)
	}
	for _, one := range found.Objects {
		names = append(names, one.Namespace+"/"+one.Name)
	}
	return found, names
}

// TestList reads the objects in pages.
func TestList(t *testing.T) {
	t.Parallel()
	b := newBed(t, "")
	var objects []ingest.Object
	for i := range 25 {
		objects = append(objects, object("shop", fmt.Sprintf("app-%02d", i), "shop.example.com"))
	}
	b.observe(nil, append(objects, object("bank", "app", "bank.example.com"))...)
	url := b.local.URL + "/api/v1/objects"
	var all []string
	for next := ""; ; {
		page, names := list(t, url+"?limit=10&continue="+next, nil)
		all = append(all, names...)
		if next = page.Continue; next == "" {
			break
		}
	}
	if len(all) != 26 || all[0] != "bank/app" || all[25] != "shop/app-24" {
		t.Errorf("objects %v", all)
	}
	if _, names := list(t, url+"?namespace=bank", nil); len(names) != 1 {
		t.Errorf("objects of a namespace: %v", names)
	}
	for _, query := range []string{"limit=0", "limit=-1", "limit=x", "limit=10001", "continue=shop"} {
		response := send(t, url+"?"+query, nil, "")
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", query, response.Status)
		}
	}
}

// TestPagesOfSimilarNames has namespaces and objects whose names are prefixes of each other: each object is on one page.
func TestPagesOfSimilarNames(t *testing.T) {
	t.Parallel()
	b := newBed(t, "")
	var objects []ingest.Object
	var want []string
	for _, namespace := range []string{"shop", "shop-staging", "shop.eu", "shop0"} {
		for _, name := range []string{"web", "web-2", "web.eu", "web0"} {
			objects = append(objects, object(namespace, name, name+"."+namespace+".test"))
			want = append(want, namespace+"/"+name)
		}
	}
	b.observe(nil, objects...)
	for _, limit := range []int{1, 3, 5, 16} {
		var all []string
		for next := ""; ; {
			page, names := list(t, fmt.Sprintf("%s/api/v1/objects?limit=%d&continue=%s", b.local.URL, limit, next), nil)
			all = append(all, names...)
			if next = page.Continue; next == "" {
				break
			}
		}
		if !slices.Equal(all, want) {
			t.Errorf("pages of %d: %v, want %v", limit, all, want)
		}
	}
}

// TestTokens has the callers of the port without a local address. A user sees only namespaces that the user may read,
// and no workload without a permission for it.
func TestTokens(t *testing.T) {
	t.Parallel()
	b := newBed(t, "")
	b.observe(nil, object("shop", "web", "shop.example.com"), object("bank", "web", "bank.example.com"))
	url := b.secure.URL + "/dashboard/api/v1/"
	for name, test := range map[string]struct {
		path   string
		header http.Header
		want   int
	}{
		"no token":                    {"objects", nil, 401},
		"another token":               {"objects", as("eve"), 401},
		"a stream without a token":    {"watch", nil, 401},
		"an object without a token":   {"objects/shop/web", nil, 401},
		"an object of a namespace":    {"objects/shop/web", as("anna"), 200},
		"an object of another one":    {"objects/bank/web", as("anna"), 403},
		"no object of another one":    {"objects/bank/none", as("anna"), 403},
		"a stream of another one":     {"objects/bank/web/watch", as("anna"), 403},
		"the list of another one":     {"objects?namespace=bank", as("anna"), 403},
		"the overview of another one": {"watch?namespace=bank", as("anna"), 403},
		"no object":                   {"objects/shop/none", as("anna"), 404},
	} {
		response := send(t, url+test.path, test.header, "")
		if response.StatusCode != test.want {
			t.Errorf("%s: %s, want %d", name, response.Status, test.want)
		}
	}
	response := send(t, b.secure.URL+"/dashboard/", nil, "")
	if response.StatusCode != http.StatusOK {
		t.Errorf("the page, which contains no object: %s", response.Status)
	}
	if _, names := list(t, url+"objects", as("anna")); len(names) != 1 || names[0] != "shop/web" {
		t.Errorf("anna sees %v", names)
	}
	if _, names := list(t, url+"objects", as("admin")); len(names) != 2 {
		t.Errorf("admin sees %v", names)
	}
	if event := newStream(t, url+"watch", as("anna")).next(t, "objects"); !strings.Contains(event, `"shop"`) || strings.Contains(event, `"bank"`) {
		t.Errorf("the stream of anna: %s", event)
	}
	newStream(t, url+"objects/shop/web/watch", as("admin")).until(t, "object", `"secret"`) // The workload is read.
	for range 2 {
		if event := newStream(t, url+"objects/shop/web/watch", as("anna")).next(t, "object"); strings.Contains(event, `"secret"`) {
			t.Errorf("anna sees the Rollout: %s", event)
		}
	}
}

// interceptorRoute returns an object that an InterceptorRoute was converted to.
func interceptorRoute(namespace, name, host string) ingest.Object {
	converted := object(namespace, name, host)
	converted.ScaledObject.Spec.Converted = &httpv1alpha1.ConvertedSpec{}
	return converted
}

// TestResources has an HTTPScaledObject and an InterceptorRoute in a namespace, of which each user may list one kind.
// When the one kind replaces the other with the same name, the object leaves the page of one user for that of the other.
func TestResources(t *testing.T) {
	t.Parallel()
	b := newBed(t, "")
	b.observe(nil, object("shop", "web", "a.example.com"), interceptorRoute("shop", "api", "b.example.com"))
	url := b.secure.URL + "/dashboard/api/v1/objects"
	for user, want := range map[string]string{"anna": "[shop/web]", "rita": "[shop/api]", "admin": "[shop/api shop/web]"} {
		for _, query := range []string{"", "?namespace=shop"} {
			if _, names := list(t, url+query, as(user)); fmt.Sprint(names) != want {
				t.Errorf("%s sees %v by %q, want %s", user, names, query, want)
			}
		}
	}
	for path, want := range map[string]int{"/shop/web": 403, "/shop/api": 200, "/shop/none": 404} {
		if response := send(t, url+path, as("rita"), ""); response.StatusCode != want {
			t.Errorf("rita reads %s: %s, want %d", path, response.Status, want)
		}
	}
	anna, rita := newStream(t, b.secure.URL+"/dashboard/api/v1/watch", as("anna")), newStream(t, b.secure.URL+"/dashboard/api/v1/watch", as("rita"))
	anna.until(t, "objects", `"web"`)
	rita.until(t, "objects", `"api"`)
	one := newStream(t, url+"/shop/web/watch", as("anna"))
	one.next(t, "object")
	b.observe(nil, interceptorRoute("shop", "web", "a.example.com"))
	anna.until(t, "objects", `"gone":["shop/web"]`)
	rita.until(t, "objects", `"name":"web"`)
	if reason := one.next(t, "end"); !strings.Contains(reason, "may not list") {
		t.Errorf("the stream of the object ends: %s", reason)
	}
}

// TestFailedReviews has an API server that does not review the permissions for one namespace. That is no refusal: the
// request is answered with an error that permits another try, and a stream ends with the reason.
func TestFailedReviews(t *testing.T) {
	t.Parallel()
	b := newBed(t, "")
	b.observe(nil, object("shop", "web", "a.example.com"))
	url := b.secure.URL + "/dashboard/api/v1/"
	s := newStream(t, url+"watch", as("anna"))
	s.next(t, "objects")
	b.observe(nil, object("broken", "web", "b.example.com"))
	if reason := s.next(t, "end"); !strings.Contains(reason, "try again") {
		t.Errorf("the stream ends: %s", reason)
	}
	for _, path := range []string{
		"objects", "objects?namespace=broken", "objects/broken/web", "watch?namespace=broken", "objects/broken/web/watch",
	} {
		if response := send(t, url+path, as("anna"), ""); response.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
	if _, names := list(t, url+"objects?namespace=shop", as("anna")); len(names) != 1 {
		t.Errorf("the other namespace has %v", names)
	}
}

// TestManyReviews has objects in more namespaces than one user may have reviewed.
func TestManyReviews(t *testing.T) {
	t.Parallel()
	b := newBed(t, "")
	var objects []ingest.Object
	for i := range access.MaxReviews + 1 {
		objects = append(objects, object(fmt.Sprintf("team-%d", i), "web", "example.com"))
	}
	b.observe(nil, objects...)
	url := b.secure.URL + "/dashboard/api/v1/objects"
	response := send(t, url, as("anna"), "")
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(text), "name a namespace") {
		t.Errorf("%s: %s, %v", response.Status, text, err)
	}
	if found, _ := list(t, url+"?limit=2000", as("admin")); len(found.Objects) != len(objects) {
		t.Errorf("admin sees %d objects", len(found.Objects))
	}
}

// TestWorkloadOfOneAnswer reads one object at once: the answer has the workload, which is read after the object.
func TestWorkloadOfOneAnswer(t *testing.T) {
	t.Parallel()
	b := newBed(t, "")
	b.observe(nil, object("shop", "web", "a.example.com"))
	var found view.Detail
	response := send(t, b.local.URL+"/api/v1/objects/shop/web", nil, "")
	if err := json.NewDecoder(response.Body).Decode(&found); err != nil {
		t.Fatal(err)
	}
	if found.Rollout == nil || len(found.Notes) > 0 {
		t.Errorf("the answer has Rollout %v and notes %q", found.Rollout, found.Notes)
	}
}

// TestManyHistories has more canaries than histories. One that has ended makes room, an active one does not.
func TestManyHistories(t *testing.T) {
	t.Parallel()
	b := newBed(t, "")
	canary := func(name string, isSplit bool) ingest.Object {
		one := object("shop", name, "example.com")
		if isSplit {
			backends := []model.Backend{{Service: model.Key{Namespace: "shop", Name: "a"}, Weight: 80}, {Service: model.Key{Namespace: "shop", Name: "b"}, Weight: 20}}
			one.Published.Routes = []model.Route{{Backends: backends}}
		}
		return one
	}
	var canaries []ingest.Object
	for i := range dashboard.MaxHistories {
		canaries = append(canaries, canary(fmt.Sprintf("app-%d", i), true))
	}
	points := func(name string) int {
		t.Helper()
		var found view.Detail
		response := send(t, b.local.URL+"/api/v1/objects/shop/"+name, nil, "")
		if err := json.NewDecoder(response.Body).Decode(&found); err != nil {
			t.Fatal(err)
		}
		return len(found.History)
	}
	b.observe(nil, append(canaries, canary("app-3", false))...)
	b.observe(nil, canaries[3])
	b.observe(nil, canary("late", true))
	if got := points("late"); got != 0 {
		t.Errorf("%d points without room", got)
	}
	b.observe(nil, canary("app-3", false))
	b.observe(nil, canary("app-5", false))
	b.observe(nil, canary("late", true))
	for name, isKept := range map[string]bool{"late": true, "app-3": false, "app-5": true, "app-7": true} {
		if got := points(name); got > 0 != isKept {
			t.Errorf("%s has %d points", name, got)
		}
	}
}

// TestLocalRequests has requests that a web page of another host may have caused.
func TestLocalRequests(t *testing.T) {
	t.Parallel()
	b := newBed(t, "")
	for host, want := range map[string]int{
		"": 200, "localhost": 200, "localhost:9091": 200, "127.0.0.1:80": 200, "[::1]:9091": 200,
		"attacker.example": 403, "localhost.attacker.example": 403, "10.0.0.1:9091": 403, "127.0.0.1.nip.io": 403,
	} {
		if response := send(t, b.local.URL+"/api/v1/objects", nil, host); response.StatusCode != want {
			t.Errorf("Host %q: %s, want %d", host, response.Status, want)
		}
	}
	header := http.Header{"Sec-Fetch-Site": {"cross-site"}}
	if response := send(t, b.local.URL+"/api/v1/objects", header, ""); response.StatusCode != http.StatusForbidden {
		t.Errorf("a request of another site: %s", response.Status)
	}
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, b.local.URL+"/api/v1/objects", http.NoBody)
	response, err := new(http.Transport).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %s", response.Status)
	}
}

// eventStream reads server-sent events.
type eventStream struct{ lines *bufio.Scanner }

// newStream opens a stream.
func newStream(t *testing.T, url string, header http.Header) *eventStream {
	t.Helper()
	response := send(t, url, header, "")
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("GET %s: %s, %s", url, response.Status, response.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 16<<20)
	return &eventStream{lines}
}

// next returns the data of the next event with a name.
func (s *eventStream) next(t *testing.T, name string) string {
	t.Helper()
	for isNext := false; s.lines.Scan(); {
		data, isData := strings.CutPrefix(s.lines.Text(), "data: ")
		if isNext && isData {
			return data
		}
		isNext = s.lines.Text() == "event: "+name
	}
	t.Fatalf("the stream ended before an event %s: %v", name, s.lines.Err())
	return ""
}

// until returns the data of the next event with a name that contains a text.
func (s *eventStream) until(t *testing.T, name, text string) string {
	t.Helper()
	for {
		if data := s.next(t, name); strings.Contains(data, text) {
			return data
		}
	}
}

// TestWatch follows the changes of objects and of their demand: first all of them, then only what has changed.
func TestWatch(t *testing.T) {
	t.Parallel()
	b := newBed(t, "")
	b.observe(nil, object("shop", "a", "a.example.com"), object("shop", "b", "b.example.com"))
	s := newStream(t, b.local.URL+"/api/v1/watch", nil)
	read := func() (changes listed) {
		if err := json.Unmarshal([]byte(s.next(t, "objects")), &changes); err != nil {
			t.Fatal(err)
		}
		return changes
	}
	if first := read(); !first.Whole || len(first.Objects) != 2 {
		t.Errorf("first %+v", first)
	}
	b.observe(nil, object("shop", "b", "new.example.com"))
	if changes := read(); changes.Whole || len(changes.Objects) != 1 || changes.Objects[0].Hosts[0] != "new.example.com" {
		t.Errorf("a change: %+v", changes)
	}
	b.setDemand("shop/a", 5)
	if changes := read(); len(changes.Objects) == 0 || changes.Objects[0].Demand.RequestRate != 5 && changes.Objects[len(changes.Objects)-1].Demand.RequestRate != 5 {
		t.Errorf("a demand: %+v", changes)
	}
	b.hub.Observe(ingest.Pass{Objects: map[model.Key]ingest.Object{{Namespace: "shop", Name: "a"}: {}}})
	for {
		if changes := read(); len(changes.Gone) == 1 && changes.Gone[0] == "shop/a" {
			break
		}
	}
	b.end() // The stream ends with the Hub, so that the program can stop.
	s.next(t, "end")
	if s.lines.Scan(); s.lines.Scan() {
		t.Errorf("after the end: %q", s.lines.Text())
	}
}

// TestWatchObject follows one object to its deletion.
func TestWatchObject(t *testing.T) {
	t.Parallel()
	b := newBed(t, "")
	b.observe(nil, object("shop", "web", "shop.example.com"))
	s := newStream(t, b.local.URL+"/api/v1/objects/shop/web/watch", nil)
	s.until(t, "object", `"shop.example.com"`)
	b.observe(nil, object("shop", "web", "<script>alert(1)</script>"))
	if data := s.until(t, "object", "alert"); strings.Contains(data, "<script>") {
		t.Errorf("markup in JSON: %s", data)
	}
	b.hub.Observe(ingest.Pass{Objects: map[model.Key]ingest.Object{{Namespace: "shop", Name: "web"}: {}}})
	s.next(t, "gone")
}

// replicaSlices returns the EndpointSlices of replicas.
func replicaSlices(names ...string) []*discoveryv1.EndpointSlice {
	port, name := int32(5678), peers.PortName
	slice := &discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}}}
	for i, pod := range names {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.0.0.%d", i+1)}})
		slice.Endpoints[i].TargetRef = podReference(pod)
	}
	return []*discoveryv1.EndpointSlice{slice}
}

// TestReplicas has the demand of two replicas, whose sum each of them shows, and then that of a third one, which does
// not report.
func TestReplicas(t *testing.T) {
	t.Parallel()
	b := newBed(t, "other")
	b.setDemand("shop/web", 5)
	b.observe(replicaSlices("self", "other"), object("shop", "web", "shop.example.com"))
	found, _ := list(t, b.local.URL+"/api/v1/objects", nil)
	demand := found.Objects[0].Demand
	if demand.RequestRate != 10 || demand.Unknown != "" || len(found.Interceptors.Reports) != 2 || len(found.Interceptors.Absent) != 0 {
		t.Errorf("%+v", found)
	}
}

// TestPageWeight prints the size of the page, which is limited, and looks for links to other hosts and for inline code.
func TestPageWeight(t *testing.T) {
	t.Parallel()
	b := newBed(t, "")
	total := 0
	for _, path := range []string{"", "app.js", "dom.js", "stream.js", "list.js", "chart.js", "detail.js", "style.css", "icon.svg", "api/v1/openapi.json"} {
		response := send(t, b.local.URL+"/"+path, nil, "")
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("/%s: %s, %v", path, response.Status, err)
		}
		total += len(text)
		page := strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", "")
		for _, forbidden := range []string{"https://", "http://", "innerHTML", "<style", " onclick", "href=\"/", "src=\"/", "eval("} {
			if path != "api/v1/openapi.json" && strings.Contains(page, forbidden) {
				t.Errorf("/%s contains %q", path, forbidden)
			}
		}
		if policy := response.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("/%s has the policy %q", path, policy)
		}
		tag := http.Header{"If-None-Match": {response.Header.Get("ETag")}}
		if again := send(t, b.local.URL+"/"+path, tag, ""); again.StatusCode != http.StatusNotModified {
			t.Errorf("/%s again: %s", path, again.Status)
		}
	}
	t.Logf("the page has %d bytes; the limit is %d", total, dashboard.MaxBytes)
	if total > dashboard.MaxBytes {
		t.Errorf("the page has %d bytes, more than %d", total, dashboard.MaxBytes)
	}
}

// TestManyViewers opens more streams than the limit: the last one ends at once, and the others continue.
func TestManyViewers(t *testing.T) {
	t.Parallel()
	b := newBed(t, "")
	b.observe(nil, object("shop", "web", "shop.example.com"))
	var streams []*eventStream
	for range dashboard.MaxViewers {
		s := newStream(t, b.local.URL+"/api/v1/watch", nil)
		s.next(t, "objects")
		streams = append(streams, s)
	}
	newStream(t, b.local.URL+"/api/v1/watch", nil).next(t, "end")
	b.observe(nil, object("shop", "web", "new.example.com"))
	for _, s := range streams {
		s.until(t, "objects", "new.example.com")
	}
}

// TestManyViewersOfUsers opens the streams of users: one user cannot take those of others, nor all users those of local
// callers.
func TestManyViewersOfUsers(t *testing.T) {
	t.Parallel()
	b := newBed(t, "")
	b.observe(nil, object("shop", "web", "shop.example.com"))
	url := b.secure.URL + "/dashboard/api/v1/watch"
	for range dashboard.MaxViewersOfUser {
		newStream(t, url, as("anna")).next(t, "objects")
	}
	newStream(t, url, as("anna")).next(t, "end")
	if response := send(t, b.secure.URL+"/dashboard/api/v1/objects", as("anna"), ""); response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more request: %s", response.Status)
	}
	newStream(t, url, as("admin")).next(t, "objects")
	newStream(t, b.local.URL+"/api/v1/watch", nil).next(t, "objects")
}

var errGone = errors.New("gone")

// TestSlowViewer has a viewer that reads nothing: the Hub does not wait for it.
func TestSlowViewer(t *testing.T) {
	t.Parallel()
	b := newBed(t, "")
	var objects []ingest.Object
	for i := range 2000 {
		objects = append(objects, object("shop", fmt.Sprintf("app-%d", i), strings.Repeat("x", 200)))
	}
	b.observe(nil, objects...)
	handler := dashboard.NewLocal(b.hub)
	blocked := &blockedWriter{header: http.Header{}, released: make(chan struct{})}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/v1/watch", http.NoBody)
	done := make(chan struct{})
	go func() {
		defer close(done)
		handler.ServeHTTP(blocked, request)
	}()
	fast := newStream(t, b.local.URL+"/api/v1/watch", nil)
	fast.next(t, "objects")
	for i := range 8 { // more than a viewer may be behind
		host := fmt.Sprintf("h%d.example.com", i)
		b.observe(nil, object("shop", "app-1", host))
		fast.until(t, "objects", host)
	}
	close(blocked.released)
	<-done
}

// blockedWriter is a response that blocks until it is released, and then fails.
type blockedWriter struct {
	header   http.Header
	released chan struct{}
}

func (b *blockedWriter) Header() http.Header              { return b.header }
func (b *blockedWriter) WriteHeader(int)                  {}
func (b *blockedWriter) Flush()                           {}
func (b *blockedWriter) SetWriteDeadline(time.Time) error { return nil }
func (b *blockedWriter) Write([]byte) (int, error) {
	<-b.released
	return 0, errGone
}
