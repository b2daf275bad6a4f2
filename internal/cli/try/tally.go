package try

import (
	"bufio"
	"io"
	"maps"
	"math"
	"strconv"
	"strings"
	"sync"
)

// warmUp is the number of consecutive successful responses after which requests count: before that, the route may not
// be complete.
const warm = 20

// maxSigmas is the maximum deviation of a traffic split in standard deviations. A correct split exceeds it once in
// 150,000 measurements.
const mostSigmas = 4.5

// failure is the color of a failed request.
const failure = ""

// response is the outcome of a request.
type answer struct {
	due   int64 // milliseconds since 1970
	color string
}

// Tally counts the responses that the load generator prints. Each line has the number of the request, its due time in
// milliseconds since 1970, its duration and the response.
type Tally struct {
	mu       sync.Mutex
	row      int // consecutive successful responses before the warm-up has ended
	isWarm   bool
	answers  []answer
	failures map[string]int // by error
}

// Read reads lines until the end of from.
func (t *Tally) Read(from io.Reader) error {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		t.add(lines.Text())
	}
	return lines.Err()
}

// add counts a line. It ignores lines of another format.
func (t *Tally) add(line string) {
	fields := strings.SplitN(line, " ", 4)
	if len(fields) != 4 {
		return
	}
	due, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return
	}
	got := answer{due: due, color: fields[3]}
	problem, isProblem := strings.CutPrefix(got.color, "error: ")
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.isWarm {
		t.row++
		if isProblem {
			t.row = 0
		}
		t.isWarm = t.row >= warm
		return
	}
	if isProblem {
		got.color = failure
		if t.failures == nil {
			t.failures = map[string]int{}
		}
		t.failures[problem]++
	}
	t.answers = append(t.answers, got)
}

// IsWarm reports whether requests count.
func (t *Tally) Warm() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.isWarm
}

// Count returns the number of successful requests that were due at or after from, in milliseconds since 1970, and how
// many of them were served by color.
func (t *Tally) Share(from int64, color string) (hits, all int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, got := range t.answers {
		if got.due < from || got.color == failure {
			continue
		}
		all++
		if got.color == color {
			hits++
		}
	}
	return hits, all
}

// Totals returns the number of all counted requests, and the number of failed requests by error.
func (t *Tally) Totals() (requests int, failures map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	failures = map[string]int{}
	maps.Copy(failures, t.failures)
	return len(t.answers), failures
}

// Agrees reports whether hits of all requests match a weight of percent, within maxSigmas standard deviations.
func Agrees(hits, all, percent int) bool {
	share := float64(percent) / 100
	return all > 0 && math.Abs(float64(hits)-share*float64(all)) <= mostSigmas*math.Sqrt(share*(1-share)*float64(all))
}
