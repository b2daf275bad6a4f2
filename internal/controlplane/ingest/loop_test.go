package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestNothingIsPublishedBeforeEverythingIsListed(t *testing.T) {
	for _, test := range []struct {
		name    string
		failure error
		says    string
	}{
		{"the CRD is missing", errNoCRD(), "kubectl apply -f config/crd"},
		{
			"no permission", apierrors.NewForbidden(schema.GroupResource{Resource: "httpscaledobjects"}, "", errors.New("no")),
			"apply config/interceptor",
		},
		{"bad credentials", apierrors.NewUnauthorized("no"), "--kubeconfig"},
		{"the API server is unavailable", syscall.ECONNREFUSED, "connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newEnvironment(t)
				s.scaledObjects.fail(test.failure)
				defer s.run(t)()
				time.Sleep(time.Minute) // The clock is synctest's, here and below.
				if got := s.publications(); got != 0 {
					t.Errorf("published %d times without HTTPScaledObjects", got)
				}
				waiting := s.loop.Waiting()
				if len(waiting) != 1 || !strings.Contains(waiting[0], "httpscaledobjects") ||
					!strings.Contains(waiting[0], test.says) {
					t.Errorf("waits for %q, want one line with %q", waiting, test.says)
				}
				s.scaledObjects.fail(nil)
				time.Sleep(2 * time.Second)
				select {
				case <-s.loop.Seeded():
				default:
					t.Error("not seeded 2 s after the fault has ended")
				}
				if waiting := s.loop.Waiting(); len(waiting) != 0 {
					t.Errorf("still waits for %q", waiting)
				}
			})
		})
	}
}

// TestPause has slow publications: a burst after an idle period waits only for minimum pauses, and in the long run
// publications take at most a fifth of the time. No change waits longer than the interval after the previous
// publication.
func TestPause(t *testing.T) {
	const lasts, shortest = 2 * time.Second, time.Millisecond
	for name, test := range map[string]struct{ takes, apart time.Duration }{
		"no time":          {0, shortest},
		"a millisecond":    {time.Millisecond, 5 * time.Millisecond},
		"two milliseconds": {2 * time.Millisecond, 10 * time.Millisecond},
		"long":             {20 * time.Millisecond, 20*time.Millisecond + ingest.DefaultInterval},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newEnvironment(t)
				defer s.run(t)()
				time.Sleep(time.Second) // The clock is synctest's, here and below.
				s.mu.Lock()
				s.publishDuration = test.takes
				s.mu.Unlock()
				before := s.publications()
				started := time.Now()
				for i := 0; time.Since(started) < lasts; i++ {
					s.slices.Modify(slice("shop", fmt.Sprintf("10.1.%d.%d", i/250%250, i%250+1)))
					time.Sleep(time.Millisecond / 4)
				}
				time.Sleep(time.Second)
				s.mu.Lock()
				times := slices.Clone(s.published[before:])
				s.mu.Unlock()
				if first := times[0].Sub(started); first != 0 {
					t.Errorf("the first change was published after %v, want immediately", first)
				}
				for i := range times[1:] {
					want := test.apart
					switch at := times[i].Sub(started); {
					case at < 50*time.Millisecond:
						want = test.takes + shortest
					case at < lasts/4:
						continue // The budget is being exhausted.
					}
					if gap := times[i+1].Sub(times[i]); gap < want || gap > want+time.Millisecond/2 {
						t.Errorf("after %v two publications are %v apart, want %v", times[i].Sub(started), gap, want)
					}
				}
				if last := times[len(times)-1].Sub(started); last > lasts+test.apart {
					t.Errorf("the last change was published after %v", last)
				}
			})
		})
	}
}

func TestIrrelevantChangesAreNotPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		defer s.run(t)()
		time.Sleep(time.Second) // The clock is synctest's, here and below.
		before := s.publications()

		written := shop()
		written.Status.TargetService = "shop:80"
		written.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "someone"}}
		s.scaledObjects.Modify(written)
		touched := service("shop")
		touched.Labels = map[string]string{"touched": "yes"}
		s.services.Modify(touched)
		renamed := slice("shop", "10.0.0.1")
		renamed.Annotations = map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": "now"}
		renamed.Endpoints[0].Zone, renamed.Endpoints[0].NodeName = new("east"), new("node-1") // Only hints for them count.
		s.slices.Modify(renamed)
		time.Sleep(time.Second)

		if got := s.publications() - before; got != 0 {
			t.Errorf("published %d times", got)
		}
		if got := s.lastPass().Objects[model.Key{
			Namespace: "apps",
			Name:      "shop",
		}].ScaledObject; got.Status.TargetService != "shop:80" || got.ManagedFields != nil {
			t.Errorf("the new status is not reported, or too much of the object is stored: %+v", got)
		}
	})
}

func TestOutageOfTheAPIServer(t *testing.T) {
	for _, failure := range []error{
		syscall.ECONNREFUSED,
		apierrors.NewInternalError(errors.New("etcd is away")),
		apierrors.NewGenericServerResponse(http.StatusBadGateway, "GET", schema.GroupResource{}, "", "bad gateway", 0, true),
		apierrors.NewServiceUnavailable("no API server behind the load balancer"),
		apierrors.NewTimeoutError("gateway timeout", 0),
		apierrors.NewTooManyRequests("slow down", 1),
		apierrors.NewResourceExpired("410 Gone"),
		errors.New("connection reset by peer"),
	} {
		t.Run(failure.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newEnvironment(t)
				defer s.run(t)()
				time.Sleep(time.Second) // The clock is synctest's, here and below.
				before := s.publications()
				for _, source := range []*faultySource{s.scaledObjects, s.services, s.slices} {
					source.fail(failure)
				}
				s.slices.Modify(slice("shop", "10.0.0.2"))
				time.Sleep(time.Minute)
				if got := s.publications() - before; got != 0 {
					t.Errorf("published %d times during the outage", got)
				}
				for _, source := range []*faultySource{s.scaledObjects, s.services, s.slices} {
					source.fail(nil)
				}
				time.Sleep(2 * time.Second)
				if got := s.publications() - before; got == 0 {
					t.Error("the change is not published 2 s after the outage")
				}
				if !apierrors.IsResourceExpired(failure) && s.slices.lists > 1 {
					t.Errorf("%d lists: a watch can continue where it was interrupted", s.slices.lists)
				}
			})
		})
	}
}

// TestListsOfAnOverloadedAPIServer counts the lists of one source in an hour of an outage. While the API server answers
// with errors, each list may cost it all objects. While it is not running, a list costs nothing.
func TestListsOfAnOverloadedAPIServer(t *testing.T) {
	for _, test := range []struct {
		failure  error
		min, max int
	}{
		{apierrors.NewInternalError(errors.New("etcd is away")), 120, 210},
		{apierrors.NewServiceUnavailable("overloaded"), 120, 210},
		{apierrors.NewTimeoutError("too slow", 0), 120, 210},
		{context.DeadlineExceeded, 120, 210},
		{syscall.ECONNREFUSED, 7000, 13000},
	} {
		t.Run(test.failure.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newEnvironment(t)
				s.slices.fail(test.failure)
				defer s.run(t)()
				time.Sleep(time.Hour) // The clock is synctest's, here and below.
				if lists := s.slices.listCount(); lists < test.min || lists > test.max {
					t.Errorf("%d lists, want %d to %d", lists, test.min, test.max)
				}
				s.slices.fail(nil)
				time.Sleep(30 * time.Second)
				select {
				case <-s.loop.Seeded():
				default:
					t.Error("not seeded 30 s after the outage")
				}
			})
		})
	}
}

// TestPausesBeginAgain has an outage of an hour, and later lists that fail for a second: their end is noticed soon.
func TestPausesBeginAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, overloaded := newEnvironment(t), apierrors.NewInternalError(errors.New("etcd is away"))
		s.slices.fail(overloaded)
		defer s.run(t)()
		time.Sleep(time.Hour) // The clock is synctest's, here and below.
		s.slices.fail(nil)
		time.Sleep(time.Hour)
		s.slices.fail(apierrors.NewResourceExpired("410 Gone")) // The next attempt is a list.
		time.Sleep(100 * time.Millisecond)
		s.slices.fail(overloaded)
		time.Sleep(time.Second)
		s.slices.fail(nil)
		s.slices.Modify(slice("shop", "10.0.0.2"))
		before := s.publications()
		time.Sleep(2 * time.Second)
		if s.publications() == before {
			t.Error("the change is not published 2 s after a short outage")
		}
	})
}

// TestVersionOfARestoredBackup has an API server that has lost versions, so that watches fail until there is a new list.
func TestVersionOfARestoredBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tooLarge := apierrors.NewTimeoutError("Too large resource version", 1)
		tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
		s := newEnvironment(t)
		defer s.run(t)()
		time.Sleep(time.Second) // The clock is synctest's, here and below.
		s.slices.mu.Lock()
		s.slices.watchFailure = tooLarge
		s.slices.mu.Unlock()
		s.slices.fail(nil) // closes the watches
		s.slices.Modify(slice("shop", "10.0.0.2"))
		before := s.publications()
		time.Sleep(5 * time.Second)
		if s.publications() == before {
			t.Error("the change is not published: no list has replaced the watches that fail")
		}
	})
}

func TestFailedPublicationIsReportedAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEnvironment(t)
		s.refuse = errors.New("inconsistent")
		defer s.run(t)()
		time.Sleep(time.Second) // The clock is synctest's, here and below.
		key := model.Key{Namespace: "apps", Name: "shop"}
		if got := s.lastPass().Objects[key].Outcome; got.Failure != "inconsistent" || got.Served {
			t.Errorf("outcome %+v, want the failure and not served", got)
		}
		select {
		case <-s.loop.Seeded():
			t.Error("seeded without a publication")
		default:
		}
		s.mu.Lock()
		s.refuse = nil
		s.mu.Unlock()
		touched := shop()
		touched.Status.TargetService = "shop:80"
		s.scaledObjects.Modify(touched)
		time.Sleep(time.Second)
		if got := s.lastPass().Objects[key].Outcome; got.Failure != "" || s.publications() != 1 {
			t.Errorf("outcome %+v after %d publications, want a good one after the next event", got, s.publications())
		}
	})
}

func TestNewRejectsIncompleteOptions(t *testing.T) {
	if _, err := ingest.New(ingest.Options{}); err == nil {
		t.Error("New accepted options without a Publisher")
	}
}
