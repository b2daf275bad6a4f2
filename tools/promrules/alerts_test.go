package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"go.yaml.in/yaml/v3"
)

// minutes is the length of the states in testdata. Each has one sample a minute.
const minutes = 120

// series are the samples of series by their names and labels: a number, a list that is repeated, or Prometheus'
// notation. A series without samples does not exist.
type series map[string]any

// states is the content of testdata/alerts.yaml.
type states struct {
	Steady series `yaml:"steady"`
	Firing []struct {
		Alert  string `yaml:"alert"`
		Minute *int   `yaml:"minute"`
		Series series `yaml:"series"`
	} `yaml:"firing"`
	Quiet []struct {
		Name   string `yaml:"name"`
		Series series `yaml:"series"`
	} `yaml:"quiet"`
}

// decode decodes a YAML file.
func decode[T any](t *testing.T, file string) (value T) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, &value); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return value
}

// load returns a database with a state. Changes replace series of steady.
func load(t *testing.T, steady, changes series) storage.Queryable {
	t.Helper()
	all := series{}
	maps.Copy(all, steady)
	for name, samples := range changes {
		if _, exists := steady[name]; !exists && samples == nil {
			t.Fatalf("series %s is removed, but not in steady", name)
		}
		all[name] = samples
	}
	var data database
	for name, samples := range all {
		if samples != nil {
			one, err := newSeries(name+" "+samplesOf(samples), time.Minute, false)
			if err != nil {
				t.Fatal(err)
			}
			data = append(data, one)
		}
	}
	return data
}

// samplesOf returns samples in Prometheus' notation.
func samplesOf(value any) string {
	switch samples := value.(type) {
	case string:
		return samples
	case []any:
		var text []string
		for i := range minutes + 1 {
			text = append(text, fmt.Sprint(samples[i%len(samples)]))
		}
		return strings.Join(text, " ")
	default:
		return fmt.Sprintf("%v+0x%d", samples, minutes)
	}
}

// startEngine returns an engine, and closes it at the end of the test.
func startEngine(t *testing.T) *promql.Engine {
	t.Helper()
	engine := newEngine()
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return engine
}

// evaluate returns the result of an expression at a minute.
func evaluate(t *testing.T, engine *promql.Engine, data storage.Queryable, expression string, minute int) promql.Vector {
	t.Helper()
	query, err := engine.NewInstantQuery(t.Context(), data, nil, expression, time.Unix(int64(minute)*60, 0))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	defer query.Close()
	result := query.Exec(t.Context())
	vector, err := result.Vector()
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return vector
}

// fires returns the first minute in which an alert fires, as Prometheus defines it: it has been active for the duration
// in each evaluation, one a minute. It is negative if the alert does not fire.
func fires(t *testing.T, engine *promql.Engine, data storage.Queryable, alert rule) int {
	t.Helper()
	duration, err := time.ParseDuration(cmp.Or(alert.For, "0s"))
	if err != nil {
		t.Fatal(err)
	}
	active := map[string]int{} // the minute since when an alert with these labels is active
	for minute := range minutes + 1 {
		now := map[string]int{}
		for _, sample := range evaluate(t, engine, data, alert.Expr, minute) {
			labels := sample.Metric.String()
			since, ok := active[labels]
			if !ok {
				since = minute
			}
			now[labels] = since
			if time.Duration(minute-since)*time.Minute >= duration {
				describe(t, alert, sample)
				return minute
			}
		}
		active = now
	}
	return -1
}

// describe executes the templates of an alert. They use only labels that the alert has.
func describe(t *testing.T, alert rule, sample promql.Sample) {
	t.Helper()
	data := map[string]any{"Labels": sample.Metric.Map(), "Value": sample.F}
	for name, text := range alert.Annotations {
		parsed, err := template.New(name).Option("missingkey=error").
			Parse(`{{$labels := .Labels}}{{$value := .Value}}` + text)
		if err == nil {
			err = parsed.Execute(new(strings.Builder), data)
		}
		if err != nil {
			t.Errorf("alert %s: %v", alert.Alert, err)
		}
	}
}

// alerts returns the alerts of config.
func alerts(t *testing.T) (all []rule) {
	t.Helper()
	for _, group := range decode[rules](t, "../../config/prometheus/rules.yaml").Groups {
		all = append(all, group.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}
	return all
}

// firing returns the alerts that fire in a state, with the first minute of each.
func firing(t *testing.T, data storage.Queryable) map[string]int {
	t.Helper()
	engine := startEngine(t)
	found := map[string]int{}
	for _, alert := range alerts(t) {
		if minute := fires(t, engine, data, alert); minute >= 0 {
			found[alert.Alert] = minute
		}
	}
	return found
}

// TestAlertsFire: in each state exactly one alert fires, and each alert fires in one.
func TestAlertsFire(t *testing.T) {
	tested := decode[states](t, "testdata/alerts.yaml")
	covered := map[string]bool{}
	for i, state := range tested.Firing {
		covered[state.Alert] = true
		t.Run(fmt.Sprintf("%s %d", state.Alert, i), func(t *testing.T) {
			got := firing(t, load(t, tested.Steady, state.Series))
			minute, ok := got[state.Alert]
			if len(got) != 1 || !ok {
				t.Fatalf("alerts that fire, with the minute: %v, want %s only", got, state.Alert)
			}
			if state.Minute != nil && minute != *state.Minute {
				t.Errorf("it fires in minute %d, want %d", minute, *state.Minute)
			}
		})
	}
	for _, alert := range alerts(t) {
		if !covered[alert.Alert] {
			t.Errorf("testdata/alerts.yaml has no state in which %s fires", alert.Alert)
		}
	}
}

// TestNoAlertFires: in a steady state no alert fires.
func TestNoAlertFires(t *testing.T) {
	tested := decode[states](t, "testdata/alerts.yaml")
	if got := firing(t, load(t, tested.Steady, nil)); len(got) > 0 {
		t.Errorf("in the steady state: %v", got)
	}
	for _, state := range tested.Quiet {
		if got := firing(t, load(t, tested.Steady, state.Series)); len(got) > 0 {
			t.Errorf("%s: %v", state.Name, got)
		}
	}
}
