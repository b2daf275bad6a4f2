package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"text/template"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// rules is a file of rules.
type rules struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	} `yaml:"groups"`
}

// rule is an alert.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// checkRules checks files of rules, and prints their number.
func checkRules(files []string, out io.Writer) error {
	count, err := 0, error(nil)
	for _, file := range files {
		read, problem := check(file)
		count += read
		err = errors.Join(err, problem)
	}
	if err == nil && count == 0 {
		err = errors.New("no rules: specify a file of rules")
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d valid rules\n", count)
	return err
}

// check checks a file, and returns the number of its rules.
func check(file string) (count int, err error) {
	input, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer input.Close()
	var read rules
	decoder := yaml.NewDecoder(input)
	decoder.KnownFields(true) // as Prometheus does
	if err := decoder.Decode(&read); err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	for _, group := range read.Groups {
		for _, each := range group.Rules {
			count++
			if problem := each.check(); problem != nil {
				err = errors.Join(err, fmt.Errorf("%s: group %s: alert %s: %w", file, group.Name, each.Alert, problem))
			}
		}
	}
	return count, err
}

// check checks an alert.
func (r rule) check() error {
	_, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
	if r.Alert == "" {
		err = errors.Join(err, errors.New("it has no name"))
	}
	if r.For != "" {
		_, problem := time.ParseDuration(r.For)
		err = errors.Join(err, problem)
	}
	for name, text := range r.Annotations {
		// Prometheus prepends these definitions to each template.
		_, problem := template.New(name).Parse(`{{$labels := .Labels}}{{$value := .Value}}` + text)
		err = errors.Join(err, problem)
	}
	return err
}
