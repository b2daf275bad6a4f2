package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

// dashboard is the part of a Grafana dashboard that is tested and drawn.
type dashboard struct {
	UID        string  `json:"uid"`
	Title      string  `json:"title"`
	Panels     []panel `json:"panels"`
	Templating struct {
		List []variable `json:"list"`
	} `json:"templating"`
}

// panel is a panel of a dashboard. The grid has 24 columns.
type panel struct {
	ID          int    `json:"id"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Type        string `json:"type"`
	GridPos     struct {
		H, W, X, Y int
	} `json:"gridPos"`
	FieldConfig struct {
		Defaults struct {
			Unit   string   `json:"unit"`
			Max    *float64 `json:"max"`
			Custom struct {
				Stacking struct {
					Mode string `json:"mode"`
				} `json:"stacking"`
			} `json:"custom"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []query `json:"targets"`
}

// query is a query of a panel.
type query struct {
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
}

// variable is a variable of a dashboard. Those of type query have a list of values, of which Grafana selects the first
// one.
type variable struct {
	Name, Type string
	Definition string
}

// selector returns the series and the label that a variable has its values from.
func (v variable) selector() (series, label string, err error) {
	parts := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(v.Definition)
	if parts == nil {
		return "", "", fmt.Errorf("variable %s: %q is not label_values(SERIES, LABEL)", v.Name, v.Definition)
	}
	return parts[1], parts[2], nil
}

// readDashboard reads the file of a dashboard.
func readDashboard(file string) (dashboard, error) {
	var board dashboard
	text, err := os.ReadFile(file) //nolint:gosec // the user names it
	if err == nil {
		err = json.Unmarshal(text, &board)
	}
	if err == nil && (board.UID == "" || board.Title == "" || len(board.Panels) == 0) {
		err = errors.New("no uid, title or panels")
	}
	if err != nil {
		return board, fmt.Errorf("dashboard %s: %w", file, err)
	}
	return board, nil
}

// expand replaces variables in a query. None may be left.
func expand(expression string, values map[string]string) (string, error) {
	for name, value := range values {
		expression = strings.ReplaceAll(expression, name, value)
	}
	if strings.Contains(expression, "$") {
		return "", fmt.Errorf("a variable has no value: %s", expression)
	}
	return expression, nil
}

// legendOf returns the text of a series in the legend.
func legendOf(format string, series labels.Labels) string {
	return regexp.MustCompile(`\{\{(\w+)\}\}`).ReplaceAllStringFunc(format, func(name string) string {
		return series.Get(strings.Trim(name, "{}"))
	})
}

// evaluator evaluates queries over a whole recording.
type evaluator struct {
	engine *promql.Engine
	made   recording
	values map[string]string // of variables
}

// results returns the series of a query. An empty result is an error.
func (e *evaluator) results(ctx context.Context, expression string) (promql.Matrix, error) {
	expanded, err := expand(expression, e.values)
	if err != nil {
		return nil, err
	}
	query, err := e.engine.NewRangeQuery(ctx, e.made.data, nil, expanded, time.Unix(0, 0), e.made.end(), interval)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expanded, err)
	}
	defer query.Close()
	matrix, err := query.Exec(ctx).Matrix()
	if err == nil && len(matrix) == 0 {
		err = errors.New("no result")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expanded, err)
	}
	all := slices.Clone(matrix)
	for i := range all { // the engine reuses its points
		all[i].Floats = slices.Clone(all[i].Floats)
	}
	return all, nil
}

// choose gives the variables of a dashboard their first values, as Grafana does.
func (e *evaluator) choose(ctx context.Context, board dashboard) error {
	e.values = map[string]string{"$__rate_interval": rateInterval.String()}
	for _, each := range board.Templating.List {
		if each.Type != "query" {
			continue
		}
		series, label, err := each.selector()
		if err != nil {
			return err
		}
		found, err := e.results(ctx, series)
		if err != nil {
			return fmt.Errorf("variable %s: %w", each.Name, err)
		}
		var all []string
		for _, one := range found {
			all = append(all, one.Metric.Get(label))
		}
		e.values["$"+each.Name] = slices.Min(all)
	}
	return nil
}
