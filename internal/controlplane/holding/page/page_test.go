package page_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
)

// TestParse is the table of what a ConfigMap may say, and of what is wrong with it.
func TestParse(t *testing.T) {
	t.Parallel()
	const hello = "<h1>Hello</h1>"
	largest := strings.Repeat("x", page.MaxBody)
	for name, c := range map[string]struct {
		data  map[string]string
		want  page.Page
		wrong string
	}{
		"a page":         {data: map[string]string{"body": hello}, want: page.Page{Body: hello, Status: 503, RetryAfter: 3 * time.Second}},
		"the largest":    {data: map[string]string{"body": largest}, want: page.Page{Body: largest, Status: 503, RetryAfter: 3 * time.Second}},
		"all keys":       {data: map[string]string{"body": hello, "responseStatusCode": "202", "retryAfter": "10s", "owner": "me"}, want: page.Page{Body: hello, Status: 202, RetryAfter: 10 * time.Second}},
		"seconds":        {data: map[string]string{"body": hello, "retryAfter": "60"}, want: page.Page{Body: hello, Status: 503, RetryAfter: time.Minute}},
		"nothing":        {wrong: `key "body" is missing or empty: put the page there`},
		"an empty page":  {data: map[string]string{"body": ""}, wrong: `key "body" is missing or empty: put the page there`},
		"one too large":  {data: map[string]string{"body": largest + "x"}, wrong: `key "body" has 262145 bytes, and at most 262144 are allowed: make the page smaller, or have it load its parts from elsewhere`},
		"a word":         {data: map[string]string{"body": hello, "responseStatusCode": "busy"}, wrong: `key "responseStatusCode" is "busy": write a number from 200 to 599, such as "503"`},
		"a status of 99": {data: map[string]string{"body": hello, "responseStatusCode": "99"}, wrong: `key "responseStatusCode" is "99": write a number from 200 to 599, such as "503"`},
		"no time":        {data: map[string]string{"body": hello, "retryAfter": "soon"}, wrong: `key "retryAfter" is "soon": write a time from 1s to 5m0s, such as "10s"`},
		"an hour":        {data: map[string]string{"body": hello, "retryAfter": "1h"}, wrong: `key "retryAfter" is "1h": write a time from 1s to 5m0s, such as "10s"`},
		"a moment":       {data: map[string]string{"body": hello, "retryAfter": "0"}, wrong: `key "retryAfter" is "0": write a time from 1s to 5m0s, such as "10s"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := page.Parse(c.data)
			said := ""
			if err != nil {
				said = err.Error()
			}
			if diff := cmp.Diff(c.want, got); diff != "" || said != c.wrong {
				t.Errorf("%s\nerror %q\nwant  %q", diff, said, c.wrong)
			}
		})
	}
}

// TestDefault: a page that comes again by itself, with which Parse would agree.
func TestDefault(t *testing.T) {
	t.Parallel()
	standard := page.Default()
	got, err := page.Parse(map[string]string{"body": standard.Body})
	if diff := cmp.Diff(standard, got); err != nil || diff != "" || !strings.Contains(got.Body, `http-equiv="refresh" content="3"`) {
		t.Errorf("%v\n%s", err, diff)
	}
}
