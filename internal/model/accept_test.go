package model_test

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

// variants returns a response with a body for each content type, whose text is the type.
func variants(types ...string) model.StaticResponse {
	response := model.StaticResponse{Status: 503}
	for _, contentType := range types {
		response.Bodies = append(response.Bodies, model.StaticBody{ContentType: contentType, Text: contentType})
	}
	return response
}

// chosen returns the body of the first choice whose conditions a header Accept fulfills, as a proxy selects it.
func chosen(t *testing.T, response model.StaticResponse, accept string) string {
	t.Helper()
	for _, choice := range response.Choices() {
		matches := func(expression string) bool {
			return regexp.MustCompile(`^(?:` + expression + `)$`).MatchString(accept)
		}
		if choice.Accept == "" || matches(choice.Accept) && !matches(choice.Except) {
			return choice.Body.Text
		}
	}
	t.Fatal("no choice for", accept)
	return ""
}

// TestBodyFor selects bodies by headers that browsers and other clients send.
func TestBodyFor(t *testing.T) {
	t.Parallel()
	const plain, html, problem = "text/plain; charset=utf-8", "text/html; charset=utf-8", "application/problem+json"
	response := variants(plain, html, problem)
	for accept, want := range map[string]string{
		"":    plain,
		"*/*": plain,
		"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8": html,
		"application/problem+json":                           problem,
		"Application/Problem+JSON":                           problem,
		"application/json, text/plain, */*":                  plain,
		"application/json":                                   plain,
		"application/problem+jsonx":                          plain,
		"xapplication/problem+json":                          plain,
		"text/html;q=0.5, application/problem+json":          problem,
		"application/problem+json;q=0.5, text/html;q=0.9":    html,
		"text/html;q=0, application/problem+json;q=0.1":      problem,
		"text/html;q=0.000, application/*;q=0.1":             problem,
		"text/html;q=0.001":                                  html,
		"text/html;level=1;q=1.0":                            html,
		"text/html;level=1;q=0.4, application/problem+json":  problem,
		"text/html ; Q=0, text/*":                            plain,
		"\ttext/html\t":                                      html,
		"application/*":                                      problem,
		"text/*":                                             plain,
		"image/png":                                          plain,
		"text/html;quality=0":                                html,
		"text/html;q=0":                                      plain,
		"application/problem+json;charset=utf-8,text/html":   html,
		"application/problem+json;profile=a;q=0.2,text/*":    plain,
		"text/plain;q=0, text/html;q=0.1, application/*;q=0": html,
	} {
		if got := response.BodyFor(accept).Text; got != want {
			t.Errorf("Accept: %s: %q, want %q", accept, got, want)
		}
		if got := chosen(t, response, accept); got != want {
			t.Errorf("Accept: %s: a proxy selects %q, want %q", accept, got, want)
		}
	}
	if got := (model.StaticResponse{}).BodyFor("text/html"); got != (model.StaticBody{}) {
		t.Errorf("no body: %v", got)
	}
	if got := chosen(t, model.StaticResponse{}, "text/html"); got != "" {
		t.Errorf("no body: %v", got)
	}
}

// TestProxiesChooseAsBodyFor compares both implementations with random headers.
func TestProxiesChooseAsBodyFor(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	response := variants("text/html", "application/json", "text/plain; charset=utf-8")
	for range 20_000 {
		var entries []string
		for range random.IntN(4) {
			var entry strings.Builder
			entry.WriteString(pick("text/html", "application/json", "TEXT/plain", "text/*", "application/*", "*/*", "a/b", ""))
			for range random.IntN(3) {
				entry.WriteString(pick(";", " ; ", ";\t") +
					pick("q=0", "q=0.0", "q=0.5", "q=1", "Q=0.00", "q=1.000", "a=b", "aq=0", "q=", ""))
			}
			entries = append(entries, pick("", " ")+entry.String()+pick("", " "))
		}
		accept := strings.Join(entries, ",")
		if got, want := chosen(t, response, accept), response.BodyFor(accept).Text; got != want {
			t.Fatalf("Accept: %q: a proxy selects %s, BodyFor returns %s", accept, got, want)
		}
	}
}

// TestExpressionsFitInEnvoy: Envoy accepts the expressions for the longest content types.
func TestExpressionsFitInEnvoy(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("a", model.MaxMediaType/2-1) + "/" + strings.Repeat(".", model.MaxMediaType/2)
	response := variants("text/html", longest)
	if err := response.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, choice := range response.Choices() {
		for _, expression := range []string{choice.Accept, choice.Except} {
			if expression == "" {
				continue
			}
			match := managedroute.HeaderMatch{
				Name: "accept", StringMatch: managedroute.StringMatch{Type: managedroute.Regex, Value: expression},
			}
			text, err := json.Marshal([]managedroute.Route{{
				Name: "a", Matches: []managedroute.Match{{Headers: []managedroute.HeaderMatch{match}}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := managedroute.Parse(string(text)); err != nil {
				t.Error(err)
			}
		}
	}
	if variants("text/html", longest+"a").Validate() == nil {
		t.Error("a longer content type is valid")
	}
}
