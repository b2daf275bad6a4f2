package extauthz_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestWaitingPage checks that page views count as one request until the browser stops refreshing, that other requests
// wait as usual, and that the next view is released once the workload serves.
func TestWaitingPage(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, s *fixture) {
		t.Helper()
		withPage := workload()
		withPage.Page = new(page.Default())
		s.SetWorkloads(map[model.Key]*holding.Workload{shop: withPage})
		waiting := func() int {
			synctest.Wait()
			counts, _ := s.Counts()
			return counts[shop].Waiting
		}
		_, urgent := s.Counts()
		for range 3 {
			s.expect(s.view(), result{status: 503, reason: extauthz.ReasonPage})
			time.Sleep(10 * time.Second)
		}
		select {
		case <-urgent:
		default:
			t.Error("the first view is not urgent")
		}
		if got := waiting(); got != 1 {
			t.Errorf("%d wait after three views", got)
		}
		time.Sleep(5 * time.Second)
		if got := waiting(); got != 0 {
			t.Errorf("%d wait although no browser refreshes any more", got)
		}
		s.expect(s.view(), result{status: 503, reason: extauthz.ReasonPage})
		other := s.call(t.Context())
		if got := waiting(); got != 2 {
			t.Errorf("%d wait, want a page and a request", got)
		}
		s.stream.serves.Store(true)
		s.EndpointsAcked(proxy)
		s.expect(other, result{isCold: true})
		s.expect(s.view(), result{})
		if got := waiting(); got != 0 {
			t.Errorf("%d wait although the workload serves", got)
		}
		s.stream.serves.Store(false) // Scaled to zero again, while the last view still counts.
		s.expect(s.view(), result{status: 503, reason: extauthz.ReasonPage})
		if got := waiting(); got != 1 {
			t.Errorf("%d wait at the next zero", got)
		}
	})
}

// TestCustomPage checks that the page of the object is shown, and that a view counts until its next refresh is overdue.
func TestCustomPage(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, s *fixture) {
		t.Helper()
		own := workload()
		own.Page = &page.Page{Body: "soon", Status: 202, RetryAfter: time.Minute}
		s.SetWorkloads(map[model.Key]*holding.Workload{shop: own})
		response, err := check(callContext(t.Context()), s.Server, pageView())
		denied := response.GetDeniedResponse()
		if err != nil || denied.GetBody() != "soon" || denied.GetStatus().GetCode() != 202 ||
			headerOf(response, "Retry-After") != "60" {
			t.Errorf("%v, %v", response, err)
		}
		for _, want := range []int{1, 0} {
			if counts, _ := s.Counts(); counts[shop].Waiting != want {
				t.Errorf("%+v, want %d", counts, want)
			}
			time.Sleep(73 * time.Second)
		}
	})
}
