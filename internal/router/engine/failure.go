package engine

import "strings"

// failures are errors that happened side by side, in one line.
type failures []error

// Join is nil where all errs are, the error where there is one, and one that wraps all where there are more; their texts are divided by semicolons.
func Join(errs ...error) error {
	var happened failures
	for _, err := range errs {
		if err != nil {
			happened = append(happened, err)
		}
	}
	switch len(happened) {
	case 0:
		return nil
	case 1:
		return happened[0]
	default:
		return happened
	}
}

// Error is the text of all, divided by semicolons.
func (f failures) Error() string {
	texts := make([]string, 0, len(f))
	for _, err := range f {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns all, for errors.Is and errors.As.
func (f failures) Unwrap() []error { return f }
