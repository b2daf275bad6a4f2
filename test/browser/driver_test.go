package browser

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// browser is a running driver.mjs. Its methods fail the test after an error.
type browser struct {
	t       *testing.T
	in      io.Writer
	answers *bufio.Scanner
}

// newBrowser starts Chromium. It ends with the test.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	for _, name := range []string{"CHROMIUM_BIN", "BROWSER_PACKAGES"} {
		if os.Getenv(name) == "" {
			t.Fatalf("%s is not set: use make test-browser", name)
		}
	}
	command := exec.CommandContext(t.Context(), "node", "driver.mjs")
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
	return &browser{t, in, answers}
}

// options are those of a command.
type options struct {
	Name        string `json:"name"`
	URL         string `json:"url,omitempty"`
	Selector    string `json:"selector,omitempty"`
	Text        string `json:"text,omitempty"`
	ColorScheme string `json:"colorScheme,omitempty"`
}

// do runs a command and decodes its result into result, unless it is nil.
func (b *browser) do(command options, result any) {
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

// open opens a page with light or dark colors.
func (b *browser) open(url, colors string) {
	b.t.Helper()
	b.do(options{Name: "open", URL: url, ColorScheme: colors}, nil)
}

// wait waits until an element contains a text.
func (b *browser) wait(selector, text string) {
	b.t.Helper()
	b.do(options{Name: "wait", Selector: selector, Text: text}, nil)
}

// text returns the text of an element.
func (b *browser) text(selector string) (text string) {
	b.t.Helper()
	b.do(options{Name: "text", Selector: selector}, &text)
	return text
}

// run evaluates an expression in the page.
func (b *browser) run(expression string, result any) {
	b.t.Helper()
	b.do(options{Name: "run", Text: expression}, result)
}

// checkAccess fails the test for violations that axe finds.
func (b *browser) checkAccess(what string) {
	b.t.Helper()
	var violations []string
	b.do(options{Name: "axe"}, &violations)
	for _, violation := range violations {
		b.t.Errorf("%s: axe: %s", what, violation)
	}
}
