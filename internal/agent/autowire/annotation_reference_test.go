package autowire

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// meanings returns the effects in the words of the reference.
func meanings() map[effect]string {
	return map[effect]string{
		harmless:           "none",
		replacesHost:       "the proxies receive this host; the trigger's `hosts` must contain it",
		replacesPath:       "the proxies receive this path; the trigger's `pathPrefixes` must contain it",
		replacesPrefix:     "the proxies receive this prefix; the trigger's `pathPrefixes` must contain it",
		stripsPrefix:       "the proxies receive paths without the rule's; the trigger's `pathPrefixes` must contain `/`",
		addsHosts:          "the proxies receive requests for these hosts, too; the trigger's `hosts` must contain them",
		matchesExpressions: "paths are regular expressions",
		usesHTTP1:          "HTTP/1.1: HTTP/2 of another Ingress is [not taken over](#settings-that-are-taken-over)",
		usesTLS:            "needs `appProtocol: https` on the Service's port",
		usesHTTP2:          "taken over: [HTTP/2](#http2-and-grpc), unless the Service's port selects another protocol",
		usesHTTP2TLS:       "HTTP/2 over TLS: not wired, `ProtocolMismatch`",
		usesOther:          "not wired: `UnsupportedSetting`",
		upgrades:           "must list `kedify-proxy`, too",
		sticksByCookie:     "taken over: [`{cookie: {}}`](#session-affinity)",
		sticksByHeader:     "taken over: [`{header: …}`](#session-affinity)",
		sticksByAddress:    "taken over: [`{sourceAddress: {}}`](#session-affinity)",
		sticks:             "needs [`sessionAffinity`](#session-affinity)",
		splits:             "not wired: `UnsupportedAnnotation`",
		belongsToService:   "Service `kedify-proxy` needs the same annotation",
		reachesPods:        "any [type of Service](#types-of-service)",
		expectsStatus:      "must contain 200 or, for `backend-protocol-version: GRPC`, 2",
		checksByTLS:        "Service `kedify-proxy` needs `HTTP`, unless TLS to the proxies is used",
		checksInClear:      "Service `kedify-proxy` needs `HTTPS` if TLS to the proxies is used",
		checksElsewhere:    "not wired: `UnsupportedAnnotation`",
		hidden:             "not wired: `UnsupportedAnnotation`",
	}
}

// places returns the objects that can have an annotation.
func places(on place) string {
	var names []string
	for _, candidate := range []struct {
		place place
		name  string
	}{{onIngress, "Ingress"}, {onRoute, "HTTPRoute"}, {onOpenShift, "Route"}, {onService, "Service"}} {
		if max(on, onIngress)&candidate.place != 0 {
			names = append(names, candidate.name)
		}
	}
	return strings.Join(names, ", ")
}

// TestAnnotationsAreDocumented compares the tables in docs/reference/autowire.md with the rules. If they differ, replace
// the table with the one in the message.
func TestAnnotationsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reference/autowire.md")
	if err != nil {
		t.Fatal(err)
	}
	for mark, rules := range map[string][]annotationRule{"annotations": annotationRules(), "host annotations": hostRules()} {
		var table strings.Builder
		table.WriteString("| Annotations | On | Values | Effect |\n|---|---|---|---|\n")
		for _, rule := range rules {
			when := rule.when
			if when == "" {
				when = "any"
			}
			fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n",
				strings.Join(rule.names, "`, `"), places(rule.on), when, meanings()[rule.effect])
		}
		_, rest, hasTable := strings.Cut(string(page), "<!-- "+mark+" -->\n\n")
		documented, _, ends := strings.Cut(rest, "\n<!-- end -->")
		if diff := cmp.Diff(table.String(), documented); diff != "" || !hasTable || !ends {
			t.Errorf("(-rules +page):\n%s\nwant:\n%s", diff, table.String())
		}
	}
}

// TestAnnotationRules checks what each rule must have.
func TestAnnotationRules(t *testing.T) {
	t.Parallel()
	placeholders := strings.NewReplacer(
		"{service}", "shop", "{port}", portPattern(networkingv1.ServiceBackendPort{Number: 80}, nil))
	for _, rule := range slices.Concat(annotationRules(), hostRules()) {
		if _, err := regexp.Compile(placeholders.Replace(rule.values)); err != nil {
			t.Errorf("%v: %v", rule.names, err)
		}
		if rule.values != "" && rule.when == "" || meanings()[rule.effect] == "" || len(rule.names) == 0 {
			t.Errorf("%v: not described: %+v", rule.names, rule)
		}
	}
	got, isSelected := protocolOf(servicePort(networkingv1.ServiceBackendPort{Number: 80}, nil))
	if got != model.HTTP1 || isSelected {
		t.Errorf("protocol %v of a port that does not exist; selected: %v", got, isSelected)
	}
}
