package controller_test

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/pluginprocess"
)

// startPlugin starts only the built plugin, with the permissions of the Argo Rollouts controller.
func (s *environment) startPlugin() *pluginprocess.Process {
	s.t.Helper()
	kubeconfig := filepath.Join(s.t.TempDir(), "kubeconfig")
	if err := s.WriteKubeconfig(kubeconfig, apiserver.RolloutsToken); err != nil {
		s.t.Fatal(err)
	}
	process, err := pluginprocess.Start(filepath.Join(s.folder, "gatewayapi-plugin"), kubeconfig, s.t.Output())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(process.Kill)
	return process
}

// route returns the spec and the resource version of a route.
func (s *environment) route(name string) (spec map[string]any, version string) {
	s.t.Helper()
	var read struct {
		Metadata struct{ ResourceVersion string }
		Spec     map[string]any
	}
	resource := filepath.Dir(name)
	path := "/apis/gateway.networking.k8s.io/" + s.release.versions[resource] + "/namespaces/" + s.namespace + "/" + name
	body, err := s.admin.Get().AbsPath(path).DoRaw(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(body, &read); err != nil {
		s.t.Fatal(err)
	}
	return read.Spec, read.Metadata.ResourceVersion
}

// canaryRollout returns a Rollout of the namespace after its steps, which set a header and a mirror route.
func (s *environment) canaryRollout(given string) *v1alpha1.Rollout {
	rollout := &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, Name: "web", UID: "uid-of-web",
		Annotations: map[string]string{"rollout.argoproj.io/revision": "2"},
	}}
	rollout.Status.StableRS, rollout.Status.CurrentPodHash, rollout.Status.CurrentStepIndex = "old", "new", new(int32(2))
	rollout.Spec.Strategy.Canary = &v1alpha1.CanaryStrategy{
		StableService: "web-stable", CanaryService: "web-canary",
		TrafficRouting: &v1alpha1.RolloutTrafficRouting{
			ManagedRoutes: []v1alpha1.MangedRoutes{{Name: "qa"}, {Name: "copies"}},
			Plugins:       map[string]json.RawMessage{gatewayapi.Type: json.RawMessage(given)},
		},
		Steps: []v1alpha1.CanaryStep{
			{SetHeaderRoute: &v1alpha1.SetHeaderRoute{Name: "qa", Match: []v1alpha1.HeaderRoutingMatch{
				{HeaderName: "role", HeaderValue: &v1alpha1.StringMatch{Prefix: "q.a"}},
				{HeaderName: "team", HeaderValue: &v1alpha1.StringMatch{Exact: "shop"}},
			}}},
			{
				SetMirrorRoute: &v1alpha1.SetMirrorRoute{
					Name: "copies", Match: []v1alpha1.RouteMatch{{Headers: map[string]v1alpha1.StringMatch{"x-copy": {Exact: "yes"}}}},
				},
			},
		},
	}
	return rollout
}

func unchangedRouteIsNotWritten(s *environment) {
	plugin := s.startPlugin()
	for _, name := range []string{"web-canary", "web-try"} {
		s.apply("{apiVersion: v1, kind: Service, metadata: {name: " + name +
			"}, spec: {selector: {app: web}, ports: [{port: 80}]}}")
	}
	for key, kind := range map[string]string{"httpRoute": "HTTPRoute", "grpcRoute": "GRPCRoute"} {
		name, rollout := strings.ToLower(kind)+"s/web", s.canaryRollout(`{"`+key+`":"web"}`)
		// It has no parent, so only the plugin writes it.
		s.apply("{apiVersion: gateway.networking.k8s.io/v1, kind: " + kind + ", metadata: {name: web}, spec: {" +
			"rules: [{backendRefs: [{name: web-stable, port: 80, weight: 100}, {name: web-canary, port: 80, weight: 0}]}, " +
			"{backendRefs: [{name: other, port: 80}]}]}}")
		before, _ := s.route(name)
		experiment := []v1alpha1.WeightDestination{{ServiceName: "web-try", Weight: 10}}
		s.mustSucceed(plugin.SetWeight(rollout, 20, experiment))
		written, version := s.route(name)
		for instance, process := range map[string]*pluginprocess.Process{
			"the same process": plugin, "another process": s.startPlugin(),
		} {
			s.mustSucceed(process.SetWeight(rollout, 20, experiment))
			if after, newVersion := s.route(name); newVersion != version {
				s.t.Errorf("%s: %s wrote the route again (-first +second):\n%s", name, instance, cmp.Diff(written, after))
			}
		}
		rollout.Status.Abort = true
		s.mustSucceed(plugin.RemoveManagedRoutes(rollout))
		s.mustSucceed(plugin.SetWeight(rollout, 0, nil))
		// VerifyWeight is the last call of a reconcile
		if _, answer := plugin.VerifyWeight(rollout, 0, nil); answer.HasError() {
			s.t.Error(answer.ErrorString)
		}
		if after, _ := s.route(name); cmp.Diff(before, after) != "" {
			s.t.Errorf("%s: the canary did not restore the route (-before +after):\n%s", name, cmp.Diff(before, after))
		}
	}
}

// mustSucceed fails the test if a call returned an error.
func (s *environment) mustSucceed(answer types.RpcError) {
	s.t.Helper()
	if answer.HasError() {
		s.t.Fatal(answer.ErrorString)
	}
}
