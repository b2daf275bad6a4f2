package election_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/election"
	kubelease "github.com/kedify/argo-rollouts-plugin/internal/kube/lease"
)

// candidate is a replica that takes part in an election.
type candidate struct {
	isLeader atomic.Bool
	stop     func()
}

// leaseServer is an API server that stores the Lease.
type leaseServer struct {
	// reject is called before each write of the Lease; its error is a connection error. It is nil to accept all writes.
	reject func(method string, lease *coordinationv1.Lease) error

	mu       sync.Mutex
	lease    *coordinationv1.Lease // nil for none
	version  int
	watching map[*io.PipeWriter]struct{}
}

// RoundTrip implements http.RoundTripper.
func (s *leaseServer) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet && request.URL.Query().Get("watch") == "true" {
		return s.watch(request)
	}
	lease := new(coordinationv1.Lease)
	if request.Method != http.MethodGet {
		if err := json.NewDecoder(request.Body).Decode(lease); err != nil {
			return nil, err
		}
		if s.reject != nil {
			if err := s.reject(request.Method, lease); err != nil {
				return nil, err
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	leases := coordinationv1.Resource("leases")
	switch {
	case request.Method == http.MethodPost && s.lease != nil:
		return response(apierrors.NewAlreadyExists(leases, lease.Name).Status())
	case request.Method == http.MethodPost:
		return s.store(lease)
	case s.lease == nil || path.Base(request.URL.Path) != s.lease.Name:
		return response(apierrors.NewNotFound(leases, path.Base(request.URL.Path)).Status())
	case request.Method == http.MethodPut && lease.ResourceVersion != s.lease.ResourceVersion:
		return response(apierrors.NewConflict(leases, lease.Name, errors.New("it was changed")).Status())
	case request.Method == http.MethodPut:
		return s.store(lease)
	default:
		return response(s.lease)
	}
}

// store stores the Lease and notifies the watches. The caller holds the lock.
func (s *leaseServer) store(lease *coordinationv1.Lease) (*http.Response, error) {
	s.version++
	lease.ResourceVersion = strconv.Itoa(s.version)
	s.lease = lease
	for writer := range s.watching {
		if err := json.NewEncoder(writer).Encode(s.modified()); err != nil {
			delete(s.watching, writer) // The watch has ended.
		}
	}
	return response(lease)
}

// modified returns the watch event of the Lease. The caller holds the lock.
func (s *leaseServer) modified() metav1.WatchEvent {
	return metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Object: s.lease}}
}

// watch opens a watch of the one Lease, which a Role can allow.
func (s *leaseServer) watch(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if query.Get("fieldSelector") != "metadata.name="+httpv1alpha1.DefaultInterceptorLease ||
		query.Get("resourceVersion") == "" {
		return response(apierrors.NewForbidden(coordinationv1.Resource("leases"), "",
			errors.New("only one Lease can be watched")).Status())
	}
	reader, writer := io.Pipe()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching[writer] = struct{}{}
	if s.lease.ResourceVersion != query.Get("resourceVersion") {
		missed := s.modified()
		go func() { _ = json.NewEncoder(writer).Encode(missed) }()
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: reader}, nil
}

// response returns a response with an object or an API error.
func response(object any) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	recorder.Header().Set("Content-Type", "application/json")
	if failure, is := object.(metav1.Status); is {
		recorder.WriteHeader(int(failure.Code))
	}
	err := json.NewEncoder(recorder).Encode(object)
	return recorder.Result(), err
}

// client returns a REST client of the server.
func (s *leaseServer) client(t *testing.T) rest.Interface {
	t.Helper()
	scheme := runtime.NewScheme()
	config := &rest.Config{APIPath: "/apis", Transport: s}
	config.GroupVersion = &coordinationv1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err := errors.Join(err, coordinationv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return client
}

// newLeaseServer returns an API server without a Lease.
func newLeaseServer() *leaseServer { return &leaseServer{watching: map[*io.PipeWriter]struct{}{}} }

// startCandidate starts a candidate. leaders counts the current leaders.
func startCandidate(t *testing.T, leases *leaseServer, leaders *atomic.Int32, identity string) *candidate {
	t.Helper()
	c := &candidate{}
	elector := election.Elector{
		Client: leases.client(t), Namespace: "keda", Identity: identity,
		Logger: slog.New(slog.DiscardHandler),
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- elector.Run(ctx, func(ctx context.Context) {
			if leaders.Add(1) > 1 {
				t.Errorf("%s leads while another leads", identity)
			}
			c.isLeader.Store(true)
			<-ctx.Done()
			c.isLeader.Store(false)
			leaders.Add(-1)
		})
	}()
	c.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s: Run = %v", identity, err)
		}
	}
	return c
}

func TestElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newLeaseServer()
		var leaders atomic.Int32
		var cut atomic.Bool // whether the first candidate is disconnected from the API server
		leases.reject = func(_ string, lease *coordinationv1.Lease) error {
			if cut.Load() && *lease.Spec.HolderIdentity == "interceptor-0" {
				return errors.New("the API server is unavailable")
			}
			return nil
		}
		first := startCandidate(t, leases, &leaders, "interceptor-0")
		defer first.stop()
		time.Sleep(time.Second) // The clock is synctest's, here and below.
		second := startCandidate(t, leases, &leaders, "interceptor-1")
		for _, step := range []struct {
			name          string
			do            func()
			after         time.Duration
			first, second bool
		}{
			{"the first one leads", func() {}, time.Minute, true, false},
			{"a leader that cannot renew loses the Lease", func() { cut.Store(true) }, time.Minute, false, true},
			{"a replica that returns stands by", func() { cut.Store(false) }, time.Minute, false, true},
			{"a shutdown releases the Lease immediately", second.stop, 100 * time.Millisecond, true, false},
		} {
			step.do()
			time.Sleep(step.after)
			if first.isLeader.Load() != step.first || second.isLeader.Load() != step.second {
				t.Errorf("%s: the first leads: %v, the second: %v", step.name, first.isLeader.Load(),
					second.isLeader.Load())
			}
		}
		renewed := func() time.Time {
			leases.mu.Lock()
			defer leases.mu.Unlock()
			return leases.lease.Spec.RenewTime.Time
		}
		before := renewed()
		time.Sleep(11 * time.Second)
		if beats := renewed().Sub(before); beats < 5*time.Second || beats > 15*time.Second {
			t.Errorf("the Lease was renewed by %v in 11 s, want about every 5 s", beats)
		}
	})
}

// TestSlowResponseShortensLeadership delays the response to the write that elects a replica, and rejects the following
// ones: the other replicas count from when the Lease was written.
func TestSlowResponseShortensLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 8 * time.Second // The clock is synctest's, here and below.
		leases := newLeaseServer()
		leases.reject = func(method string, _ *coordinationv1.Lease) error {
			if method == http.MethodPut {
				return errors.New("the API server is unavailable")
			}
			time.Sleep(slow)
			return nil
		}
		var leaders atomic.Int32
		one := startCandidate(t, leases, &leaders, "interceptor-0")
		defer one.stop()
		time.Sleep(slow + time.Second)
		if !one.isLeader.Load() {
			t.Error("the holder of the Lease does not lead")
		}
		time.Sleep(10*time.Second - slow)
		if one.isLeader.Load() {
			t.Error("11 s after its request, and without another one, the replica still leads")
		}
	})
}

// TestReplicaThatLosesTheRaceStandsBy has two replicas create the Lease at the same time, and then shuts the leader
// down.
func TestReplicaThatLosesTheRaceStandsBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newLeaseServer()
		leases.reject = func(method string, _ *coordinationv1.Lease) error {
			if method == http.MethodPost {
				time.Sleep(time.Second) // The clock is synctest's, here and below.
			}
			return nil
		}
		var leaders atomic.Int32
		first, second := startCandidate(t, leases, &leaders, "interceptor-0"), startCandidate(t, leases, &leaders,
			"interceptor-1")
		time.Sleep(2 * time.Second)
		if first.isLeader.Load() == second.isLeader.Load() {
			t.Errorf("of two replicas %d lead", leaders.Load())
		}
		if second.isLeader.Load() {
			first, second = second, first
		}
		first.stop()
		time.Sleep(100 * time.Millisecond)
		if !second.isLeader.Load() {
			t.Error("the other replica does not lead immediately")
		}
		second.stop()
	})
}

// TestReinstalledReplicaLeads starts a replica after all were uninstalled: it need not wait for their Lease to expire.
func TestReinstalledReplicaLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newLeaseServer()
		left := new(coordinationv1.Lease)
		left.Name = httpv1alpha1.DefaultInterceptorLease
		kubelease.Claim(left, kubelease.Uninstalled, time.Hour, time.Now())
		if _, err := leases.store(left); err != nil { //nolint:bodyclose // The response has a body in memory.
			t.Fatal(err)
		}
		var leaders atomic.Int32
		one := startCandidate(t, leases, &leaders, "interceptor-0")
		defer one.stop()
		time.Sleep(100 * time.Millisecond) // The clock is synctest's.
		if !one.isLeader.Load() {
			t.Error("the replica does not lead immediately")
		}
	})
}

func TestElectionWithoutIdentity(t *testing.T) {
	err := election.Elector{Namespace: "keda", Logger: slog.New(slog.DiscardHandler)}.Run(t.Context(),
		func(context.Context) {})
	if err == nil {
		t.Error("an election without an identity runs")
	}
}
