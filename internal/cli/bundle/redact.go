package bundle

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// redacted replaces a removed value.
const redacted = "REDACTED"

// secretNames matches names of fields, variables, annotations, flags and headers whose values are credentials.
const secretNames = `(?i)(pass(word|wd|phrase)?|pwd|(^|[-_.])auth$|secret|token|credential|api[-_.]?key|access[-_.]?key|private[-_.]?key|` +
	`authorization|bearer|cookie|session|dsn|connection[-_.]?string)`

// redactor removes values that look like credentials.
type redactor struct {
	name     *regexp.Regexp
	patterns []pattern
}

// pattern is a form of credentials in texts.
type pattern struct {
	match       *regexp.Regexp
	replacement string
}

// newRedactor returns a redactor.
func newRedactor() *redactor {
	compile := func(expression, replacement string) pattern {
		return pattern{regexp.MustCompile(expression), replacement}
	}
	return &redactor{name: regexp.MustCompile(secretNames), patterns: []pattern{
		compile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\z)`, redacted),
		// the rest of a key whose first lines were cut, with the timestamps of a log
		compile(`(?m)(^(\S+ )?[A-Za-z0-9+/=]+\r?\n)*^(\S+ )?-----END [A-Z ]*PRIVATE KEY-----`, redacted),
		compile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`, redacted), // JSON Web Tokens
		compile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`, "$1 "+redacted),
		compile(`([a-z][a-z0-9+.-]*://)[^/\s@"']+@`, "${1}"+redacted+"@"), // user:password@ or token@ of a URL
		compile(`\b(AKIA|ASIA)[A-Z0-9]{16}\b`, redacted),
		compile(`\b(gh[pousr]_[A-Za-z0-9]{20,}|xox[abpr]-[A-Za-z0-9-]{10,})`, redacted),
		// headers, whose values may have several words
		compile(`(?im)(["']?[a-z0-9_.-]*(authorization|cookie)["']?\s*[:=]\s*).+$`, "${1}"+redacted),
		// name=value and "name": "value" in logs, arguments and annotations
		compile(`(?i)(["']?[a-z0-9_.-]*(password|passwd|passphrase|pwd|secret|token|credential|api[-_]?key|access[-_]?key|private[-_]?key)`+
			`["']?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s,;&"'}]+)`, "${1}"+redacted),
	}}
}

// text removes credentials from a text.
func (r *redactor) text(text string) string {
	for _, pattern := range r.patterns {
		text = pattern.match.ReplaceAllString(text, pattern.replacement)
	}
	return text
}

// object returns an object in JSON without credentials, managed fields and the last applied configuration. It fails for
// a Secret, and if the text is no JSON object.
func (r *redactor) object(text []byte) ([]byte, error) {
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	if object["kind"] == "Secret" || object["kind"] == "SecretList" {
		return nil, errSecret
	}
	r.walk(object)
	return json.MarshalIndent(object, "", "  ")
}

// walk removes credentials from a value and everything below it.
func (r *redactor) walk(value any) any {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "managedFields")
		if annotations, ok := value["annotations"].(map[string]any); ok {
			delete(annotations, corev1.LastAppliedConfigAnnotation)
		}
		// An environment variable, a header or a parameter: {name: TOKEN, value: ...}
		if name, isNamed := value["name"].(string); isNamed && r.isCredential(name, value["value"]) {
			value["value"] = redacted
		}
		for key := range value {
			if r.isCredential(key, value[key]) {
				value[key] = redacted
				continue
			}
			if list, isList := value[key].([]any); isList && r.name.MatchString(key) && !isReference(key) {
				redactTexts(list)
			}
			value[key] = r.walk(value[key])
		}
		return value
	case []any:
		r.walkList(value)
		return value
	case string:
		return r.text(value)
	}
	return value
}

// walkList is walk for the elements of a list.
func (r *redactor) walkList(list []any) {
	for i := range list {
		list[i] = r.walk(list[i])
		// An argument whose value is the next one: --token, ...
		flag, isText := list[i].(string)
		if isText && strings.HasPrefix(flag, "-") && !strings.Contains(flag, "=") && i+1 < len(list) &&
			r.isCredential(flag, list[i+1]) && !isReference(flag) {
			list[i+1] = redacted
		}
	}
}

// redactTexts replaces the texts of a list.
func redactTexts(list []any) {
	for i := range list {
		if _, isText := list[i].(string); isText {
			list[i] = redacted
		}
	}
}

// isCredential reports whether a value is a credential by its name: a text that is no reference, such as the name of a
// Secret or a path.
func (r *redactor) isCredential(name string, value any) bool {
	text, isText := value.(string)
	return isText && text != "" && r.name.MatchString(name) && !isReference(name)
}

// isReference reports whether a field of that name refers to a Secret instead of containing one.
func isReference(name string) bool {
	lower := strings.ToLower(name)
	for _, suffix := range []string{
		"secretname", "secret-name", "secret_name", "secretref", "secret-ref", "path", "file", "namespace", "audience",
		"tls-secret", "tls_secret", "kind", "affinity", "sessionaffinity", "session-persistence", "expirationseconds",
	} {
		if strings.HasSuffix(lower, suffix) {
			return true
		}
	}
	return false
}
