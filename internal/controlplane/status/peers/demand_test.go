package peers

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/endpoints"
)

// reports sends two reports as a metric sink does, one of them with changes only, and then nothing.
func reports(ctx context.Context, send func([]byte) error) error {
	err := errors.Join(
		send([]byte(`{"replica": "b", "objects": {"shop/web": {"requestRate": 5}, "shop/api": {"requestRate": 1}}}`+"\n")),
		send(nil), // a timer that fired early
		send([]byte(`{"replica": "b", "changesOnly": true, "objects": {"shop/web": {"requestRate": 7}}}`+"\n")),
	)
	<-ctx.Done()
	return err
}

// watchDemand watches the demand of a replica at an address until receive returns false, or the stream fails.
func watchDemand(t *testing.T, at string, receive func(metrics.Report) bool) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watching := NewPeers(slog.New(slog.DiscardHandler), nil, func(Delta) {})
	return watching.WatchDemand(ctx, endpoints.Pod{Name: "b", Address: at}, func(report metrics.Report) {
		if !receive(report) {
			cancel()
		}
	})
}

// TestDemand adds up the reports of another replica.
func TestDemand(t *testing.T) {
	t.Parallel()
	server := NewServer(nil, reports)
	server.Admit(endpointsOf(map[string]string{"self": "127.0.0.1:5678"}))
	at, _ := listen(t, "127.0.0.1:0", server)
	var whole metrics.Report
	err := watchDemand(t, at, func(report metrics.Report) bool {
		whole = report.ApplyTo(whole)
		return whole.Objects["shop/web"].RequestRate != 7
	})
	if status.Code(errors.Unwrap(err)) != codes.Canceled || len(whole.Objects) != 2 || whole.Replica != "b" {
		t.Errorf("%v, %+v", err, whole)
	}
}

// TestDemandIsForReplicas has callers and replicas without demand. The counts are those of all tenants.
func TestDemandIsForReplicas(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		isProven, isAdmitted, isClosed bool
		source                         DemandSource
		want                           codes.Code
	}{
		"no proof":             {isAdmitted: true, source: reports, want: codes.Unauthenticated},
		"another address":      {isProven: true, source: reports, want: codes.PermissionDenied},
		"no demand":            {isProven: true, isAdmitted: true, want: codes.Unimplemented},
		"a replica that stops": {isProven: true, isAdmitted: true, isClosed: true, source: reports, want: codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := NewServer(func(context.Context) bool { return test.isProven }, test.source)
			if test.isAdmitted {
				server.Admit(endpointsOf(map[string]string{"self": "127.0.0.1:5678"}))
			}
			if test.isClosed {
				server.Close()
			}
			at, _ := listen(t, "127.0.0.1:0", server)
			err := watchDemand(t, at, func(metrics.Report) bool { return true })
			if got := status.Code(errors.Unwrap(err)); got != test.want {
				t.Errorf("%v, want %v", err, test.want)
			}
		})
	}
}
