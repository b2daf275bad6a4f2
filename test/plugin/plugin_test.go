package plugin_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

const at20, at100 = routertest.At20, routertest.At100

// startPlugin returns an API server with the HTTPScaledObject shop/web and a plugin process that uses it.
func startPlugin(t *testing.T) (*routertest.APIServer, controller) {
	t.Helper()
	api := routertest.NewAPIServer(t, routertest.ScaledObject(nil))
	return api, start(t, kubeconfig(t, api))
}

// kubeconfig writes a kubeconfig file for api.
func kubeconfig(t *testing.T, api *routertest.APIServer) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "kubeconfig")
	api.WriteKubeconfig(t, file)
	return file
}

// must fails the test if a call returned an error.
func must(t *testing.T, call string, answer types.RpcError) {
	t.Helper()
	if answer.HasError() {
		t.Fatalf("%s: %v", call, answer)
	}
}

// expect checks the annotation of shop/web; empty means no annotation.
func expect(t *testing.T, api *routertest.APIServer, when, want string) {
	t.Helper()
	if got := api.Object("shop", "web").Annotations[httpv1alpha1.AnnotationWeightedBackends]; got != want {
		t.Fatalf("annotation %s is %q, want %q", when, got, want)
	}
}

func TestCanaryFromFirstStepToPromotion(t *testing.T) {
	t.Parallel()
	api, client := startPlugin(t)
	rollout := routertest.Rollout(httpso.Type, config)
	steps := []struct {
		weight int32
		want   string
		writes int // of all steps so far
	}{
		{0, "", 0}, {20, at20, 1}, {20, at20, 1}, {100, at100, 2}, {0, "", 3}, {0, "", 3},
	}
	for _, step := range steps {
		must(t, "UpdateHash", client.UpdateHash(rollout, "new", "old", nil))
		must(t, "SetWeight", client.SetWeight(rollout, step.weight, nil))
		expect(t, api, fmt.Sprint("at ", step.weight), step.want)
		if verified, answer := client.VerifyWeight(rollout, step.weight, nil); answer.HasError() ||
			verified != types.Verified {
			t.Fatalf("VerifyWeight(%d): %v, %v", step.weight, verified, answer)
		}
		if verified, answer := client.VerifyWeight(rollout, 99-step.weight/2, nil); answer.HasError() ||
			verified != types.NotVerified {
			t.Fatalf("VerifyWeight(%d) at %d: %v, %v", 99-step.weight/2, step.weight, verified, answer)
		}
		if writes := len(api.Requests(http.MethodPatch)); writes != step.writes {
			t.Fatalf("%d writes up to weight %d, want %d", writes, step.weight, step.writes)
		}
	}
	for _, request := range api.Requests(http.MethodPatch) {
		if request.FieldManager != httpso.FieldManager || request.UserAgent != "rollouts-plugin-kedify/"+builtVersion {
			t.Errorf("written by field manager %q, user agent %q", request.FieldManager, request.UserAgent)
		}
	}
}

func TestRemoveManagedRoutesKeepsTheWeights(t *testing.T) {
	t.Parallel()
	api, client := startPlugin(t)
	rollout := routertest.Rollout(httpso.Type, config)
	must(t, "SetWeight", client.SetWeight(rollout, 20, nil))
	must(t, "RemoveManagedRoutes", client.RemoveManagedRoutes(rollout))
	expect(t, api, "after RemoveManagedRoutes", at20)
}

func TestValuesThatGobDrops(t *testing.T) {
	t.Parallel()
	api, client := startPlugin(t)
	rollout := routertest.Rollout(httpso.Type, config)
	rollout.Status.CurrentStepIndex = new(int32)
	rollout.Spec.Replicas = new(int32)
	rollout.Spec.Strategy.Canary.TrafficRouting.MaxTrafficWeight = new(int32)
	rollout.Spec.Strategy.Canary.Steps = []v1alpha1.CanaryStep{{SetWeight: new(int32)}}
	must(t, "SetWeight", client.SetWeight(rollout, 20, []v1alpha1.WeightDestination{}))
	expect(t, api, "at 20", at20)
	must(t, "SetWeight", client.SetWeight(rollout, 0, nil))
	expect(t, api, "at 0", "")
	must(t, "SetHeaderRoute", client.SetHeaderRoute(rollout, &v1alpha1.SetHeaderRoute{}))
	must(t, "SetMirrorRoute", client.SetMirrorRoute(rollout, &v1alpha1.SetMirrorRoute{Percentage: new(int32)}))
}

func TestEmptyRolloutIsAnErrorNotACrash(t *testing.T) {
	t.Parallel()
	_, client := startPlugin(t)
	for _, rollout := range []*v1alpha1.Rollout{
		{}, {Spec: v1alpha1.RolloutSpec{Strategy: v1alpha1.RolloutStrategy{Canary: &v1alpha1.CanaryStrategy{}}}},
	} {
		if answer := client.SetWeight(rollout, 20, nil); !strings.Contains(answer.ErrorString, "spec.strategy.canary") {
			t.Errorf("SetWeight answered %q", answer.ErrorString)
		}
		if verified, answer := client.VerifyWeight(rollout, 20, nil); !answer.HasError() || verified != types.NotVerified {
			t.Errorf("VerifyWeight answered %v, %v", verified, answer)
		}
	}
	if err := client.control.Ping(); err != nil {
		t.Errorf("Ping after it: %v", err)
	}
}

func TestMissingKubeconfigHeals(t *testing.T) {
	t.Parallel()
	api := routertest.NewAPIServer(t, routertest.ScaledObject(nil))
	file := filepath.Join(t.TempDir(), "kubeconfig")
	client := start(t, file)
	rollout := routertest.Rollout(httpso.Type, config)
	if answer := client.SetWeight(rollout, 20, nil); !strings.Contains(answer.ErrorString,
		"cannot connect to the API server") {
		t.Fatalf("SetWeight without a kubeconfig answered %q", answer.ErrorString)
	}
	api.WriteKubeconfig(t, file)
	must(t, "SetWeight", client.SetWeight(rollout, 20, nil))
	expect(t, api, "once there is a kubeconfig", at20)
}

func TestUnavailableAPIServerHeals(t *testing.T) {
	t.Parallel()
	api, client := startPlugin(t)
	rollout := routertest.Rollout(httpso.Type, config)
	var down [5]http.HandlerFunc
	for i := range down {
		down[i] = routertest.CloseConnection
	}
	api.Fail(down[:]...)
	api.Unlisted(routertest.CloseConnection)
	api.Expire()
	if answer := client.SetWeight(rollout, 20, nil); !strings.Contains(answer.ErrorString, `HTTPScaledObject "shop/web"`) {
		t.Fatalf("SetWeight while the API server is down answered %q", answer.ErrorString)
	}
	if verified, answer := client.VerifyWeight(rollout, 20, nil); answer.HasError() || verified != types.NotVerified {
		t.Fatalf("VerifyWeight while the API server is down: %v, %v; want false without an error", verified, answer)
	}
	api.Unlisted(nil)
	must(t, "SetWeight", client.SetWeight(rollout, 20, nil))
	expect(t, api, "once the API server is back", at20)
}

func TestKilledPluginContinues(t *testing.T) {
	t.Parallel()
	api := routertest.NewAPIServer(t, routertest.ScaledObject(nil))
	file := filepath.Join(t.TempDir(), "kubeconfig")
	api.WriteKubeconfig(t, file)
	rollout := routertest.Rollout(httpso.Type, config)
	first := start(t, file)
	must(t, "SetWeight", first.SetWeight(rollout, 20, nil))
	process, err := os.FindProcess(first.process.ReattachConfig().Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	if answer := first.SetWeight(rollout, 50, nil); !answer.HasError() {
		t.Error("a killed plugin answered")
	}
	second := start(t, file)
	if verified, answer := second.VerifyWeight(rollout, 20, nil); answer.HasError() || verified != types.Verified {
		t.Errorf("VerifyWeight after the restart: %v, %v", verified, answer)
	}
	must(t, "SetWeight", second.SetWeight(rollout, 20, nil))
	if writes := len(api.Requests(http.MethodPatch)); writes != 1 {
		t.Errorf("%d writes, want the one of the first process", writes)
	}
}

func TestManyRolloutsAtOnce(t *testing.T) {
	t.Parallel()
	const rollouts, workers = 100, 10
	api, client := startPlugin(t)
	for i := range rollouts {
		object := routertest.ScaledObject(nil)
		object.Name = fmt.Sprint("web-", i)
		api.Put(object)
	}
	queue := make(chan int, rollouts)
	for i := range rollouts {
		queue <- i
	}
	close(queue)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := range queue {
				rollout := routertest.Rollout(httpso.Type, fmt.Sprintf(`{"httpScaledObjectName":"web-%d"}`, i))
				rollout.Name = fmt.Sprint("web-", i)
				if answer := client.SetWeight(rollout, 20, nil); answer.HasError() {
					t.Errorf("SetWeight %d: %v", i, answer)
				}
			}
		})
	}
	group.Wait()
	if writes := len(api.Requests(http.MethodPatch)); writes != rollouts {
		t.Errorf("%d writes for %d Rollouts", writes, rollouts)
	}
}

func TestLogKeepsLevelsAndIsQuiet(t *testing.T) {
	t.Parallel()
	api := routertest.NewAPIServer(t, routertest.ScaledObject(nil))
	unavailable := routertest.RespondError(apierrors.NewServiceUnavailable("starting"))
	api.Unlisted(unavailable)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	api.WriteKubeconfig(t, file)
	client := start(t, file)
	rollout := routertest.Rollout(httpso.Type, config)
	for range 3 {
		must(t, "SetWeight", client.SetWeight(rollout, 20, nil))
		if _, answer := client.VerifyWeight(rollout, 20, nil); answer.HasError() {
			t.Fatal(answer)
		}
	}
	api.Fail(unavailable)
	if _, answer := client.VerifyWeight(rollout, 20, nil); answer.HasError() {
		t.Fatal(answer)
	}
	client.process.Kill() // ends the journal
	lines := slices.DeleteFunc(strings.Split(client.log.String(), "\n"), func(line string) bool {
		return !strings.Contains(line, " "+filepath.Base(binary)+": ") // lines of go-plugin itself
	})
	for _, want := range []string{
		"[WARN]  rollouts-plugin-kedify: objects cannot be watched: ",
		` meanwhile="each call reads the object from the API server"`,
		" objects=HTTPScaledObjects", // anywhere in the line: go-plugin prints fields in any order
		"[INFO]  rollouts-plugin-kedify: weights written",
		"[INFO]  rollouts-plugin-kedify: there is no interceptor: weights are verified by the annotation alone",
		"[WARN]  rollouts-plugin-kedify: weights are not verified",
	} {
		if count := strings.Count(strings.Join(lines, "\n"), want); count != 1 {
			t.Errorf("the log has %q %d times, want it once", want, count)
		}
	}
	if len(lines) != 4 {
		t.Errorf("the log has %d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
}
