package resolve_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// withStatic returns an object of an age with static responses.
func withStatic(name string, age int, text string, hosts ...string) *httpv1alpha1.HTTPScaledObject {
	return kit.WithAnnotation(kit.NewScaledObject("apps", name, "shop", age, hosts...),
		httpv1alpha1.AnnotationStaticResponses, text)
}

// buildStatic resolves objects and returns how many static responses each has, and their problems.
func buildStatic(options resolve.Options, configMaps resolve.ConfigMaps, published model.Config,
	objects ...*httpv1alpha1.HTTPScaledObject,
) (model.Config, map[string]int, string) {
	config, problems := resolve.Build(resolve.Inputs{
		ScaledObjects: objects, Services: kit.ResolveServices(kit.NewService("apps", "shop")), ConfigMaps: configMaps,
		Options: options, Published: published,
	})
	counts := map[string]int{}
	for _, route := range config.Routes {
		counts[route.Owner.Name] = len(route.Static)
	}
	var texts strings.Builder
	for _, problem := range problems {
		fmt.Fprintf(&texts, "%s: %s: %s\n", problem.On, problem.Reason, problem.Message)
	}
	return config, counts, texts.String()
}

// TestStaticLimitsOfAnObject has objects above the limits. The published responses stay active, unless they exceed a
// limit by other hosts.
func TestStaticLimitsOfAnObject(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("{path: /a},", 100)
	for name, c := range map[string]struct {
		text  string
		hosts int
		want  string // part of the problem
	}{
		"routes": {"[{match: [" + many + "], body: x}]", 41, "100 routes for each of 41 combinations"},
		"bytes":  {"[{body: " + strings.Repeat("x", 60_000) + "}]", 18, "bodies of 60000 bytes for each of 18 combinations"},
		"bytes of content types": {
			"[{bodies: [{body: " + strings.Repeat("x", 30_000) + "}, {body: y, contentType: a/b}]}]", 12,
			"bodies of 90002 bytes for each of 12 combinations",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, counts, problems := buildStatic(resolve.Options{}, nil, model.Config{},
				withStatic("shop", 1, "[{body: x}, {body: y}]", hostNames(c.hosts)...))
			if counts["shop"] != 2 || problems != "" {
				t.Fatal(counts, problems)
			}
			_, counts, problems = buildStatic(resolve.Options{}, nil, before, withStatic("shop", 1, c.text, hostNames(c.hosts)...))
			if counts["shop"] != 2 || !strings.Contains(problems, c.want) {
				t.Error(counts, problems)
			}
			_, counts, problems = buildStatic(resolve.Options{}, nil, model.Config{}, withStatic("shop", 1, c.text, "a.test"))
			if counts["shop"] != 1 || problems != "" {
				t.Error(counts, problems)
			}
		})
	}
}

// hostNames returns different hosts.
func hostNames(count int) []string { return many(count, "h%d.test") }

// TestStaticLimitOfANamespace has objects whose bodies exceed the limit of their namespace together. The oldest have
// responses. An invalid object counts with the most that it may have, because published responses stay active.
func TestStaticLimitOfANamespace(t *testing.T) {
	t.Parallel()
	body := "[{body: " + strings.Repeat("x", 40_000) + "}]"
	options := resolve.Options{MaxStaticBytes: 2 << 20}
	var objects []*httpv1alpha1.HTTPScaledObject
	for i := range 4 { // 800 kB each
		objects = append(objects, withStatic(fmt.Sprint("o", i), i+1, body, many(20, "h%d.o"+strconv.Itoa(i)+".test")...))
	}
	before, counts, problems := buildStatic(options, nil, model.Config{}, objects...)
	const want = "InvalidStaticResponses: annotations http.kedify.io/static-responses and " +
		"http.kedify.io/placeholder-response: namespace \"apps\": the limit of 2048 KiB for the bodies of all static responses " +
		"is exceeded, and older objects take precedence: use smaller bodies, fewer hosts or path prefixes, or another namespace"
	if fmt.Sprint(counts) != "map[o0:1 o1:1 o2:0 o3:0]" || strings.Count(problems, want) != 2 {
		t.Error(counts, problems)
	}
	objects[0] = withStatic("o0", 1, "[{boddy: x}]", "a.test")
	_, counts, _ = buildStatic(options, nil, before, objects...)
	if fmt.Sprint(counts) != "map[o0:1 o1:1 o2:0 o3:0]" {
		t.Error("an invalid object:", counts)
	}
	objects[0] = withStatic("o0", 1, "[{bodyFromConfigMap: {name: a, key: b}}]", "a.test")
	_, counts, problems = buildStatic(options, nil, before, objects...)
	if fmt.Sprint(counts) != "map[o0:1 o1:1 o2:0 o3:0]" || strings.Contains(problems, "o0") {
		t.Error("a ConfigMap that was not read yet:", counts, problems)
	}
	configMaps := resolve.ConfigMaps{{Namespace: "apps", Name: "a"}: {Data: map[string]string{"b": "small"}}}
	_, counts, _ = buildStatic(options, configMaps, before, objects...)
	if fmt.Sprint(counts) != "map[o0:1 o1:1 o2:1 o3:0]" {
		t.Error("a small ConfigMap:", counts)
	}
}
