package model_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// html returns a response with one body.
func html(status uint32, text string) model.StaticResponse {
	return model.StaticResponse{Status: status, Bodies: []model.StaticBody{{ContentType: "text/html", Text: text}}}
}

// TestStaticResponseValidate lists valid and invalid responses.
func TestStaticResponseValidate(t *testing.T) {
	t.Parallel()
	redirect := func(status uint32, location string) model.StaticResponse {
		return model.StaticResponse{Status: status, Location: location}
	}
	headers := func(pairs map[string]string) model.StaticResponse {
		return model.StaticResponse{Status: 200, Headers: model.ParseStaticHeaders(pairs)}
	}
	bodies := func(types ...string) model.StaticResponse {
		response := model.StaticResponse{Status: 200}
		for _, contentType := range types {
			response.Bodies = append(response.Bodies, model.StaticBody{ContentType: contentType})
		}
		return response
	}
	for name, c := range map[string]struct {
		response model.StaticResponse
		want     string // part of the error; "" for a valid response
	}{
		"a page":                     {html(503, "100 % <ü>"), ""},
		"the largest":                {html(599, strings.Repeat("x", model.MaxStaticBody)), ""},
		"no body":                    {model.StaticResponse{Status: 204}, ""},
		"headers":                    {headers(map[string]string{"Retry-After": "120", "X-A": "", "Location": "/"}), ""},
		"four types":                 {bodies("text/html; charset=utf-8", "application/json", "a/b", "c/d"), ""},
		"a redirect to a host":       {redirect(308, "https://new.example.com"), ""},
		"a redirect to an address":   {redirect(302, "http://[::1]:8080/a?b=c"), ""},
		"a redirect to a path":       {redirect(301, "/new?a=%20"), ""},
		"the zero value":             {model.StaticResponse{}, "statusCode: 0 is not a status of a response: use a number from 200 to 599"},
		"status 99":                  {html(99, ""), "statusCode: 99"},
		"status 100":                 {html(100, ""), "statusCode: 100"},
		"status 600":                 {html(600, ""), "statusCode: 600"},
		"a body too many":            {html(204, "x"), "body: a response with status 204 has none"},
		"too long":                   {html(200, strings.Repeat("x", model.MaxStaticBody+1)), "body: 262145 bytes exceed the limit of 262144"},
		"five types":                 {bodies("a/a", "a/b", "a/c", "a/d", "a/e"), "body: 5 content types exceed the limit of 4"},
		"a type twice":               {bodies("text/html", "Text/HTML; charset=utf-8"), `content type "text/html" is a duplicate`},
		"no type":                    {bodies(""), `contentType: "" is not a content type`},
		"half a type":                {bodies("text"), `contentType: "text" is not a content type`},
		"a range of types":           {bodies("text/*"), `contentType: "text/*" is not a content type`},
		"a type with a line break":   {bodies("text/html;\r\na"), `contentType: "text/html;\r\na" is not a content type`},
		"a name with a colon":        {headers(map[string]string{":status": "200"}), `headers: ":status": not a header: a name has letters`},
		"a value with a line break":  {headers(map[string]string{"X-A": "b\r\nX-C: d"}), `headers: "x-a": not a header: the value contains a control character`},
		"a name twice":               {headers(map[string]string{"X-A": "1", "x-a": "2"}), `headers: "x-a" is a duplicate`},
		"a header of the connection": {headers(map[string]string{"Content-Length": "5"}), `headers: "content-length" is set by the proxies: remove it`},
		"a status of no redirect":    {redirect(304, "/"), "statusCode: 304 is not one of a redirect: use 301, 302, 303, 307 or 308"},
		"a redirect with a body": {
			model.StaticResponse{Status: 301, Location: "/", Bodies: html(200, "x").Bodies}, "body: a redirect has none",
		},
		"a redirect with a header Location": {
			model.StaticResponse{Status: 301, Location: "/", Headers: []model.StaticHeader{{Name: "location", Value: "/"}}},
			`headers: "location" is also the target of the redirect`,
		},
		"a relative path":     {redirect(301, "new"), `redirect: "new": begin with https://, http:// or /`},
		"another scheme":      {redirect(301, "javascript:alert(1)"), "begin with https://"},
		"no host":             {redirect(301, "https:///a"), "begin with https://"},
		"no scheme":           {redirect(301, "//evil.example.com/a"), "begin with https://"},
		"a wildcard":          {redirect(301, "https://*.example.com"), "the host is not a host name"},
		"a user":              {redirect(301, "https://user@example.com"), "remove the user and the fragment"},
		"a fragment":          {redirect(301, "/a#b"), "remove the user and the fragment"},
		"a line break":        {redirect(301, "/a\r\nSet-Cookie: a=b"), "is not a URL"},
		"not ASCII":           {redirect(301, "/ü"), "is not a URL"},
		"a location too long": {redirect(301, "/"+strings.Repeat("a", 2048)), "longer than 2048 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.response.Validate()
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (!errors.Is(err, model.ErrStaticResponse) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// TestStaticOfRoute checks equality, and that a Route without static responses has the JSON of earlier builds.
func TestStaticOfRoute(t *testing.T) {
	t.Parallel()
	plain := model.Route{}
	if text, err := json.Marshal(plain); err != nil || strings.Contains(string(text), "Static") ||
		strings.Contains(string(text), "Placeholder") {
		t.Errorf("%s, %v", text, err)
	}
	first, same, other := html(503, "a"), html(503, "a"), html(503, "b")
	route := func(match model.StaticMatch, mode model.StaticMode, response model.StaticResponse) model.Route {
		return model.Route{Static: []model.StaticRoute{{Matches: []model.StaticMatch{match}, Mode: mode, Response: response}}}
	}
	for i, c := range []struct {
		a, b    model.Route
		isEqual bool
	}{
		{model.Route{Placeholder: &first}, model.Route{Placeholder: &same}, true},
		{model.Route{Placeholder: &first}, model.Route{Placeholder: &other}, false},
		{model.Route{Placeholder: &first}, plain, false},
		{route(model.StaticMatch{}, model.StaticAlways, first), route(model.StaticMatch{}, model.StaticAlways, same), true},
		{route(model.StaticMatch{}, model.StaticAlways, first), route(model.StaticMatch{}, model.StaticAlways, other), false},
		{
			route(model.StaticMatch{}, model.StaticAlways, first),
			route(model.StaticMatch{}, model.StaticWhenUnavailable, first), false,
		},
		{
			route(model.StaticMatch{Path: "/a"}, model.StaticAlways, first),
			route(model.StaticMatch{PathPrefix: "/a"}, model.StaticAlways, first), false,
		},
	} {
		if c.a.Equal(c.b) != c.isEqual || c.b.Equal(c.a) != c.isEqual {
			t.Errorf("%d: equal %t", i, !c.isEqual)
		}
	}
}

// TestIsUnavailable lists the states of the endpoints of a canary.
func TestIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		weights []uint32
		ready   []bool
		want    bool
	}{
		"ready":                               {[]uint32{100}, []bool{true}, false},
		"not ready":                           {[]uint32{100}, []bool{false}, true},
		"only the canary is ready":            {[]uint32{80, 20}, []bool{false, true}, false},
		"only the stable side is ready":       {[]uint32{80, 20}, []bool{true, false}, false},
		"none is ready":                       {[]uint32{80, 20}, []bool{false, false}, true},
		"the ready one receives no requests":  {[]uint32{100, 0}, []bool{false, true}, true},
		"the canary has all, and is ready":    {[]uint32{0, 100}, []bool{false, true}, false},
		"the canary has all, and isn't ready": {[]uint32{0, 100}, []bool{true, false}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backends, services := world(c.weights, c.ready)
			if got := model.IsUnavailable(model.Route{Backends: backends}, services); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
	if !model.IsUnavailable(model.Route{}, map[model.ServicePort]model.Endpoints{{}: {Ready: []netip.AddrPort{{}}}}) {
		t.Error("a Route without backends is available")
	}
}
