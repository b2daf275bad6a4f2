// Command promrules reads alerts and dashboards as Prometheus does.
//
//	promrules rules FILE...              report the alerting rules that Prometheus would reject
//	promrules record FILE -- COMMAND...  scrape the components of the embedded cluster while a command runs
//	promrules draw FILE FOLDER BOARD...  draw Grafana dashboards from a recording, one SVG file each
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

// errUsage is the error of invalid arguments.
var errUsage = errors.New("usage: promrules rules FILE..., promrules record FILE -- COMMAND..., " +
	"or promrules draw FILE FOLDER BOARD")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "promrules:", err)
		os.Exit(1)
	}
}

// run runs the command line.
func run(ctx context.Context, args []string, out io.Writer) error {
	switch {
	case len(args) > 1 && args[0] == "rules":
		return checkRules(args[1:], out)
	case len(args) > 3 && args[0] == "record" && args[2] == "--":
		return record(ctx, args[1], args[3:])
	case len(args) > 3 && args[0] == "draw":
		return drawAll(ctx, args[1], args[2], args[3:])
	default:
		return errUsage
	}
}

// drawAll draws each dashboard into FOLDER/dashboard-NAME.svg.
func drawAll(ctx context.Context, file, folder string, boards []string) error {
	made, err := readRecording(file)
	if err != nil {
		return err
	}
	for _, name := range boards {
		board, err := readDashboard(name)
		if err != nil {
			return err
		}
		picture, err := draw(ctx, board, made)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(pictureOf(folder, name), []byte(picture), 0o644); err != nil { //nolint:gosec // a document
			return err
		}
	}
	return nil
}

// pictureOf returns the file with the picture of a dashboard.
func pictureOf(folder, board string) string {
	return filepath.Join(folder, "dashboard-"+strings.TrimSuffix(filepath.Base(board), ".json")+".svg")
}
