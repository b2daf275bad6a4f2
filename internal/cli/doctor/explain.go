package doctor

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/output"
)

// catalog is the text of each code, in the order of docs/reference/cli.md.
//
//go:embed catalog.yaml
var catalog []byte

// examples are findings of broken installations by code. The test that writes docs/reference/findings.md writes them.
//
//go:embed examples.json
var examples []byte

// errUnknownCode reports a code that does not exist.
var errUnknownCode = errors.New("unknown finding")

// Explanation explains a code.
type Explanation struct {
	Code Code `json:"code"`
	// Severity is "error" or "warning", or both.
	Severity string   `json:"severity"`
	Category Category `json:"category"`
	// Summary is what is wrong, and Cause how that comes about.
	Summary string `json:"summary"`
	Cause   string `json:"cause"`
	// Example is a finding of a broken installation, with the fix.
	Example Finding `json:"example"`
	URL     string  `json:"url"`
}

// Explanations returns the explanations of all codes, in the order of the documentation.
func Explanations() ([]Explanation, error) {
	var all []Explanation
	var found map[Code]Finding
	if err := errors.Join(yaml.Unmarshal(catalog, &all), json.Unmarshal(examples, &found)); err != nil {
		return nil, err
	}
	categories := map[Code]Category{}
	for _, rule := range slices.Concat(preRules(), rules()) {
		for _, code := range rule.codes {
			categories[code] = rule.category
		}
	}
	for i := range all {
		code := all[i].Code
		all[i].Example, all[i].URL, all[i].Category = found[code], code.url(), categories[code]
	}
	return all, nil
}

// Explain returns the explanation of a code. Case does not matter.
func Explain(code string) (Explanation, error) {
	all, err := Explanations()
	if err != nil {
		return Explanation{}, err
	}
	at := slices.IndexFunc(all, func(e Explanation) bool { return strings.EqualFold(string(e.Code), code) })
	if at < 0 {
		return Explanation{}, fmt.Errorf("%w %q%s: \"kubectl http-canary explain\" lists all", errUnknownCode, code,
			similar(all, code))
	}
	return all[at], nil
}

// similar suggests the codes that contain a text.
func similar(all []Explanation, text string) string {
	var names []string
	for i := range all {
		if text != "" && strings.Contains(strings.ToLower(string(all[i].Code)), strings.ToLower(text)) {
			names = append(names, string(all[i].Code))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " (similar: " + strings.Join(names, ", ") + ")"
}

// plainText removes the links and the code marks of Markdown.
func plainText(text string) string {
	return strings.ReplaceAll(regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(text, "$1"), "`", "")
}

// PrintExplanation prints what a code means, how it comes about, how to fix it, and an example.
func PrintExplanation(out io.Writer, style output.Style, explained *Explanation) error {
	example := explained.Example
	object := example.Object
	if example.Field != "" {
		object += ": " + example.Field
	}
	_, err := fmt.Fprintf(out, "%s (%s, %s)\n\n%s\n  %s\n\n%s\n  %s\n\n%s\n  %s\n\n%s\n  object   %s\n  problem  %s\n\n%s\n  %s\n",
		style.Title(string(explained.Code)), explained.Severity, explained.Category,
		style.Title("Meaning"), plainText(explained.Summary), style.Title("How it comes about"), explained.Cause,
		style.Title("How to fix it"), example.Fix, style.Title("Example"), object, example.Message,
		style.Title("Documentation"), explained.URL)
	return err
}

// PrintExplanations prints a table of all codes.
func PrintExplanations(out io.Writer, format output.Format, hasHeaders bool, all []Explanation) error {
	if format == output.Name {
		var text strings.Builder
		for i := range all {
			fmt.Fprintln(&text, all[i].Code)
		}
		_, err := io.WriteString(out, text.String())
		return err
	}
	table := output.Rows{Columns: output.Columns("CODE", "SEVERITY", "CATEGORY", "MEANING", "DOCUMENTATION+")}
	for i := range all {
		table.Add(string(all[i].Code), all[i].Severity, string(all[i].Category), plainText(all[i].Summary), all[i].URL)
	}
	return table.Print(out, format, hasHeaders)
}
