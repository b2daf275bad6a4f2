package router_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-plugin"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
)

// scripted is a Router that runs the same function in each call.
type scripted struct {
	do func(context.Context) (bool, error)
}

func (scripted) Type() string { return "test/scripted" }

func (s scripted) SetWeight(ctx context.Context, _ *v1alpha1.Rollout, _ int32, _ []v1alpha1.WeightDestination) error {
	_, err := s.do(ctx)
	return err
}

func (s scripted) VerifyWeight(
	ctx context.Context, _ *v1alpha1.Rollout, _ int32, _ []v1alpha1.WeightDestination,
) (bool, error) {
	return s.do(ctx)
}

func (s scripted) UpdateHash(
	ctx context.Context, _ *v1alpha1.Rollout, _, _ string, _ []v1alpha1.WeightDestination,
) error {
	_, err := s.do(ctx)
	return err
}

func (s scripted) SetHeaderRoute(ctx context.Context, _ *v1alpha1.Rollout, _ *v1alpha1.SetHeaderRoute) error {
	_, err := s.do(ctx)
	return err
}

func (s scripted) SetMirrorRoute(ctx context.Context, _ *v1alpha1.Rollout, _ *v1alpha1.SetMirrorRoute) error {
	_, err := s.do(ctx)
	return err
}

func (s scripted) RemoveManagedRoutes(ctx context.Context, _ *v1alpha1.Rollout) error {
	_, err := s.do(ctx)
	return err
}

// overRPC returns the controller's client of a plugin with router, connected by net/rpc and gob.
func overRPC(t *testing.T, r router.Router, log io.Writer) rpc.TrafficRouterPlugin {
	t.Helper()
	connection, _ := plugin.TestPluginRPCConn(t, plugin.PluginSet{
		router.PluginName: &rpc.RpcTrafficRouterPlugin{Impl: router.NewPlugin(r, router.NewLogger(log, slog.LevelInfo))},
	}, nil)
	t.Cleanup(func() { _ = connection.Close() })
	dispensed, err := connection.Dispense(router.PluginName)
	if err != nil {
		t.Fatal(err)
	}
	client, ok := dispensed.(rpc.TrafficRouterPlugin)
	if !ok {
		t.Fatalf("dispensed a %T", dispensed)
	}
	return client
}

// everyCall makes each call that has a Rollout and returns the results by method.
func everyCall(client rpc.TrafficRouterPlugin) (map[string]types.RpcError, types.RpcVerified) {
	rollout := &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	verified, verifyError := client.VerifyWeight(rollout, 0, nil)
	return map[string]types.RpcError{
		"SetWeight":           client.SetWeight(rollout, 0, nil),
		"VerifyWeight":        verifyError,
		"UpdateHash":          client.UpdateHash(rollout, "", "", nil),
		"SetHeaderRoute":      client.SetHeaderRoute(rollout, &v1alpha1.SetHeaderRoute{}),
		"SetMirrorRoute":      client.SetMirrorRoute(rollout, &v1alpha1.SetMirrorRoute{}),
		"RemoveManagedRoutes": client.RemoveManagedRoutes(rollout),
	}, verified
}

func TestResultsPassUnchanged(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		verified     bool
		err          error
		want         string
		wantVerified types.RpcVerified
	}{
		"done":                   {true, nil, "", types.Verified},
		"not verified":           {false, nil, "", types.NotVerified},
		"an error":               {false, errors.New("no such Service"), "no such Service", types.NotVerified},
		"true and an error":      {true, errors.New("no such Service"), "no such Service", types.NotVerified},
		"an error without words": {false, errors.New(""), "without a text", types.NotVerified},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := overRPC(t, scripted{func(context.Context) (bool, error) { return test.verified, test.err }}, io.Discard)
			answers, verified := everyCall(client)
			for method, answer := range answers {
				if answer.HasError() != (test.err != nil) || !strings.Contains(answer.ErrorString, test.want) {
					t.Errorf("%s answered %q, want %q", method, answer.ErrorString, test.want)
				}
			}
			if verified != test.wantVerified {
				t.Errorf("VerifyWeight answered %v, want %v", verified, test.wantVerified)
			}
			if init := client.InitPlugin(); init.HasError() {
				t.Errorf("InitPlugin: %v", init)
			}
			if got := client.Type(); got != "test/scripted" {
				t.Errorf("Type is %q", got)
			}
		})
	}
}

// The controller uses the text of SetWeight as the format of an Event, and prints other texts as they are.
func TestEventsShowPercentSigns(t *testing.T) {
	const text = `no route matches "/caf%C3%A9": mirror 100 %, or install a CRD`
	plugin := router.NewPlugin(scripted{do: func(context.Context) (bool, error) { return false, errors.New(text) }},
		slog.New(slog.DiscardHandler))
	format := plugin.SetWeight(&v1alpha1.Rollout{}, 20, nil).ErrorString
	if event := fmt.Sprintf(format, []any{}...); event != text {
		t.Errorf("the Event is %q, want %q", event, text)
	}
	if got := plugin.SetHeaderRoute(&v1alpha1.Rollout{}, nil).ErrorString; got != text {
		t.Errorf("SetHeaderRoute returns %q, want %q", got, text)
	}
}

func TestUndecidedWeightIsNoError(t *testing.T) {
	t.Parallel()
	client := overRPC(t, scripted{func(context.Context) (bool, error) {
		return false, fmt.Errorf("rollout %q: %w", "shop/web", router.ErrUndecided)
	}}, io.Discard)
	verified, err := client.VerifyWeight(&v1alpha1.Rollout{}, 100, nil)
	if err.HasError() || verified != types.NotImplemented || verified.IsVerified() != nil {
		t.Errorf("VerifyWeight: %v, %v", verified, err)
	}
}

func TestPanicFailsOnlyItsCall(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	broken := true
	client := overRPC(t, scripted{func(context.Context) (bool, error) {
		if broken {
			panic("index out of range")
		}
		return true, nil
	}}, &log)
	answers, verified := everyCall(client)
	for method, answer := range answers {
		if !strings.Contains(answer.ErrorString, "panic: index out of range") ||
			!strings.Contains(answer.ErrorString, `"shop/web"`) {
			t.Errorf("%s answered %q", method, answer.ErrorString)
		}
	}
	if verified != types.NotVerified {
		t.Errorf("VerifyWeight returned %v after a panic", verified)
	}
	for line := range strings.Lines(log.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if stack, _ := record["stack"].(string); record["@level"] != "error" || !strings.Contains(stack, "plugin_test.go") {
			t.Errorf("log line without the stack of the panic: %s", line)
		}
	}
	if lines := strings.Count(log.String(), "\n"); lines != len(answers) {
		t.Errorf("%d log lines, want %d", lines, len(answers))
	}
	broken = false
	if answer := client.SetWeight(&v1alpha1.Rollout{}, 0, nil); answer.HasError() {
		t.Errorf("the next call: %v", answer)
	}
}

func TestEveryCallEndsWithinTenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := router.NewPlugin(scripted{func(ctx context.Context) (bool, error) {
			<-ctx.Done()
			return false, ctx.Err()
		}}, router.NewLogger(io.Discard, slog.LevelInfo))
		start := time.Now()
		answers, _ := everyCall(hangs)
		for method, answer := range answers {
			if !strings.Contains(answer.ErrorString, context.DeadlineExceeded.Error()) {
				t.Errorf("%s answered %q", method, answer.ErrorString)
			}
		}
		if each := time.Since(start) / time.Duration(len(answers)); each > 10*time.Second {
			t.Errorf("a call takes %v", each)
		}
	})
}

func TestZeroValuesSurviveRPC(t *testing.T) {
	t.Parallel()
	// The controller sends this after "setWeight: 0" at step 0: gob drops the pointers.
	rollout := &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: v1alpha1.RolloutSpec{Strategy: v1alpha1.RolloutStrategy{Canary: &v1alpha1.CanaryStrategy{
			StableService: "web-stable", CanaryService: "web-canary",
			TrafficRouting: &v1alpha1.RolloutTrafficRouting{MaxTrafficWeight: new(int32)},
		}}},
		Status: v1alpha1.RolloutStatus{CurrentStepIndex: new(int32)},
	}
	var got router.Split
	recording := recorder{scripted{func(context.Context) (bool, error) { return false, nil }}, &got}
	if answer := overRPC(t, recording, io.Discard).SetWeight(rollout, 0, nil); answer.HasError() {
		t.Fatal(answer)
	}
	want := router.Split{
		Stable: router.Backend{Service: "web-stable", Weight: 100},
		Canary: router.Backend{Service: "web-canary"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("split (-want +got):\n%s", diff)
	}
}

// recorder keeps the Split of the last SetWeight.
type recorder struct {
	scripted
	split *router.Split
}

func (r recorder) SetWeight(
	_ context.Context, rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination,
) error {
	split, err := router.SplitFor(rollout, weight, others)
	*r.split = split
	return err
}

func TestLogLinesAreHclogJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := router.NewLogger(&out, slog.LevelInfo)
	log.Debug("quiet")
	log.Warn("slow answer", "took", 1500*time.Microsecond, slog.Group("object", "level", "kept", "time", "kept"))
	var record map[string]any
	if err := json.Unmarshal(out.Bytes(), &record); err != nil {
		t.Fatalf("%v in %q", err, out.String())
	}
	stamp, _ := record["@timestamp"].(string)
	if _, err := time.Parse("2006-01-02T15:04:05.000000Z07:00", stamp); err != nil {
		t.Errorf("@timestamp: %v", err)
	}
	delete(record, "@timestamp")
	want := map[string]any{
		"@level": "warn", "@message": "slow answer", "took": "1.5ms",
		"object": map[string]any{"level": "kept", "time": "kept"},
	}
	if diff := cmp.Diff(want, record); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}
