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

// CommandTimeout is the time limit of a command. The command itself may wait for await.Patience.
func CommandTimeout() time.Duration { return await.Patience() + time.Minute }

// ErrNotReached is await.ErrNotReached.
var ErrNotReached = await.ErrNotReached

// Testbed is an embedded cluster with the guide's application and a recorder of its state.
type Testbed struct {
	// Cluster is the running cluster. Inside gives access to its processes, network and store.
	Cluster *provider.Cluster
	Inside  *inside.Cluster
	// Proxies are the proxies, sorted by name.
	Proxies []Proxy
	// Record contains the observed state.
	Record *Record
	// Repo is the root folder of the repository.
	Repo string

	launcher launcher
	follows  bool   // the record follows proxies that are replaced, and Proxies is empty
	api      string // where kubectl proxy listens
	http     *http.Client
}

// Up launches a cluster (see Launch) and opens access to its inside, which requires root.
func Up(t *testing.T, spec provider.Spec) *Testbed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root, to reach into the cluster: run make as root")
	}
	//testbounds:allow requests repeat until Patience ends
	b := &Testbed{Record: newRecord(), http: &http.Client{Timeout: requestTimeout, Transport: new(http.Transport)}}
	b.launcher = newLauncher(t, spec)
	b.Repo, b.Cluster = b.launcher.repo, b.launcher.up(t)
	var err error
	if b.Inside, err = inside.Open(b.Cluster.Node); err != nil {
		t.Fatal(err)
	}
	b.serveAPI(t)
	return b
}

// ReplaceProgram replaces a program of the project, such as "interceptor", with a binary. When it returns for the
// interceptor, one new replica runs and holds the Lease. The previous replica takes some seconds to terminate.
func (b *Testbed) ReplaceProgram(t *testing.T, program, binary string) {
	t.Helper()
	b.launcher.spec.Programs = map[string]string{program: binary}
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
	// interceptorLease is the API path of the Lease of the leading interceptor. The leader writes the statuses.
	interceptorLease = "/apis/coordination.k8s.io/v1/namespaces/keda/leases/kedify-http-interceptor"
)

// hasOneInterceptor reports whether exactly one interceptor runs and it holds the Lease.
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

// background runs work concurrently with the test and cancels it when the test ends.
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

// serveAPI keeps `kubectl proxy` running. The proxy accepts requests without credentials and forwards each of them
// once, over a persistent connection.
func (b *Testbed) serveAPI(t *testing.T) {
	t.Helper()
	address := make(chan string, 1)
	background(t, func(ctx context.Context) error {
		err := b.Cluster.Stream(ctx, func(out io.Reader) error {
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				if listen, ok := strings.CutPrefix(lines.Text(), "Starting to serve on "); ok {
					address <- listen
				}
			}
			return lines.Err()
		}, "kubectl", "proxy", "--port=0")
		if ctx.Err() == nil {
			return fmt.Errorf("kubectl proxy exited: %w", err)
		}
		return nil // canceled: the test has ended
	})
	b.api = "http://" + await.Receive(t, "the address of kubectl proxy", address)
}

// Kubectl runs a command line as a user would, such as "kubectl", "get", "pods".
func (b *Testbed) Kubectl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, CommandTimeout())
	defer cancel()
	return b.Cluster.Run(ctx, args...)
}

// StatusError is the status code of an unsuccessful response of the API server.
type StatusError int

// Error implements error.
func (s StatusError) Error() string { return fmt.Sprintf("HTTP status %d", int(s)) }

// Get reads the object at an API path into a value.
func (b *Testbed) Get(ctx context.Context, path string, into any) error {
	return b.request(ctx, http.MethodGet, path, nil, into)
}

// MergePatch applies a JSON merge patch (RFC 7396) to the object at an API path. It reads the result into a value
// unless that is nil.
func (b *Testbed) MergePatch(ctx context.Context, path string, patch, into any) error {
	raw, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("patch %s: %w", path, err)
	}
	return b.request(ctx, http.MethodPatch, path, raw, into)
}

// Ready reports whether the API server's readiness endpoint responds with success.
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

// Await waits until ready returns true and returns the time of that. On a timeout the error contains the observed
// state: see await.Until.
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
