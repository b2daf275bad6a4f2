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

// sent are the requests that each proxy has sent to the stable Service and to the canary, since its start.
type sent map[string][]int64

// byPlugin goes through a canary with `split --sent` beside the Envoys: it tells what their own admin interfaces count, and of what it tells the canary has the
// share that was asked for.
func byPlugin(t *testing.T, b *testbed.Bed, from, to string) {
	t.Helper()
	c := testbed.Canary{From: from, To: to, Left: from, Weights: []int{20, 50}, Asked: []int{0, 20, 50, 0}}
	said, end := listen(t.Context(), b)
	play(t, b, c, func(ctx context.Context, trial *testbed.Trial) error {
		for i, weight := range c.Weights {
			if err := trial.On(ctx, i, weight); err != nil {
				return err
			}
			if err := besideEnvoys(ctx, t, b); err != nil {
				return err
			}
			if err := sharedAs(ctx, t, b, weight); err != nil {
				return err
			}
		}
		return b.Argo(ctx, "abort", testbed.App)
	})
	end()
	fmt.Fprintf(t.Output(), "kubectl http-canary split --watch --sent:\n%s", said)
	for _, proxy := range b.Proxies {
		if text := said.String(); !strings.Contains(text, "sent by "+proxy.Name+": ") || !strings.Contains(text, " since start") {
			t.Errorf("split --watch --sent tells nothing of %s", proxy.Name)
		}
	}
}

// besideEnvoys compares what the plugin tells with what the Envoys say just before and just after it.
func besideEnvoys(ctx context.Context, t *testing.T, b *testbed.Bed) error {
	t.Helper()
	before, err := ofEnvoys(ctx, b)
	if err != nil {
		return err
	}
	told, err := ofPlugin(ctx, b)
	if err != nil {
		return err
	}
	after, err := ofEnvoys(ctx, b)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.Output(), "Envoys have sent %v, the plugin tells %v, and then they have sent %v\n", before, told, after)
	for _, proxy := range b.Proxies {
		for role := range before[proxy.Name] {
			if len(told[proxy.Name]) != 2 || told[proxy.Name][role] < before[proxy.Name][role] || told[proxy.Name][role] > after[proxy.Name][role] {
				t.Errorf("%s: the plugin tells %v, and it has sent %v before and %v after", proxy.Name, told[proxy.Name], before[proxy.Name], after[proxy.Name])
				break
			}
		}
	}
	return nil
}

// sharedAs judges what the plugin tells of a while by the weight.
func sharedAs(ctx context.Context, t *testing.T, b *testbed.Bed, weight int) error {
	t.Helper()
	found, err := assert.Asked{
		Color: "canary", Share: float64(weight) / 100, From: time.Now(), First: counted, Fresh: 2 * counted, Rule: stats.DefaultRule(),
	}.Judge(ctx, func(ctx context.Context, _ time.Time, n int) (load.Window, error) { return newly(ctx, b, n) })
	fmt.Fprintf(t.Output(), "asked %d %%, and by the plugin %d of %d requests went to the canary\n", weight, found.Hits, found.Total)
	return err
}

// newly are the requests that the plugin tells of from now on, at least n.
func newly(ctx context.Context, b *testbed.Bed, n int) (load.Window, error) {
	first, err := ofPlugin(ctx, b)
	if err != nil {
		return load.Window{}, err
	}
	var problem error
	window := load.Window{}
	_, err = b.Await(ctx, "enough requests", func() bool {
		var last sent
		if last, problem = ofPlugin(ctx, b); problem != nil {
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

// ofPlugin is what `split --sent` tells.
func ofPlugin(ctx context.Context, b *testbed.Bed) (sent, error) {
	out, err := b.Kubectl(ctx, plugin(), "split", testbed.App, "--namespace", testbed.Namespace, "--sent", "--output", "json")
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
	all := sent{}
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

// ofEnvoys is what the admin interfaces of the Envoys count.
func ofEnvoys(ctx context.Context, b *testbed.Bed) (sent, error) {
	client := &http.Client{Timeout: await.Patience(), Transport: &http.Transport{DialContext: b.Inside.DialContext, DisableKeepAlives: true}}
	all := sent{}
	for _, proxy := range b.Proxies {
		for _, service := range []string{testbed.App + "-stable", testbed.App + "-canary"} {
			counter := "cluster." + testbed.Namespace + "/" + testbed.App + "/" + service + ".upstream_rq_total"
			count, err := read(ctx, client, "http://"+proxy.Admin.String()+"/stats?format=json&filter="+url.QueryEscape("^"+counter+"$"), counter)
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

// speech is what a program has said so far.
type speech struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (s *speech) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(text)
}

// String is all of it.
func (s *speech) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// listen runs `split --watch --sent` until the returned function is called.
func listen(ctx context.Context, b *testbed.Bed) (said *speech, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	said = new(speech)
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
