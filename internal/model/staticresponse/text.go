package staticresponse

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// routeText is one element of annotation http.kedify.io/static-responses.
type routeText struct {
	responseText `yaml:",inline"`

	Match []matchText `yaml:"match"`
	Mode  string      `yaml:"mode"`
}

// matchText is a condition on requests.
type matchText struct {
	Host       string       `yaml:"host"`
	Path       string       `yaml:"path"`
	PathPrefix string       `yaml:"pathPrefix"`
	PathRegex  string       `yaml:"pathRegex"`
	Headers    []headerText `yaml:"headers"`
}

// headerText is a condition on a header.
type headerText struct {
	Name  string  `yaml:"name"`
	Value *string `yaml:"value"`
}

// responseText is a response.
type responseText struct {
	bodyText `yaml:",inline"`

	StatusCode *uint32           `yaml:"statusCode"`
	Headers    map[string]string `yaml:"headers"`
	Bodies     []bodyText        `yaml:"bodies"`
	Redirect   string            `yaml:"redirect"`
}

// bodyText is a variant of a body.
type bodyText struct {
	ContentType       string  `yaml:"contentType"`
	Body              *string `yaml:"body"`
	BodyFromConfigMap *Ref    `yaml:"bodyFromConfigMap"`
}

// decode parses exactly one YAML document without anchors and aliases, with which a short text can expand to a huge
// one, and without unknown and duplicate keys.
func decode(text string, into any) error {
	if len(text) > MaxBytes {
		return fmt.Errorf("%w: at most %d bytes are allowed: move bodies to a ConfigMap", ErrTooLong, MaxBytes)
	}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var root yaml.Node
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: the text is empty: write a response, or remove the annotation", ErrSyntax)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrSyntax, err)
	case hasAlias(&root):
		return fmt.Errorf("%w: anchors and aliases are not allowed: write the values in full", ErrSyntax)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: a second document: remove it", ErrSyntax)
	}
	strict := yaml.NewDecoder(strings.NewReader(text))
	strict.KnownFields(true)
	if err := strict.Decode(into); err != nil {
		return fmt.Errorf("%w: %s", ErrSyntax, withoutTypes(err))
	}
	return nil
}

// withoutTypes returns the text of an error of the YAML library without the names of Go types.
func withoutTypes(err error) string {
	typeErrors, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return err.Error()
	}
	texts := make([]string, 0, len(typeErrors.Errors))
	for _, text := range typeErrors.Errors {
		text, _, _ = strings.Cut(text, " in type ")
		text, _, _ = strings.Cut(text, " into ")
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ") + ": correct it"
}

// hasAlias reports whether node or a descendant is an alias or has an anchor.
func hasAlias(node *yaml.Node) bool {
	return node.Kind == yaml.AliasNode || node.Anchor != "" || slices.ContainsFunc(node.Content, hasAlias)
}
