package managedroute

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Format returns routes as the text of the annotation, "" for none. Equal routes give equal text. Parse returns valid
// routes unchanged, unless the text is longer than MaxBytes. Format does not validate.
func Format(routes []Route) string {
	if len(routes) == 0 {
		return ""
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(routes); err != nil { // no field of a Route can fail to encode; Parse would reject this text
		return err.Error()
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// Parse parses and validates the text of the annotation. After an error, which wraps one of this package, there is no
// partial result.
func Parse(text string) ([]Route, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("%w: at most %d bytes are allowed", ErrTooLong, MaxBytes)
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields() // a misspelled condition must not silently widen a route
	var routes []Route
	if err := decoder.Decode(&routes); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: unexpected content after the list", ErrSyntax)
	}
	if err := Validate(routes); err != nil {
		return nil, err
	}
	return routes, nil
}
