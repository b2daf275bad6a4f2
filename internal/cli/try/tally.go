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
const warmUp = 20

// maxSigmas is the maximum deviation of a traffic split in standard deviations. A correct split exceeds it once in
// 150,000 measurements.
const maxSigmas = 4.5

// failure is the color of a failed request.
const failure = ""

// response is the outcome of a request.
type response struct {
	due   int64 // milliseconds since 1970
	color string
}

// Tally counts the responses that the load generator prints. Each line has the number of the request, its due time in
// milliseconds since 1970, its duration and the response.
type Tally struct {
	mu        sync.Mutex
	successes int // consecutive successful responses before the warm-up has ended
	isWarm    bool
	responses []response
	failures  map[string]int // by error
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
	response := response{due: due, color: fields[3]}
	problem, isProblem := strings.CutPrefix(response.color, "error: ")
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.isWarm {
		t.successes++
		if isProblem {
			t.successes = 0
		}
		t.isWarm = t.successes >= warmUp
		return
	}
	if isProblem {
		response.color = failure
		if t.failures == nil {
			t.failures = map[string]int{}
		}
		t.failures[problem]++
	}
	t.responses = append(t.responses, response)
}

// IsWarm reports whether requests count.
func (t *Tally) IsWarm() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.isWarm
}

// Count returns the number of successful requests that were due at or after from, in milliseconds since 1970, and how
// many of them were served by color.
func (t *Tally) Count(from int64, color string) (hits, total int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, response := range t.responses {
		if response.due < from || response.color == failure {
			continue
		}
		total++
		if response.color == color {
			hits++
		}
	}
	return hits, total
}

// Totals returns the number of all counted requests, and the number of failed requests by error.
func (t *Tally) Totals() (requests int, failures map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	failures = map[string]int{}
	maps.Copy(failures, t.failures)
	return len(t.responses), failures
}

// Agrees reports whether hits of all requests match a weight of percent, within maxSigmas standard deviations.
func Agrees(hits, all, percent int) bool {
	share := float64(percent) / 100
	return all > 0 && math.Abs(float64(hits)-share*float64(all)) <= maxSigmas*math.Sqrt(share*(1-share)*float64(all))
}
