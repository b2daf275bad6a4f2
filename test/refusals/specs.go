package refusals

import (
	"fmt"
	"strings"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// missingServices returns references of the spec to Services that do not exist or cannot be used there.
func missingServices() []InvalidObject {
	return []InvalidObject{
		{
			Name: "a bare route to a missing Service", New: true, Annotation: "-",
			Patch:   `{spec: {scaleTargetRef: {service: shop-next}}}`,
			Answers: "503",
			Reason:  httpv1alpha1.ReasonServiceNotFound,
			Message: `spec.scaleTargetRef.service: Service "shop-next" not found in namespace "shop": ` +
				`create it or name another Service of the namespace`,
		},
		{
			Name:  "a failover Service that is missing",
			Patch: `{spec: {coldStartTimeoutFailoverRef: {service: shop-asleep, port: 80}}}`, Answers: "canary",
			Reason: httpv1alpha1.ReasonServiceNotFound,
			Message: `spec.coldStartTimeoutFailoverRef.service: Service "shop-asleep" not found in namespace "shop": ` +
				`create it or name another Service of the namespace`,
		},
		{
			Name:  "a failover to the Service itself",
			Patch: `{spec: {coldStartTimeoutFailoverRef: {service: shop-stable, port: 80}}}`, Answers: "canary",
			Reason: httpv1alpha1.ReasonInvalidSpec,
			Message: `spec.coldStartTimeoutFailoverRef.service: "shop-stable" is the Service that requests wait for: ` +
				`name another Service of the namespace`,
		},
	}
}

// invalidMatches returns errors in hosts, path prefixes and headers.
func invalidMatches() []InvalidObject {
	return []InvalidObject{
		{
			Name: "no hosts in the shared fleet", Patch: `{spec: {hosts: []}}`, Answers: "canary",
			Reason: httpv1alpha1.ReasonInvalidHosts,
			Message: `spec.hosts: no host, which in the shared fleet would claim the hosts of all namespaces: ` +
				`add at least one, such as shop.example.com, or "*" for all`,
		},
		{
			Name: "a new object without hosts in the shared fleet", New: true, Patch: `{spec: {hosts: null}}`, Answers: "404",
			Reason: httpv1alpha1.ReasonInvalidHosts,
			Message: `spec.hosts: no host, which in the shared fleet would claim the hosts of all namespaces: ` +
				`add at least one, such as shop.example.com, or "*" for all`,
		},
		{
			Name: "a URL for a host", Patch: `{spec: {hosts: ["http://shop.test"]}}`, Answers: "canary",
			Reason: httpv1alpha1.ReasonInvalidHosts,
			Message: `spec.hosts[0] "http://shop.test": not a host name: after a colon only a port may follow; ` +
				`an IPv6 address needs brackets, such as [2001:db8::1]`,
		},
		{
			Name: "a path prefix without a slash", Patch: `{spec: {pathPrefixes: [app]}}`, Answers: "canary",
			Reason:  httpv1alpha1.ReasonInvalidPathPrefixes,
			Message: `spec.pathPrefixes[0] "app": not a path prefix: must begin with /`,
		},
		{
			Name: "an invalid header name", Patch: `{spec: {headers: [{name: "X Tenant"}]}}`, Answers: "canary",
			Reason:  httpv1alpha1.ReasonInvalidHeaders,
			Message: "spec.headers[0] \"X Tenant\": not a header: a name has letters, digits and !#$%&'*+-.^_`|~ only",
		},
		{
			Name: "a header twice", Patch: `{spec: {headers: [{name: X-A}, {name: x-a}]}}`, Answers: "canary",
			Reason: httpv1alpha1.ReasonInvalidHeaders,
			Message: `spec.headers: "x-a" is a duplicate, because names are case-insensitive: ` +
				`keep one, all headers must match`,
		},
		{
			Name: "an invalid regular expression for a header", Patch: `{spec: {headers: [{name: X-A, valueRegex: "a("}]}}`,
			Answers: "canary", Reason: httpv1alpha1.ReasonInvalidHeaders,
			Message: `spec.headers[0] "X-A": not a header: valueRegex: not a regular expression that Envoy accepts: "a(": ` +
				`missing closing ): correct it (RE2 syntax)`,
		},
		{
			Name:    "a pattern for a header that is too large for Envoy",
			Patch:   `{spec: {headers: [{name: X-A, valueRegex: "[a-z]{200}"}]}}`,
			Answers: "canary", Reason: httpv1alpha1.ReasonInvalidHeaders,
			Message: `spec.headers[0] "X-A": not a header: valueRegex: not a regular expression that Envoy accepts: ` +
				`"[a-z]{200}": its RE2 program may have 213 instructions, and Envoy allows at most 100: shorten it, ` +
				`repeat less often, or use exact or prefix`,
		},
		{
			Name: "too many patterns for headers",
			Patch: `{spec: {pathPrefixes: [` + manyPrefixes(129) +
				`], headers: [{name: X-A, valueWildcard: a*}, {name: X-B, valueWildcard: b*}]}}`,
			Answers: "canary", Reason: httpv1alpha1.ReasonInvalidHeaders,
			Message: `spec.headers: 2 patterns in 129 routes (a host with a path prefix) exceed the limit of 256 patterns: ` +
				`use value, or split the object`,
		},
	}
}

// invalidValues returns ports and durations that are out of range or cannot be parsed.
func invalidValues() []InvalidObject {
	return []InvalidObject{
		{
			Name: "a port of 0", Patch: `{spec: {scaleTargetRef: {port: 0}}}`, Answers: "canary",
			Reason: httpv1alpha1.ReasonPortNotFound, Message: `spec.scaleTargetRef: set exactly one of port and portName`,
		},
		{
			Name: "a port beyond 32 bits", Patch: `{spec: {scaleTargetRef: {port: 99999999999}}}`, Answers: "canary",
			Reason:  httpv1alpha1.ReasonInvalidSpec,
			Message: `spec.scaleTargetRef.port: number 99999999999 does not fit int32: correct the value`,
		},
		{
			Name: "an invalid duration", Patch: `{spec: {timeouts: {responseHeader: soon}}}`, Answers: "canary",
			Reason: httpv1alpha1.ReasonInvalidSpec, Message: `spec.timeouts: time: invalid duration "soon": correct the value`,
		},
		{
			Name: "a new object with an invalid duration", New: true, Patch: `{spec: {timeouts: {responseHeader: soon}}}`,
			Answers: "404",
			Reason:  httpv1alpha1.ReasonInvalidSpec, Message: `spec.timeouts: time: invalid duration "soon": correct the value`,
		},
	}
}

// manyPrefixes returns different path prefixes as the elements of a YAML list.
func manyPrefixes(count int) string {
	var prefixes []string
	for i := range count {
		prefixes = append(prefixes, fmt.Sprintf("/%d", i))
	}
	return strings.Join(prefixes, ", ")
}
