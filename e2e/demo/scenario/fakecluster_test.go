package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/guide"
	"github.com/kedify/argo-rollouts-plugin/e2e/envoyadmin"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/test/kit/memhttp"
)

// faults are the possible faults of a cluster.
type faults struct {
	neverHealthy   bool // the Rollout never becomes healthy
	swapsTraffic   bool // Envoy shows the correct weights and routes the opposite
	swapsWeights   bool // Envoy gets the weights of the sides swapped
	frozen         bool // Envoy gets no update once the load runs
	silent         bool // the status never reports Envoy's ACK
	keepsWeights   bool // the annotation remains when a canary ends
	failsOnce      bool // one request of the first canary gets a 503
	closes         bool // connections are closed from the first split on
	listenerMoves  bool // the listener is updated at the first split
	countsOthers   bool // Envoy counts a request that the client didn't send
	straggler      bool // sometimes an old Pod responds after the end
	hangs          bool // no responses from the first split on
	oddAtFirst     bool // chance: an unsure first sample
	skipsPauses    bool // timed pauses end before a sample is complete
	brokenCommands bool // kubectl fails
}

// fakeCluster simulates the cluster. Commands change it; the proxy and Envoy's admin interface reflect it.
type fakeCluster struct {
	faults

	dialProxy, dialAdmin func(ctx context.Context, network, address string) (net.Conn, error)

	mu          sync.Mutex
	commands    []string
	image       string // of the stable pods
	canaryImage string
	weight      int // of the canary; 0 is none
	splitting   bool
	phase       string
	aborted     bool
	generation  int
	requests    uint64
	success     uint64
	listeners   uint64
	calm        bool // a second sample was requested
	lines       []string
}

// adminAddress is the address of Envoy's admin interface.
const adminAddress = "127.0.0.1:9901"

// newFakeCluster returns a cluster with in-memory servers, for a test in a synctest bubble.
func newFakeCluster(t *testing.T, f faults) *fakeCluster {
	t.Helper()
	w := &fakeCluster{faults: f, image: "blue", phase: "Healthy", generation: 1, listeners: 1}
	w.dialProxy = memhttp.Serve(t, memhttp.Server(w.serve))
	w.dialAdmin = memhttp.Serve(t, memhttp.Server(w.serveAdmin))
	return w
}

// dial connects to the proxy or to Envoy's admin interface.
func (w *fakeCluster) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if address == adminAddress {
		return w.dialAdmin(ctx, network, address)
	}
	return w.dialProxy(ctx, network, address)
}

// serve responds like kedify-proxy with the Pods behind it. A response takes some time: a closed loop of immediate
// responses would never end.
func (w *fakeCluster) serve(out http.ResponseWriter, r *http.Request) {
	time.Sleep(20 * time.Millisecond)
	w.mu.Lock()
	w.requests++
	n := w.requests
	_, turn := math.Modf(float64(n) * math.Phi) // evenly spread over 0 to 1
	share := float64(w.weight) / 100
	if w.swapsTraffic && w.splitting {
		share = 1 - share
	}
	if w.oddAtFirst && w.splitting && !w.calm {
		share += 0.2
	}
	color := w.image
	if turn < share {
		color = w.canaryImage
	}
	if w.straggler && !w.splitting && w.image == "yellow" && n%50 == 0 {
		color = "blue"
	}
	fails := w.failsOnce && w.splitting
	if fails {
		w.failsOnce = false
	} else {
		w.success++
	}
	closes, hangs := w.closes && w.splitting, w.hangs && w.splitting
	w.mu.Unlock()
	switch {
	case hangs:
		<-r.Context().Done()
	case fails:
		out.WriteHeader(http.StatusServiceUnavailable)
	default:
		if closes {
			out.Header().Set("Connection", "close")
		}
		_, _ = fmt.Fprintf(out, "%q", color)
	}
}

// serveAdmin responds like Envoy's admin interface.
func (w *fakeCluster) serveAdmin(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.URL.Path == "/stats" {
		_, _ = fmt.Fprintf(out, `{"stats":[{"name":%q,"value":%d},{"name":%q,"value":%d},{"name":%q,"value":%d}]}`,
			envoyadmin.RequestsCounter, w.requests, envoyadmin.SuccessCounter, w.success,
			envoyadmin.ListenerCounter, w.listeners)
		return
	}
	route := fmt.Sprintf(`{"cluster": %q}`, cluster(stable))
	if s, c := 100-w.weight, w.weight; w.splitting && !w.frozen {
		if w.swapsWeights {
			s, c = c, s
		}
		route = fmt.Sprintf("{\"weighted_clusters\": {\"clusters\": [\n{\"name\": %q, \"weight\": %d},\n{\"name\": %q, "+
			"\"weight\": %d}\n]}}",
			cluster(stable), s, cluster(canary), c)
	}
	_, _ = fmt.Fprintf(out, `{"configs":[{"scoped_route_configs":[{"name":%q,"route_configuration":{"virtual_hosts":[{"name":%q,"routes":[{"route":%s}]}]}}]}]}`, guide.Host, guide.Host, route)
}

// Run implements kube.Runner.
func (w *fakeCluster) Run(_ context.Context, args ...string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := strings.Join(args, " ")
	w.commands = append(w.commands, line)
	if w.brokenCommands {
		return "", io.ErrUnexpectedEOF
	}
	switch {
	case strings.Contains(line, " set image "):
		w.canaryImage = line[strings.LastIndex(line, ":")+1:]
		w.split(20)
	case strings.Contains(line, " promote "):
		w.split(50)
	case strings.Contains(line, " abort "):
		w.aborted = true
		w.end("Degraded")
	case strings.Contains(line, "jsonpath="):
		return w.annotation(), nil
	}
	return "", nil
}

// split sets the weight of the canary.
func (w *fakeCluster) split(weight int) {
	w.weight, w.splitting, w.phase = weight, true, "Paused"
	w.generation++
	if w.listenerMoves {
		w.listeners++
		w.listenerMoves = false
	}
	if w.countsOthers {
		w.requests++
		w.countsOthers = false
	}
}

// end ends the canary.
func (w *fakeCluster) end(phase string) {
	w.weight, w.phase = 0, phase
	w.splitting = w.keepsWeights
	w.generation++
}

// annotation returns the weights annotation, empty for none.
func (w *fakeCluster) annotation() string {
	if !w.splitting {
		return ""
	}
	return kube.WeightsText(stable, canary, w.weight)
}

// Print implements Screen. The printed lines also let the cluster continue after a timed pause.
func (w *fakeCluster) Print(lines ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, lines...)
	for _, line := range lines {
		measured := strings.Contains(line, "✔ ")
		switch {
		case strings.Contains(line, "Canary yellow → purple"):
			w.calm = true
		case strings.Contains(line, "A fresh sample"):
			w.calm = true
		case w.image == "yellow":
		case measured && strings.Contains(line, "desired 50 %"), w.skipsPauses && strings.Contains(line, "50 %: desired"):
			w.split(80)
		case measured && strings.Contains(line, "desired 80 %"):
			w.image = w.canaryImage
			w.end("Healthy")
		}
	}
}

// Frame implements Screen.
func (*fakeCluster) Frame([]string) {}

// Columns implements Screen.
func (*fakeCluster) Columns() int { return 100 }

// text returns all printed lines.
func (w *fakeCluster) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.lines, "\n")
}

// Stream implements kube.Runner: the watches and the port-forward.
func (w *fakeCluster) Stream(ctx context.Context, read func(io.Reader) error, args ...string) error {
	in, out := io.Pipe()
	var writer sync.WaitGroup
	defer writer.Wait()
	defer func() { _ = in.Close() }()
	writer.Go(func() {
		defer func() { _ = out.Close() }()
		ticks := time.NewTicker(10 * time.Millisecond)
		defer ticks.Stop()
		last := ""
		for {
			if text := w.output(strings.Join(args, " ")); text != last {
				last = text
				if _, err := io.WriteString(out, text); err != nil {
					return
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
		}
	})
	return read(in)
}

// output returns the current output of a long-lived command.
func (w *fakeCluster) output(line string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case strings.Contains(line, "port-forward"):
		return "Forwarding from " + adminAddress + " -> 9901\n"
	case strings.Contains(line, "get httpso"):
		object := kube.HTTPScaledObject{Metadata: kube.Metadata{Name: app}}
		object.Status.DataPlane = new(kube.DataPlane)
		object.Status.DataPlane.Proxies.Ready, object.Status.DataPlane.Proxies.Acked = 1, 1
		if text := w.annotation(); text != "" {
			object.Metadata.Annotations = map[string]string{kube.WeightsAnnotation: text + "\n"}
			if !w.silent {
				object.Status.DataPlane.AnnotationHash = kube.WeightsHash(text + "\n")
			}
		}
		return asJSON(object)
	default:
		r := kube.Rollout{Metadata: kube.Metadata{Name: app, Generation: int64(w.generation)}}
		r.Status.ObservedGeneration = strconv.Itoa(w.generation)
		r.Status.Phase, r.Status.Abort = w.phase, w.aborted
		r.Status.StableRS, r.Status.CurrentPodHash = "hash", "hash"
		if w.neverHealthy {
			r.Status.Phase = "Progressing"
		}
		if w.phase == "Paused" {
			r.Status.PauseConditions = append(r.Status.PauseConditions, struct {
				Reason string `json:"reason"`
			}{"CanaryPauseStep"})
		}
		return asJSON(r)
	}
}

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text) + "\n"
}
