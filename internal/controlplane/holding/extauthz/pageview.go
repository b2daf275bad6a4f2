package extauthz

import (
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
)

// pageViewGrace is how long a page view counts as a queued request after the browser's next refresh is due. So a
// browser with an open page counts all the time, and a closed page only briefly.
const pageViewGrace = 12 * time.Second

// pageView is a queued request without a waiting call: a client has received the page, or a placeholder, and may
// retry.
type pageView struct {
	waiter holding.Waiter
	expiry *time.Timer
}

// placeholderLifetime is how long a request that has received a placeholder counts as a queued request.
const placeholderLifetime = 15 * time.Second

// viewPage counts all browsers that show the page of a cluster at a proxy as one queued request, and returns the
// Decision for the request. The caller holds the lock.
func (s *Server) viewPage(request holding.Request, page page.Page) holding.Decision {
	if !s.wake(request, page.RetryAfter+pageViewGrace) {
		return holding.Full
	}
	return holding.Page
}

// wake counts all requests for a cluster at a proxy that were answered within a lifetime as one queued request. The
// result is false if a limit of queued requests is reached. The caller holds the lock.
func (s *Server) wake(request holding.Request, lifetime time.Duration) bool {
	at := slot{request.Proxy, request.Cluster}
	if view := s.pageViews[at]; view != nil && s.queue.Contains(view.waiter) {
		view.expiry.Reset(lifetime)
		return true
	}
	before := s.queue.Workloads()
	waiter, isQueued := s.queue.Add(request)
	if !isQueued {
		s.notifyOwner(request.Cluster, holding.Rejected)
		return false
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
	return true
}
