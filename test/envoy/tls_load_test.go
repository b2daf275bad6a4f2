package envoy_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// tlsLoad makes requests on new connections and on lasting ones.
type tlsLoad struct {
	done, failed, lost atomic.Int64
	byApp              sync.Map // how many requests were answered by each, *atomic.Int64
	newest             atomic.Int64
	firstError         atomic.Value
	stop               context.CancelFunc
	workers            sync.WaitGroup
}

// startTLSLoad begins to ask for a host.
func startTLSLoad(t *testing.T, address, host string) *tlsLoad {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &tlsLoad{stop: cancel}
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
		l.workers.Go(func() { l.ask(ctx, tlsClient(address, protocol), "https://"+host+"/", true) })
		lasting := tlsClient(address, protocol)
		// Otherwise the client may open another one while the answer before is still being put away.
		lasting.Transport.(*http.Transport).MaxConnsPerHost = 1 //nolint:forcetypeassert // tlsClient makes it.
		l.workers.Go(func() { l.ask(ctx, lasting, "https://"+host+"/", false) })
	}
	t.Cleanup(func() { l.end() })
	return l
}

// ask asks until ctx ends, each time on a new connection or always on the first.
func (l *tlsLoad) ask(ctx context.Context, client *http.Client, url string, isNew bool) {
	first := int64(-1)
	for ctx.Err() == nil {
		got, err := getTLS(ctx, client, url)
		if ctx.Err() != nil {
			return
		}
		l.done.Add(1)
		if err == nil && got.status != http.StatusOK {
			err = fmt.Errorf("status %d", got.status)
		}
		if err != nil {
			l.failed.Add(1)
			l.firstError.CompareAndSwap(nil, err.Error())
			continue
		}
		count, _ := l.byApp.LoadOrStore(got.Backend, new(atomic.Int64))
		count.(*atomic.Int64).Add(1) //nolint:forcetypeassert // Nothing else is stored.
		if isNew {
			l.newest.Store(got.serial)
			client.CloseIdleConnections()
			continue
		}
		if first < 0 {
			first = got.serial
		}
		if got.serial != first {
			l.lost.Add(1) // It is another connection.
		}
	}
}

// count is how many requests were answered by an app.
func (l *tlsLoad) count(app string) int {
	count, found := l.byApp.Load(app)
	if !found {
		return 0
	}
	return int(count.(*atomic.Int64).Load()) //nolint:forcetypeassert // Nothing else is stored.
}

// end ends the requests.
func (l *tlsLoad) end() {
	l.stop()
	l.workers.Wait()
}
