package inherited_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
	"github.com/kedify/argo-rollouts-plugin/internal/model/inherited"
)

// noon is a time with a fraction of a second, which texts do not contain.
func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 5, time.FixedZone("two", 7200)) }

// TestFormat has each setting and all of them. Parse returns the same Settings.
func TestFormat(t *testing.T) {
	t.Parallel()
	cookie := affinity.Key{Cookie: affinity.DefaultCookie()}
	const session = `{"cookie":{"name":"kedify-session","path":"/","secure":false,"httpOnly":true,"sameSite":"Lax"}}`
	for want, settings := range map[string]inherited.Settings{
		``:                   {},
		`{"protocol":"h2c"}`: {IsHTTP2: true},
		`{"sessionAffinity":{"header":"x-user"}}`:                 {Affinity: affinity.Key{Header: "x-user"}},
		`{"sessionAffinity":{"sourceAddress":{}}}`:                {Affinity: affinity.Key{SourceAddress: true}},
		`{"protocol":"h2c","sessionAffinity":` + session + `}`:    {IsHTTP2: true, Affinity: cookie},
		`{"protocol":"h2c","unusedSince":"2026-05-01T10:00:00Z"}`: {IsHTTP2: true, UnusedSince: noon()},
		`{"sessionAffinity":{"header":"a&b"}}`:                    {Affinity: affinity.Key{Header: "a&b"}},
	} {
		if got := inherited.Format(settings); got != want {
			t.Errorf("Format(%+v) = %s, want %s", settings, got, want)
		}
		settings.UnusedSince = settings.UnusedSince.UTC().Truncate(time.Second)
		got, err := inherited.Parse(want)
		if diff := cmp.Diff(settings, got); diff != "" || err != nil {
			t.Errorf("Parse(%s): %v (-want +got):\n%s", want, err, diff)
		}
	}
	if text := inherited.Format(inherited.Settings{UnusedSince: noon()}); text != "" {
		t.Errorf("no settings are written as %s", text)
	}
}

// TestProtocol: without the setting, ports that select no protocol have HTTP/1.1.
func TestProtocol(t *testing.T) {
	t.Parallel()
	if got := (inherited.Settings{}).Protocol(); got != model.HTTP1 {
		t.Errorf("without settings: %s", got)
	}
	if got := (inherited.Settings{IsHTTP2: true}).Protocol(); got != model.HTTP2 {
		t.Errorf("with h2c: %s", got)
	}
}

func TestParseRejects(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no JSON":                 "protocol: h2c",
		"a list":                  `["h2c"]`,
		"another protocol":        `{"protocol":"https"}`,
		"a setting of the future": `{"protocol":"h2c","timeout":"5s"}`,
		"two objects":             `{"protocol":"h2c"}{}`,
		"an invalid affinity":     `{"sessionAffinity":{}}`,
		"no affinity":             `{"sessionAffinity":null}`,
		"an affinity as a text":   `{"sessionAffinity":"cookie"}`,
		"an invalid header":       `{"sessionAffinity":{"header":"cookie"}}`,
		"an invalid time":         `{"protocol":"h2c","unusedSince":"noon"}`,
		"the year 10000":          `{"protocol":"h2c","unusedSince":"9999-12-31T23:59:59-01:00"}`,
		"too long":                `{"protocol":"h2c"` + strings.Repeat(" ", inherited.MaxBytes) + `}`,
		"spaces":                  "  ",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := inherited.Parse(text)
			if !errors.Is(err, inherited.ErrInvalid) || got != (inherited.Settings{}) {
				t.Errorf("Parse(%.80q) = %+v, %v", text, got, err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", `{"protocol":"h2c"}`, `{"sessionAffinity":{"header":"x"}}`, `{"sessionAffinity":{"cookie":{"path":"/a&b"}}}`,
		`{"protocol":"h2c","unusedSince":"2026-05-01T10:00:00.5+02:00"}`, `{"unusedSince":"0001-01-01T00:00:00Z"}`, `{}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		settings, err := inherited.Parse(text)
		if err != nil || !settings.IsHTTP2 && settings.Affinity.IsZero() {
			return
		}
		written := inherited.Format(settings)
		if again, err := inherited.Parse(written); err != nil || again != settings || len(written) > inherited.MaxBytes {
			t.Fatalf("Parse(%q) = %+v, but formatted and parsed again %+v (%v)", text, settings, again, err)
		}
	})
}
