package model

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The limits of the parts of a Match.
const (
	// maxHost is the maximum length of a host name in bytes (RFC 1035, section 2.3.4, without the trailing dot), maxLabel
	// that of one of its labels.
	maxHost, maxLabel = 253, 63
	// maxPathPrefix is the maximum length of a path prefix in bytes.
	maxPathPrefix = 1024
)

// The errors of ParseHost, ParsePathPrefix and ParseHeader. Each returned error wraps one of these; its text adds the
// reason and the fix, but not the value.
var (
	// ErrHost means that ParseHost does not accept a text.
	ErrHost = errors.New("not a host name")
	// ErrPathPrefix means that ParsePathPrefix does not accept a text.
	ErrPathPrefix = errors.New("not a path prefix")
	// ErrHeader means that a name or value is not valid for a header field (RFC 9110, section 5), or that a pattern is
	// not valid.
	ErrHeader = errors.New("not a header")
)

// Match selects the requests of a Route. The host decides first: the most specific one of all Routes that matches the
// request. Of the Routes of that host, the longest path prefix wins, then the one with more headers, then the one with
// more exact values, then the one with more patterns. A request that matches the host but none of its Routes gets a 404;
// it is not matched against a less specific host, which may belong to another tenant.
type Match struct {
	// Host is the normalized host.
	Host Host
	// PathPrefix is the normalized path prefix, "/" for all paths.
	PathPrefix string
	// Headers must all match. They are sorted by name, and names are unique.
	Headers []Header `json:",omitempty"`
}

// Host is a host as normalized by ParseHost: "shop.example.com", "[2001:db8::1]", "*.example.com" for all names below
// example.com at any depth, or "*" for all.
type Host string

// AnyHost is the Host that matches every request.
const AnyHost Host = "*"

// ParseHost normalizes a host: lower case, without port and trailing dot. The host of a request is normalized in the
// same way. Valid hosts are names of letters, digits, "-" and "_" (internationalized names in their xn-- form), IPv4
// addresses, IPv6 addresses in brackets, "*." before a name, and "*". An IPv6 address gets its shortest form (RFC 5952),
// which is what clients send.
func ParseHost(text string) (Host, error) {
	if strings.HasPrefix(text, "[") {
		return parseIPv6Host(text)
	}
	name, port, hasPort := strings.Cut(text, ":")
	if hasPort && !isDigits(port) {
		return "", fmt.Errorf("%w: after a colon only a port may follow; an IPv6 address needs brackets, such as "+
			"[2001:db8::1]", ErrHost)
	}
	name = strings.Map(lowerASCII, strings.TrimSuffix(name, "."))
	if Host(name) == AnyHost {
		return AnyHost, nil
	}
	rest := strings.TrimPrefix(name, "*.")
	if len(name) > maxHost {
		return "", fmt.Errorf("%w: it is longer than %d characters", ErrHost, maxHost)
	}
	for label := range strings.SplitSeq(rest, ".") {
		if !isLabel(label) {
			return "", fmt.Errorf("%w: use letters, digits and hyphens between dots, such as shop.example.com, *.example.com "+
				"or *", ErrHost)
		}
	}
	return Host(name), nil
}

// parseIPv6Host normalizes an IPv6 address in brackets, with or without a port.
func parseIPv6Host(text string) (Host, error) {
	literal, rest, hasEnd := strings.Cut(text[1:], "]")
	port, hasPort := strings.CutPrefix(rest, ":")
	address, err := netip.ParseAddr(literal)
	isPort := rest == "" || hasPort && isDigits(port)
	if !hasEnd || err != nil || !address.Is6() || address.Zone() != "" || !isPort {
		return "", fmt.Errorf("%w: brackets must contain an IPv6 address without a zone, and only a port may follow, such "+
			"as [2001:db8::1]:8080", ErrHost)
	}
	return Host("[" + address.String() + "]"), nil
}

// ParsePathPrefix normalizes a path prefix: without trailing slash; "/" or "" mean all paths. A prefix matches whole
// segments: "/app" matches "/app" and "/app/x", not "/apple".
func ParsePathPrefix(text string) (string, error) {
	prefix := strings.TrimRight(text, "/")
	switch {
	case prefix == "":
		return "/", nil
	case prefix[0] != '/':
		return "", fmt.Errorf("%w: must begin with /", ErrPathPrefix)
	case len(prefix) > maxPathPrefix:
		return "", fmt.Errorf("%w: it is longer than %d characters", ErrPathPrefix, maxPathPrefix)
	}
	for _, c := range []byte(prefix) {
		if c <= ' ' || c >= 0x7f || c == '?' || c == '#' || c == '\\' {
			return "", fmt.Errorf("%w: a path has no space, control character, \\, ? or #; percent-encode them and what is "+
				"not ASCII", ErrPathPrefix)
		}
	}
	for segment := range strings.SplitSeq(prefix, "/") {
		if segment == "." || segment == ".." {
			return "", fmt.Errorf("%w: requests never have . or .. as a segment; they are resolved first", ErrPathPrefix)
		}
	}
	return prefix, nil
}

// Compare is a total order of Matches, the more specific first: the order that CompareRoutes uses for Routes of the
// same age and Owner. It is 0 for equal Matches only.
func (m Match) Compare(other Match) int {
	return cmp.Or(m.compareSpecificity(other), slices.CompareFunc(m.Headers, other.Headers, Header.Compare))
}

// compareSpecificity is Compare without the content of headers, which does not affect how specific a Match is.
func (m Match) compareSpecificity(other Match) int {
	return cmp.Or(
		m.Host.Compare(other.Host),
		cmp.Compare(len(other.PathPrefix), len(m.PathPrefix)),
		cmp.Compare(m.PathPrefix, other.PathPrefix),
		cmp.Compare(len(other.Headers), len(m.Headers)),
		cmp.Compare(countExact(other.Headers), countExact(m.Headers)),
		cmp.Compare(CountPatterns(other.Headers), CountPatterns(m.Headers)),
	)
}

// Compare orders hosts, the more specific first: exact names, then wildcards from the longest to the shortest, then
// AnyHost. Equally specific hosts are ordered by name.
func (h Host) Compare(other Host) int {
	return cmp.Or(cmp.Compare(h.breadth(), other.breadth()), cmp.Compare(h, other))
}

// IsExact reports whether the host is one name or address, not a wildcard.
func (h Host) IsExact() bool { return h.breadth() == 0 }

// IsIPv6 reports whether the host is an IPv6 address.
func (h Host) IsIPv6() bool { return strings.HasPrefix(string(h), "[") }

// Covers reports whether every request for another host is also one for this host.
func (h Host) Covers(other Host) bool {
	suffix, isWildcard := strings.CutPrefix(string(h), "*")
	return h == other || h == AnyHost || isWildcard && strings.HasSuffix(string(other), suffix)
}

// breadth is 0 for an exact name and increases as wildcards get shorter.
func (h Host) breadth() int {
	if !strings.HasPrefix(string(h), string(AnyHost)) {
		return 0
	}
	return maxHost + 1 - len(h)
}

// lowerASCII converts ASCII letters to lower case. Unicode would convert the Kelvin sign to k, so that two names become
// one.
func lowerASCII(c rune) rune {
	if c >= 'A' && c <= 'Z' {
		return c - 'A' + 'a'
	}
	return c
}

// isDigits reports whether text is a decimal number that can be a port.
func isDigits(text string) bool {
	return len(text) >= 1 && len(text) <= 5 && strings.Trim(text, "0123456789") == ""
}

// isLabel reports whether text can be a label of a lower-case host name. RFC 952 does not allow underscores in host
// names, but resolvers and browsers accept them.
func isLabel(text string) bool {
	if text == "" || len(text) > maxLabel || text[0] == '-' || text[len(text)-1] == '-' {
		return false
	}
	for _, c := range []byte(text) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}
