package wrongsetups_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/loopback"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

const (
	// kedaVariable is the environment variable with the folder of KEDA's operator and manifests.
	kedaVariable = "KEDA_PART"
	// kedaRole is the API path of the operator's ClusterRole.
	kedaRole = "/apis/rbac.authorization.k8s.io/v1/clusterroles/keda-operator"
)

// narrowed is KEDA with the value rbac.scaledRefKinds of its chart for Deployments only.
func narrowed() setup {
	return setup{
		name: "KEDA's `rbac.scaledRefKinds` without Rollouts", place: "condition `Ready` of the ScaledObject",
		message: `ScaledObject doesn't have correct scaleTargetRef specification: rollouts.argoproj.io "web" is forbidden: ` +
			`User "system:serviceaccount:keda:keda-operator" cannot get resource "rollouts" in API group "argoproj.io" in ` +
			`the namespace "NAMESPACE"`,
		codes: []string{"ScaledRefKinds"},
		fix:   "add `{apiGroup: argoproj.io, kind: rollouts}` to the value", router: kedify,
	}
}

// TestScaledRefKinds runs KEDA's operator with a role that does not contain Rollouts.
func TestScaledRefKinds(t *testing.T) {
	s := &environment{cluster: &shared, t: t, row: narrowed(), namespace: "scaled"}
	s.installKEDA()
	scaledKinds(s, "apps", "deployments")
	s.prepare()
	s.apply(s.rollout("1", s.routing()), `
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: web}
  triggers: [{type: external-push, metadata: {scalerAddress: "keda-add-ons-http-external-scaler.keda:9090"}}]
`)
	s.runKEDA()
	s.ready("False", s.path(s.row.message))
	s.finds(s.row.codes[0])
	scaledKinds(s, "argoproj.io", "rollouts")
	s.ready("True", "ScaledObject is defined correctly and is ready for scaling")
	s.finds("")
}

// ready waits for the condition Ready of the ScaledObject.
func (s *environment) ready(status, message string) {
	s.t.Helper()
	s.await("the condition Ready", status+" "+message, func(ctx context.Context) string {
		var read struct {
			Status struct {
				Conditions []struct{ Type, Status, Message string }
			}
		}
		err := apiserver.Get(ctx, s.admin, s.path("/apis/keda.sh/v1alpha1/namespaces/NAMESPACE/scaledobjects/web"), &read)
		for _, condition := range read.Status.Conditions {
			if condition.Type == "Ready" {
				return condition.Status + " " + condition.Message
			}
		}
		return fmt.Sprint("no condition: ", err)
	})
}

// finds waits until doctor prints a finding with code, or none of KEDA's permissions if it is empty.
func (s *environment) finds(code string) {
	s.t.Helper()
	var out string
	defer func() { s.t.Logf("doctor: %s", out) }()
	s.await("the finding of doctor", code, func(ctx context.Context) string {
		out = s.doctor(ctx)
		if strings.Contains(out, `"ScaledRefKinds"`) {
			return "ScaledRefKinds"
		}
		return ""
	})
}

// installKEDA applies KEDA's manifests.
func (s *environment) installKEDA() {
	s.t.Helper()
	config := filepath.Join(os.Getenv(kedaVariable), "share", "config")
	files, err := filepath.Glob(filepath.Join(config, "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		s.t.Fatalf("no CustomResourceDefinitions in %s, the folder of %s: %v", config, kedaVariable, err)
	}
	for _, name := range []string{"rbac/role.yaml", "rbac/role_binding.yaml", "manager/manager.yaml"} {
		files = append(files, filepath.Join(config, name))
	}
	if err := apiserver.ApplyFiles(s.t.Context(), s.admin, "keda", files...); err != nil {
		s.t.Fatal(err)
	}
	s.patch("/apis/apps/v1/namespaces/keda/deployments/keda-operator/status",
		map[string]any{"status": map[string]any{"replicas": 1, "readyReplicas": 1}})
}

// scaledKinds writes the operator's role as KEDA's chart does for a value of scaledRefKinds with one kind.
func scaledKinds(s *environment, group, resource string) {
	s.t.Helper()
	var role rbacv1.ClusterRole
	if err := apiserver.Get(s.t.Context(), s.admin, kedaRole, &role); err != nil {
		s.t.Fatal(err)
	}
	var rules []rbacv1.PolicyRule
	for _, rule := range role.Rules {
		resources := strings.Join(rule.Resources, " ")
		if resources != "*" && !strings.HasSuffix(resources, "/scale") && resources != "deployments" {
			rules = append(rules, rule)
		}
	}
	if len(rules) == len(role.Rules) {
		s.t.Fatal("the role has no rule for scaled kinds")
	}
	rules = append(rules,
		rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource + "/scale"}, Verbs: []string{
			"get", "list", "patch", "update", "watch",
		}},
		rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"get"}})
	s.patch(kedaRole, map[string]any{"rules": rules})
}

// runKEDA runs the operator, and the scaler that the trigger names.
func (s *environment) runKEDA() {
	s.t.Helper()
	folder, address := s.t.TempDir(), loopback.Address().String()
	for name, data := range kit.NewServerCertificate(s.t, "keda-operator.keda.svc") {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := s.WriteKubeconfig(kubeconfig, apiserver.KEDAToken); err != nil {
		s.t.Fatal(err)
	}
	// The operator resolves no names of Services here: its gRPC client connects by a proxy.
	process, err := program.StartWith(s.t.Context(), folder, []string{
		"POD_NAMESPACE=keda", "KEDA_CLUSTER_OBJECT_NAMESPACE=keda", "WATCH_NAMESPACE=", "HTTPS_PROXY=http://" + scalerProxy(s.t),
	}, filepath.Join(os.Getenv(kedaVariable), "bin", "operator"), "--kubeconfig="+kubeconfig, "--cert-dir="+folder,
		"--ca-dir="+folder, "--metrics-bind-address="+address+":18080", "--health-probe-bind-address="+address+":18081",
		"--metrics-service-bind-address="+address+":19666")
	if err != nil {
		s.t.Fatal(err)
	}
	process.StopWithTest(s.t)
}

// scalerProxy starts an HTTP proxy that connects every CONNECT request to a scaler, and returns its address.
func scalerProxy(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	scaler, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	calls := grpc.NewServer()
	externalscaler.RegisterExternalScalerServer(calls, idleScaler{})
	go func() { _ = calls.Serve(scaler) }()
	t.Cleanup(calls.Stop)
	proxy, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := forward(r.Context(), w, scaler.Addr().String()); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Log(err)
		}
	})}
	go func() { _ = server.Serve(proxy) }()
	t.Cleanup(func() { _ = server.Close() })
	return proxy.Addr().String()
}

// forward answers a CONNECT request, and copies its connection to and from address.
func forward(ctx context.Context, w http.ResponseWriter, address string) error {
	target, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer target.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connected\r\n\r\n"); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(target, buffered)
		_ = target.Close()
	}()
	_, err = io.Copy(client, target)
	return err
}

// idleScaler is a scaler without demand.
type idleScaler struct {
	externalscaler.UnimplementedExternalScalerServer
}

func (idleScaler) IsActive(context.Context, *externalscaler.ScaledObjectRef) (*externalscaler.IsActiveResponse, error) {
	return &externalscaler.IsActiveResponse{Result: true}, nil
}

func (idleScaler) StreamIsActive(
	_ *externalscaler.ScaledObjectRef, stream externalscaler.ExternalScaler_StreamIsActiveServer,
) error {
	<-stream.Context().Done()
	return nil
}

func (idleScaler) GetMetricSpec(
	context.Context, *externalscaler.ScaledObjectRef,
) (*externalscaler.GetMetricSpecResponse, error) {
	return &externalscaler.GetMetricSpecResponse{MetricSpecs: []*externalscaler.MetricSpec{
		{MetricName: "request-rate", TargetSize: 5},
	}}, nil
}

func (idleScaler) GetMetrics(
	_ context.Context, request *externalscaler.GetMetricsRequest,
) (*externalscaler.GetMetricsResponse, error) {
	return &externalscaler.GetMetricsResponse{MetricValues: []*externalscaler.MetricValue{
		{MetricName: request.GetMetricName(), MetricValue: 1},
	}}, nil
}
