// Package page defines the waiting page that a browser gets while a workload starts, and parses it from a user's
// ConfigMap. It is pure.
package page

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	// Label with LabelValue marks the ConfigMaps that the interceptor reads. The KEDA HTTP add-on uses the same label
	// for response bodies
	// (https://keda.sh/http-add-on/0.15/user-guide/configure-cold-start/#response-body-from-a-configmap).
	Label = "http.keda.sh/response-body"
	// LabelValue is the only value of Label.
	LabelValue = "true"
)

// Keys of the ConfigMap's data. The names are those of Kedify's chart (interceptor.coldStartWaitingPage). Each has another
// name, that of the ConfigMaps of Kedify's samples (see otherNames).
const (
	// KeyBody is the HTML page. It is required.
	KeyBody = "body"
	// KeyStatus is the status code of the response, 200 to 599.
	KeyStatus = "responseStatusCode"
	// KeyRetryAfter is the time until a client may retry: a duration, or a number of seconds.
	KeyRetryAfter = "retryAfter"
)

const (
	// MaxBody is the maximum size of a page in bytes. Kedify's interceptor has the same limit.
	MaxBody = 256 << 10
	// MaxRetryAfter is the maximum of Page.RetryAfter. The minimum is a second.
	MaxRetryAfter = 5 * time.Minute
	// maxShown limits an invalid value in a message, in bytes.
	maxShown = 80
)

// Page is a waiting page.
type Page struct {
	// Body is HTML.
	Body string
	// Status is the status code of the response, 200 to 599.
	Status int32
	// RetryAfter is the time until a client may retry, in whole seconds.
	RetryAfter time.Duration
}

// Default returns the Page of an object without a ConfigMap.
func Default() Page {
	return Page{Body: standard, Status: http.StatusServiceUnavailable, RetryAfter: refresh * time.Second}
}

// refresh is the time in seconds after which the default page reloads. The HTML text contains it too.
const refresh = 3

const standard = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta http-equiv="refresh" content="3"><title>Starting</title>
<style>body{font:1.1em/1.6 system-ui,sans-serif;margin:20vh auto;max-width:30em;text-align:center}</style></head>
<body><h1>Starting</h1><p>This application is starting. The page reloads automatically.</p></body>
</html>
`

// Parse returns the Page in the data of a ConfigMap. Missing keys have the values of Default. The error contains the
// invalid key and the fix.
func Parse(data map[string]string) (Page, error) {
	page := Default()
	key, body, _ := lookup(data, KeyBody)
	page.Body = body
	switch {
	case page.Body == "":
		return Page{}, fmt.Errorf("%w %q: missing or empty: set it to the HTML page", errKey, key)
	case len(page.Body) > MaxBody:
		return Page{}, fmt.Errorf("%w %q: %d bytes exceed the limit of %d: make the page smaller, "+
			"or load its resources from elsewhere", errKey, key, len(page.Body), MaxBody)
	}
	if key, text, ok := lookup(data, KeyStatus); ok {
		status, err := strconv.ParseInt(text, 10, 32)
		if page.Status = int32(status); err != nil || status < 200 || status > 599 {
			return Page{}, fmt.Errorf(
				"%w %q: invalid value %s: use a number from 200 to 599, such as \"503\"", errKey, key, shown(text),
			)
		}
	}
	if key, text, ok := lookup(data, KeyRetryAfter); ok {
		after, err := retryAfter(text)
		if err != nil {
			return Page{}, fmt.Errorf("%w %q: %w", errKey, key, err)
		}
		page.RetryAfter = after
	}
	return page, nil
}

// otherNames returns the names of the keys in the ConfigMaps of Kedify's samples
// (https://github.com/kedify/examples/tree/main/samples/http-scaler-with-gloo).
func otherNames() map[string]string {
	return map[string]string{
		KeyBody: "coldStartWaitingPageBody", KeyStatus: "coldStartWaitingPageStatusCode",
		KeyRetryAfter: "coldStartWaitingPageRetryAfter",
	}
}

// lookup returns the value of a key, or of its other name if only that exists, and the name that it used.
func lookup(data map[string]string, key string) (name, value string, ok bool) {
	if value, ok = data[key]; ok {
		return key, value, true
	}
	other := otherNames()[key]
	if value, ok = data[other]; ok {
		return other, value, true
	}
	return key, "", false
}

// errKey is the prefix of the errors of Parse.
var errKey = errors.New("key")

// retryAfter parses the value of KeyRetryAfter.
func retryAfter(text string) (time.Duration, error) {
	after, err := time.ParseDuration(text)
	if seconds, errNumber := strconv.Atoi(text); errNumber == nil && seconds <= int(MaxRetryAfter/time.Second) {
		after, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || after < time.Second || after > MaxRetryAfter {
		return 0, fmt.Errorf("invalid value %s: use a duration from 1s to %v, such as \"10s\"", shown(text), MaxRetryAfter)
	}
	return after.Truncate(time.Second), nil
}

// shown returns a value for a message, quoted and shortened.
func shown(text string) string { return fmt.Sprintf("%.*q", maxShown, text) }
