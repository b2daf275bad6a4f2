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
	byApp              sync.Map // number of responses of each app, *atomic.Int64
	newest             atomic.Int64
	firstError         atomic.Value
	stop               context.CancelFunc
	workers            sync.WaitGroup
}

// startTLSLoad starts to send requests for a host.
func startTLSLoad(t *testing.T, address, host string) *tlsLoad {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &tlsLoad{stop: cancel}
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
		l.workers.Go(func() { l.ask(ctx, tlsClient(address, protocol), "https://"+host+"/", true) })
		lasting := tlsClient(address, protocol)
		// Otherwise the client may open a second connection while it still processes a response.
		lasting.Transport.(*http.Transport).MaxConnsPerHost = 1 //nolint:forcetypeassert // the type is that of tlsClient
		l.workers.Go(func() { l.ask(ctx, lasting, "https://"+host+"/", false) })
	}
	t.Cleanup(func() { l.end() })
	return l
}

// ask sends requests until ctx ends, each on a new connection if isNew, otherwise all on the first one.
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
		count.(*atomic.Int64).Add(1) //nolint:forcetypeassert // all values have this type
		if isNew {
			l.newest.Store(got.serial)
			client.CloseIdleConnections()
			continue
		}
		if first < 0 {
			first = got.serial
		}
		if got.serial != first {
			l.lost.Add(1) // the client has opened another connection
		}
	}
}

// count returns the number of responses of an app.
func (l *tlsLoad) count(app string) int {
	count, ok := l.byApp.Load(app)
	if !ok {
		return 0
	}
	return int(count.(*atomic.Int64).Load()) //nolint:forcetypeassert // all values have this type
}

// end stops the load.
func (l *tlsLoad) end() {
	l.stop()
	l.workers.Wait()
}
