// Package chromium drives Chromium for tests of web pages, by Playwright in a process of Node.js. Make's targets install
// the packages and name the browser.
package chromium

import (
	"bufio"
	_ "embed" // of driver
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// Environment variables with the path of Chromium, and with the folder of the packages that test/browser/package.json
// names.
const (
	BinaryVariable   = "CHROMIUM_BIN"
	PackagesVariable = "BROWSER_PACKAGES"
)

// driver is the program that carries commands out.
//
//go:embed driver.mjs
var driver []byte

// Browser is a running browser with one page. Its methods fail the test after an error.
type Browser struct {
	t       *testing.T
	in      io.Writer
	answers *bufio.Scanner
}

// Start starts Chromium. It ends with the test.
func Start(t *testing.T) *Browser {
	t.Helper()
	for _, name := range []string{BinaryVariable, PackagesVariable} {
		if os.Getenv(name) == "" {
			t.Fatalf("%s is not set: use make test-browser or make test-dashboard", name)
		}
	}
	program := filepath.Join(t.TempDir(), "driver.mjs")
	if err := os.WriteFile(program, driver, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "node", program) //nolint:gosec // a file of this test
	command.Stderr = os.Stderr
	command.Env = append(os.Environ(), fmt.Sprintf("PATIENCE=%d", await.Patience().Milliseconds()))
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("%v: install Node.js", err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = command.Wait()
	})
	answers := bufio.NewScanner(out)
	answers.Buffer(nil, 16<<20)
	return &Browser{t, in, answers}
}

// Command is a command of driver.mjs, and its options.
type Command struct {
	// Name is the name of the command.
	Name string `json:"name"`
	// URL is an address, Selector a CSS selector, and Text an input, a key, an expression or a file.
	URL      string `json:"url,omitempty"`
	Selector string `json:"selector,omitempty"`
	Text     string `json:"text,omitempty"`
	// ColorScheme is light or dark.
	ColorScheme string `json:"colorScheme,omitempty"`
}

// Do runs a command and decodes its result into result, unless it is nil.
func (b *Browser) Do(command Command, result any) {
	b.t.Helper()
	line, err := json.Marshal(command)
	if err == nil {
		_, err = fmt.Fprintf(b.in, "%s\n", line)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	if !b.answers.Scan() {
		b.t.Fatalf("the browser has ended: %v: use make test-browser", b.answers.Err())
	}
	var answer struct {
		Error string          `json:"error"`
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(b.answers.Bytes(), &answer); err != nil || answer.Error != "" {
		b.t.Fatalf("%+v: %s %v", command, answer.Error, err)
	}
	if result != nil {
		if err := json.Unmarshal(answer.Value, result); err != nil {
			b.t.Fatalf("%+v: %s: %v", command, answer.Value, err)
		}
	}
}

// Open opens a page with light or dark colors.
func (b *Browser) Open(url, colors string) {
	b.t.Helper()
	b.Do(Command{Name: "open", URL: url, ColorScheme: colors}, nil)
}

// Wait waits until an element contains a text.
func (b *Browser) Wait(selector, text string) {
	b.t.Helper()
	b.Do(Command{Name: "wait", Selector: selector, Text: text}, nil)
}

// Text returns the text of an element.
func (b *Browser) Text(selector string) (text string) {
	b.t.Helper()
	b.Do(Command{Name: "text", Selector: selector}, &text)
	return text
}

// Run evaluates an expression in the page.
func (b *Browser) Run(expression string, result any) {
	b.t.Helper()
	b.Do(Command{Name: "run", Text: expression}, result)
}

// CheckAccess fails the test for violations that axe finds.
func (b *Browser) CheckAccess(what string) {
	b.t.Helper()
	var violations []string
	b.Do(Command{Name: "axe"}, &violations)
	for _, violation := range violations {
		b.t.Errorf("%s: axe: %s", what, violation)
	}
}

// CheckErrors fails the test for errors of scripts, and for requests to more than one host.
func (b *Browser) CheckErrors() {
	b.t.Helper()
	var errors, hosts []string
	b.Do(Command{Name: "errors"}, &errors)
	b.Do(Command{Name: "hosts"}, &hosts)
	if len(errors) > 0 || len(hosts) != 1 {
		b.t.Errorf("errors %v, requests to %v", errors, hosts)
	}
}
