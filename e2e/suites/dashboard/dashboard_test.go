package dashboard

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/chromium"
)

const (
	// picturesVariable is the environment variable with a folder for pictures of the page; without it there are none.
	picturesVariable = "PICTURES"
	// loadTime is how long requests are sent before the page's counts are compared with Envoy's.
	loadTime = 5 * time.Second
	// written and active are the selectors of the canary's weights, phase that of the Rollout's.
	written, active = `tr[data-side=canary] td[data-field=written]`, `tr[data-side=canary] td[data-field=active]`
	phase           = `dd[data-field=phase]`
)

// TestCanary follows a canary from 20 % to its end, and another one to an abort. The page shows the written and the
// acknowledged weight, the step and the pause of the Rollout, its Events, and as many requests as the Envoys have counted.
func TestCanary(t *testing.T) {
	b := testbed.Up(t, provider.Spec{})
	b.Deploy(t, nil)
	ctx := t.Context()
	if err := b.Reset(ctx, "blue", testbed.SetWeight(20), testbed.Pause(), testbed.SetWeight(50), testbed.Pause()); err != nil {
		t.Fatal(err)
	}
	page, address := chromium.Start(t), openDashboard(t, b)
	page.Open(address, "light")
	page.Wait("#split", "no canary is running")
	page.Wait(phase, "Healthy")

	do(t, b.SetImage(ctx, "yellow"), b.AwaitPause(ctx, 1, 20))
	page.Wait(written, "20 %")
	page.Wait(active, "20 %")
	page.Wait(phase, "Paused")
	page.Wait(`dd[data-field=step]`, "of 4")
	page.Wait("#table-events", "RolloutPaused")
	compareCounts(t, b, page)
	page.CheckAccess("a canary at 20 %, light")

	do(t, b.Argo(ctx, "promote", testbed.App), b.AwaitPause(ctx, 3, 50))
	page.Wait(active, "50 %")
	compareCounts(t, b, page)
	picture(t, page, "live-page-light.png")
	do(t, b.Argo(ctx, "promote", testbed.App))
	page.Wait(phase, "Healthy")
	page.Wait("#history-summary", "Changes of the split")

	page.Open(address, "dark")
	do(t, b.SetImage(ctx, "green"), b.AwaitPause(ctx, 1, 20))
	page.Wait(active, "20 %")
	compareCounts(t, b, page)
	picture(t, page, "live-page-dark.png")
	do(t, b.Argo(ctx, "abort", testbed.App))
	page.Wait(phase, "aborted")
	page.CheckAccess("an aborted canary")
	page.CheckErrors()
}

// do fails the test after an error.
func do(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// openDashboard runs `kubectl http-canary dashboard` until the test ends, and returns the address that it prints.
func openDashboard(t *testing.T, b *testbed.Testbed) string {
	t.Helper()
	address := make(chan string, 1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.Cluster.Stream(ctx, func(out io.Reader) error {
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "http://") {
					address <- lines.Text()
				}
			}
			return lines.Err()
		}, testbed.CanaryPlugin(), "dashboard", testbed.App, "--namespace", testbed.Namespace, "--no-open") // the end of the test interrupts it
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return await.Receive(t, "the address of the live page", address)
}

// compareCounts sends requests, and waits until the page shows as many more on each side as the Envoys have counted.
func compareCounts(t *testing.T, b *testbed.Testbed, page *chromium.Browser) {
	t.Helper()
	shown := func(side string) int {
		count, err := strconv.Atoi(page.Text(`tr[data-side=` + side + `] td[data-field=requests]`))
		if err != nil {
			return 0 // There are no requests yet.
		}
		return count
	}
	before := envoyCounts(t, b)
	load, err := b.StartLoad(t.Context(), b.Proxies...)
	if err != nil {
		t.Fatal(err)
	}
	//testbounds:allow requests go on for a while
	<-time.After(loadTime)
	if _, err := load.Stop(nil); err != nil {
		t.Fatal(err)
	}
	after := envoyCounts(t, b)
	want := map[string]int{}
	for side, count := range after {
		want[side] = count - before[side]
	}
	t.Logf("the Envoys have counted %v more requests", want)
	await.Described(t, "the page has the Envoys' counts", func() bool {
		return shown("stable") >= want["stable"] && shown("canary") >= want["canary"]
	}, func() string {
		return fmt.Sprintf("it shows %d and %d, want %v", shown("stable"), shown("canary"), want)
	})
}

// envoyCounts returns the requests to each side that all Envoys have counted since their start.
func envoyCounts(t *testing.T, b *testbed.Testbed) map[string]int {
	t.Helper()
	proxies, err := b.CountsOfEnvoys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := map[string]int{}
	for _, counts := range proxies {
		sum["stable"] += int(counts[0])
		sum["canary"] += int(counts[1])
	}
	return sum
}

// picture stores a picture of the page, if a folder for it is named.
func picture(t *testing.T, page *chromium.Browser, name string) {
	t.Helper()
	if folder := os.Getenv(picturesVariable); folder != "" {
		page.Do(chromium.Command{Name: "screenshot", Text: filepath.Join(folder, name)}, nil)
	}
}
