package testbed

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/localcluster/demo/kube"
	"github.com/kedify/argo-rollouts-plugin/localcluster/host"
	"github.com/kedify/argo-rollouts-plugin/localcluster/test/internal/inside"
)

// The time that a cluster may take to come up or to end, and a command or a
// request to be answered.
const (
	clusterTimeout = 5 * time.Minute
	commandTimeout = 60 * time.Second
	requestTimeout = 5 * time.Second
)

// ErrNotReached says that something didn't come about in time.
var ErrNotReached = errors.New("not reached in time")

// Bed is a cluster with the guide's application and all that observes it.
type Bed struct {
	// Cluster is the cluster from the inside.
	Cluster *inside.Cluster
	// Proxies are the proxies, in the order of their names.
	Proxies []Proxy
	// Record keeps what is seen.
	Record *Record

	environment environment
	kubectl     kube.Runner
	api         string // where kubectl proxy listens
	logs        string // the folder of the cluster's logs
	http        *http.Client
}

// environment says where the programs are.
type environment struct{ binary, cache, repo string }

func fromEnvironment(t *testing.T) environment {
	t.Helper()
	e := environment{
		binary: os.Getenv("LOCALCLUSTER_BIN"), cache: os.Getenv("LOCALCLUSTER_CACHE"), repo: os.Getenv("LOCALCLUSTER_REPO"),
	}
	if e.binary == "" || e.cache == "" || e.repo == "" {
		t.Fatal("LOCALCLUSTER_BIN, LOCALCLUSTER_CACHE and LOCALCLUSTER_REPO are not set: run this test by `make faults` or `make test-canary`")
	}
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root, to reach into the cluster: run make as root")
	}
	return e
}

// Up starts a cluster with further arguments of `localcluster up`, and takes it
// down when the test ends. One that runs already is nobody's to break.
func Up(t *testing.T, args ...string) *Bed {
	t.Helper()
	b := &Bed{environment: fromEnvironment(t), Record: newRecord(), http: &http.Client{Timeout: requestTimeout, Transport: new(http.Transport)}}
	if b.status(t).State == host.PhaseRunning {
		t.Fatal("a cluster of this checkout runs already, and this test would break it: run `make cluster-down` first")
	}
	t.Cleanup(func() {
		if _, err := b.localcluster(t, "down"); err != nil {
			t.Error(err)
		}
	})
	if _, err := b.localcluster(t, append([]string{"up"}, args...)...); err != nil {
		t.Fatal(err)
	}
	status := b.status(t)
	opened, err := inside.Open(filepath.Dir(status.Logs))
	if err != nil {
		t.Fatal(err)
	}
	b.Cluster, b.logs = opened, status.Logs
	b.kubectl = kube.Exec{Env: kube.Environment(os.Environ(), status.Bin, status.Kubeconfig, t.TempDir())}
	b.serveAPI(t)
	return b
}

// localcluster runs one command of the cluster and returns what it printed.
func (b *Bed) localcluster(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), clusterTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, b.environment.binary, append([]string{"--cache", b.environment.cache, "--repo", b.environment.repo}, args...)...)
	// Files, not pipes: the supervisor outlives the command and would keep a
	// pipe open.
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		return "", fmt.Errorf("keep what localcluster prints: %w", err)
	}
	defer out.Close()
	problem, err := os.Create(filepath.Join(dir, "err"))
	if err != nil {
		return "", fmt.Errorf("keep what localcluster prints: %w", err)
	}
	defer problem.Close()
	command.Stdout, command.Stderr = out, problem
	runErr := command.Run()
	printed, err := os.ReadFile(out.Name())
	if err != nil {
		return "", fmt.Errorf("read what localcluster prints: %w", err)
	}
	if runErr != nil {
		said, _ := os.ReadFile(problem.Name())
		return string(printed), fmt.Errorf("localcluster %s: %w\n%s", strings.Join(args, " "), runErr, said)
	}
	return string(printed), nil
}

// status asks for the state of the cluster.
func (b *Bed) status(t *testing.T) host.Status {
	t.Helper()
	printed, err := b.localcluster(t, "status", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var status host.Status
	if err := json.Unmarshal([]byte(printed), &status); err != nil {
		t.Fatalf("read the status of the cluster: %v\n%s", err, printed)
	}
	return status
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
func (b *Bed) serveAPI(t *testing.T) {
	t.Helper()
	address := make(chan string, 1)
	background(t, func(ctx context.Context) error {
		err := b.kubectl.Stream(ctx, func(out io.Reader) error {
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
	select {
	case where := <-address:
		b.api = "http://" + where
	case <-time.After(commandTimeout):
		t.Fatal("kubectl proxy doesn't say where it serves")
	}
}

// Kubectl runs a command as a user would, such as "kubectl", "get", "pods".
func (b *Bed) Kubectl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	return b.kubectl.Run(ctx, args...)
}

// StatusError is an answer of the API server other than success.
type StatusError int

// Error implements error.
func (s StatusError) Error() string { return fmt.Sprintf("HTTP status %d", int(s)) }

// Get reads an object of the API server, by its path, into a value.
func (b *Bed) Get(ctx context.Context, path string, into any) error {
	return b.ask(ctx, http.MethodGet, path, nil, into)
}

// MergePatch changes an object by a JSON merge patch (RFC 7396), and reads what
// became of it into a value, unless that is nil.
func (b *Bed) MergePatch(ctx context.Context, path string, patch, into any) error {
	raw, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("patch %s: %w", path, err)
	}
	return b.ask(ctx, http.MethodPatch, path, raw, into)
}

// Ready says whether the API server says that it is.
func (b *Bed) Ready(ctx context.Context) bool {
	return b.ask(ctx, http.MethodGet, "/readyz", nil, nil) == nil
}

func (b *Bed) ask(ctx context.Context, method, path string, body []byte, into any) error {
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

// awaitPause is the time between two looks.
const awaitPause = 10 * time.Millisecond

// Await waits until ready says so, and returns when that was. Otherwise the
// error names what was waited for and what is there instead.
func (b *Bed) Await(ctx context.Context, what string, within time.Duration, ready func() bool) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	ticks := time.NewTicker(awaitPause)
	defer ticks.Stop()
	for {
		if ready() {
			return time.Now(), nil
		}
		select {
		case <-ctx.Done():
			return time.Now(), fmt.Errorf("%s: %w (%s); instead: %s", what, ErrNotReached, within, b.Record.Now())
		case <-ticks.C:
		}
	}
}
