package traffic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

const (
	// abRequests is the number of requests of a run of ab, abAtOnce how many of them it sends at a time.
	abRequests, abAtOnce = 200, 2
	// shortest is the length of the shortest body of the application.
	shortest = len(`"blue"`)
)

// apacheBench is the program ab, which sends requests of HTTP/1.0.
type apacheBench struct {
	// folder contains bin/ab, and the libraries that it needs below lib. The Makefile sets it.
	folder string
	// runs are the kinds of runs.
	runs []abRun
}

// abRun is a kind of run of ab.
type abRun struct {
	row       *row
	place     place
	keepAlive bool
}

// newApacheBench returns ab for runs through the Ingress controller and directly to the proxies, with and without
// keep-alive.
func (s *suite) newApacheBench(t *testing.T) apacheBench {
	t.Helper()
	b := apacheBench{folder: os.Getenv("TRAFFIC_AB")}
	if b.folder == "" {
		t.Fatal("TRAFFIC_AB is not set: run this test by `make test-traffic`, or set it to a folder with bin/ab")
	}
	for _, target := range []struct{ name, address string }{{"", s.ingress}, {", directly to kedify-proxy", s.proxies}} {
		for _, option := range []string{"", " -k"} {
			b.runs = append(b.runs, abRun{
				row:       s.row(fmt.Sprintf("ab -n %d -c %d%s%s", abRequests, abAtOnce, option, target.name)),
				place:     place{address: target.address, host: webHost},
				keepAlive: option != "",
			})
		}
	}
	return b
}

// run runs ab and records the result of each request.
func (b apacheBench) run(ctx context.Context, r abRun) {
	at := time.Now()
	failed, err := b.bench(ctx, r)
	for number := range abRequests {
		if number < failed {
			r.row.add(at, err)
			continue
		}
		r.row.add(at, nil)
	}
}

// bench runs ab. If requests failed, it returns their number and what ab reports about them.
func (b apacheBench) bench(ctx context.Context, r abRun) (failed int, err error) {
	// ab itself waits await.Patience for each response.
	ctx, cancel := context.WithTimeout(ctx, abRequests*await.Patience())
	defer cancel()
	libraries, err := filepath.Glob(filepath.Join(b.folder, "lib", "*-linux-gnu"))
	if err != nil || len(libraries) == 0 {
		return abRequests, errors.Join(fmt.Errorf("%s has no libraries: %v", b.folder, libraries), err)
	}
	// -l: bodies have the lengths of two versions. -r: a failed connection is a failed request, and not the end.
	args := []string{
		"-q", "-d", "-S", "-l", "-r", "-s", strconv.Itoa(int(await.Patience().Seconds())), "-n", strconv.Itoa(abRequests),
		"-c", strconv.Itoa(abAtOnce), "-H", "Host: " + r.place.host,
	}
	if r.keepAlive {
		args = append(args, "-k")
	}
	args = append(args, "http://"+r.place.address+"/color")
	command := exec.CommandContext(ctx, filepath.Join(b.folder, "bin", "ab"), args...)
	command.Env = append(os.Environ(), "LD_LIBRARY_PATH="+strings.Join(libraries, ":"))
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return abRequests, fmt.Errorf("run ab: %w: %.300s", err, stderr.String())
	}
	return parseAB(string(output), r.keepAlive)
}

// parseAB returns the number of failed requests in the output of ab, and an error that describes them. A response with
// another status than 2xx, an empty body, and a connection that was not kept alive count as failed.
func parseAB(output string, keepAlive bool) (failed int, err error) {
	values := map[string]int{}
	for line := range strings.Lines(output) {
		name, text, _ := strings.Cut(line, ":")
		if fields := strings.Fields(text); len(fields) > 0 {
			if value, err := strconv.Atoi(fields[0]); err == nil {
				values[name] = value
			}
		}
	}
	const complete, bad, status, kept, body = "Complete requests", "Failed requests", "Non-2xx responses",
		"Keep-Alive requests", "HTML transferred"
	if _, ok := values[complete]; !ok {
		return abRequests, fmt.Errorf("ab prints no line %q: %.300s", complete, output)
	}
	failed = abRequests - values[complete] + values[bad] + values[status]
	if keepAlive {
		failed += values[complete] - values[kept]
	}
	if missing := abRequests*shortest - values[body]; missing > 0 && failed == 0 {
		failed = (missing + shortest - 1) / shortest
	}
	if failed == 0 {
		return 0, nil
	}
	return min(failed, abRequests), fmt.Errorf("ab: %d complete, %d failed, %d not 2xx, %d kept alive, %d bytes",
		values[complete], values[bad], values[status], values[kept], values[body])
}

// TestParseAB: each kind of failure in the output of ab counts, and no request counts twice in excess of all.
func TestParseAB(t *testing.T) {
	t.Parallel()
	const good = "\nDocument Path:          /color\nComplete requests:      200\nFailed requests:        0\n" +
		"Total transferred:      27400 bytes\nHTML transferred:       1300 bytes\n"
	for name, c := range map[string]struct {
		output    string
		keepAlive bool
		failed    int
	}{
		"all succeed":                {good, false, 0},
		"all succeed, kept alive":    {good + "Keep-Alive requests:    200\n", true, 0},
		"some are not kept alive":    {good + "Keep-Alive requests:    150\n", true, 50},
		"none is kept alive":         {good, true, 200},
		"keep-alive does not matter": {good + "Keep-Alive requests:    0\n", false, 0},
		"another status":             {good + "Non-2xx responses:      4\n", false, 4},
		"incomplete":                 {strings.Replace(good, "200", "180", 1), false, 20},
		"refused": {
			"Complete requests:      200\nFailed requests:        300\n" +
				"   (Connect: 0, Receive: 200, Length: 0, Exceptions: 100)\nHTML transferred:       0 bytes\n", false, 200,
		},
		"empty bodies": {strings.Replace(good, "1300", "1195", 1), false, 1},
		"no body":      {strings.Replace(good, "1300", "0", 1), false, 200},
		"nothing":      {"", false, 200},
		"another text": {"apr_socket_recv: Connection reset by peer (104)\n", false, 200},
	} {
		failed, err := parseAB(c.output, c.keepAlive)
		if failed != c.failed || (err != nil) != (c.failed > 0) {
			t.Errorf("%s: %d failed, %v, want %d", name, failed, err, c.failed)
		}
	}
}
