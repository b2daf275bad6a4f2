// Package inherited is the codec of annotation http.kedify.io/autowire-settings: the settings of an application that an
// Ingress, an HTTPRoute or a Service contains for its Ingress controller or Gateway, and that the proxies use instead
// once autowiring has put them in between. The agent writes them and the interceptor reads them, both by this package.
//
// The text is a JSON object: {"protocol":"h2c","sessionAffinity":{"cookie":{…}}}. Its size is limited before it is
// parsed, because any tenant can write one.
package inherited

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
)

// MaxBytes is the maximum length of a text in bytes.
const MaxBytes = affinity.MaxBytes + 256

// h2c is the only protocol in a text: HTTP/2 in clear text.
const h2c = "h2c"

// ErrInvalid is in the chain of each error of Parse.
var ErrInvalid = errors.New("invalid autowire settings")

// Settings are the settings of one HTTPScaledObject. The zero value contains none.
type Settings struct {
	// IsHTTP2 reports whether ports that select no protocol have HTTP/2 in clear text.
	IsHTTP2 bool
	// Affinity is the session affinity of an object without one of its own, the zero value for none.
	Affinity affinity.Key
	// UnusedSince is the time since which no backend needs the settings, in whole seconds. It is the zero value while one
	// does. The settings are active until they are removed.
	UnusedSince time.Time
}

// Protocol returns the protocol of ports that select none.
func (s Settings) Protocol() model.Protocol {
	if s.IsHTTP2 {
		return model.HTTP2
	}
	return model.HTTP1
}

// document is the JSON form of Settings.
type document struct {
	Protocol        string          `json:"protocol,omitempty"`
	SessionAffinity json.RawMessage `json:"sessionAffinity,omitempty"`
	UnusedSince     *time.Time      `json:"unusedSince,omitempty"`
}

// Format returns settings as the text of the annotation. It is empty if there are none. Equal Settings give equal
// texts.
func Format(settings Settings) string {
	if !settings.IsHTTP2 && settings.Affinity.IsZero() {
		return ""
	}
	written := document{SessionAffinity: json.RawMessage(affinity.Format(settings.Affinity))}
	if settings.IsHTTP2 {
		written.Protocol = h2c
	}
	if !settings.UnusedSince.IsZero() {
		since := settings.UnusedSince.UTC().Truncate(time.Second)
		written.UnusedSince = &since
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(written); err != nil {
		return "" // These types fail for years that Parse rejects.
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// Parse parses and validates the text of the annotation. Unknown keys are errors: they are settings of a later version,
// which the caller cannot apply. After an error, which wraps ErrInvalid, the result is the zero value.
func Parse(text string) (Settings, error) {
	switch {
	case text == "":
		return Settings{}, nil
	case len(text) > MaxBytes:
		return Settings{}, fmt.Errorf("%w: at most %d bytes are allowed", ErrInvalid, MaxBytes)
	}
	var read document
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		return Settings{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Settings{}, fmt.Errorf("%w: unexpected content after the object", ErrInvalid)
	}
	if read.Protocol != "" && read.Protocol != h2c {
		return Settings{}, fmt.Errorf("%w: protocol %.80q is not %s", ErrInvalid, read.Protocol, h2c)
	}
	settings := Settings{IsHTTP2: read.Protocol == h2c}
	if len(read.SessionAffinity) > 0 {
		key, err := affinity.Parse(string(read.SessionAffinity))
		if err != nil {
			return Settings{}, fmt.Errorf("%w: sessionAffinity: %w", ErrInvalid, err)
		}
		settings.Affinity = key
	}
	if read.UnusedSince != nil {
		settings.UnusedSince = read.UnusedSince.UTC().Truncate(time.Second)
	}
	if year := settings.UnusedSince.Year(); year < 1 || year > 9999 { // Format cannot write it.
		return Settings{}, fmt.Errorf("%w: unusedSince is in the year %d", ErrInvalid, year)
	}
	return settings, nil
}
