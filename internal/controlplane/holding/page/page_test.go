package page_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
)

// TestParse parses valid and invalid ConfigMaps.
func TestParse(t *testing.T) {
	t.Parallel()
	const hello = "<h1>Hello</h1>"
	largest := strings.Repeat("x", page.MaxBody)
	for name, c := range map[string]struct {
		data map[string]string
		want page.Page
		err  string
	}{
		"a page": {
			data: map[string]string{"body": hello}, want: page.Page{Body: hello, Status: 503, RetryAfter: 3 * time.Second},
		},
		"the largest": {
			data: map[string]string{"body": largest}, want: page.Page{Body: largest, Status: 503, RetryAfter: 3 * time.Second},
		},
		"all keys": {
			data: map[string]string{"body": hello, "responseStatusCode": "202", "retryAfter": "10s", "owner": "me"},
			want: page.Page{Body: hello, Status: 202, RetryAfter: 10 * time.Second},
		},
		"seconds": {
			data: map[string]string{"body": hello, "retryAfter": "60"},
			want: page.Page{Body: hello, Status: 503, RetryAfter: time.Minute},
		},
		"the names of the samples": {
			data: map[string]string{
				"coldStartWaitingPageBody": hello, "coldStartWaitingPageStatusCode": "202",
				"coldStartWaitingPageRetryAfter": "10s",
			},
			want: page.Page{Body: hello, Status: 202, RetryAfter: 10 * time.Second},
		},
		"both names": {
			data: map[string]string{"body": hello, "coldStartWaitingPageBody": "no"},
			want: page.Page{Body: hello, Status: 503, RetryAfter: 3 * time.Second},
		},
		"an invalid status below the other name": {
			data: map[string]string{"body": hello, "coldStartWaitingPageStatusCode": "busy"},
			err:  `key "coldStartWaitingPageStatusCode": invalid value "busy": use a number from 200 to 599, such as "503"`,
		},
		"no body": {err: `key "body": missing or empty: set it to the HTML page`},
		"an empty page": {
			data: map[string]string{"body": ""}, err: `key "body": missing or empty: set it to the HTML page`,
		},
		"one too large": {
			data: map[string]string{"body": largest + "x"},
			err:  `key "body": 262145 bytes exceed the limit of 262144: make the page smaller, or load its resources from elsewhere`,
		},
		"a word as status": {
			data: map[string]string{"body": hello, "responseStatusCode": "busy"},
			err:  `key "responseStatusCode": invalid value "busy": use a number from 200 to 599, such as "503"`,
		},
		"a status of 99": {
			data: map[string]string{"body": hello, "responseStatusCode": "99"},
			err:  `key "responseStatusCode": invalid value "99": use a number from 200 to 599, such as "503"`,
		},
		"an invalid duration": {
			data: map[string]string{"body": hello, "retryAfter": "soon"},
			err:  `key "retryAfter": invalid value "soon": use a duration from 1s to 5m0s, such as "10s"`,
		},
		"an hour": {
			data: map[string]string{"body": hello, "retryAfter": "1h"},
			err:  `key "retryAfter": invalid value "1h": use a duration from 1s to 5m0s, such as "10s"`,
		},
		"zero": {
			data: map[string]string{"body": hello, "retryAfter": "0"},
			err:  `key "retryAfter": invalid value "0": use a duration from 1s to 5m0s, such as "10s"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := page.Parse(c.data)
			message := ""
			if err != nil {
				message = err.Error()
			}
			if diff := cmp.Diff(c.want, got); diff != "" || message != c.err {
				t.Errorf("%s\nerror %q\nwant  %q", diff, message, c.err)
			}
		})
	}
}

// TestDefault checks that the default page refreshes itself, and that Parse accepts it.
func TestDefault(t *testing.T) {
	t.Parallel()
	standard := page.Default()
	got, err := page.Parse(map[string]string{"body": standard.Body})
	if diff := cmp.Diff(standard, got); err != nil || diff != "" ||
		!strings.Contains(got.Body, `http-equiv="refresh" content="3"`) {
		t.Errorf("%v\n%s", err, diff)
	}
}
