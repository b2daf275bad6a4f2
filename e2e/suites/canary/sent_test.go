package canary

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/assert"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// counted is how many requests of both proxies a share is judged by.
	counted = 400
	// roles of the Services, in the order in which split tells of them.
	stable, canary = 0, 1
)

// requestCounts are the requests that each proxy has sent to the stable Service and to the canary, since its start.
type requestCounts map[string][]int64

// byPlugin goes through a canary with `split --sent` beside the Envoys: it tells what their own admin interfaces count,
// and of what it tells the canary has the share that was asked for.
func byPlugin(t *testing.T, b *testbed.Testbed, from, to string) {
	t.Helper()
	c := testbed.Canary{From: from, To: to, Final: from, Weights: []int{20, 50}, Requested: []int{0, 20, 50, 0}}
	said, end := captureMessages(t.Context(), b)
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
	fmt.Fprintf(t.Output(), "kubectl http-canary split --watch --sent:\n%s", said)
	for _, proxy := range b.Proxies {
		if text := said.String(); !strings.Contains(text, "sent by "+proxy.Name+": ") ||
			!strings.Contains(text, " since start") {
			t.Errorf("split --watch --sent tells nothing of %s", proxy.Name)
		}
	}
}

// compareWithEnvoys compares what the plugin tells with what the Envoys say just before and just after it.
func compareWithEnvoys(ctx context.Context, t *testing.T, b *testbed.Testbed) error {
	t.Helper()
	before, err := envoyCounts(ctx, b)
	if err != nil {
		return err
	}
	told, err := pluginCounts(ctx, b)
	if err != nil {
		return err
	}
	after, err := envoyCounts(ctx, b)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.Output(), "Envoys have sent %v, the plugin tells %v, and then they have sent %v\n", before, told, after)
	for _, proxy := range b.Proxies {
		for role := range before[proxy.Name] {
			if len(told[proxy.Name]) != 2 || told[proxy.Name][role] < before[proxy.Name][role] ||
				told[proxy.Name][role] > after[proxy.Name][role] {
				t.Errorf("%s: the plugin tells %v, and it has sent %v before and %v after", proxy.Name, told[proxy.Name],
					before[proxy.Name], after[proxy.Name])
				break
			}
		}
	}
	return nil
}

// checkShare judges what the plugin tells of a while by the weight.
func checkShare(ctx context.Context, t *testing.T, b *testbed.Testbed, weight int) error {
	t.Helper()
	found, err := assert.Expectation{
		Color: "canary", Share: float64(weight) / 100, From: time.Now(), First: counted,
		Second: 2 * counted, Rule: stats.DefaultRule(),
	}.Check(ctx, func(ctx context.Context, _ time.Time, n int) (load.Window, error) { return sampleNew(ctx, b, n) })
	fmt.Fprintf(t.Output(), "asked %d %%, and by the plugin %d of %d requests went to the canary\n",
		weight, found.Hits, found.Total)
	return err
}

// sampleNew are the requests that the plugin tells of from now on, at least n.
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

// pluginCounts is what `split --sent` tells.
func pluginCounts(ctx context.Context, b *testbed.Testbed) (requestCounts, error) {
	out, err := b.Kubectl(ctx, plugin(), "split", testbed.App, "--namespace", testbed.Namespace,
		"--sent", "--output", "json")
	if err != nil {
		return nil, err
	}
	var told struct {
		Objects []struct {
			Sent []struct {
				Proxy    string  `json:"proxy"`
				Requests []int64 `json:"requests"`
				Problem  string  `json:"problem"`
			} `json:"sent"`
		} `json:"objects"`
	}
	if err := json.Unmarshal([]byte(out), &told); err != nil {
		return nil, fmt.Errorf("split --sent says %q: %w", out, err)
	}
	all := requestCounts{}
	for _, object := range told.Objects {
		for _, of := range object.Sent {
			if of.Problem != "" || len(of.Requests) != 2 {
				return nil, fmt.Errorf("split --sent says of %s: %v, %s", of.Proxy, of.Requests, of.Problem)
			}
			all[of.Proxy] = of.Requests
		}
	}
	if len(all) != len(b.Proxies) {
		return nil, fmt.Errorf("split --sent tells of %d proxies, and there are %d: %s", len(all), len(b.Proxies), out)
	}
	return all, nil
}

// envoyCounts is what the admin interfaces of the Envoys count.
func envoyCounts(ctx context.Context, b *testbed.Testbed) (requestCounts, error) {
	client := &http.Client{Timeout: await.Patience(),
		Transport: &http.Transport{DialContext: b.Inside.DialContext, DisableKeepAlives: true}}
	all := requestCounts{}
	for _, proxy := range b.Proxies {
		for _, service := range []string{testbed.App + "-stable", testbed.App + "-canary"} {
			counter := "cluster." + testbed.Namespace + "/" + testbed.App + "/" + service + ".upstream_rq_total"
			count, err := read(ctx, client,
				"http://"+proxy.Admin.String()+"/stats?format=json&filter="+url.QueryEscape("^"+counter+"$"), counter)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", proxy.Name, err)
			}
			all[proxy.Name] = append(all[proxy.Name], count)
		}
	}
	return all, nil
}

// read reads one counter; one that Envoy has not yet is 0.
func read(ctx context.Context, client *http.Client, address, counter string) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var answer struct {
		Stats []struct {
			Name  string `json:"name"`
			Value int64  `json:"value"`
		} `json:"stats"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return 0, err
	}
	for _, of := range answer.Stats {
		if of.Name == counter {
			return of.Value, nil
		}
	}
	return 0, nil
}

// syncBuffer is what a program has said so far.
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

// String is all of it.
func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// captureMessages runs `split --watch --sent` until the returned function is called.
func captureMessages(ctx context.Context, b *testbed.Testbed) (said *syncBuffer, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	said = new(syncBuffer)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// That it is ended is an error; one that ends by itself has told too little.
		_ = b.Cluster.Stream(ctx, func(out io.Reader) error {
			_, err := io.Copy(said, out)
			return err
		}, plugin(), "split", testbed.App, "--namespace", testbed.Namespace, "--watch", "--sent")
	}()
	return said, func() {
		cancel()
		<-ended
	}
}
