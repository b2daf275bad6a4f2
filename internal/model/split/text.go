package split

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Format returns backends as the text of the annotation, two lines for each in the given order: "- service:
// shop-stable" and, indented by two spaces, "weight: 80". Equal splits give equal text. Parse returns a valid split
// unchanged. Format does not validate.
func Format(backends []Backend) string {
	var text strings.Builder
	for _, backend := range backends {
		fmt.Fprintf(&text, "- service: %s\n  weight: %d\n", scalar(backend.Service), backend.Weight)
	}
	return text.String()
}

// scalar formats a name as a string for all YAML parsers, including YAML 1.1, in which plain yes, on and y are booleans
// and 1e3 is a number. Only reserved words and names that begin with a digit need quotes: a DNS label contains no YAML
// indicator.
func scalar(name string) string {
	isReserved := false
	switch name {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
		isReserved = true
	}
	if isReserved || !isDNSLabel(name) || name[0] < 'a' {
		return strconv.Quote(name)
	}
	return name
}

// Parse parses and validates the text of the annotation. After an error, which wraps one of this package, there is no
// partial result.
func Parse(text string) ([]Backend, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("%w: at most %d bytes are allowed", ErrTooLong, MaxBytes)
	}
	list, err := document(text)
	if err != nil {
		return nil, err
	}
	if len(list) > MaxBackends {
		return nil, fmt.Errorf("%w: %d, at most %d are allowed", ErrTooMany, len(list), MaxBackends)
	}
	backends := make([]Backend, 0, len(list))
	for i, node := range list {
		backend, err := entry(node)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
		backends = append(backends, backend)
	}
	if err := Validate(backends); err != nil {
		return nil, err
	}
	return backends, nil
}

// document parses text as exactly one YAML document with a list without anchors and aliases, and returns the list's
// elements. Nodes of the YAML library keep aliases unexpanded, so no expansion happens before they are rejected.
func document(text string) ([]*yaml.Node, error) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var root yaml.Node
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil, ErrEmpty
	case err != nil:
		return nil, syntax("%v", err)
	case hasAlias(&root):
		return nil, ErrAlias
	case len(root.Content) != 1 || root.Content[0].Kind != yaml.SequenceNode:
		return nil, ErrSyntax
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, syntax("unexpected content after the list")
	}
	return root.Content[0].Content, nil
}

// hasAlias reports whether node or a descendant is an alias or has an anchor.
func hasAlias(node *yaml.Node) bool {
	return node.Kind == yaml.AliasNode || node.Anchor != "" || slices.ContainsFunc(node.Content, hasAlias)
}

// entry parses one {service, weight}. Both keys are required and no other is allowed: a misspelled key must not
// silently mean weight 0.
func entry(node *yaml.Node) (Backend, error) {
	if node.Kind != yaml.MappingNode {
		return Backend{}, syntax("not a mapping")
	}
	var backend Backend
	seen := make(map[string]bool, 2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i].Value, node.Content[i+1]
		if seen[key] {
			return Backend{}, syntax("duplicate key %.80q", key)
		}
		seen[key] = true
		var err error
		switch key {
		case "service":
			backend.Service, err = service(value)
		case "weight":
			backend.Weight, err = weight(value)
		default:
			err = syntax("unknown key %.80q", key)
		}
		if err != nil {
			return Backend{}, err
		}
	}
	for _, key := range []string{"service", "weight"} {
		if !seen[key] {
			return Backend{}, syntax("key %q is missing", key)
		}
	}
	return backend, nil
}

// service parses a Service name. Plain text is a name even if YAML parses it as a number or a boolean.
func service(node *yaml.Node) (string, error) {
	if node.Kind != yaml.ScalarNode || node.ShortTag() == "!!null" {
		return "", syntax("service is not a string")
	}
	return node.Value, nil
}

// weight parses a weight: a whole decimal number without quotes.
func weight(node *yaml.Node) (uint32, error) {
	if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!int" {
		return 0, fmt.Errorf("%w: %.80q is not a whole number", ErrWeight, node.Value)
	}
	number, err := strconv.ParseUint(node.Value, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%w: %.80q is not a whole number from 0 to %d", ErrWeight, node.Value, uint64(MaxWeightSum))
	}
	return uint32(number), nil
}

// syntax returns an ErrSyntax with details.
func syntax(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrSyntax}, args...)...)
}
