// Command picture draws the animated picture of README from the output of a demo: `make picture`.
//
//	picture record LOG... >docs/pictures/demo.txt    the lines of logs that are drawn
//	picture draw docs/pictures/demo.txt              demo-light.svg and demo-dark.svg in the same folder
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/picture"
)

// errUsage is the error of invalid arguments.
var errUsage = errors.New("usage: picture record LOG..., or picture draw RUN")

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

// run runs the command line.
func run(args []string, out io.Writer) error {
	switch {
	case len(args) > 1 && args[0] == "record":
		return record(args[1:], out)
	case len(args) == 2 && args[0] == "draw":
		return draw(args[1])
	default:
		return errUsage
	}
}

// record writes the drawn lines of logs of complete runs.
func record(files []string, out io.Writer) error {
	var kept strings.Builder
	for _, file := range files {
		log, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return err
		}
		kept.WriteString(picture.Extract(string(log)))
	}
	if _, err := picture.Parse(kept.String()); err != nil {
		return err
	}
	_, err := io.WriteString(out, kept.String())
	return err
}

// draw writes the pictures into the folder of the run.
func draw(file string) error {
	log, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return err
	}
	parsed, err := picture.Parse(string(log))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for name, colors := range map[string]picture.Palette{
		"demo-light.svg": picture.Light(),
		"demo-dark.svg":  picture.Dark(),
	} {
		drawn, err := picture.Draw(parsed, colors)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), name), []byte(drawn), 0o644); err != nil {
			return err
		}
	}
	return nil
}
