package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// testPod returns the Pod of helm test. args are those of render.
func testPod(t *testing.T, args ...string) corev1.Pod {
	t.Helper()
	const name = "Pod keda/kedify-http-test"
	var pod corev1.Pod
	text, err := yaml.Marshal(objects(t, "the chart", render(t, "keda", args...))[name])
	if err == nil {
		err = yaml.UnmarshalStrict(text, &pod)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if pod.Annotations["helm.sh/hook"] != "test" {
		t.Fatalf("%s is no test: %v", name, pod.Annotations)
	}
	return pod
}

// request runs the command of a Pod's container with a wget that fails for URLs with the word failing. It returns the
// arguments of each call of wget, and whether the command succeeded.
func request(t *testing.T, pod corev1.Pod, failing string) (calls []string, succeeded bool) {
	t.Helper()
	folder := t.TempDir()
	log := filepath.Join(folder, "calls")
	const wget = "#!/bin/sh\necho \"$*\" >>\"$LOG\"\ncase \"$*\" in *\"$FAILING\"*) exit 1 ;; esac\n"
	if err := os.WriteFile(filepath.Join(folder, "wget"), []byte(wget), 0o700); err != nil {
		t.Fatal(err)
	}
	container := pod.Spec.Containers[0]
	command := exec.CommandContext(t.Context(), container.Command[0], container.Command[1:]...)
	command.Env = []string{"PATH=" + folder + ":" + os.Getenv("PATH"), "LOG=" + log, "FAILING=" + failing}
	for _, variable := range container.Env {
		command.Env = append(command.Env, variable.Name+"="+variable.Value)
	}
	output, err := command.CombinedOutput()
	t.Logf("%s", output)
	text, readError := os.ReadFile(filepath.Clean(log))
	if readError != nil {
		t.Fatal(readError)
	}
	for line := range strings.Lines(string(text)) {
		calls = append(calls, strings.TrimPrefix(strings.TrimSpace(line), "-q -T 10 -O /dev/null "))
	}
	return calls, err == nil
}

// TestRequests: helm test sends a request to each component, and through the proxies if there is a URL. It fails if one
// of them fails.
func TestRequests(t *testing.T) {
	t.Parallel()
	const health = "http://keda-add-ons-http-interceptor-proxy.keda:8080/readyz"
	const interceptor = "http://keda-add-ons-http-interceptor-metrics.keda:2223/metrics"
	const scaler = "http://keda-add-ons-http-external-scaler.keda:2223/metrics"
	for _, test := range []struct {
		name string
		set  []string
		want []string
	}{
		{"default", nil, []string{health, interceptor, scaler}},
		{"without scaler", []string{"--set", "scaler.enabled=false"}, []string{health, interceptor}},
		{"URL", []string{"--set", "tests.url=http://kedify-proxy.shop:8080/a"}, []string{
			health, interceptor, scaler, "http://kedify-proxy.shop:8080/a",
		}},
		{
			"host",
			[]string{"--set", "tests.url=http://kedify-proxy.shop:8080/$(id)", "--set", "tests.host=shop.example.com"},
			[]string{health, interceptor, scaler, "--header Host: shop.example.com http://kedify-proxy.shop:8080/$(id)"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pod := testPod(t, test.set...)
			calls, succeeded := request(t, pod, "no call has this")
			if diff := cmp.Diff(test.want, calls); diff != "" || !succeeded {
				t.Errorf("succeeded: %t, requests (-want +got):\n%s", succeeded, diff)
			}
			for _, url := range test.want {
				if _, succeeded := request(t, pod, url); succeeded {
					t.Errorf("the test succeeds although %q fails", url)
				}
			}
		})
	}
}
