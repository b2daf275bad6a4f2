package picture

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ErrIncomplete means that the output of a run misses something that is drawn.
var ErrIncomplete = errors.New("not the output of a whole run of the demo: take that of make demo, without a terminal")

// Run contains the drawn results of a run.
type Run struct {
	// Version is the version of the code.
	Version string
	// Rate is the number of requests per second.
	Rate string
	// Seconds is the duration of the canaries.
	Seconds float64
	// Steps are the states of the canaries.
	Steps []Step
	// Rates are the states of the app while its replicas follow the requests.
	Rates []Rate
	// Canaries and Scaling count the requests of the two halves.
	Canaries, Scaling Requests
}

// Step is a state of a canary.
type Step struct {
	// From and To are the colors of the old and the new version. Color is the measured color.
	From, To, Color string
	// Name is the step's, such as "20 %" or "aborted".
	Name string
	// At is when the weight was active, in seconds.
	At float64
	// Desired and Measured are the expected and measured share of Color in percent. Low and High are the bounds of its 95
	// % confidence interval.
	Desired, Measured, Low, High float64
	// Sample is the number of measured requests.
	Sample string
	// Passed reports whether the demo accepted the measured split.
	Passed bool
}

// Rate is a state of the app while its replicas follow the requests.
type Rate struct {
	// Name is the state's, such as "25 requests/s".
	Name string
	// At is when the replicas were reached, After how long that took, both in seconds.
	At, After float64
	// Expected, Stable and Canary are numbers of replicas.
	Expected, Stable, Canary int
}

// Requests contains the numbers of failed requests and of all requests.
type Requests struct{ Failed, Made string }

// The lines that are drawn, as packages scenario, scaling and report write them.
const (
	number   = `([0-9.]+)`
	count    = `([0-9]+(?: [0-9]{3})*)`
	begun    = `^Canary demo, (\S+)$`
	load     = `^The load runs: ([0-9]+) requests/s `
	canary   = `^Canary (\w+) → (\w+)$`
	reached  = `^\[` + number + ` s\] (.+): desired ` + number + ` % (\w+), annotation `
	measured = `  ` + number + ` % (\w+) .* ` + number + ` % \[` + number + `, ` + number + `\] ([✔✘]) +` + count + `  `
	replicas = `^\[` + number + ` s\] (.+): ([0-9]+) replicas expected, ([0-9]+) stable and ([0-9]+) canary after ` +
		number + ` s$`
	failed    = `^[✔✘] no request failed: ` + count + ` of ` + count
	failed2nd = `^[✔✘] no request of the app that scales failed: ` + count + ` of ` + count
	ended     = `^` + number + ` s in all\.$`
)

// Extract returns the lines of a log that the picture uses, unchanged. The rest of a log is not needed.
func Extract(log string) string {
	var kept strings.Builder
	drawn := regexp.MustCompile(strings.Join([]string{
		begun, load, canary, reached, measured, replicas,
		failed, failed2nd, ended,
	}, "|"))
	for line := range strings.Lines(log) {
		if drawn.MatchString(strings.TrimSuffix(line, "\n")) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// Parse parses a run from a log or from the output of Extract. The logs of halves that ran separately are concatenated.
// An error wraps ErrIncomplete.
func Parse(log string) (Run, error) {
	p := parser{patterns: map[string]*regexp.Regexp{}}
	for line := range strings.Lines(log) {
		p.read(strings.TrimSuffix(line, "\n"))
	}
	r := p.run
	switch {
	case p.err != nil:
		return Run{}, p.err
	case len(r.Steps) == 0 || p.verdicts != len(r.Steps):
		return Run{}, fmt.Errorf("%w: %d steps, and %d of them measured", ErrIncomplete, len(r.Steps), p.verdicts)
	case len(r.Rates) == 0 || r.Canaries.Made == "" || r.Scaling.Made == "" || r.Seconds == 0 || r.Rate == "":
		return Run{}, fmt.Errorf("%w: %d rates, %q and %q requests", ErrIncomplete, len(r.Rates),
			r.Canaries.Made, r.Scaling.Made)
	}
	return r, nil
}

// parser is a partially read Run.
type parser struct {
	run      Run
	from, to string
	verdicts int // number of steps with a verdict
	patterns map[string]*regexp.Regexp
	err      error
}

// read reads a line. It ignores lines that are not drawn.
func (p *parser) read(line string) {
	r := &p.run
	if f := p.find(begun, line); f != nil && r.Version == "" {
		r.Version = f[1]
	} else if f := p.find(load, line); f != nil {
		r.Rate = f[1]
	} else if f := p.find(canary, line); f != nil {
		p.from, p.to = f[1], f[2]
	} else if f := p.find(reached, line); f != nil {
		r.Steps = append(r.Steps, Step{
			From: p.from, To: p.to, Color: f[4], Name: f[2],
			At: p.float(f[1]), Desired: p.float(f[3]),
		})
	} else if f := p.find(measured, line); f != nil {
		p.parseVerdict(f)
	} else if f := p.find(replicas, line); f != nil {
		r.Rates = append(r.Rates, Rate{f[2], p.float(f[1]), p.float(f[6]), p.int(f[3]), p.int(f[4]), p.int(f[5])})
	} else if f := p.find(failed, line); f != nil {
		r.Canaries = Requests{f[1], f[2]}
	} else if f := p.find(failed2nd, line); f != nil {
		r.Scaling = Requests{f[1], f[2]}
	} else if f := p.find(ended, line); f != nil && r.Seconds == 0 {
		r.Seconds = p.float(f[1])
	}
}

// parseVerdict reads a row of the summary, which contains the results of the next step.
func (p *parser) parseVerdict(row []string) {
	if p.verdicts == len(p.run.Steps) || p.run.Steps[p.verdicts].Color != row[2] ||
		p.run.Steps[p.verdicts].Desired != p.float(row[1]) {
		p.err = fmt.Errorf("%w: row %d of the summary is of no step: %s", ErrIncomplete, p.verdicts+1, row[0])
		return
	}
	s := &p.run.Steps[p.verdicts]
	s.Measured, s.Low, s.High, s.Passed, s.Sample = p.float(row[3]), p.float(row[4]), p.float(row[5]), row[6] == "✔", row[7]
	p.verdicts++
}

// find returns the submatches of a pattern in a line.
func (p *parser) find(pattern, line string) []string {
	if p.patterns[pattern] == nil {
		p.patterns[pattern] = regexp.MustCompile(pattern)
	}
	return p.patterns[pattern].FindStringSubmatch(line)
}

// float parses a number of seconds or percent.
func (p *parser) float(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		p.err = fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	return value
}

// int parses a number of replicas.
func (p *parser) int(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		p.err = fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	return value
}
