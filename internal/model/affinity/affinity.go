// Package affinity is the codec of the annotations http.kedify.io/stickiness and http.kedify.io/session-affinity: the
// part of a request that identifies its client, so that all requests of a client go to one side of a canary, or to one
// Pod. The router plugin and the agent write them and the interceptor reads them, all by this package.
//
// The text is a YAML mapping with exactly one key, so JSON is valid too: {cookie: {…}}, {header: name} or
// {sourceAddress: {}}. The size of a text is limited before it is parsed, because any tenant can write one.
package affinity

import (
	"errors"
	"fmt"
	"strings"
)

// The limits of a text.
const (
	// MaxBytes is the maximum length of a text in bytes.
	MaxBytes = 1024
	// MaxName is the maximum length of the name of a cookie or header in bytes.
	MaxName = 64
	// MaxPath is the maximum length of a cookie's path in bytes.
	MaxPath = 256
	// MaxAge is the maximum lifetime of a cookie in seconds, 400 days. Browsers shorten longer ones (RFC 6265bis, section
	// 5.5).
	MaxAge = 400 * 24 * 60 * 60
)

// The defaults of a cookie. The others are: no lifetime, so that the cookie ends with the browser session, and not
// Secure, because clients may use plain HTTP.
const (
	// DefaultName is the name of a cookie without a name.
	DefaultName = "kedify-session"
	// DefaultPath is the path of a cookie without a path.
	DefaultPath = "/"
)

// The errors of Parse and Validate. Each returned error wraps one of these; its text adds the field, the value and the
// fix.
var (
	// ErrTooLong means that the text is longer than MaxBytes. It was not parsed.
	ErrTooLong = errors.New("text is too long")
	// ErrSyntax means that the text is not a YAML mapping with exactly one of the keys, or a value has the wrong type.
	ErrSyntax = errors.New("not a mapping with one of the keys cookie, header and sourceAddress")
	// ErrAlias means that the text contains YAML anchors or aliases, with which a short text can expand to a huge one.
	ErrAlias = errors.New("YAML anchors and aliases are not allowed")
	// ErrCookie means that a cookie is invalid, or that browsers reject it.
	ErrCookie = errors.New("invalid cookie")
	// ErrHeader means that a header is invalid, or cannot identify a client.
	ErrHeader = errors.New("invalid header")
	// errSourceAddress is the ErrSyntax of a sourceAddress.
	errSourceAddress = fmt.Errorf("%w: sourceAddress", ErrSyntax)
)

// Key is the part of a request that identifies its client. A valid Key has exactly one field; the zero value is no Key.
type Key struct {
	// Cookie is a cookie that the proxies set for clients without one. It is the zero value for other Keys.
	Cookie Cookie `json:"cookie,omitzero"`
	// Header is the name of a header that something in front of the proxies, or the client, sets.
	Header string `json:"header,omitempty"`
	// SourceAddress is true for the client's IP address.
	SourceAddress bool `json:"sourceAddress,omitempty"`
}

// Cookie is a cookie that the proxies set. Its value is the id of the client's first request.
type Cookie struct {
	// Name and Path are the cookie's name and Path attribute.
	Name string `json:"name"`
	Path string `json:"path"`
	// MaxAge is the Max-Age attribute in seconds. With 0 there is none: the cookie ends with the browser session.
	MaxAge uint32 `json:"maxAge,omitempty"`
	// Secure and HTTPOnly are the attributes of these names.
	Secure   bool `json:"secure"`
	HTTPOnly bool `json:"httpOnly"`
	// SameSite is the attribute of this name.
	SameSite SameSite `json:"sameSite"`
}

// SameSite is when browsers send a cookie with requests that another site has caused (RFC 6265bis, section 5.6.7).
type SameSite string

// The SameSite values.
const (
	// Lax sends it only when a user follows a link to the site.
	Lax SameSite = "Lax"
	// Strict never sends it.
	Strict SameSite = "Strict"
	// None always sends it. Browsers require Secure.
	None SameSite = "None"
)

// DefaultCookie returns a cookie with all defaults.
func DefaultCookie() Cookie {
	return Cookie{Name: DefaultName, Path: DefaultPath, HTTPOnly: true, SameSite: Lax}
}

// IsZero reports whether there is no Key.
func (k Key) IsZero() bool { return k == Key{} }

// HasCookie reports whether the proxies have to set a cookie.
func (k Key) HasCookie() bool { return k.Cookie != Cookie{} }

// Validate checks a Key.
func Validate(key Key) error {
	count := 0
	for _, isSet := range []bool{key.HasCookie(), key.Header != "", key.SourceAddress} {
		if isSet {
			count++
		}
	}
	switch {
	case count != 1:
		return syntax("%d of them are set: write exactly one", count)
	case key.HasCookie():
		return key.Cookie.validate()
	case key.Header != "":
		return validateHeader(key.Header)
	}
	return nil
}

// validate checks a cookie.
func (c Cookie) validate() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrCookie}, args...)...)
	}
	isOther := func(r rune) bool { return r < ' ' || r > '~' || r == ';' }
	lower := strings.ToLower(c.Name)
	switch {
	case !isToken(c.Name):
		return invalid("name %.80q: write 1 to %d letters, digits, - and _", c.Name, MaxName)
	case !strings.HasPrefix(c.Path, "/") || strings.ContainsFunc(c.Path, isOther) || len(c.Path) > MaxPath:
		return invalid("path %.80q: write a path that begins with / and has at most %d printable characters and no ;",
			c.Path, MaxPath)
	case c.MaxAge > MaxAge:
		return invalid("maxAge %d: write at most %d seconds, which are 400 days", c.MaxAge, MaxAge)
	case c.SameSite != Lax && c.SameSite != Strict && c.SameSite != None:
		return invalid("sameSite %.80q: write %s, %s or %s", c.SameSite, Lax, Strict, None)
	case c.SameSite == None && !c.Secure:
		return invalid("sameSite None: browsers accept it only with secure: true: set that too")
	case strings.HasPrefix(lower, "__secure-") && !c.Secure:
		return invalid("name %.80q: browsers accept this prefix only with secure: true: set that too", c.Name)
	case strings.HasPrefix(lower, "__host-") && (!c.Secure || c.Path != "/"):
		return invalid("name %.80q: browsers accept this prefix only with secure: true and path /: set these too", c.Name)
	}
	return nil
}

// validateHeader checks the name of a header.
func validateHeader(name string) error {
	lower := strings.ToLower(name)
	switch {
	case !isToken(name):
		return fmt.Errorf("%w: name %.80q: write 1 to %d letters, digits, - and _", ErrHeader, name, MaxName)
	case lower == "cookie":
		return fmt.Errorf("%w: name %.80q: it contains all cookies: write {cookie: {name: …}} for one of them",
			ErrHeader, name)
	case lower == "host", lower == "x-request-id", strings.HasPrefix(lower, "x-envoy-"),
		strings.HasPrefix(lower, "x-kedify-"):
		return fmt.Errorf("%w: name %.80q: it does not identify a client: name a header such as x-user-id", ErrHeader, name)
	}
	return nil
}

// ValidateName checks the name of a cookie or a header. The error wraps ErrSyntax.
func ValidateName(name string) error {
	if isToken(name) {
		return nil
	}
	return syntax("name %.80q: write 1 to %d letters, digits, - and _", name, MaxName)
}

// isToken reports whether name is a token (RFC 9110, section 5.6.2) of at most MaxName bytes, as the names of headers
// and cookies are.
func isToken(name string) bool {
	isOther := func(r rune) bool {
		isAlphanumeric := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !isAlphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}
	return name != "" && len(name) <= MaxName && !strings.ContainsFunc(name, isOther)
}
