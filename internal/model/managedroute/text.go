package managedroute

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Format writes routes as the annotation's text, "" for none. Equal routes give equal text. What passes Validate comes back from Parse unchanged, unless the
// text is longer than MaxBytes; Format itself checks nothing.
func Format(routes []Route) string {
	if len(routes) == 0 {
		return ""
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(routes); err != nil { // No part of a Route can fail; if one ever does, Parse refuses what is there.
		return err.Error()
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// Parse reads the annotation's text. The result passes Validate. An error is one of this package's by errors.Is; a text that was refused has no partial
// result.
func Parse(text string) ([]Route, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("%w: at most %d bytes are allowed", ErrTooLong, MaxBytes)
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields() // A mistyped condition must not quietly make a route wider.
	var routes []Route
	if err := decoder.Decode(&routes); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows the list", ErrSyntax)
	}
	if err := Validate(routes); err != nil {
		return nil, err
	}
	return routes, nil
}
