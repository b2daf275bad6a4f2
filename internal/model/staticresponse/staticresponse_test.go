package staticresponse_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/internal/model/staticresponse"
)

// inText fails for a body in a ConfigMap.
func inText(ref staticresponse.Ref) (string, error) { return "", fmt.Errorf("no ConfigMap %v", ref) }

// TestParse parses a text with every key.
func TestParse(t *testing.T) {
	t.Parallel()
	routes, err := staticresponse.Parse(`
- match:
    - host: Shop.example.com
      pathPrefix: /api/
      headers: [{name: X-Debug}, {name: A, value: "1"}]
    - path: /healthz
    - pathPrefix: /status
      pathRegex: /status/[0-9]+
  mode: WhenUnavailable
  statusCode: 200
  headers: {X-B: b, Cache-Control: no-store}
  bodies:
    - body: <h1>100 %</h1>
      contentType: text/html
    - bodyFromConfigMap: {name: pages, key: down.JSON}
- redirect: https://new.example.com
- body: bye
`)
	if err != nil {
		t.Fatal(err)
	}
	read := func(ref staticresponse.Ref) (string, error) { return ref.Name + "/" + ref.Key, nil }
	var got []model.StaticRoute
	for _, route := range routes {
		response, err := route.Response.Resolve(read)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, model.StaticRoute{Matches: route.Matches, Mode: route.Mode, Response: response})
	}
	want := []model.StaticRoute{
		{
			Matches: []model.StaticMatch{
				{
					Host: "shop.example.com", PathPrefix: "/api",
					Headers: []model.Header{{Name: "a", Value: "1"}, {Name: "x-debug", Any: true}},
				},
				{Path: "/healthz"},
				{PathPrefix: "/status", PathRegex: "/status/[0-9]+"},
			},
			Mode: model.StaticWhenUnavailable,
			Response: model.StaticResponse{
				Status:  200,
				Headers: []model.StaticHeader{{Name: "cache-control", Value: "no-store"}, {Name: "x-b", Value: "b"}},
				Bodies: []model.StaticBody{
					{ContentType: "text/html", Text: "<h1>100 %</h1>"},
					{ContentType: "application/json", Text: "pages/down.JSON"},
				},
			},
		},
		{
			Matches: []model.StaticMatch{{}}, Mode: model.StaticAlways,
			Response: model.StaticResponse{Status: 302, Location: "https://new.example.com"},
		},
		{
			Matches: []model.StaticMatch{{}}, Mode: model.StaticAlways,
			Response: model.StaticResponse{
				Status: 503, Bodies: []model.StaticBody{{ContentType: "text/plain; charset=utf-8", Text: "bye"}},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if names := routes[0].Response.ConfigMaps(); len(names) != 1 || names[0] != "pages" {
		t.Errorf("ConfigMaps %v", names)
	}
}

// TestParseErrors lists invalid texts.
func TestParseErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want error
		says string
	}{
		"nothing":          {"", staticresponse.ErrSyntax, "the text is empty"},
		"null":             {"# none", staticresponse.ErrSyntax, "the text is empty"},
		"not YAML":         {"[{", staticresponse.ErrSyntax, ""},
		"a mapping":        {"body: x", staticresponse.ErrSyntax, "cannot unmarshal"},
		"an unknown key":   {"[{boddy: x}]", staticresponse.ErrSyntax, "line 1: field boddy not found: correct it"},
		"a duplicate key":  {"[{body: x, body: y}]", staticresponse.ErrSyntax, "already defined"},
		"an alias":         {"[{body: &a x}, {body: *a}]", staticresponse.ErrSyntax, "anchors and aliases"},
		"two documents":    {"[{body: x}]\n---\n[]", staticresponse.ErrSyntax, "a second document"},
		"too long":         {strings.Repeat(" ", staticresponse.MaxBytes+1), staticresponse.ErrTooLong, "65536 bytes"},
		"too many":         {"[" + strings.Repeat("{body: x},", 33) + "]", staticresponse.ErrSyntax, "33 responses exceed"},
		"a negative code":  {"[{statusCode: -1}]", staticresponse.ErrSyntax, "cannot unmarshal"},
		"status 99":        {"[{statusCode: 99}]", model.ErrStaticResponse, "[0]: invalid static response: statusCode: 99"},
		"a bad mode":       {"[{mode: Never}]", staticresponse.ErrSyntax, `mode "Never": write Always or WhenUnavailable`},
		"an empty match":   {"[{match: []}]", staticresponse.ErrMatch, "the list is empty"},
		"a bad host":       {"[{match: [{host: a b}]}]", model.ErrHost, `match[0]: host "a b"`},
		"a bad prefix":     {"[{match: [{pathPrefix: a}]}]", model.ErrPathPrefix, `pathPrefix "a"`},
		"a bad path":       {"[{match: [{path: a}]}]", model.ErrPathPrefix, `path "a"`},
		"two paths":        {"[{match: [{path: /a, pathPrefix: /b}]}]", staticresponse.ErrMatch, "are both set"},
		"a bad expression": {"[{match: [{pathRegex: '/a('}]}]", managedroute.ErrRegex, "match[0]: pathRegex"},
		"a large expression": {
			"[{match: [{pathRegex: '/[a-z]{200}'}]}]", managedroute.ErrRegex, "Envoy allows at most 100",
		},
		"a bad header":     {`[{match: [{headers: [{name: "a:b"}]}]}]`, model.ErrHeader, `headers[0] "a:b"`},
		"a header twice":   {`[{match: [{headers: [{name: a}, {name: A}]}]}]`, staticresponse.ErrMatch, `"a" is a duplicate`},
		"a line break":     {`[{headers: {a: "b\r\nc: d"}}]`, model.ErrStaticResponse, "control character"},
		"two bodies":       {"[{body: x, bodies: [{body: y}]}]", model.ErrStaticResponse, "move them to bodies"},
		"only a type":      {"[{contentType: text/html}]", model.ErrStaticResponse, "neither body nor bodyFromConfigMap"},
		"a body twice":     {"[{body: x, bodyFromConfigMap: {name: a, key: b}}]", model.ErrStaticResponse, "are both set"},
		"no key":           {"[{bodyFromConfigMap: {name: a}}]", model.ErrStaticResponse, "bodyFromConfigMap.key"},
		"no name":          {"[{bodyFromConfigMap: {key: a}}]", model.ErrStaticResponse, "bodyFromConfigMap.name"},
		"another name":     {"[{bodyFromConfigMap: {name: a/b, key: a}}]", model.ErrStaticResponse, "bodyFromConfigMap.name"},
		"a bad redirect":   {"[{redirect: new}]", model.ErrStaticResponse, "redirect"},
		"a type in bodies": {"[{bodies: [{body: x, contentType: x}]}]", model.ErrStaticResponse, `contentType: "x"`},
		"too many matches": {
			"[{match: [" + strings.Repeat("{path: /},", 129) + "]}]", staticresponse.ErrMatch, "129 matches in all responses",
		},
		"too many headers": {
			"[{match: [{headers: [" + strings.Repeat("{name: a},", 17) + "]}]}]", staticresponse.ErrMatch, "17 headers",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			routes, err := staticresponse.Parse(c.text)
			if !errors.Is(err, c.want) || routes != nil || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("Parse(%.100q) = %v, %v; want %v with %q", c.text, routes, err, c.want, c.says)
			}
			if strings.Contains(fmt.Sprint(err), "\n") {
				t.Errorf("the error has several lines: %v", err)
			}
		})
	}
}

// TestParseResponse parses placeholders.
func TestParseResponse(t *testing.T) {
	t.Parallel()
	response, err := staticresponse.ParseResponse("{statusCode: 202, body: starting, headers: {Retry-After: 3}}")
	if err != nil {
		t.Fatal(err)
	}
	got, err := response.Resolve(inText)
	want := model.StaticResponse{
		Status: 202, Headers: []model.StaticHeader{{Name: "retry-after", Value: "3"}},
		Bodies: []model.StaticBody{{ContentType: "text/plain; charset=utf-8", Text: "starting"}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for text, says := range map[string]string{
		"[]":                                "cannot unmarshal",
		"mode: Always":                      "field mode not found",
		"redirect: https://new.example.com": "has no path",
		"{redirect: https://a.example.com/, statusCode: 200}": "statusCode: 200 is not one of a redirect",
	} {
		if _, err := staticresponse.ParseResponse(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", text, err, says)
		}
	}
}

// TestResolveErrors reads bodies that are missing or too long.
func TestResolveErrors(t *testing.T) {
	t.Parallel()
	response, err := staticresponse.ParseResponse("bodyFromConfigMap: {name: pages, key: a.html}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := response.Resolve(inText); err == nil || err.Error() != "bodyFromConfigMap: no ConfigMap {pages a.html}" {
		t.Error(err)
	}
	tooLong := func(staticresponse.Ref) (string, error) { return strings.Repeat("x", model.MaxStaticBody+1), nil }
	if _, err := response.Resolve(tooLong); !errors.Is(err, model.ErrStaticResponse) {
		t.Error(err)
	}
}

// FuzzParse: no text panics, and what is accepted is valid.
func FuzzParse(f *testing.F) {
	f.Add("- match: [{path: /a}]\n  body: x\n")
	f.Add("[{redirect: https://a.example.com/}]")
	f.Fuzz(func(t *testing.T, text string) {
		routes, err := staticresponse.Parse(text)
		if err != nil {
			return
		}
		for _, route := range routes {
			response, err := route.Response.Resolve(func(staticresponse.Ref) (string, error) { return "", nil })
			if err != nil {
				t.Fatal(err)
			}
			if err := response.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
