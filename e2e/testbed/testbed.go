package testbed

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// requestTimeout is the limit of one attempt of a request to the API server.
const requestTimeout = 5 * time.Second

// CommandTimeout is the limit of a command, which may itself wait for await.Patience.
func CommandTimeout() time.Duration { return await.Patience() + time.Minute }

// ErrNotReached is await.ErrNotReached.
var ErrNotReached = await.ErrNotReached

// Testbed is an embedded cluster with the guide's application and all that observes
// it.
type Testbed struct {
	// Cluster is the cluster that runs, Inside the way into it.
	Cluster *provider.Cluster
	Inside  *inside.Cluster
	// Proxies are the proxies, in the order of their names.
	Proxies []Proxy
	// Record keeps what is seen.
	Record *Record
	// Repo is the folder of the project.
	Repo string

	launcher launcher
	api      string // where kubectl proxy listens
	http     *http.Client
}

// Up launches a cluster (see Launch) and reaches into it, which needs root.
func Up(t *testing.T, wishes provider.Spec) *Testbed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root, to reach into the cluster: run make as root")
	}
	//testbounds:allow requests repeat until Patience ends
	b := &Testbed{Record: newRecord(), http: &http.Client{Timeout: requestTimeout, Transport: new(http.Transport)}}
	b.launcher = newLaunch(t, wishes)
	b.Repo, b.Cluster = b.launcher.repo, b.launcher.up(t)
	var err error
	if b.Inside, err = inside.Open(b.Cluster.Node); err != nil {
		t.Fatal(err)
	}
	b.serveAPI(t)
	return b
}

// ReplaceProgram makes a program of the project run from a binary, such as "interceptor", in
// the place of the one that runs. An interceptor does its work alone when Run
// returns; the one before goes on for some seconds after it was told to end.
func (b *Testbed) ReplaceProgram(t *testing.T, program, binary string) {
	t.Helper()
	b.launcher.wishes.Programs = map[string]string{program: binary}
	b.Cluster = b.launcher.up(t)
	if program != interceptor {
		return
	}
	_, err := b.Await(t.Context(), "one interceptor, which holds the Lease",
		func() bool { return b.hasOneInterceptor(t.Context()) })
	if err != nil {
		t.Fatal(err)
	}
}

const (
	// interceptor is the program of that name.
	interceptor = "interceptor"
	// interceptorLease is the Lease that the interceptor which writes statuses holds.
	interceptorLease = "/apis/coordination.k8s.io/v1/namespaces/keda/leases/kedify-http-interceptor"
)

// hasOneInterceptor says whether there is one interceptor, and it writes the statuses.
func (b *Testbed) hasOneInterceptor(ctx context.Context) bool {
	running, err := b.Inside.Find(interceptor)
	if err != nil || len(running) != 1 {
		return false
	}
	pod, err := running[0].Pod()
	if err != nil {
		return false
	}
	var lease struct {
		Spec struct {
			HolderIdentity string `json:"holderIdentity"`
		} `json:"spec"`
	}
	return b.Get(ctx, interceptorLease, &lease) == nil && lease.Spec.HolderIdentity == pod
}

// background runs work beside the test, until the test ends.
func background(t *testing.T, work func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// serveAPI keeps `kubectl proxy` running, which takes requests without
// credentials and passes each on, once, over a connection that lives.
func (b *Testbed) serveAPI(t *testing.T) {
	t.Helper()
	address := make(chan string, 1)
	background(t, func(ctx context.Context) error {
		err := b.Cluster.Stream(ctx, func(out io.Reader) error {
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				if where, found := strings.CutPrefix(lines.Text(), "Starting to serve on "); found {
					address <- where
				}
			}
			return lines.Err()
		}, "kubectl", "proxy", "--port=0")
		if ctx.Err() == nil {
			return fmt.Errorf("kubectl proxy has ended: %w", err)
		}
		return nil // it was told to end
	})
	b.api = "http://" + await.Receive(t, "the address of kubectl proxy", address)
}

// Kubectl runs a command as a user would, such as "kubectl", "get", "pods".
func (b *Testbed) Kubectl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, CommandTimeout())
	defer cancel()
	return b.Cluster.Run(ctx, args...)
}

// StatusError is an answer of the API server other than success.
type StatusError int

// Error implements error.
func (s StatusError) Error() string { return fmt.Sprintf("HTTP status %d", int(s)) }

// Get reads an object of the API server, by its path, into a value.
func (b *Testbed) Get(ctx context.Context, path string, into any) error {
	return b.request(ctx, http.MethodGet, path, nil, into)
}

// MergePatch changes an object by a JSON merge patch (RFC 7396), and reads what
// became of it into a value, unless that is nil.
func (b *Testbed) MergePatch(ctx context.Context, path string, patch, into any) error {
	raw, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("patch %s: %w", path, err)
	}
	return b.request(ctx, http.MethodPatch, path, raw, into)
}

// Ready says whether the API server says that it is.
func (b *Testbed) Ready(ctx context.Context) bool {
	return b.request(ctx, http.MethodGet, "/readyz", nil, nil) == nil
}

func (b *Testbed) request(ctx context.Context, method, path string, body []byte, into any) error {
	//testbounds:allow requests repeat until Patience ends
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, b.api+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	request.Header.Set("Content-Type", "application/merge-patch+json")
	response, err := b.http.Do(request)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", method, path, err)
	case response.StatusCode/100 != 2:
		return fmt.Errorf("%s %s: %w: %.300s", method, path, StatusError(response.StatusCode), raw)
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// Await waits until ready returns true, and returns when that was. Otherwise the error contains the present state: see
// await.Until.
func (b *Testbed) Await(ctx context.Context, what string, ready func() bool) (time.Time, error) {
	err := await.Until(ctx, what, ready, func() string { return b.Record.Now().String() })
	return time.Now(), err
}

// Repeat repeats a request until it succeeds.
func Repeat(ctx context.Context, what string, request func() error) error {
	var last error
	return await.Until(ctx, what, func() bool {
		last = request()
		return last == nil
	}, func() string { return fmt.Sprint(last) })
}
