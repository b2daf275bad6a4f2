package rollouts_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router/rollouts"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

func TestTheSameWarningIsNotRepeatedForTenMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewInMemory(t)
		var log bytes.Buffer
		recorder := rollouts.NewEventRecorder(kube.NewClient(func() (*rest.Config, error) { return api.Config(), nil }),
			"router",
			slog.New(slog.NewTextHandler(&log, nil)))
		web, other := routertest.Rollout("kedify/http", ""), routertest.Rollout("kedify/http", "")
		other.Name, other.UID = "api", "uid-of-api"
		tests := []struct {
			name    string
			warn    func()
			pause   time.Duration // before it
			written int           // events so far
		}{
			{"the first", func() { recorder.Warn(t.Context(), web, "Odd", "it is odd") }, 0, 1},
			{"the same again", func() { recorder.Warn(t.Context(), web, "Odd", "it is odd") }, 9 * time.Minute, 1},
			{"another text", func() { recorder.Warn(t.Context(), web, "Odd", "it is very odd") }, 0, 2},
			{"another Rollout", func() { recorder.Warn(t.Context(), other, "Odd", "it is odd") }, 0, 3},
			{"the first after ten minutes", func() { recorder.Warn(t.Context(), web, "Odd", "it is odd") }, 2 * time.Minute, 4},
			{"and not again", func() { recorder.Warn(t.Context(), web, "Odd", "it is odd") }, 9 * time.Minute, 4},
		}
		for _, test := range tests {
			<-time.After(test.pause)
			test.warn()
			if events := len(api.Events()); events != test.written {
				t.Errorf("%s: %d events, want %d", test.name, events, test.written)
			}
			if lines := strings.Count(log.String(), "level=WARN"); lines != test.written {
				t.Errorf("%s: %d lines in the log, want %d", test.name, lines, test.written)
			}
		}
		event := api.Events()[0]
		const message = "it is odd; see https://github.com/kedify/argo-rollouts-plugin/blob/main/docs/reference/findings.md#odd"
		if event.InvolvedObject.Name != "web" || event.Reason != "Odd" || event.Message != message ||
			event.Type != "Warning" || event.Source.Component != "router" {
			t.Errorf("the event is %+v", event)
		}
	})
}
