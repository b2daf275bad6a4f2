package checks

import (
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/hold"
)

const (
	// pageRefresh is how many seconds a waiting page is shown before the browser asks again. It is in page too.
	pageRefresh = "3"
	// pageMemory is how long a view of the page counts as a request that waits: a few times pageRefresh, so that
	// one who waits is counted all the time, and one who has closed the page is not for long.
	pageMemory = 15 * time.Second
)

// page waits in place of a browser's request.
const page = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta http-equiv="refresh" content="3"><title>Starting</title>
<style>body{font:1.1em/1.6 system-ui,sans-serif;margin:20vh auto;max-width:30em;text-align:center}</style></head>
<body><h1>Starting</h1><p>This application was asleep. It is starting now; the page comes by itself.</p></body>
</html>
`

// visit is a place in the room that nobody waits at: a browser shows a page, and will ask again.
type visit struct {
	ticket hold.Ticket
	end    *time.Timer
}

// visit counts the view of a page as one request that waits, however many look at it. It returns what becomes of the
// request. The caller holds the lock.
func (s *Server) visit(call hold.Call) hold.Verdict {
	at := spot{call.Proxy, call.Cluster}
	if known := s.visits[at]; known != nil && s.room.Holds(known.ticket) {
		known.end.Reset(pageMemory)
		return hold.Page
	}
	call.IsPageView = false
	before := s.room.Apps()
	ticket, _, verdict := s.room.Enter(call)
	if verdict != hold.Wait {
		return verdict
	}
	s.urge(before)
	if known := s.visits[at]; known != nil {
		known.end.Stop()
	}
	s.visits[at] = &visit{ticket, time.AfterFunc(pageMemory, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.room.Leave(ticket)
		if known := s.visits[at]; known != nil && known.ticket == ticket {
			delete(s.visits, at)
		}
	})}
	return hold.Page
}
