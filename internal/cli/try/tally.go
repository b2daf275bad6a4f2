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

// warm is how many good answers in a row show that the requests' way is there: until then nothing counts.
const warm = 20

// mostSigmas is by how many standard deviations a share may be off. A right one is off by more once in 150,000 times.
const mostSigmas = 4.5

// failure is the colour of a request that got no good answer.
const failure = ""

// answer is what became of a request.
type answer struct {
	due   int64 // milliseconds since 1970
	color string
}

// Tally counts answers as the load prints them, one a line: the request's number, when it was due, what it took, and the answer.
type Tally struct {
	mu       sync.Mutex
	row      int // good answers in a row, while it is not warm
	isWarm   bool
	answers  []answer
	failures map[string]int // by what was answered
}

// Read reads lines until there are none.
func (t *Tally) Read(from io.Reader) error {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		t.add(lines.Text())
	}
	return lines.Err()
}

// add counts a line. One that is none of the load's is passed over.
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

// Warm says whether what comes counts.
func (t *Tally) Warm() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.isWarm
}

// Share is how many of the requests that were due from a moment on, in milliseconds since 1970, got a colour, of those that got any.
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

// Totals are all requests that count, and what those were answered that failed.
func (t *Tally) Totals() (requests int, failures map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	failures = map[string]int{}
	maps.Copy(failures, t.failures)
	return len(t.answers), failures
}

// Agrees says whether hits of all requests can be a share of percent: by chance alone they are not further away.
func Agrees(hits, all, percent int) bool {
	share := float64(percent) / 100
	return all > 0 && math.Abs(float64(hits)-share*float64(all)) <= mostSigmas*math.Sqrt(share*(1-share)*float64(all))
}
