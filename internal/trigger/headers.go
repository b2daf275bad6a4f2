package trigger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// maxHeadersText is the maximum length of the value of headers, in bytes. Any tenant can write one.
const maxHeadersText = 4096

// maxHeaders is the maximum number of headers, that of the schema of HTTPScaledObject.
const maxHeaders = 16

// errHeadersSyntax describes the syntax of headers.
var errHeadersSyntax = errors.New("use a YAML list of {name, value}, such as [{name: X-Team, value: a}], with " +
	"valueWildcard or valueRegex instead of value for a pattern; without any of them, any value matches")

// readHeaders parses conditions on headers. It stores them also if the only errors are unknown fields next to a value.
// Without a value, an unknown field may be the misspelled value, and the condition would match any value.
func readHeaders(t *Trigger, value string) error {
	if len(value) > maxHeadersText {
		return fmt.Errorf("is longer than %d bytes", maxHeadersText)
	}
	if hasAlias(value) {
		return errors.New("YAML anchors and aliases are not allowed")
	}
	read, err := decodeHeaders(value)
	if err != nil {
		return err
	}
	if len(read) > maxHeaders {
		return fmt.Errorf("has %d headers, the limit is %d", len(read), maxHeaders)
	}
	seen, unknown := map[string]bool{}, []error(nil)
	var headers []Header
	for i, header := range read {
		condition, err := header.condition()
		if err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
		fields := header.unknownFields(i)
		if unknown = append(unknown, fields...); len(fields) > 0 && condition.isAny() {
			return joinErrors(fields)
		}
		parsed, err := model.HeaderText(condition).Parse()
		if err != nil {
			return fmt.Errorf("%.*q: %w", maxShownValue, header.Name, err)
		}
		if seen[parsed.Name] {
			return fmt.Errorf("%q is a duplicate, because names are case-insensitive: keep one, all headers must match",
				parsed.Name)
		}
		seen[parsed.Name] = true
		headers = append(headers, condition)
	}
	t.Headers = headers
	return joinErrors(unknown)
}

// headerText is one element of the value of headers.
type headerText struct {
	Name     string
	Value    *string
	Wildcard yaml.Node      `yaml:"valueWildcard"`
	Regex    yaml.Node      `yaml:"valueRegex"`
	Unknown  map[string]any `yaml:",inline"`
}

// condition returns the condition. A pattern without a text is an error, because the condition would match any value.
func (h headerText) condition() (Header, error) {
	condition := Header{Name: h.Name, Value: h.Value}
	for _, pattern := range []struct {
		field string
		node  yaml.Node
		text  **string
	}{{"valueWildcard", h.Wildcard, &condition.Wildcard}, {"valueRegex", h.Regex, &condition.Regex}} {
		if pattern.node.IsZero() {
			continue
		}
		if err := pattern.node.Decode(pattern.text); err != nil || *pattern.text == nil {
			return Header{}, fmt.Errorf("%s is no text: write one in quotes, or remove the field", pattern.field)
		}
	}
	return condition, nil
}

// isAny reports whether any value matches.
func (h Header) isAny() bool { return h.Value == nil && h.Wildcard == nil && h.Regex == nil }

// decodeHeaders decodes a YAML text of one document with a list.
func decodeHeaders(value string) ([]headerText, error) {
	var read []headerText
	decoder := yaml.NewDecoder(strings.NewReader(value))
	if err := decoder.Decode(&read); err != nil || read == nil {
		return nil, errHeadersSyntax
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) { // more documents would be ignored
		return nil, errHeadersSyntax
	}
	return read, nil
}

// unknownFields returns an error for each unknown field. index is that of the element.
func (h headerText) unknownFields(index int) (all []error) {
	for _, field := range slices.Sorted(maps.Keys(h.Unknown)) {
		all = append(all, fmt.Errorf("[%d]: unknown field %.*q: use name, and one of value, valueWildcard and valueRegex",
			index, maxShownValue, field))
	}
	return all
}

// formatHeaders returns the conditions on headers as JSON, empty for none.
func formatHeaders(t *Trigger) string {
	if len(t.Headers) == 0 {
		return ""
	}
	type header struct {
		Name     string  `json:"name"`
		Value    *string `json:"value,omitempty"`
		Wildcard *string `json:"valueWildcard,omitempty"`
		Regex    *string `json:"valueRegex,omitempty"`
	}
	var all []header
	for _, condition := range t.Headers {
		all = append(all, header(condition))
	}
	text, err := json.Marshal(all)
	if err != nil {
		return "" // Strings can always be encoded.
	}
	return string(text)
}

// hasAlias reports whether a YAML text contains anchors or aliases.
func hasAlias(text string) bool {
	var document yaml.Node
	if yaml.Unmarshal([]byte(text), &document) != nil {
		return false // decoding reports the error
	}
	var isAliased func(node *yaml.Node) bool
	isAliased = func(node *yaml.Node) bool {
		return node.Kind == yaml.AliasNode || node.Anchor != "" || slices.ContainsFunc(node.Content, isAliased)
	}
	return isAliased(&document)
}
