// Package page is what a browser is shown in place of an app that has no replica yet, and how a
// user's ConfigMap says so. It is pure.
package page

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	// Label marks the ConfigMaps that the interceptor reads, with LabelValue. It is the one by which the KEDA HTTP add-on knows the
	// bodies of its answers (https://keda.sh/http-add-on/0.15/user-guide/configure-cold-start/#response-body-from-a-configmap).
	Label = "http.keda.sh/response-body"
	// LabelValue is the only value of Label.
	LabelValue = "true"
)

// Keys of the ConfigMap's data. The names are those of the defaults of Kedify's chart (interceptor.coldStartWaitingPage).
const (
	// KeyBody is the page, which is required.
	KeyBody = "body"
	// KeyStatus is the status of the answer, 200 to 599.
	KeyStatus = "responseStatusCode"
	// KeyRetryAfter is when a client may ask again: a duration, or a number of seconds.
	KeyRetryAfter = "retryAfter"
)

const (
	// MaxBody is the size of the largest page, in bytes. The limit is that of Kedify's interceptor.
	MaxBody = 256 << 10
	// MaxRetryAfter is the longest time of Page.RetryAfter, and the shortest is a second.
	MaxRetryAfter = 5 * time.Minute
	// maxShown is how much of a wrong value a message repeats, in bytes.
	maxShown = 80
)

// Page is what is shown.
type Page struct {
	// Body is HTML.
	Body string
	// Status is the status of the answer, 200 to 599.
	Status int32
	// RetryAfter is when a client may ask again, in whole seconds.
	RetryAfter time.Duration
}

// Default is the Page of an object that names none of its own.
func Default() Page {
	return Page{Body: standard, Status: http.StatusServiceUnavailable, RetryAfter: refresh * time.Second}
}

// refresh is the number of seconds that the standard page is shown before the browser asks again. It is in its text, too.
const refresh = 3

const standard = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta http-equiv="refresh" content="3"><title>Starting</title>
<style>body{font:1.1em/1.6 system-ui,sans-serif;margin:20vh auto;max-width:30em;text-align:center}</style></head>
<body><h1>Starting</h1><p>This application was asleep. It is starting now; the page comes by itself.</p></body>
</html>
`

// Parse reads the data of a ConfigMap. What it doesn't say is as in Default. The error says which key is wrong, and
// what to do.
func Parse(data map[string]string) (Page, error) {
	page := Default()
	page.Body = data[KeyBody]
	switch {
	case page.Body == "":
		return Page{}, fmt.Errorf("%w %q is missing or empty: put the page there", errKey, KeyBody)
	case len(page.Body) > MaxBody:
		return Page{}, fmt.Errorf("%w %q has %d bytes, and at most %d are allowed: make the page smaller, "+
			"or have it load its parts from elsewhere", errKey, KeyBody, len(page.Body), MaxBody)
	}
	if text, is := data[KeyStatus]; is {
		status, err := strconv.ParseInt(text, 10, 32)
		if page.Status = int32(status); err != nil || status < 200 || status > 599 {
			return Page{}, fmt.Errorf("%w %q is %s: write a number from 200 to 599, such as \"503\"", errKey, KeyStatus, shown(text))
		}
	}
	if text, is := data[KeyRetryAfter]; is {
		after, err := retryAfter(text)
		if err != nil {
			return Page{}, err
		}
		page.RetryAfter = after
	}
	return page, nil
}

// errKey begins what Parse says of a key.
var errKey = errors.New("key")

// retryAfter reads the key of that name.
func retryAfter(text string) (time.Duration, error) {
	after, err := time.ParseDuration(text)
	if seconds, failed := strconv.Atoi(text); failed == nil && seconds <= int(MaxRetryAfter/time.Second) {
		after, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || after < time.Second || after > MaxRetryAfter {
		return 0, fmt.Errorf("%w %q is %s: write a time from 1s to %v, such as \"10s\"", errKey, KeyRetryAfter, shown(text), MaxRetryAfter)
	}
	return after.Truncate(time.Second), nil
}

// shown is a value as a message repeats it.
func shown(text string) string { return fmt.Sprintf("%.*q", maxShown, text) }
