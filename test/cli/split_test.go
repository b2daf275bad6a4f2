package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

func TestStatusOfBothRouters(t *testing.T) {
	// Other tests have changed and restored the route: the Gateway reports on its current generation.
	status := reports()[routePath("web", "web")+"/status"]
	generation := fmt.Sprintf("observedGeneration: %v",
		read(t, routePath("web", "web"))["metadata"].(map[string]any)["generation"])
	patch(t, routePath("web", "web")+"/status", strings.ReplaceAll(status, "observedGeneration: 1", generation))
	for _, test := range []struct{ args, want string }{
		{"status shop -n shop", `Rollout:    shop/shop
Router:     kedify/http
Phase:      Paused (CanaryPauseStep)
Step:       2/2
Replicas:   3 total, 1 updated, 3 available

CONDITION   STATUS   REASON      MESSAGE
Ready       True     Ready       -
Written     True     AsDesired   -
Verified    True     Applied     acknowledged by 2 of 2 Ready proxies
Promoted    False    Paused      CanaryPauseStep

ROLE     SERVICE       ENDPOINTS   DESIRED   WRITTEN   APPLIED   OBJECT
stable   shop-stable   2           80        80        yes       HTTPScaledObject shop/shop
canary   shop-canary   1           20        20        yes       HTTPScaledObject shop/shop
`},
		{"status rollout/web -n web", `Rollout:    web/web
Router:     argoproj-labs/gatewayAPI
Phase:      Paused
Step:       2/2
Replicas:   3 total, 0 updated, 3 available

CONDITION   STATUS   REASON      MESSAGE
Ready       True     Ready       -
Written     True     AsDesired   -
Verified    True     Applied     -
Promoted    False    Paused      -

ROLE     SERVICE      ENDPOINTS   DESIRED   WRITTEN   APPLIED   OBJECT
stable   web-stable   1           75        75        yes       HTTPRoute web/web
canary   web-canary   1           25        25        yes       HTTPRoute web/web
`},
		{"status httpscaledobject/shop -n shop -o name", "rollout.argoproj.io/shop\n"},
		// No proxy runs here: other tests cover the request counts.
		{"status shop -n shop --sent --no-headers", `Rollout:    shop/shop
Router:     kedify/http
Phase:      Paused (CanaryPauseStep)
Step:       2/2
Replicas:   3 total, 1 updated, 3 available

Ready      True    Ready       -
Written    True    AsDesired   -
Verified   True    Applied     acknowledged by 2 of 2 Ready proxies
Promoted   False   Paused      CanaryPauseStep

stable   shop-stable   2   80   80   yes   HTTPScaledObject shop/shop
canary   shop-canary   1   20   20   yes   HTTPScaledObject shop/shop
  sent by kedify-proxy-1: pods "kedify-proxy-1" not found
`},
	} {
		if diff := cmp.Diff(result{0, test.want, ""}, run(t, apiserver.AdminToken, strings.Fields(test.args)...),
			cmp.AllowUnexported(result{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.args, diff)
		}
	}
	const former = "PHASE        DESIRED   WRITTEN   APPLIED  PROXIES  ENDPOINTS  OBJECT\n" +
		"Paused       80/20     80/20     yes      2/2      2/1        HTTPScaledObject shop/shop\n"
	if got := run(t, apiserver.AdminToken, "split", "shop", "-n=shop"); got.code != 0 || got.out != former ||
		!strings.Contains(got.err, "deprecated") {
		t.Errorf("the former command: %+v", got)
	}
	var report split.Report
	if err := json.Unmarshal([]byte(run(t, apiserver.AdminToken, "status", "shop", "-n=shop", "-o=json").out),
		&report); err != nil {
		t.Fatal(err)
	}
	if want := (split.Service{
		Role: split.Canary, Name: "shop-canary", Endpoints: 1,
		Desired: 20,
	}); report.Services[1] != want {
		t.Errorf("as JSON the canary is %+v, want %+v", report.Services[1], want)
	}
	if got := run(t, apiserver.AdminToken, "status", "web", "-n=web", "--sent"); got.code != 1 ||
		!strings.Contains(got.err, "references no existing HTTPScaledObject") {
		t.Errorf("request counts of a Gateway: %+v", got)
	}
	if got := run(t, apiserver.AdminToken, "status", "nobody", "-n=shop"); got.code != 1 ||
		!strings.Contains(got.err, "Rollout not found: shop/nobody") {
		t.Errorf("missing Rollout: %+v", got)
	}
}

// TestStatusWatchesAWeight: each change of the desired weight, the written weight, the report and the endpoints is one
// line.
func TestStatusWatchesAWeight(t *testing.T) {
	const slice = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/shop-canary-1"
	defer func() {
		if err := apiserver.ApplyFiles(context.WithoutCancel(t.Context()), shared.admin, "",
			"testdata/applications.yaml"); err != nil {
			t.Error(err)
		}
		for path, status := range reports() {
			patch(t, path, status)
		}
	}()
	next, stop := follow(t, "status", "shop", "--namespace=shop", "--watch")
	for _, step := range []struct {
		path, body string
		want       string
	}{
		{"", "", "PHASE DESIRED WRITTEN APPLIED PROXIES ENDPOINTS OBJECT"},
		{"", "", "Paused 80/20 80/20 yes 2/2 2/1 HTTPScaledObject shop/shop"},
		{
			rolloutPath("shop", "shop") + "/status",
			`status: {canary: {weights: {canary: {weight: 50}, stable: {weight: 50}}}}`,
			"Paused 50/50 80/20 yes 2/2 2/1 HTTPScaledObject shop/shop",
		},
		// Other changes of the object print no line.
		{objectPath("shop", "shop"), `metadata: {labels: {colour: red}}`, ""},
		{
			objectPath("shop", "shop"),
			`metadata: {annotations: {http.kedify.io/weighted-backends: ` +
				`"[{service: shop-stable, weight: 1}, {service: shop-canary, weight: 1}]"}}`,
			"Paused 50/50 1/1 no 2/2 2/1 HTTPScaledObject shop/shop",
		},
		{slice, `endpoints: []`, "Paused 50/50 1/1 no 2/2 2/0 HTTPScaledObject shop/shop"},
		{
			objectPath("shop", "shop"), `metadata: {annotations: {http.kedify.io/weighted-backends: null}}`,
			"Paused 50/50 100/0 no 2/2 2/0 HTTPScaledObject shop/shop",
		},
	} {
		if step.path != "" {
			patch(t, step.path, step.body)
		}
		if step.want == "" {
			continue
		}
		if got := next(); got != step.want {
			t.Errorf("the line is\n%q, want\n%q", got, step.want)
		}
	}
	if code := stop(); code != 0 {
		t.Errorf("interrupted: exit code %d, want 0", code)
	}
}

// follow runs the plugin. next returns its next line, without the time and with single spaces; stop interrupts it and
// returns its exit code.
func follow(t *testing.T, args ...string) (next func() string, stop func() int) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(shared.folder, "kubectl-http_canary"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+shared.kubeconfig(apiserver.AdminToken))
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next = func() string {
		if !lines.Scan() {
			t.Fatalf("there is no further line: %v", lines.Err())
		}
		_, line, _ := strings.Cut(strings.Join(strings.Fields(lines.Text()), " "), " ")
		return line
	}
	return next, func() int {
		if err := command.Process.Signal(syscall.SIGINT); err != nil {
			t.Error(err)
		}
		_ = command.Wait() // The caller checks the exit code.
		return command.ProcessState.ExitCode()
	}
}
