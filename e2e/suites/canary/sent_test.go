package canary

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/assert"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// counted is the number of requests, of both proxies, in the measurement of a share.
	counted = 400
	// stable and canary are the indexes of the Services in the output of split.
	stable, canary = 0, 1
)

// requestCounts are the numbers of requests that each proxy has sent to the stable Service and to the canary since its
// start.
type requestCounts map[string][]int64

// byPlugin runs a canary with `status --sent` and reads the Envoys in parallel. The plugin reports the counts of the
// Envoys' admin interfaces, and the canary has the expected share of them.
func byPlugin(t *testing.T, b *testbed.Testbed, from, to string) {
	t.Helper()
	c := testbed.Canary{From: from, To: to, Final: from, Weights: []int{20, 50}, Requested: []int{0, 20, 50, 0}}
	output, end := captureMessages(t.Context(), b)
	runCanary(t, b, c, func(ctx context.Context, trial *testbed.Trial) error {
		for i, weight := range c.Weights {
			if err := trial.RunStep(ctx, i, weight); err != nil {
				return err
			}
			if err := compareWithEnvoys(ctx, t, b); err != nil {
				return err
			}
			if err := checkShare(ctx, t, b, weight); err != nil {
				return err
			}
		}
		return b.Argo(ctx, "abort", testbed.App)
	})
	end()
	fmt.Fprintf(t.Output(), "kubectl http-canary status --watch --sent:\n%s", output)
	for _, proxy := range b.Proxies {
		if text := output.String(); !strings.Contains(text, "sent by "+proxy.Name+": ") ||
			!strings.Contains(text, " since start") {
			t.Errorf("status --watch --sent tells nothing of %s", proxy.Name)
		}
	}
}

// compareWithEnvoys compares the plugin's counts with those of the Envoys right before and right after.
func compareWithEnvoys(ctx context.Context, t *testing.T, b *testbed.Testbed) error {
	t.Helper()
	before, err := b.CountsOfEnvoys(ctx)
	if err != nil {
		return err
	}
	reported, err := pluginCounts(ctx, b)
	if err != nil {
		return err
	}
	after, err := b.CountsOfEnvoys(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.Output(), "Envoys have sent %v, the plugin reports %v, and then they have sent %v\n",
		before, reported, after)
	for _, proxy := range b.Proxies {
		for role := range before[proxy.Name] {
			if len(reported[proxy.Name]) != 2 || reported[proxy.Name][role] < before[proxy.Name][role] ||
				reported[proxy.Name][role] > after[proxy.Name][role] {
				t.Errorf("%s: the plugin reports %v, and it has sent %v before and %v after", proxy.Name, reported[proxy.Name],
					before[proxy.Name], after[proxy.Name])
				break
			}
		}
	}
	return nil
}

// checkShare compares the plugin's counts during some time with the weight.
func checkShare(ctx context.Context, t *testing.T, b *testbed.Testbed, weight int) error {
	t.Helper()
	result, err := assert.Expectation{
		Color: "canary", Share: float64(weight) / 100, From: time.Now(), First: counted,
		Second: 2 * counted, Rule: stats.DefaultRule(),
	}.Check(ctx, func(ctx context.Context, _ time.Time, n int) (load.Window, error) { return sampleNew(ctx, b, n) })
	fmt.Fprintf(t.Output(), "requested %d %%, the plugin reports %d of %d requests to the canary\n",
		weight, result.Hits, result.Total)
	return err
}

// sampleNew returns the requests that the plugin reports from now on, at least n.
func sampleNew(ctx context.Context, b *testbed.Testbed, n int) (load.Window, error) {
	first, err := pluginCounts(ctx, b)
	if err != nil {
		return load.Window{}, err
	}
	var problem error
	window := load.Window{}
	_, err = b.Await(ctx, "enough requests", func() bool {
		var last requestCounts
		if last, problem = pluginCounts(ctx, b); problem != nil {
			return true
		}
		window.Colors = map[string]int{}
		for proxy, counts := range last {
			window.Colors["stable"] += int(counts[stable] - first[proxy][stable])
			window.Colors["canary"] += int(counts[canary] - first[proxy][canary])
		}
		return window.Colors["stable"]+window.Colors["canary"] >= n
	})
	if err == nil {
		err = problem
	}
	return window, err
}

// pluginCounts returns the output of `status --sent`.
func pluginCounts(ctx context.Context, b *testbed.Testbed) (requestCounts, error) {
	out, err := b.Kubectl(ctx, plugin(), "status", testbed.App, "--namespace", testbed.Namespace,
		"--sent", "--output", "json")
	if err != nil {
		return nil, err
	}
	var output struct {
		Objects []struct {
			Sent []struct {
				Proxy    string  `json:"proxy"`
				Requests []int64 `json:"requests"`
				Problem  string  `json:"problem"`
			} `json:"sent"`
		} `json:"objects"`
	}
	if err := json.Unmarshal([]byte(out), &output); err != nil {
		return nil, fmt.Errorf("status --sent: output %q: %w", out, err)
	}
	all := requestCounts{}
	for _, object := range output.Objects {
		for _, counts := range object.Sent {
			if counts.Problem != "" || len(counts.Requests) != 2 {
				return nil, fmt.Errorf("status --sent: proxy %s: %v, %s", counts.Proxy, counts.Requests, counts.Problem)
			}
			all[counts.Proxy] = counts.Requests
		}
	}
	if len(all) != len(b.Proxies) {
		return nil, fmt.Errorf("status --sent tells of %d proxies, and there are %d: %s", len(all), len(b.Proxies), out)
	}
	return all, nil
}

// syncBuffer is the output of a program so far.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (s *syncBuffer) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(text)
}

// String returns the output so far.
func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// captureMessages runs `split --watch --sent` until the returned function is called.
func captureMessages(ctx context.Context, b *testbed.Testbed) (output *syncBuffer, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	output = new(syncBuffer)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// Cancellation is an error. If the command ends earlier, output is missing.
		_ = b.Cluster.Stream(ctx, func(out io.Reader) error {
			_, err := io.Copy(output, out)
			return err
		}, plugin(), "status", testbed.App, "--namespace", testbed.Namespace, "--watch", "--sent")
	}()
	return output, func() {
		cancel()
		<-ended
	}
}
