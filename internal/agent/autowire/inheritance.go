package autowire

import (
	"fmt"
	"slices"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
	"github.com/kedify/argo-rollouts-plugin/internal/model/inherited"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// settingsRetention is how long settings stay after the last backend that needs them was restored. An Ingress
// controller or Gateway sends requests to the proxies until it has received that change. Ingress controllers collect
// changes for up to 5 s.
const settingsRetention = 30 * time.Second

// inheritance is what an HTTPScaledObject takes over from its backends: the Ingress controller or Gateway no longer
// connects to the application, so settings for that would have no effect.
type inheritance struct {
	// hasBackends reports whether it has a backend that the agent may wire.
	hasBackends bool
	// isKept reports whether it is unknown what a backend requests: it references the proxies without a restore record, or
	// VirtualServices or DestinationRules cannot be read. So the present settings stay, except those that other backends
	// request.
	isKept bool
	// protocols and affinities are what the backends request, each with its source, for messages.
	protocols  map[model.Protocol]string
	affinities map[affinity.Key]string
	// unset is the source of the backends without a protocol, empty if there is none. Their Ingress controllers and
	// Gateways use HTTP/1.1.
	unset string
	// settings are the settings that it takes over.
	settings inherited.Settings
}

// inheritances returns the inheritances of the targets and rivals, by name.
func (n *Namespace) inheritances(plans []*objectPlan) map[string]*inheritance {
	all := map[string]*inheritance{}
	n.eachObject(func(object *Target) {
		all[object.Name] = &inheritance{
			protocols: map[model.Protocol]string{}, affinities: map[affinity.Key]string{},
			isKept: object.Settings != "" && len(n.Unlisted) > 0,
		}
	})
	for _, current := range plans {
		current.addRequests(all)
	}
	n.eachObject(func(object *Target) {
		present, _ := inherited.Parse(object.Settings) // Invalid settings count as none.
		all[object.Name].decide(present)
	})
	return all
}

// eachObject calls a function for each target and rival.
func (n *Namespace) eachObject(visit func(object *Target)) {
	for _, objects := range [][]Target{n.Targets, n.Rivals} {
		for i := range objects {
			visit(&objects[i])
		}
	}
}

// addRequests adds what the backends of the object request to the inheritances of their targets.
func (p *objectPlan) addRequests(all map[string]*inheritance) {
	backends := p.originalBackends(p.originals)
	for i := range backends {
		original := &backends[i]
		if original.isProxy() {
			p.eachObject(func(object *Target) {
				isItsOwn := object.matches(original.received) || object.matches(original.requests)
				all[object.Name].isKept = all[object.Name].isKept || isItsOwn && p.isInFleet(original, object)
			})
			continue
		}
		if p.object.router != "" {
			continue
		}
		toService := p.behaviorOf(original.service.Name, original.service.Port)
		isUnknown := p.object.kind == trigger.AutowireVirtualService && p.Unreadable[p.object.kind] != ""
		for _, target := range p.targetsOf(original) {
			all[target.Name].isKept = all[target.Name].isKept || isUnknown
			all[target.Name].add(p, target, original, toService)
		}
	}
}

// withoutProtocol describes a backend of which neither the port nor an annotation sets a protocol, for messages.
const withoutProtocol = "a backend without a protocol"

// add adds what a backend of a target requests. toService is the behavior for its Service.
func (h *inheritance) add(p *objectPlan, target *Target, original *backend, toService behavior) {
	h.hasBackends = true
	_, isSelected := protocolOf(p.port(original))
	switch http2, http1 := toService.http2(), toService.find(usesHTTP1); {
	case isSelected:
	case http2 != nil:
		h.protocols[model.HTTP2] = firstSource(h.protocols[model.HTTP2], http2.text, p.object)
	case http1 != nil:
		h.protocols[model.HTTP1] = firstSource(h.protocols[model.HTTP1], http1.text, p.object)
	case toService.find(usesTLS, usesHTTP2TLS, usesOther) == nil:
		h.unset = firstSource(h.unset, withoutProtocol, p.object)
	}
	if source := affinityOf(original, toService); !target.HasAffinity && !source.key.IsZero() {
		h.affinities[source.key] = firstSource(h.affinities[source.key], source.text, p.object)
	}
}

// firstSource returns the source of a request in an object, or before if that is first in alphabetical order, so that
// messages do not depend on the order of objects. before is empty if there is no other source of the request.
func firstSource(before, text string, object *Object) string {
	source := fmt.Sprintf("%s in %s", text, object)
	if before == "" {
		return source
	}
	return min(before, source)
}

// decide sets the settings. If backends disagree about one, the present one stays, because requests of a backend that
// was just restored may still reach the proxies. affinityBlocker and upstreamBlocker block backends that request
// another one.
//
// A backend without a protocol counts as HTTP/1.1 if another one requests HTTP/2. The application may answer requests
// over HTTP/2 differently, and may not support WebSocket over it.
func (h *inheritance) decide(present inherited.Settings) {
	if h.protocols[model.HTTP2] != "" && h.protocols[model.HTTP1] == "" && h.unset != "" {
		h.protocols[model.HTTP1] = h.unset
	}
	h.settings.IsHTTP2 = h.protocols[model.HTTP2] != ""
	if len(h.protocols) > 1 || len(h.protocols) == 0 && h.isKept {
		h.settings.IsHTTP2 = present.IsHTTP2
	}
	for key := range h.affinities { // one, otherwise the next lines decide
		h.settings.Affinity = key
	}
	if len(h.affinities) > 1 || len(h.affinities) == 0 && h.isKept {
		h.settings.Affinity = present.Affinity
	}
}

// otherAffinity returns the source of another session affinity that a backend requests, or an empty text.
func (h *inheritance) otherAffinity(key affinity.Key) string {
	var sources []string
	for other, source := range h.affinities {
		if other != key {
			sources = append(sources, source)
		}
	}
	if len(sources) == 0 {
		return ""
	}
	return slices.Min(sources)
}

// planSettings returns the changed settings by name of the HTTPScaledObject, an empty text to remove them, and when to
// plan again. areRestored reports whether no object has a backend that this plan restores.
func (n *Namespace) planSettings(
	all map[string]*inheritance, areRestored bool,
) (changes map[string]string, requeueAfter time.Duration) {
	changes = map[string]string{}
	n.eachObject(func(object *Target) {
		current := all[object.Name]
		text := inherited.Format(current.settings)
		if !current.hasBackends && !current.isKept {
			var rest time.Duration
			text, rest = n.unusedSettings(object.Settings, areRestored)
			requeueAfter = earlier(requeueAfter, rest)
		}
		if text != object.Settings {
			changes[object.Name] = text
		}
	})
	return changes, requeueAfter
}

// unusedSettings returns what becomes of settings that no backend needs, and when to plan again: they stay for
// settingsRetention, from the first plan that restores nothing. The time is part of them, so that a restart of the
// agent does not extend it.
func (n *Namespace) unusedSettings(text string, areRestored bool) (next string, requeueAfter time.Duration) {
	settings, err := inherited.Parse(text)
	switch {
	case err != nil || inherited.Format(settings) == "":
		return "", 0
	case !areRestored:
		return text, 0
	case settings.UnusedSince.IsZero():
		settings.UnusedSince = n.Now
		return inherited.Format(settings), settingsRetention
	}
	rest := settingsRetention - n.Now.Sub(settings.UnusedSince)
	if rest <= 0 || rest > settingsRetention { // the latter by another clock
		return "", 0
	}
	return text, rest
}

// settingsBlocker returns why a backend must not reference the proxies yet: a target takes over settings, and a Ready
// proxy has not acknowledged them.
func (p *objectPlan) settingsBlocker(targets []*Target) (reason, message string) {
	isPending := func(t *Target) bool {
		return t.AreSettingsPending || t.Settings != inherited.Format(p.inherited[t.Name].settings)
	}
	at := slices.IndexFunc(targets, isPending)
	if at < 0 {
		return "", ""
	}
	return httpv1alpha1.ReasonNotProgrammed, fmt.Sprintf(
		"not every Ready proxy has acknowledged annotation %s of HTTPScaledObject %q; if this persists, upgrade the "+
			"interceptor", httpv1alpha1.AnnotationAutowireSettings, targets[at].Name)
}

// earlier returns the shorter of two delays. Zero means never.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
