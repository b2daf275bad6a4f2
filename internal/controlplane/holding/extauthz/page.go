package extauthz

import (
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
)

// pageMemory is how long a view of the page counts as a request that waits, beyond the time after which the browser
// may ask again: one who waits is counted all the time, and one who has closed the page is not for long.
const pageMemory = 12 * time.Second

// visit is a place in the room that nobody waits at: a browser shows a page, and will ask again.
type visit struct {
	ticket holding.Ticket
	end    *time.Timer
}

// visit counts the view of a page as one request that waits, however many look at it. It returns what becomes of the
// request. The caller holds the lock.
func (s *Server) visit(call holding.Call, page page.Page) holding.Verdict {
	memory := page.RetryAfter + pageMemory
	at := spot{call.Proxy, call.Cluster}
	if known := s.visits[at]; known != nil && s.room.Holds(known.ticket) {
		known.end.Reset(memory)
		return holding.Page
	}
	call.IsPageView = false
	before := s.room.Apps()
	ticket, _, verdict := s.room.Enter(call)
	if verdict == holding.Full {
		s.tellOwner(call.Cluster, holding.TurnedAway)
	}
	if verdict != holding.Wait {
		return verdict
	}
	s.urge(before, call.Cluster)
	if known := s.visits[at]; known != nil {
		known.end.Stop()
	}
	s.visits[at] = &visit{ticket, time.AfterFunc(memory, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.room.Leave(ticket)
		if known := s.visits[at]; known != nil && known.ticket == ticket {
			delete(s.visits, at)
		}
	})}
	return holding.Page
}
