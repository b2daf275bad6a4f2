package refusals

import (
	"slices"
	"strings"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// InvalidObject is a validation error in the HTTPScaledObject shop, or in an object that it references, and the result.
// The namespace is called shop. Before, the object sends all requests to the Service shop-canary, by its annotation: if
// the last good route is kept, the canary still answers.
type InvalidObject struct {
	// Name describes the error.
	Name string
	// Before is the valid value of weighted-backends. If it is empty, the value sends all requests to shop-canary.
	Before string
	// Annotation is the invalid value of weighted-backends. Empty keeps the valid one, "-" removes it.
	Annotation string
	// Patch is a merge patch of the object in YAML, or empty.
	Patch string
	// Objects are manifests of additional objects, and Removed is the path, below the namespace, of an object to
	// delete.
	Objects, Removed string
	// New is true if the object was never valid.
	New bool
	// Reason and Message are those of the condition Accepted, which is False, and of the Warning Event.
	Reason, Message string
	// Answers is the result of requests meanwhile: stable, canary, or a status code.
	Answers string
}

// annotation is the prefix of messages about the annotation.
const annotation = "annotation " + httpv1alpha1.AnnotationWeightedBackends + ": "

// exampleFix is the fix for a value that cannot be parsed.
const exampleFix = ": write a list such as [{service: shop-stable, weight: 80}, {service: shop-canary, weight: 20}], " +
	"the stable Service first"

// InvalidObjects returns the table of invalid objects, one row per case.
func InvalidObjects() []InvalidObject {
	return slices.Concat(unparsableLists(), invalidLists(), invalidManagedRoutes(), invalidAffinity(), invalidStatic(),
		invalidServices(), invalidPorts(), missingServices(), invalidMatches(), invalidValues())
}

// unparsableLists returns annotations that are not a list of Services and weights.
func unparsableLists() []InvalidObject {
	const reason = httpv1alpha1.ReasonInvalidWeightedBackends
	return []InvalidObject{
		{
			Name: "not YAML", Annotation: `{{{`, Answers: "canary",
			Reason: reason,
			Message: annotation + `not a YAML list of {service, weight}: yaml: line 1: did not find expected node content` +
				exampleFix,
		},
		{
			Name: "not a list", Annotation: `{service: shop-stable, weight: 1}`, Answers: "canary",
			Reason: reason, Message: annotation + `not a YAML list of {service, weight}` + exampleFix,
		},
		{
			Name: "an unknown key", Annotation: `[{service: shop-stable, weight: 1, namespace: other}]`, Answers: "canary",
			Reason:  reason,
			Message: annotation + `entry 1: not a YAML list of {service, weight}: unknown key "namespace"` + exampleFix,
		},
		{
			Name: "no weight", Annotation: `[{service: shop-stable}]`, Answers: "canary",
			Reason:  reason,
			Message: annotation + `entry 1: not a YAML list of {service, weight}: key "weight" is missing` + exampleFix,
		},
		{
			Name: "a negative weight", Annotation: `[{service: shop-stable, weight: -1}]`, Answers: "canary",
			Reason:  reason,
			Message: annotation + `entry 1: weight out of range: "-1" is not a whole number from 0 to 4294967295` + exampleFix,
		},
	}
}

// invalidLists returns lists that are invalid for any Services. In the last row the object was never valid.
func invalidLists() []InvalidObject {
	const reason = httpv1alpha1.ReasonInvalidWeightedBackends
	return []InvalidObject{
		{
			Name: "an empty list", Annotation: `[]`, Answers: "canary",
			Reason:  reason,
			Message: annotation + `no backend: remove the annotation to send all requests to spec.scaleTargetRef.service`,
		},
		{
			Name: "all weights zero", Annotation: `[{service: shop-stable, weight: 0}, {service: shop-canary, weight: 0}]`,
			Answers: "canary",
			Reason:  reason,
			Message: annotation +
				`all weights are zero: set at least one weight above 0, or remove the annotation to send all requests to ` +
				`spec.scaleTargetRef.service`,
		},
		{
			Name: "a Service twice", Annotation: `[{service: shop-stable, weight: 1}, {service: shop-stable, weight: 1}]`,
			Answers: "canary",
			Reason:  reason, Message: annotation + `entry 2: duplicate service "shop-stable"` + exampleFix,
		},
		{
			Name: "aliases", Annotation: "- &a {service: shop-stable, weight: 1}\n- *a\n", Answers: "canary",
			Reason: reason, Message: annotation + `YAML anchors and aliases are not allowed` + exampleFix,
		},
		{
			Name: "more than 4096 bytes", Annotation: "[{service: shop-stable, weight: 1}]" + strings.Repeat(" ", 200_000),
			Answers: "canary",
			Reason:  reason, Message: annotation + `text is too long: at most 4096 bytes are allowed: name fewer Services`,
		},
		{
			Name: "more than 16 entries", Annotation: strings.Repeat("- {service: shop-stable, weight: 1}\n", 17),
			Answers: "canary",
			Reason:  reason, Message: annotation + `too many backends: 17, at most 16 are allowed: name fewer Services`,
		},
		{
			Name: "a Service of another namespace", Annotation: `[{service: other/shop-stable, weight: 1}]`, Answers: "canary",
			Reason: reason,
			Message: annotation +
				`entry 1: service "other/shop-stable": not the name of a Service in this namespace (a DNS-1123 label)` + exampleFix,
		},
		{
			Name: "a host name for a Service", Annotation: `[{service: shop.other.svc, weight: 1}]`, Answers: "canary",
			Reason: reason,
			Message: annotation +
				`entry 1: service "shop.other.svc": not the name of a Service in this namespace (a DNS-1123 label)` + exampleFix,
		},
		{
			Name: "a new object with a bad annotation", New: true, Annotation: `{{{`, Answers: "stable",
			Reason: reason,
			Message: annotation + `not a YAML list of {service, weight}: yaml: line 1: did not find expected node content` +
				exampleFix,
		},
	}
}

// invalidManagedRoutes returns header and mirror routes that cannot be parsed, or that Envoy rejects.
func invalidManagedRoutes() []InvalidObject {
	const (
		field = "annotation " + httpv1alpha1.AnnotationManagedRoutes + ": "
		fix   = ": correct or remove the annotation, or let the Rollout write it"
	)
	patch := func(text string) string {
		return "metadata: {annotations: {" + httpv1alpha1.AnnotationManagedRoutes + ": '" + text + "'}}"
	}
	regex := func(text string) string {
		return patch(`[{"name":"qa","matches":[{"headers":[{"name":"role","type":"Regex","value":"` + text + `"}]}]}]`)
	}
	const regexError = field + `route "qa": match 1: header "role": not a regular expression that Envoy accepts: `
	rows := []InvalidObject{
		{
			Name: "header routes that are no list", Patch: patch(`qa`),
			Message: field + `not a JSON list of routes: invalid character 'q' looking for beginning of value` + fix,
		},
		{
			Name: "a header route with an unknown key", Patch: patch(`[{"name":"qa","match":[]}]`),
			Message: field + `not a JSON list of routes: json: unknown field "match"` + fix,
		},
		{
			Name: "a header route with an invalid regular expression", Patch: regex(`qa(`),
			Message: regexError + `"qa(": missing closing ): correct it (RE2 syntax)` + fix,
		},
		{
			Name: "a header route with a regular expression that is too large for Envoy", Patch: regex(`[a-z]{200}`),
			Message: regexError +
				`"[a-z]{200}": its RE2 program may have 213 instructions, and Envoy allows at most 100: ` +
				`shorten it, repeat less often, or use exact or prefix` + fix,
		},
		{
			Name: "a mirror route of more than all", Patch: patch(`[{"name":"copy","mirrorPercent":101,"matches":[{}]}]`),
			Message: field + `route "copy": invalid percentage: 101: write 1 to 100` + fix,
		},
		{
			Name: "a header route without a canary", Before: `[{service: shop-canary, weight: 1}]`,
			Patch: patch(`[{"name":"qa","matches":[{}]}]`),
			Message: field + `no canary backend: add one as the second entry of annotation ` +
				httpv1alpha1.AnnotationWeightedBackends + `, or remove this annotation`,
		},
	}
	for i := range rows {
		rows[i].Reason, rows[i].Answers = httpv1alpha1.ReasonInvalidManagedRoutes, "canary"
	}
	return rows
}

// invalidAffinity returns stickiness, session affinity and timeouts that cannot be parsed, or that browsers reject.
func invalidAffinity() []InvalidObject {
	const fix = `: write {cookie: {}}, {header: <name>} or {sourceAddress: {}}, or remove the annotation`
	patch := func(annotation, text string) string {
		return "metadata: {annotations: {" + annotation + ": '" + text + "'}}"
	}
	const stickiness, session = httpv1alpha1.AnnotationStickiness, httpv1alpha1.AnnotationSessionAffinity
	return []InvalidObject{
		{
			Name: "stickiness with an unknown key", Patch: patch(stickiness, `{cokie: {}}`), Answers: "canary",
			Reason: httpv1alpha1.ReasonInvalidStickiness,
			Message: `annotation ` + stickiness + `: not a mapping with one of the keys cookie, header and sourceAddress: ` +
				`unknown key "cokie": remove it` + fix,
		},
		{
			Name: "stickiness that was always invalid", New: true, Annotation: "-", Patch: patch(stickiness, `{}`),
			Answers: "stable", Reason: httpv1alpha1.ReasonInvalidStickiness,
			Message: `annotation ` + stickiness + `: not a mapping with one of the keys cookie, header and sourceAddress: ` +
				`0 of them are set: write exactly one` + fix,
		},
		{
			Name: "session affinity by a cookie that browsers reject", Answers: "canary",
			Patch:  patch(session, `{cookie: {name: __Host-shop}}`),
			Reason: httpv1alpha1.ReasonInvalidSessionAffinity,
			Message: `annotation ` + session + `: invalid cookie: name "__Host-shop": browsers accept this prefix only with ` +
				`secure: true and path /: set these too`,
		},
		{
			Name: "a timeout without a unit", Answers: "canary",
			Patch:  patch(httpv1alpha1.AnnotationRequestTimeout, `60`),
			Reason: httpv1alpha1.ReasonInvalidTimeout,
			Message: `annotation ` + httpv1alpha1.AnnotationRequestTimeout + `: "60" is not a duration of at least 0s: write one ` +
				`such as 30s or 10m, 0s for no limit, or remove the annotation`,
		},
		{
			Name: "session affinity with an alias", Answers: "canary",
			Patch:   patch(session, `{cookie: &a {}, header: *a}`),
			Reason:  httpv1alpha1.ReasonInvalidSessionAffinity,
			Message: `annotation ` + session + `: YAML anchors and aliases are not allowed` + fix,
		},
	}
}

// invalidStatic returns static responses and placeholders that Envoy cannot give.
func invalidStatic() []InvalidObject {
	patch := func(annotation, text string) string {
		return "metadata: {annotations: {" + annotation + ": '" + text + "'}}"
	}
	const static, placeholder = httpv1alpha1.AnnotationStaticResponses, httpv1alpha1.AnnotationPlaceholderResponse
	const invalid = `: invalid static response: `
	rows := []InvalidObject{
		{
			Name: "a static response with an unknown key", Patch: patch(static, `[{boddy: down}]`),
			Message: `annotation ` + static + `: invalid YAML: line 1: field boddy not found: correct it`,
		},
		{
			Name: "a static response with a status that no response has", Patch: patch(static, `[{statusCode: 99}]`),
			Message: `annotation ` + static + `[0]` + invalid + `statusCode: 99 is not a status of a response: ` +
				`use a number from 200 to 599`,
		},
		{
			Name: "a static response with a colon in the name of a header", Patch: patch(static, `[{headers: {"a:b": c}}]`),
			Message: `annotation ` + static + `[0]` + invalid + `headers: "a:b": not a header: ` +
				"a name has letters, digits and !#$%&'*+-.^_`|~ only",
		},
		{
			Name: "a static response with a line break in a header", Patch: patch(static, `[{headers: {a: "b\r\nc: d"}}]`),
			Message: `annotation ` + static + `[0]` + invalid + `headers: "a": not a header: ` +
				`the value contains a control character`,
		},
		{
			Name: "a redirect to another scheme", Patch: patch(static, `[{redirect: "ftp://shop.test"}]`),
			Message: `annotation ` + static + `[0]` + invalid + `redirect: "ftp://shop.test": begin with https://, http:// or /`,
		},
		{
			Name:  "a static response in a ConfigMap that is missing",
			Patch: patch(static, `[{bodyFromConfigMap: {name: pages, key: down.html}}]`),
			Message: `annotation ` + static + `[0]: bodyFromConfigMap: no body: ConfigMap "pages" in namespace "shop": ` +
				`not found with label http.keda.sh/response-body: "true": create it, or add the label`,
		},
		{
			Name: "a placeholder that is a list", Patch: patch(placeholder, `[]`),
			Reason:  httpv1alpha1.ReasonInvalidPlaceholderResponse,
			Message: `annotation ` + placeholder + `: invalid YAML: line 1: cannot unmarshal !!seq: correct it`,
		},
	}
	for i := range rows {
		if rows[i].Answers = "canary"; rows[i].Reason == "" {
			rows[i].Reason = httpv1alpha1.ReasonInvalidStaticResponses
		}
	}
	return rows
}

// invalidServices returns Services that cannot be backends.
func invalidServices() []InvalidObject {
	const (
		otherNamespace = `
apiVersion: v1
kind: Namespace
metadata: {name: other}
---
apiVersion: v1
kind: Service
metadata: {name: abroad, namespace: other}
spec: {ports: [{name: http, port: 80}]}
`
		external = `
apiVersion: v1
kind: Service
metadata: {name: external}
spec: {type: ExternalName, externalName: example.com, ports: [{name: http, port: 80}]}
`
	)
	return []InvalidObject{
		{
			Name: "a missing Service", Annotation: `[{service: shop-stable, weight: 1}, {service: shop-next, weight: 1}]`,
			Answers: "canary",
			Reason:  httpv1alpha1.ReasonServiceNotFound,
			Message: annotation +
				`Service "shop-next" not found in namespace "shop": create it or name another Service of the namespace`,
		},
		{
			Name: "a Service that is in another namespace only", Objects: otherNamespace,
			Annotation: `[{service: shop-stable, weight: 1}, {service: abroad, weight: 1}]`,
			Answers:    "canary",
			Reason:     httpv1alpha1.ReasonServiceNotFound,
			Message: annotation +
				`Service "abroad" not found in namespace "shop": create it or name another Service of the namespace`,
		},
		{
			Name:    "a canary Service that goes away",
			Before:  `[{service: shop-stable, weight: 50}, {service: shop-canary, weight: 50}]`,
			Removed: "services/shop-canary", Answers: "stable",
			Reason: httpv1alpha1.ReasonServiceNotFound,
			Message: annotation +
				`Service "shop-canary" not found in namespace "shop": create it or name another Service of the namespace`,
		},
		{
			Name: "a canary Service that goes away at the full weight", Removed: "services/shop-canary", Answers: "503",
			Reason: httpv1alpha1.ReasonServiceNotFound,
			Message: annotation +
				`Service "shop-canary" not found in namespace "shop": create it or name another Service of the namespace`,
		},
		{
			Name: "an ExternalName Service", Objects: external,
			Annotation: `[{service: shop-stable, weight: 1}, {service: external, weight: 1}]`,
			Answers:    "canary",
			Reason:     httpv1alpha1.ReasonServiceUnsupported,
			Message: annotation +
				`Service "external" is of type ExternalName, which has no endpoints: name a Service that selects Pods`,
		},
	}
}

// invalidPorts returns ports that the Services do not have.
func invalidPorts() []InvalidObject {
	const odd = `
apiVersion: v1
kind: Service
metadata: {name: odd}
spec: {ports: [{name: web, port: 8000}, {name: dns, port: 80, protocol: UDP}]}
`
	return []InvalidObject{
		{
			Name: "a canary without the port", Objects: odd,
			Annotation: `[{service: shop-stable, weight: 1}, {service: odd, weight: 1}]`,
			Answers:    "canary",
			Reason:     httpv1alpha1.ReasonPortNotFound,
			Message: `spec.scaleTargetRef.port: Service "odd" has no TCP port 80, it has 8000 (web), 80 (dns) UDP: ` +
				`name another port or add this one`,
		},
		{
			Name: "a canary without the named port", Objects: odd,
			Annotation: `[{service: shop-stable, weight: 1}, {service: odd, weight: 1}]`,
			Patch:      `{spec: {scaleTargetRef: {port: null, portName: http}}}`, Answers: "canary",
			Reason: httpv1alpha1.ReasonPortNotFound,
			Message: `spec.scaleTargetRef.portName: Service "odd" has no TCP port named "http", ` +
				`it has 8000 (web), 80 (dns) UDP: name another port or add this one`,
		},
		{
			Name: "a port name that no Service has", Patch: `{spec: {scaleTargetRef: {port: null, portName: htpp}}}`,
			Answers: "canary",
			Reason:  httpv1alpha1.ReasonPortNotFound,
			Message: `spec.scaleTargetRef.portName: Service "shop-canary" has no TCP port named "htpp", it has 80 (http): ` +
				`name another port or add this one; ` +
				`spec.scaleTargetRef.portName: Service "shop-stable" has no TCP port named "htpp", it has 80 (http): ` +
				`name another port or add this one`,
		},
	}
}
