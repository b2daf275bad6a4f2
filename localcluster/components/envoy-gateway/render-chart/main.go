// Command render-chart prints the objects that a Helm chart would install: its templates including hooks, without the
// CustomResourceDefinitions. It is `helm template` without the rest of Helm.
//
// A chart in a source tree may have a values.tmpl.yaml, from which a release generates values.yaml by replacing
// ${NAME}: the arguments NAME=VALUE set the replacements. Such a chart has no version yet, either: --version sets it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/strvals"
)

// templateFile contains the values of a chart that is not released yet.
const templateFile = "values.tmpl.yaml"

// options are the values of the flags.
type options struct {
	dir, version string
	files        []string
	release      chartutil.ReleaseOptions
	variables    map[string]string
	changes      []string
}

func main() {
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "render-chart:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	o := options{release: chartutil.ReleaseOptions{IsInstall: true, Revision: 1}, variables: map[string]string{}}
	flags := flag.NewFlagSet("render-chart", flag.ContinueOnError)
	flags.StringVar(&o.dir, "chart", "", "folder of the chart")
	flags.StringVar(&o.version, "version", "", "version of the chart and of its app")
	flags.StringVar(&o.release.Name, "release", "", "name of the release")
	flags.StringVar(&o.release.Namespace, "namespace", "", "namespace of the release")
	flags.Func("values", "`FILE` with values (repeatable)", func(file string) error {
		o.files = append(o.files, file)
		return nil
	})
	flags.Func("set", "`PATH=VALUE` of a value to change (repeatable)", func(change string) error {
		o.changes = append(o.changes, change)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if o.dir == "" || o.release.Name == "" || o.release.Namespace == "" {
		return options{}, errors.New("--chart, --release and --namespace are required")
	}
	for _, argument := range flags.Args() {
		name, value, found := strings.Cut(argument, "=")
		if !found {
			return options{}, fmt.Errorf("%q: want NAME=VALUE", argument)
		}
		o.variables[name] = value
	}
	return o, nil
}

func run(o options, out io.Writer) error {
	loaded, err := loader.Load(o.dir)
	if err != nil {
		return fmt.Errorf("load the chart %s: %w", o.dir, err)
	}
	if o.version != "" {
		loaded.Metadata.Version, loaded.Metadata.AppVersion = o.version, o.version
	}
	given, err := givenValues(o)
	if err != nil {
		return err
	}
	if err := chartutil.ProcessDependenciesWithMerge(loaded, given); err != nil {
		return fmt.Errorf("read the chart's dependencies: %w", err)
	}
	values, err := chartutil.ToRenderValues(loaded, given, o.release, chartutil.DefaultCapabilities)
	if err != nil {
		return fmt.Errorf("read the chart's values: %w", err)
	}
	rendered, err := engine.Render(loaded, values)
	if err != nil {
		return fmt.Errorf("render the chart: %w", err)
	}
	return printObjects(loaded, rendered, out)
}

// givenValues returns the values that override values.yaml: first those that a release of the chart would contain, then
// those of the flags, in their order.
func givenValues(o options) (map[string]any, error) {
	values, err := releasedValues(o)
	if err != nil {
		return nil, err
	}
	for _, file := range o.files {
		read, err := chartutil.ReadValuesFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the values in %s: %w", file, err)
		}
		values = chartutil.MergeTables(read, values)
	}
	for _, change := range o.changes {
		if err := strvals.ParseInto(change, values); err != nil {
			return nil, fmt.Errorf("--set %q: %w", change, err)
		}
	}
	return values, nil
}

// releasedValues returns the values of values.tmpl.yaml, if it exists.
func releasedValues(o options) (map[string]any, error) {
	raw, err := os.ReadFile(filepath.Join(o.dir, templateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]any{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the chart's values: %w", err)
	}
	var missing []string
	text := os.Expand(string(raw), func(name string) string {
		value, ok := o.variables[name]
		if !ok {
			missing = append(missing, name)
		}
		return value
	})
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s: missing arguments: %s", templateFile, strings.Join(missing, ", "))
	}
	values, err := chartutil.ReadValues([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("read the chart's values: %w", err)
	}
	return values, nil
}

// printObjects prints the rendered files that contain objects, by name.
func printObjects(loaded *chart.Chart, rendered map[string]string, out io.Writer) error {
	printed := 0
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		text := strings.TrimSpace(rendered[name])
		if text == "" || filepath.Ext(name) != ".yaml" {
			continue
		}
		printed++
		if _, err := fmt.Fprintf(out, "---\n# %s\n%s\n", name, text); err != nil {
			return err
		}
	}
	if printed == 0 {
		return fmt.Errorf("the chart %s renders no objects", loaded.Name())
	}
	return nil
}
