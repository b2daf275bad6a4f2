package agent_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/process"
)

// unfinishedBody is a request body of a length that never ends. It calls sent before its last byte.
type unfinishedBody struct {
	left int
	sent func()
	ctx  context.Context //nolint:containedctx // that of the request
}

// Read implements io.Reader.
func (b *unfinishedBody) Read(into []byte) (int, error) {
	count := min(len(into), b.left-1)
	if count == 0 {
		b.sent()
		<-b.ctx.Done()
		return 0, io.EOF
	}
	for i := range into[:count] {
		into[i] = ' ' // valid JSON
	}
	b.left -= count
	return count, nil
}

// TestSlowWebhookBodies has three Pods send 20 requests of 7 MiB each, without their last bytes, again and again. The API
// server's requests are answered in time, and the agent's memory stays within the limit of its Deployment. It is not
// parallel, because it measures memory.
func TestSlowWebhookBodies(t *testing.T) {
	team := withWebhook(t, "slow-bodies")
	ctx, cancel := context.WithCancel(t.Context())
	before := peakMemory(t, true)
	var attacks sync.WaitGroup
	defer attacks.Wait()
	defer cancel()
	begun := make(chan struct{}, 1000)
	for pod := range 3 {
		from := net.IPv4(127, 0, 0, byte(2+pod))
		for range 20 {
			attacks.Go(func() {
				for ctx.Err() == nil {
					sendSlowly(ctx, t, from, func() {
						select {
						case begun <- struct{}{}:
						default:
						}
					})
				}
			})
		}
	}
	await.Receive(t, "the first slow request", begun)
	collection := strings.TrimSuffix(scaledObject(team, ""), "/")
	for i := range 20 {
		created, _, err := send(t, shared.admin.Post().AbsPath(collection),
			strings.Replace(shop(simple), "name: shop", fmt.Sprint("name: shop-", i), 1))
		if err != nil || created.Spec.Triggers[0]["type"] != "external-push" {
			t.Fatalf("ScaledObject %d during the attack: %v, %v", i, created.Spec.Triggers, err)
		}
	}
	const limit = 256 // of config/agent/deployment.yaml
	peak := peakMemory(t, false)
	t.Logf("memory of the agent: %d MiB before the attack, at most %d MiB during it", before, peak)
	if peak > limit {
		t.Errorf("the agent used %d MiB, and its limit is %d MiB", peak, limit)
	}
}

// sendSlowly sends a request to the webhook from an address until the webhook or ctx ends it. sent is called before its
// last byte, or at its end.
func sendSlowly(ctx context.Context, t *testing.T, from net.IP, sent func()) {
	t.Helper()
	const size = 7<<20 - 1
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	transport := &http.Transport{
		DisableKeepAlives: true, DialContext: dialer.DialContext,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13},
	}
	defer transport.CloseIdleConnections()
	defer sent()
	url := strings.Replace(webhookURL(), "localhost", "127.0.0.1", 1)
	body := &unfinishedBody{left: size, sent: sent, ctx: ctx}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		t.Error(err)
		return
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := transport.RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
	}
}

// peakMemory returns the largest memory of the agent since the last call with isStart, in MiB.
func peakMemory(t *testing.T, isStart bool) int {
	t.Helper()
	agent, err := process.Find(shared.agent.PID())
	if err != nil {
		t.Fatal(err)
	}
	if isStart {
		if err := agent.ResetPeak(); err != nil {
			t.Fatal(err)
		}
	}
	peak, err := agent.Peak()
	if err != nil {
		t.Fatal(err)
	}
	return peak >> 20
}
