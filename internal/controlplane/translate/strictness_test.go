package translate_test

import (
	"errors"
	"math"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
)

// TestStrictness: the listeners for clients have the configured actions. The fallback listener has none: its requests
// have passed another listener.
func TestStrictness(t *testing.T) {
	t.Parallel()
	type configured struct {
		underscores corev3.HttpProtocolOptions_HeadersWithUnderscoresAction
		slashes     hcmv3.HttpConnectionManager_PathWithEscapedSlashesAction
		areMerged   bool
	}
	options := holdOptions()
	options.Strictness = translate.Strictness{
		UnderscoreHeaders: translate.Drop, EscapedSlashes: translate.Unescape, MergeSlashes: true,
	}
	strict := configured{
		corev3.HttpProtocolOptions_DROP_HEADER, hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD, true,
	}
	for name, want := range map[string]struct {
		options translate.Options
		clients configured
	}{
		"the defaults": {holdOptions(), configured{slashes: hcmv3.HttpConnectionManager_KEEP_UNCHANGED}},
		"strict":       {options, strict},
	} {
		for listener, manager := range managersOf(t, want.options) {
			wanted := want.clients
			if listener == translate.HoldName {
				wanted = configured{}
			}
			got := configured{
				manager.GetCommonHttpProtocolOptions().GetHeadersWithUnderscoresAction(),
				manager.GetPathWithEscapedSlashesAction(), manager.GetMergeSlashes(),
			}
			if diff := cmp.Diff(wanted, got, cmp.AllowUnexported(configured{})); diff != "" {
				t.Errorf("%s: listener %s (-want +got):\n%s", name, listener, diff)
			}
		}
	}
}

// TestRequestHeadersTimeout: a client has 10 s for the header of a request by default, and 0 means no limit. Requests
// in the fallback listener come from the proxy itself.
func TestRequestHeadersTimeout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*translate.Options)
		want   *durationpb.Duration
	}{
		"the default": {func(*translate.Options) {}, durationpb.New(10 * time.Second)},
		"longer":      {func(o *translate.Options) { o.RequestHeadersTimeout = time.Hour }, durationpb.New(time.Hour)},
		"no limit":    {func(o *translate.Options) { o.RequestHeadersTimeout = 0 }, nil},
		"below 1 ms":  {func(o *translate.Options) { o.RequestHeadersTimeout = 1 }, durationpb.New(time.Millisecond)},
		"the maximum": {
			func(o *translate.Options) { o.RequestHeadersTimeout = math.MaxInt64 }, durationpb.New(100 * 365 * 24 * time.Hour),
		},
	} {
		options := holdOptions()
		c.change(&options)
		for listener, manager := range managersOf(t, options) {
			want := c.want
			if listener == translate.HoldName {
				want = nil
			}
			if got := manager.GetRequestHeadersTimeout(); !proto.Equal(got, want) {
				t.Errorf("%s: listener %s: %v, want %v", name, listener, got, want)
			}
		}
	}
}

// TestUnknownStrictness has invalid actions and their errors.
func TestUnknownStrictness(t *testing.T) {
	t.Parallel()
	if err := translate.DefaultOptions().Strictness.Check(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for want, strictness := range map[string]translate.Strictness{
		`--underscore-headers: unknown action "no": use drop, keep, reject`: {
			UnderscoreHeaders: "no", EscapedSlashes: translate.Keep,
		},
		`--escaped-slashes: unknown action "drop": use keep, redirect, reject, unescape`: {
			UnderscoreHeaders: translate.Keep, EscapedSlashes: translate.Drop,
		},
	} {
		if err := strictness.Check(); !errors.Is(err, translate.ErrStrictness) || err.Error() != want {
			t.Errorf("%+v: error %v, want %s", strictness, err, want)
		}
	}
}
