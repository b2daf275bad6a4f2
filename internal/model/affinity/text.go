package affinity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Format returns key as the text of an annotation: JSON with all attributes of a cookie, also the default ones. Equal
// Keys give equal texts. Parse returns a valid Key unchanged. The text of the zero Key is empty. Format does not
// validate.
func Format(key Key) string {
	var value any
	switch {
	case key.HasCookie():
		value = map[string]Cookie{"cookie": key.Cookie}
	case key.Header != "":
		value = map[string]string{"header": key.Header}
	case key.SourceAddress:
		value = map[string]struct{}{"sourceAddress": {}}
	default:
		return ""
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "" // These types never fail.
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// Parse parses and validates the text of an annotation, and fills in the defaults of a cookie. After an error, which
// wraps one of this package, the result is the zero value.
func Parse(text string) (Key, error) {
	if len(text) > MaxBytes {
		return Key{}, fmt.Errorf("%w: at most %d bytes are allowed", ErrTooLong, MaxBytes)
	}
	root, err := document(text)
	if err != nil {
		return Key{}, err
	}
	var key Key
	err = fields(root, ErrSyntax, map[string]func(*yaml.Node) error{
		"cookie": func(node *yaml.Node) (err error) {
			key.Cookie, err = cookie(node)
			return err
		},
		"header": func(node *yaml.Node) error { return parseString(node, ErrHeader, "name", &key.Header) },
		"sourceAddress": func(node *yaml.Node) error {
			key.SourceAddress = true
			return fields(node, errSourceAddress, nil)
		},
	})
	if err == nil {
		err = Validate(key)
	}
	if err != nil {
		return Key{}, err
	}
	return key, nil
}

// document parses text as exactly one YAML document without anchors and aliases. Nodes of the YAML library keep aliases
// unexpanded, so no expansion happens before they are rejected.
func document(text string) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var root yaml.Node
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil, syntax("the text is empty")
	case err != nil:
		return nil, syntax("%v", err)
	case hasAlias(&root):
		return nil, ErrAlias
	case len(root.Content) != 1:
		return nil, ErrSyntax
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, syntax("unexpected content after the mapping")
	}
	return root.Content[0], nil
}

// hasAlias reports whether node or a descendant is an alias or has an anchor.
func hasAlias(node *yaml.Node) bool {
	return node.Kind == yaml.AliasNode || node.Anchor != "" || slices.ContainsFunc(node.Content, hasAlias)
}

// cookie parses the attributes of a cookie; each is optional.
func cookie(node *yaml.Node) (Cookie, error) {
	parsed := DefaultCookie()
	err := fields(node, ErrCookie, map[string]func(*yaml.Node) error{
		"name":     func(node *yaml.Node) error { return parseString(node, ErrCookie, "name", &parsed.Name) },
		"path":     func(node *yaml.Node) error { return parseString(node, ErrCookie, "path", &parsed.Path) },
		"maxAge":   func(node *yaml.Node) error { return parseSeconds(node, "maxAge", &parsed.MaxAge) },
		"secure":   func(node *yaml.Node) error { return parseBool(node, "secure", &parsed.Secure) },
		"httpOnly": func(node *yaml.Node) error { return parseBool(node, "httpOnly", &parsed.HTTPOnly) },
		"sameSite": func(node *yaml.Node) error {
			return parseString(node, ErrCookie, "sameSite", (*string)(&parsed.SameSite))
		},
	})
	return parsed, err
}

// fields parses a mapping: for each key it calls the function of that name. A key without a function is an error, so
// that a misspelled one is noticed. Errors wrap kind.
func fields(node *yaml.Node, kind error, parse map[string]func(*yaml.Node) error) error {
	switch {
	case node.Kind != yaml.MappingNode && kind == ErrSyntax: //nolint:errorlint // kind is no wrapped error.
		return ErrSyntax
	case node.Kind != yaml.MappingNode:
		return fmt.Errorf("%w: not a mapping: write {} for the defaults", kind)
	}
	seen := make(map[string]bool, len(parse))
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i].Value
		parseValue, isKnown := parse[key]
		switch {
		case node.Content[i].Kind != yaml.ScalarNode || !isKnown:
			return fmt.Errorf("%w: unknown key %.80q: remove it", kind, key)
		case seen[key]:
			return fmt.Errorf("%w: duplicate key %.80q: remove one", kind, key)
		}
		seen[key] = true
		if err := parseValue(node.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// parseString parses a text that is not empty. Plain text is a string even if YAML parses it as a number or a boolean.
func parseString(node *yaml.Node, kind error, name string, into *string) error {
	if node.Kind != yaml.ScalarNode || node.ShortTag() == "!!null" || node.Value == "" {
		return fmt.Errorf("%w: %s: not a text: write one", kind, name)
	}
	*into = node.Value
	return nil
}

// parseBool parses true or false.
func parseBool(node *yaml.Node, name string, into *bool) error {
	if node.Kind != yaml.ScalarNode || node.Value != "true" && node.Value != "false" {
		return fmt.Errorf("%w: %s %.80q: write true or false", ErrCookie, name, node.Value)
	}
	*into = node.Value == "true"
	return nil
}

// parseSeconds parses a whole number of seconds above zero.
func parseSeconds(node *yaml.Node, name string, into *uint32) error {
	number, err := strconv.ParseUint(node.Value, 10, 32)
	if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!int" || err != nil || number == 0 {
		return fmt.Errorf("%w: %s %.80q: write a whole number of seconds above 0, such as 86400, or remove the key for a "+
			"cookie that ends with the browser session", ErrCookie, name, node.Value)
	}
	*into = uint32(number)
	return nil
}

// syntax returns an ErrSyntax with details.
func syntax(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrSyntax}, args...)...)
}
