package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// script writes an executable shell script and returns its folder.
func script(t *testing.T, name, body string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestExecRunsTheCommandOfTheBinFolder(t *testing.T) {
	bin := script(t, "kubectl", `echo "$KUBECONFIG $KUBECACHEDIR $OTHER $*"`)
	env := Environment([]string{"PATH=/usr/bin:/bin", "KUBECONFIG=/the/user's", "OTHER=kept"}, bin,
		"/run/kubeconfig", "/run/cache")
	out, err := Exec{Env: env}.Run(t.Context(), "kubectl", "get", "ns")
	if err != nil {
		t.Fatal(err)
	}
	if want := "/run/kubeconfig /run/cache kept get ns\n"; out != want {
		t.Errorf("output %q, want %q", out, want)
	}
}

func TestExecSaysWhatFailed(t *testing.T) {
	bin := script(t, "kubectl", `echo "not found" >&2; exit 3`)
	_, err := Exec{Env: Environment(os.Environ(), bin, "", "")}.Run(t.Context(), "kubectl", "get", "ns")
	if err == nil || err.Error() != "kubectl get ns: exit status 3: not found" {
		t.Errorf("error = %v", err)
	}
}

func TestStreamEndsWithItsContext(t *testing.T) {
	bin := script(t, "kubectl", `echo first; exec sleep 60`)
	ctx, cancel := context.WithCancel(await.Context(t))
	defer cancel()
	err := Exec{Env: Environment(os.Environ(), bin, "", "")}.Stream(ctx, func(out io.Reader) error {
		var word string
		if _, err := fmt.Fscanln(out, &word); err != nil || word != "first" {
			t.Errorf("read %q, %v", word, err)
		}
		cancel()
		return nil
	}, "kubectl")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want the end of the context", err)
	}
}

func TestStreamEndsWhenNobodyReads(t *testing.T) {
	bin := script(t, "kubectl", `echo "no json"; exec sleep 60`)
	bad := errors.New("unreadable")
	err := Exec{Env: Environment(os.Environ(), bin, "", "")}.Stream(t.Context(),
		func(io.Reader) error { return bad }, "kubectl")
	if !errors.Is(err, bad) {
		t.Errorf("error = %v, want %v", err, bad)
	}
}

// outputs returns one output after the other, like a command that ends and is started again.
type outputs struct {
	texts []string
	calls int
}

func (o *outputs) Run(context.Context, ...string) (string, error) { return "", errors.ErrUnsupported }

func (o *outputs) Stream(ctx context.Context, read func(io.Reader) error, _ ...string) error {
	o.calls++
	if o.calls > len(o.texts) {
		<-ctx.Done()
		return ctx.Err()
	}
	return read(strings.NewReader(o.texts[o.calls-1]))
}

func TestWatchStartsAgainAndKeepsTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runner := &outputs{texts: []string{
			`{"metadata":{"name":"a"}}` + "\n" + `{"metadata":{"name":"b"}}`,
			"Error from server: gone",
			`{"metadata":{"name":"c"}}`,
		}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var latest Latest[HTTPScaledObject]
		go Watch(ctx, runner, &latest, "kubectl", "get", "httpso", "-w", "-o", "json")
		var names []string
		for range 3 {
			synctest.Wait()
			names = append(names, latest.Get().Metadata.Name)
			time.Sleep(restartPause)
		}
		if diff := cmp.Diff([]string{"b", "b", "c"}, names); diff != "" {
			t.Errorf("names over time (-want +got):\n%s", diff)
		}
	})
}

// A watch that stays open without output is restarted.
func TestWatchIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts := 0
		runner := streamFunc(func(ctx context.Context, read func(io.Reader) error) error {
			starts++
			err := read(strings.NewReader(fmt.Sprintf(`{"metadata":{"name":"%d"}}`, starts)))
			<-ctx.Done()
			return err
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var latest Latest[HTTPScaledObject]
		go Watch(ctx, runner, &latest, "kubectl", "get", "httpso", "-w", "-o", "json")
		for _, want := range []string{"1", "2"} {
			synctest.Wait()
			if got := latest.Get().Metadata.Name; got != want {
				t.Errorf("the value is %q, want %q", got, want)
			}
			time.Sleep(watchAge + restartPause)
		}
	})
}

func TestForwardForgetsAnAddressThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		reader, writer := io.Pipe()
		runner := streamFunc(func(_ context.Context, read func(io.Reader) error) error { return read(reader) })
		var address Latest[string]
		go Forward(ctx, runner, &address, "kubectl", "port-forward")
		if _, err := io.WriteString(writer,
			"Forwarding from 127.0.0.1:40123 -> 9901\nForwarding from [::1]:40123 -> 9901\nHandling connection for "+
				"40123\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := address.Get(); got != "127.0.0.1:40123" {
			t.Errorf("address %q", got)
		}
		_ = writer.Close() // the command ends
		synctest.Wait()
		if got := address.Get(); got != "" {
			t.Errorf("address %q after the command has ended", got)
		}
	})
}

type streamFunc func(ctx context.Context, read func(io.Reader) error) error

func (streamFunc) Run(context.Context, ...string) (string, error) { return "", errors.ErrUnsupported }

func (f streamFunc) Stream(ctx context.Context, read func(io.Reader) error, _ ...string) error {
	return f(ctx, read)
}

func TestRolloutPhases(t *testing.T) {
	tests := []struct {
		name, json      string
		healthy, paused bool
		text            string
	}{
		{"nothing yet", `{}`, false, false, "no Rollout has been seen"},
		{"healthy", `{"metadata":{"name":"r","generation":3},"spec":{"replicas":2},"status":{"phase":"Healthy","observedGeneration":"3","stableRS":"a","currentPodHash":"a","readyReplicas":2}}`, true, false, "the Rollout is Healthy, 2 of 2 replicas ready"},
		{
			"healthy, but of the last spec",
			`{"metadata":{"name":"r","generation":4},"status":{"phase":"Healthy","observedGeneration":"3","stableRS":"a","currentPodHash":"a"}}`, false, false, "the Rollout is Healthy, 0 of 0 replicas ready",
		},
		{"paused", `{"metadata":{"name":"r","generation":3},"spec":{"replicas":2},"status":{"phase":"Paused","message":"CanaryPauseStep","observedGeneration":"3","currentStepIndex":1,"readyReplicas":3,"pauseConditions":[{"reason":"CanaryPauseStep"}]}}`, false, true, "the Rollout is Paused at step 1, 3 of 2 replicas ready (CanaryPauseStep)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r Rollout
			if err := json.Unmarshal([]byte(tt.json), &r); err != nil {
				t.Fatal(err)
			}
			if r.Healthy() != tt.healthy || r.Paused() != tt.paused || r.String() != tt.text {
				t.Errorf("healthy %v, paused %v, %q", r.Healthy(), r.Paused(), r)
			}
		})
	}
}

func TestWeights(t *testing.T) {
	text := WeightsText("rollouts-demo-stable", "rollouts-demo-canary", 20)
	const guide = "- service: rollouts-demo-stable\n  weight: 80\n- service: rollouts-demo-canary\n  weight: 20"
	if text != guide {
		t.Errorf("annotation %q, want %q", text, guide)
	}
	for in, want := range map[string]string{guide: "80/20", "": "–", "{": "unreadable", "- weight: 1\n  service: a": "1"} {
		if got := ShortWeights(in); got != want {
			t.Errorf("%q in short: %q, want %q", in, got, want)
		}
	}
	h := HTTPScaledObject{Metadata: Metadata{Annotations: map[string]string{WeightsAnnotation: guide + "\n"}}}
	if got, present := h.Weights(); got != guide || !present {
		t.Errorf("weights %q, %v", got, present)
	}
}

func TestAckedWeights(t *testing.T) {
	const text = "- service: s\n  weight: 80\n- service: c\n  weight: 20\n"
	report := func(hash string, ready, acked int) *DataPlane {
		d := &DataPlane{AnnotationHash: hash}
		d.Proxies.Ready, d.Proxies.Acked = ready, acked
		return d
	}
	tests := []struct {
		name, text string
		report     *DataPlane
		want       string
		acked      bool
	}{
		{"nothing reported", text, nil, "none", false},
		{"taken by all", text, report(WeightsHash(text), 2, 2), "80/20", true},
		{"taken by one", text, report(WeightsHash(text), 2, 1), "1 of 2", false},
		{"about an earlier annotation", text, report(WeightsHash("x"), 2, 2), "0 of 2", false},
		{"no annotation, taken by all", "", report("", 2, 2), "–", true},
		{"no proxy is there", text, report(WeightsHash(text), 0, 0), "0 of 0", false},
	}
	for _, tt := range tests {
		annotations := map[string]string{}
		if tt.text != "" {
			annotations[WeightsAnnotation] = tt.text
		}
		annotated := HTTPScaledObject{Metadata: Metadata{Annotations: maps.Clone(annotations)}}
		if tt.report != nil {
			status, err := json.Marshal(HTTPScaledObjectStatus{DataPlane: tt.report})
			if err != nil {
				t.Fatal(err)
			}
			annotated.Metadata.Annotations[StatusAnnotation] = string(status)
		}
		for place, object := range map[string]HTTPScaledObject{
			"status":     {Metadata: Metadata{Annotations: annotations}, Status: HTTPScaledObjectStatus{DataPlane: tt.report}},
			"annotation": annotated,
		} {
			if got := object.AckedWeights(); got != tt.want || object.Acked() != tt.acked {
				t.Errorf("%s, in the %s: %q, all %v; want %q, all %v", tt.name, place, got, object.Acked(), tt.want, tt.acked)
			}
		}
	}
	// The example of the FIPS 180-4 test vectors: reports contain the SHA-256 of the annotation.
	if got := WeightsHash("abc"); got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("hash %s", got)
	}
}
