package autowire

import (
	"encoding/json"
	"fmt"
	"slices"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
)

// affinitySource is a session affinity of an Ingress controller or Gateway.
type affinitySource struct {
	// text describes where it is set, for messages. It is empty if there is none.
	text string
	// key is the session affinity of the proxies with the same effect, the zero value if they have none.
	key affinity.Key
}

// affinityOf returns the session affinity of a backend. toService is the behavior for its Service. A cookie precedes
// what selects a Pod for requests without it, as in ingress-nginx and HAProxy.
func affinityOf(original *backend, toService behavior) affinitySource {
	for _, by := range []effect{sticksByCookie, sticks, sticksByHeader, sticksByAddress} {
		annotation := toService.find(by)
		if annotation == nil {
			continue
		}
		source := affinitySource{text: annotation.text}
		switch by {
		case sticksByCookie:
			source.key.Cookie = affinity.DefaultCookie()
		case sticksByHeader:
			source.key.Header = annotation.header
		case sticksByAddress:
			source.key.SourceAddress = true
		default:
		}
		if affinity.Validate(source.key) != nil { // such as a header that identifies no client
			source.key = affinity.Key{}
		}
		return source
	}
	return original.affinity
}

// persistenceOf returns the session affinity of the sessionPersistence of an HTTPRoute's rule. The proxies have none
// for type Header: the Gateway creates the header, and clients return it.
func persistenceOf(text json.RawMessage) affinitySource {
	if len(text) == 0 || string(text) == "null" {
		return affinitySource{}
	}
	source := affinitySource{text: "sessionPersistence of its rule"}
	var persistence struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(text, &persistence) == nil && (persistence.Type == "" || persistence.Type == "Cookie") {
		source.key.Cookie = affinity.DefaultCookie()
	}
	return source
}

// affinityHint returns an addition to the fix for an annotation that names settings with a session affinity, which then
// selects a proxy. The agent does not read these settings.
func affinityHint(annotation *match, targets []*Target) string {
	at := slices.IndexFunc(targets, func(target *Target) bool { return !target.HasAffinity })
	if at < 0 || !slices.Contains(backendConfigs(), annotation.name) {
		return ""
	}
	return fmt.Sprintf(", and if the BackendConfig has a sessionAffinity, which would then select a proxy instead of a "+
		"Pod, set sessionAffinity in the trigger of HTTPScaledObject %q, too", targets[at].Name)
}

// affinityBlocker returns why session affinity would be lost: the proxies select the Pods, and a target has no session
// affinity and cannot take it over. The interceptor takes over a Service's sessionAffinity ClientIP.
func (p *objectPlan) affinityBlocker(
	targets []*Target, original *backend, toService behavior,
) (reason, message string) {
	source := affinityOf(original, toService)
	at := slices.IndexFunc(targets, func(target *Target) bool { return !target.HasAffinity })
	if source.text == "" || at < 0 {
		return "", ""
	}
	problem := " sends a client to the same Pod, and the proxies would not"
	if !source.key.IsZero() {
		isMixed := func(t *Target) bool { return !t.HasAffinity && p.inherited[t.Name].otherAffinity(source.key) != "" }
		if at = slices.IndexFunc(targets, isMixed); at < 0 {
			return "", ""
		}
		problem = fmt.Sprintf(" and %s send a client to the same Pod in different ways",
			p.inherited[targets[at].Name].otherAffinity(source.key))
	}
	return httpv1alpha1.ReasonAffinityMissing, fmt.Sprintf(
		"%s%s; set sessionAffinity in the trigger of HTTPScaledObject %q, or its annotation %s, for example to "+
			"{cookie: {name: kedify-session}}",
		source.text, problem, targets[at].Name, httpv1alpha1.AnnotationSessionAffinity)
}
