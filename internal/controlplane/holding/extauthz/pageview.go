package extauthz

import (
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
)

// pageViewGrace is how long a page view counts as a queued request after the browser's next refresh is due. So a
// browser with an open page counts all the time, and a closed page only briefly.
const pageViewGrace = 12 * time.Second

// pageView is a queued request without a waiting call: a browser shows the page and will retry.
type pageView struct {
	waiter holding.Waiter
	expiry *time.Timer
}

// viewPage counts all browsers that show the page of a cluster at a proxy as one queued request, and returns the
// Decision for the request. The caller holds the lock.
func (s *Server) viewPage(request holding.Request, page page.Page) holding.Decision {
	lifetime := page.RetryAfter + pageViewGrace
	at := slot{request.Proxy, request.Cluster}
	if view := s.pageViews[at]; view != nil && s.queue.Contains(view.waiter) {
		view.expiry.Reset(lifetime)
		return holding.Page
	}
	request.IsPageView = false
	before := s.queue.Workloads()
	waiter, _, decision := s.queue.Enqueue(request)
	if decision == holding.Full {
		s.notifyOwner(request.Cluster, holding.Rejected)
	}
	if decision != holding.Wait {
		return decision
	}
	s.track(waiter, request.Cluster, before, nil)
	if view := s.pageViews[at]; view != nil {
		view.expiry.Stop()
	}
	s.pageViews[at] = &pageView{waiter, time.AfterFunc(lifetime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.queue.Remove(waiter)
		delete(s.calls, waiter)
		if view := s.pageViews[at]; view != nil && view.waiter == waiter {
			delete(s.pageViews, at)
		}
	})}
	return holding.Page
}
