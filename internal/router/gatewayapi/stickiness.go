package gatewayapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// stickinessKey decides which version receives the requests of a client, by sessions of the Gateway (sessionPersistence
// of a rule, GEP-1619). Default: each request is decided on its own. Its keys are those of the router kedify/http that
// sessionPersistence can express, and sessionHeaderKey.
const stickinessKey = "stickiness"

const (
	// cookieKey is a cookie that the Gateway sets, with cookieNameKey and maxAgeKey.
	cookieKey, cookieNameKey, maxAgeKey = "cookie", "name", "maxAge"
	// sessionHeaderKey is the name of a header that the Gateway sets in responses and that clients send back. It is not
	// the key header of the router kedify/http, which identifies the client: a Gateway would ignore such a value.
	sessionHeaderKey = "sessionHeader"
)

// stickinessForm is the form of the value of stickinessKey in messages.
const stickinessForm = "write {" + cookieKey + ": {}} or {" + sessionHeaderKey + ": <name>}"

// stickiness parses the key stickiness, for the routes in chosen. Without the key, or with an error, there are no
// sessions.
func (c rawConfig) stickiness(chosen *settings) (route.Sessions, error) {
	value, ok := c[stickinessKey]
	if !ok {
		return route.Sessions{}, nil
	}
	field := configField + "." + stickinessKey
	keys, err := parseStickinessKeys(field, value, stickinessForm, []string{cookieKey, sessionHeaderKey}, map[string]string{
		"header": "a Gateway's session does not depend on a header that identifies the client: write " + sessionHeaderKey +
			" for a header that the Gateway sets and clients send back, or use the router kedify/http",
		"sourceAddress": stickinessForm,
	})
	if err != nil {
		return route.Sessions{}, err
	}
	if len(keys) != 1 {
		return route.Sessions{}, fmt.Errorf("%s has %d of the keys %s and %s: write one", field, len(keys), cookieKey,
			sessionHeaderKey)
	}
	if err := chosen.checkSessions(field); err != nil {
		return route.Sessions{}, err
	}
	if value, ok := keys[cookieKey]; ok {
		return parseCookie(field+"."+cookieKey, value)
	}
	return parseSessionHeader(field+"."+sessionHeaderKey, keys[sessionHeaderKey])
}

// parseStickinessKeys parses an object with these keys. Inexpressible are the keys of the router kedify/http that no
// field of the Gateway API corresponds to, with their fixes.
func parseStickinessKeys(
	field string, value json.RawMessage, form string, keys []string, inexpressible map[string]string,
) (map[string]json.RawMessage, error) {
	var parsed map[string]json.RawMessage
	if err := json.Unmarshal(value, &parsed); err != nil || parsed == nil {
		return nil, fmt.Errorf("%s is %.80s: %s", field, value, form)
	}
	for _, key := range slices.Sorted(maps.Keys(parsed)) {
		if fix, ok := inexpressible[key]; ok {
			return nil, fmt.Errorf("%s.%s: the Gateway API cannot express it: %s", field, key, fix)
		}
		if !slices.Contains(keys, key) {
			return nil, fmt.Errorf("%s has the unknown key %.80q: remove it, the keys are %s", field, key,
				strings.Join(keys, " and "))
		}
	}
	return parsed, nil
}

// parseCookie parses the key cookie.
func parseCookie(field string, value json.RawMessage) (route.Sessions, error) {
	const decides = "remove it, the Gateway decides"
	keys, err := parseStickinessKeys(field, value, "write {} or {name: <name>, maxAge: <seconds>}",
		[]string{maxAgeKey, cookieNameKey},
		map[string]string{"path": decides, "secure": decides, "httpOnly": decides, "sameSite": decides})
	if err != nil {
		return route.Sessions{}, err
	}
	sessions := route.Sessions{Name: affinity.DefaultName}
	if text, ok := keys[cookieNameKey]; ok {
		if sessions.Name, err = parseToken(field+"."+cookieNameKey, text); err != nil {
			return route.Sessions{}, err
		}
	}
	lower := strings.ToLower(sessions.Name)
	if strings.HasPrefix(lower, "__secure-") || strings.HasPrefix(lower, "__host-") {
		return route.Sessions{}, fmt.Errorf("%s.%s is %q: browsers accept this prefix only with the attribute Secure, which "+
			"the Gateway API cannot express: write another name", field, cookieNameKey, sessions.Name)
	}
	if text, ok := keys[maxAgeKey]; ok {
		err := json.Unmarshal(text, &sessions.MaxAge)
		if err != nil || sessions.MaxAge == 0 || sessions.MaxAge > affinity.MaxAge {
			return route.Sessions{}, fmt.Errorf("%s.%s is %.80s: write a number of seconds, from 1 to %d, or remove the key for "+
				"a cookie that ends with the browser session", field, maxAgeKey, text, affinity.MaxAge)
		}
	}
	return sessions, nil
}

// parseSessionHeader parses the key sessionHeader.
func parseSessionHeader(field string, value json.RawMessage) (route.Sessions, error) {
	name, err := parseToken(field, value)
	if err != nil {
		return route.Sessions{}, err
	}
	if err := affinity.Validate(affinity.Key{Header: name}); err != nil {
		return route.Sessions{}, fmt.Errorf("%s is %q: write the name of a header that nothing else uses, such as x-session",
			field, name)
	}
	return route.Sessions{Name: name, Header: true}, nil
}

// parseToken parses the name of a cookie or a header.
func parseToken(field string, value json.RawMessage) (string, error) {
	var name string
	if json.Unmarshal(value, &name) != nil || affinity.ValidateName(name) != nil {
		return "", fmt.Errorf("%s is %.80s: write 1 to %d letters, digits, - and _", field, value, affinity.MaxName)
	}
	return name, nil
}

// checkSessions returns an error if a route of the configuration is of a kind without sessions.
func (s *settings) checkSessions(field string) error {
	const fix = "only HTTPRoutes and GRPCRoutes have: remove one of them, or " + stickinessKey
	for _, r := range s.routes {
		if !r.kind.Sessions() {
			return fmt.Errorf("%s: %s (%s) has no sessions: %s", field, r, r.field, fix)
		}
	}
	for _, selected := range s.selections {
		if !selected.kind.Sessions() {
			return fmt.Errorf("%s: %ss (%s) have no sessions: %s", field, selected.kind, selected.field, fix)
		}
	}
	return nil
}
