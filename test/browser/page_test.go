package browser

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/chromium"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

const (
	// objects is the number of objects in addition to the canary.
	objects = 10_000
	// viewers is the number of viewers at the same time.
	viewers = 100
	// key is the canary: an object that is split between two apps.
	key = coldstart.Namespace + "/web-000"
)

func TestMain(m *testing.M) {
	os.Exit(netspace.Main(m, func(folder string) error {
		return program.Build(context.Background(), folder, "v9.9.9-test", "interceptor")
	}))
}

// bed is an interceptor with a proxy, two apps and many other objects.
type bed struct {
	*coldstart.Testbed

	t       *testing.T
	replica *coldstart.Replica
	url     string // of the live page
}

// newBed starts everything. It ends with the test.
func newBed(t *testing.T) *bed {
	t.Helper()
	binaries, err := apiserver.FromEnvironment(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	s, err := coldstart.Start(ctx, coldstart.Options{
		Binaries: binaries, Envoy: envoyproc.Binary(t), Repository: "../..", Built: netspace.Folder(), Folder: t.TempDir(),
		Apps: 2, QueueDeadline: time.Minute, Workers: 1,
		Arguments: []string{"--shutdown-delay=0s", "--max-objects-per-namespace=0", "--max-hosts-per-namespace=0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	replica, err := s.StartInterceptor(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Kill() })
	if err := s.StartProxy(ctx); err != nil {
		t.Fatal(err)
	}
	for app := range 2 {
		if err := s.SetReady(ctx, app, true); err != nil {
			t.Fatal(err)
		}
	}
	return &bed{s, t, replica, "http://" + coldstart.DashboardAddress(replica.Address) + "/"}
}

// createObjects creates the other objects, in a namespace without proxies.
func (b *bed) createObjects() {
	b.t.Helper()
	const namespace = "many"
	if err := apiserver.CreateNamespace(b.t.Context(), b.Admin, namespace); err != nil {
		b.t.Fatal(err)
	}
	group, ctx := errgroup.WithContext(b.t.Context())
	group.SetLimit(16)
	path := "/apis/" + httpv1alpha1.SchemeGroupVersion.String() + "/namespaces/" + namespace + "/" + httpv1alpha1.Resource
	for i := range objects {
		group.Go(func() error {
			name := fmt.Sprintf("app-%05d", i)
			object := kit.NewScaledObject(namespace, name, name, 1, name+".many.test")
			object.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: name}
			return apiserver.Create(ctx, b.Admin, path, object)
		})
	}
	if err := group.Wait(); err != nil {
		b.t.Fatal(err)
	}
}

// setCanary sets the percentage of the canary; below 0 it ends the split.
func (b *bed) setCanary(percent int) {
	b.t.Helper()
	var value any
	if percent >= 0 {
		value = fmt.Sprintf("[{service: web-000, weight: %d}, {service: web-001, weight: %d}]", 100-percent, percent)
	}
	path := "/apis/" + httpv1alpha1.SchemeGroupVersion.String() + "/namespaces/" + coldstart.Namespace + "/" +
		httpv1alpha1.Resource + "/web-000"
	err := apiserver.Patch(b.t.Context(), b.Admin, path, "test", map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{httpv1alpha1.AnnotationWeightedBackends: value},
	}})
	if err != nil {
		b.t.Fatal(err)
	}
}

// send sends requests to the canary's host.
func (b *bed) send(count int) {
	b.t.Helper()
	for range count {
		answer, err := traffic.Get(b.t.Context(), "http://"+coldstart.Proxy, coldstart.AppHost(0), nil)
		if err != nil || answer.Status != http.StatusOK {
			b.t.Fatalf("%d %s, %v", answer.Status, answer.Body, err)
		}
	}
}

// counted returns Envoy's counter of the requests to a Service.
func (b *bed) counted(service string) int {
	b.t.Helper()
	name := "cluster." + key + "/" + service + ".upstream_rq_total"
	text, err := b.Envoy.Admin(b.t.Context(), "/stats?filter="+regexp.QuoteMeta(name))
	if err != nil {
		b.t.Fatal(err)
	}
	_, number, _ := strings.Cut(strings.TrimSpace(string(text)), ": ")
	count, err := strconv.Atoi(number)
	if err != nil {
		b.t.Fatalf("%q: %v", text, err)
	}
	return count
}

// TestCanary follows a canary from 20 % over 50 % to an abort, and another one to its end. The page shows the written
// and the acknowledged split, and the requests that Envoy has counted.
func TestCanary(t *testing.T) {
	b, c := newBed(t), chromium.Start(t)
	c.Open(b.url+"#/"+key, "light")
	c.Wait("#split", "no canary is running")
	c.CheckAccess("without a canary")
	for _, percent := range []int{20, 50} {
		b.setCanary(percent)
		want := strconv.Itoa(percent) + " %"
		c.Wait(`tr[data-side=canary] td[data-field=written]`, want)
		c.Wait(`tr[data-side=canary] td[data-field=active]`, want)
		c.Wait(`dd[data-field=proxies]`, "1 of 1 Ready proxies")
		c.Wait(".legend", "Acknowledged by every proxy: "+want)
		b.compareCounts(c)
	}
	c.CheckAccess("a canary, light")
	b.setCanary(0) // an abort
	c.Wait(`tr[data-side=canary] td[data-field=active]`, "0 %")
	c.Wait(".legend", "Acknowledged by every proxy: 0 %")
	b.setCanary(20)
	c.Wait(`tr[data-side=canary] td[data-field=active]`, "20 %")
	b.setCanary(100)
	c.Wait(`tr[data-side=canary] td[data-field=active]`, "100 %")
	b.setCanary(-1)
	c.Wait("#history summary", "Changes of the split")
	var rows []string
	c.Do(chromium.Command{Name: "texts", Selector: "#history tbody tr td:nth-child(2)"}, &rows)
	seen := strings.Join(rows, ",")
	for _, want := range []string{"100 %", "50 %", "20 %", "0 %"} {
		if !strings.Contains(seen, want) {
			t.Errorf("the history has no %s: %s", want, seen)
		}
	}
	c.Open(b.url+"#/"+key, "dark")
	c.Wait("#detail-title", key)
	c.CheckAccess("after a canary, dark")
	c.CheckErrors()
}

// compareCounts sends requests, and waits until the page shows as many on each side as Envoy has counted.
func (b *bed) compareCounts(c *chromium.Browser) {
	b.t.Helper()
	before := map[string]int{"stable": b.counted("web-000"), "canary": b.counted("web-001")}
	shown := func(side string) int {
		count, err := strconv.Atoi(c.Text(`tr[data-side=` + side + `] td[data-field=requests]`))
		if err != nil {
			return 0 // There are no requests yet.
		}
		return count
	}
	start := map[string]int{"stable": shown("stable"), "canary": shown("canary")}
	b.send(200)
	want := map[string]int{"stable": b.counted("web-000") - before["stable"], "canary": b.counted("web-001") - before["canary"]}
	b.t.Logf("Envoy has counted %v more requests, of %d", want, 200)
	await.True(b.t, "the page has Envoy's counts", func() bool {
		return shown("stable") >= want["stable"] && shown("canary") >= want["canary"]
	})
	for side, count := range want {
		if got := shown(side); got != start[side]+count {
			b.t.Errorf("%s: the page shows %d requests, after %d; Envoy has counted %d more", side, got, start[side], count)
		}
	}
}

// TestManyObjects filters and scrolls 10,000 objects, by mouse and by keyboard, and prints the times and what 100 viewers
// cost the interceptor, each with its limit.
func TestManyObjects(t *testing.T) {
	b, c := newBed(t), chromium.Start(t)
	b.createObjects()
	c.Open(b.url, "light")
	c.Wait("#count", fmt.Sprintf("of %d", objects+2))
	c.CheckAccess("10,000 objects, light")
	var took float64
	c.Run(`(async () => {
		const search = document.getElementById("search"), times = [];
		for (const text of ["9", "99", "999", "app-09", "", "many"]) {
			const began = performance.now();
			search.value = text;
			search.dispatchEvent(new Event("input", { bubbles: true }));
			await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
			times.push(performance.now() - began);
		}
		search.value = "";
		search.dispatchEvent(new Event("input", { bubbles: true }));
		return Math.max(...times);
	})()`, &took)
	t.Logf("filter of %d rows: %.0f ms at most; limit 100 ms", objects, took)
	c.Run(`(async () => {
		const body = document.getElementById("body"), times = [];
		for (let i = 0; i < 30; i++) {
			const began = performance.now();
			body.scrollTop = (i * 7919 % 10000) * 34;
			await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
			times.push(performance.now() - began);
		}
		return Math.max(...times);
	})()`, &took)
	t.Logf("scrolling %d rows: %.0f ms at most; limit 100 ms", objects, took)
	var inDocument int
	c.Run(`document.querySelectorAll("#body .row").length`, &inDocument)
	if inDocument == 0 || inDocument > 100 {
		t.Errorf("%d rows are in the document", inDocument)
	}
	c.Do(chromium.Command{Name: "focus", Selector: "#body"}, nil)
	c.Do(chromium.Command{Name: "press", Text: "Home"}, nil)
	c.Wait("#body .row[aria-rowindex='2'] a", "web-000")
	c.Do(chromium.Command{Name: "press", Text: "End"}, nil)
	c.Wait(fmt.Sprintf("#body .row[aria-rowindex='%d'] a", objects+3), fmt.Sprintf("app-%05d", objects-1))
	c.Do(chromium.Command{Name: "fill", Selector: "#search", Text: "app-04242"}, nil)
	c.Wait("#count", "1 of")
	c.Wait("#body .row a", "app-04242")
	c.Open(b.url+"#/?search=app-04242&namespace=many", "dark")
	c.Wait("#count", fmt.Sprintf("1 of %d", objects+2))
	c.CheckAccess("10,000 objects, dark")
	c.CheckErrors()
	b.measureViewers()
}

// measureViewers prints the processor time of the interceptor without and with 100 viewers, while the canary receives
// requests.
func (b *bed) measureViewers() {
	b.t.Helper()
	const period = 15 * time.Second
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		for ctx.Err() == nil {
			_, _ = traffic.Get(ctx, "http://"+coldstart.Proxy, coldstart.AppHost(0), nil)
		}
	})
	without := b.processorTime(period)
	opened := make(chan struct{}, viewers)
	for range viewers {
		running.Go(func() { watch(ctx, b.url+"api/v1/watch", opened) })
	}
	for range viewers {
		await.Receive(b.t, "a viewer has all objects", opened)
	}
	with := b.processorTime(period)
	b.t.Logf("the interceptor used %.1f %% of a core without viewers, and %.1f %% with %d: %.1f %% more; limit 5 %%",
		without, with, viewers, with-without)
}

// watch reads a stream, and signals its first event.
func watch(ctx context.Context, url string, opened chan<- struct{}) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return
	}
	response, err := new(http.Transport).RoundTrip(request)
	if err != nil {
		return
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 64<<20)
	for isFirst := true; lines.Scan(); {
		if isFirst && strings.HasPrefix(lines.Text(), `data: {"whole":true`) {
			isFirst = false
			opened <- struct{}{}
		}
	}
}

// processorTime returns the processor time of the interceptor in a period, in percent of a core.
func (b *bed) processorTime(period time.Duration) float64 {
	b.t.Helper()
	const percent = 100
	before := b.processorSeconds()
	//testbounds:allow processor time is measured over a period
	<-time.After(period)
	return percent * (b.processorSeconds() - before) / period.Seconds()
}

// processorSeconds returns the processor time of the interceptor: fields 14 and 15 of proc(5). Its entry in /proc has
// another number than in the PID namespace of the tests, so the command line identifies it.
func (b *bed) processorSeconds() float64 {
	b.t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, entry := range entries {
		command, err := os.ReadFile(entry)
		if err != nil || !strings.Contains(string(command), "interceptor\x00--kubeconfig="+b.Folder) {
			continue // It has ended, or is another process.
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(entry), "stat"))
		if err != nil {
			b.t.Fatal(err)
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		user, errUser := strconv.ParseFloat(fields[11], 64)
		system, errSystem := strconv.ParseFloat(fields[12], 64)
		if err := errors.Join(errUser, errSystem); err != nil {
			b.t.Fatal(err)
		}
		const perSecond = 100 // USER_HZ
		return (user + system) / perSecond
	}
	b.t.Fatal("there is no interceptor in /proc")
	return 0
}
