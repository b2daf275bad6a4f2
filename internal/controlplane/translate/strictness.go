package translate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// Keep, Drop, Reject, Redirect and Unescape are the actions of Strictness.
const (
	Keep     = "keep"
	Drop     = "drop"
	Reject   = "reject"
	Redirect = "redirect"
	Unescape = "unescape"
)

// Strictness configures how the proxy handles ambiguous requests: those that an application may interpret differently
// from the proxy. The zero value, like Keep, passes them on unchanged.
type Strictness struct {
	// UnderscoreHeaders is the action on a header whose name contains an underscore: Keep, Drop, or Reject with 400
	// or a reset stream. CGI, WSGI and PHP applications read X_User as X-User.
	UnderscoreHeaders string
	// EscapedSlashes is the action on a path with %2F or %5C: Keep, Reject with 400, Redirect to the unescaped path with
	// 307, or Unescape.
	EscapedSlashes string
	// MergeSlashes replaces adjacent slashes in a path with one slash.
	MergeSlashes bool
}

// ErrStrictness is the error of an unknown action.
var ErrStrictness = errors.New("unknown action")

// Check validates the actions. The error names the interceptor's flag and the valid values, and wraps ErrStrictness.
func (s Strictness) Check() error {
	if _, isKnown := underscoreActions()[s.UnderscoreHeaders]; !isKnown {
		return unknownAction("--underscore-headers", s.UnderscoreHeaders, underscoreActions())
	}
	if _, isKnown := slashActions()[s.EscapedSlashes]; !isKnown {
		return unknownAction("--escaped-slashes", s.EscapedSlashes, slashActions())
	}
	return nil
}

// unknownAction returns the error about an action that is not among the known ones.
func unknownAction[T any](setting, action string, known map[string]T) error {
	return fmt.Errorf("%s: %w %q: use %s", setting, ErrStrictness, action,
		strings.Join(slices.Sorted(maps.Keys(known)), ", "))
}

// underscoreActions returns Envoy's actions on headers with underscores.
func underscoreActions() map[string]corev3.HttpProtocolOptions_HeadersWithUnderscoresAction {
	return map[string]corev3.HttpProtocolOptions_HeadersWithUnderscoresAction{
		Keep:   corev3.HttpProtocolOptions_ALLOW,
		Drop:   corev3.HttpProtocolOptions_DROP_HEADER,
		Reject: corev3.HttpProtocolOptions_REJECT_REQUEST,
	}
}

// slashActions returns Envoy's actions on escaped slashes. IMPLEMENTATION_SPECIFIC_DEFAULT keeps them.
func slashActions() map[string]hcmv3.HttpConnectionManager_PathWithEscapedSlashesAction {
	return map[string]hcmv3.HttpConnectionManager_PathWithEscapedSlashesAction{
		Keep:     hcmv3.HttpConnectionManager_KEEP_UNCHANGED,
		Reject:   hcmv3.HttpConnectionManager_REJECT_REQUEST,
		Redirect: hcmv3.HttpConnectionManager_UNESCAPE_AND_REDIRECT,
		Unescape: hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD,
	}
}

// apply configures the connection manager of a listener for clients. Envoy changes a path before it selects the route,
// so the application receives the path that was matched.
func (s Strictness) apply(manager *hcmv3.HttpConnectionManager) {
	manager.CommonHttpProtocolOptions.HeadersWithUnderscoresAction = underscoreActions()[s.UnderscoreHeaders]
	manager.PathWithEscapedSlashesAction = slashActions()[s.EscapedSlashes]
	manager.MergeSlashes = s.MergeSlashes
}
