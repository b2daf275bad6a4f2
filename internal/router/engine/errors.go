package engine

import "strings"

// joinedErrors are errors of independent operations, on one line.
type joinedErrors []error

// Join returns nil if all errs are nil and the error if there is one. Otherwise it returns an error that wraps all of
// them; its text separates theirs by semicolons.
func Join(errs ...error) error {
	var joined joinedErrors
	for _, err := range errs {
		if err != nil {
			joined = append(joined, err)
		}
	}
	switch len(joined) {
	case 0:
		return nil
	case 1:
		return joined[0]
	default:
		return joined
	}
}

// Error returns all texts, separated by semicolons.
func (j joinedErrors) Error() string {
	texts := make([]string, 0, len(j))
	for _, err := range j {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns all errors, for errors.Is and errors.As.
func (j joinedErrors) Unwrap() []error { return j }
