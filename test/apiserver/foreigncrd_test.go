package apiserver_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/utils/plugin/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// crdCluster is a cluster with the CustomResourceDefinition of another project.
type crdCluster struct {
	cluster

	crd map[string]any // ours
}

// newCRDCluster starts a cluster with the interceptor's role and without a CRD: the shared cluster has ours. The test
// that calls it is not parallel, so the shared API server is idle.
func newCRDCluster(t *testing.T) *crdCluster {
	t.Helper()
	binaries, err := apiserver.FromEnvironment(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	state := filepath.Join(folder, "state")
	audit, err := apiserver.NewAuditLog(folder)
	if err := errors.Join(err, os.Mkdir(state, 0o700)); err != nil {
		t.Fatal(err)
	}
	running, err := apiserver.Start(t.Context(), binaries, state, audit.Flags()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = running.Stop() })
	f := &crdCluster{cluster: cluster{ControlPlane: running, audit: audit, folder: shared.folder}}
	if f.admin, err = f.Client(apiserver.AdminToken); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(crdFile)
	if err := errors.Join(err, yaml.Unmarshal(text, &f.crd)); err != nil {
		t.Fatal(err)
	}
	err = apiserver.ApplyFiles(t.Context(), f.admin, "", "../../config/interceptor/namespace.yaml", interceptorRoleFile)
	if err != nil {
		t.Fatal(err)
	}
	f.newNamespace(t, "shop")
	return f
}

// install installs our CRD with a status schema that edit has changed.
func (f *crdCluster) install(t *testing.T, edit func(properties map[string]any)) {
	t.Helper()
	text, err := json.Marshal(f.crd)
	if err != nil {
		t.Fatal(err)
	}
	var edited map[string]any
	if err := json.Unmarshal(text, &edited); err != nil {
		t.Fatal(err)
	}
	versions := edited["spec"].(map[string]any)["versions"].([]any)
	schema := versions[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	edit(schema["properties"].(map[string]any)["status"].(map[string]any)["properties"].(map[string]any))
	if text, err = json.Marshal(edited); err != nil {
		t.Fatal(err)
	}
	f.apply(t, "", string(text))
}

// writer returns a new status client for the account of the interceptor.
func (f *crdCluster) writer(t *testing.T) status.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := httpv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	config := f.Config(apiserver.InterceptorToken)
	config.GroupVersion, config.APIPath = &httpv1alpha1.SchemeGroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return status.NewClient(client, nil, client, slog.New(slog.NewTextHandler(t.Output(), nil)))
}

// report writes the status of an object that two of two proxies have ACKed, and returns the object.
func (f *crdCluster) report(t *testing.T, writer status.Client) *httpv1alpha1.HTTPScaledObject {
	t.Helper()
	object := f.object(t, "shop", "shop")
	object.Status = httpv1alpha1.StatusOf(object)
	acks := status.Acks{Proxies: httpv1alpha1.ProxyCounts{Ready: 2, Acked: 2}, AsDesired: true}
	computed := status.Compute(object, ingest.Outcome{Served: true}, acks, interceptorPod, time.Now())
	if err := writer.ApplyStatus(t.Context(), object, computed); err != nil {
		t.Fatal(err)
	}
	return f.object(t, "shop", "shop")
}

// renewLease renews the Lease of the interceptor.
func (f *crdCluster) renewLease(t *testing.T) {
	t.Helper()
	f.apply(t, "keda", `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: kedify-http-interceptor}, spec: {holderIdentity: a, renewTime: "`+
		time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")+`"}}`)
}

// withoutReport is the status of newer CRDs of the HTTP add-on.
func withoutReport(properties map[string]any) { delete(properties, "dataPlane") }

// withOtherConditions is the status of older ones and of the CRD in Kedify's chart.
func withOtherConditions(properties map[string]any) {
	withoutReport(properties)
	text := map[string]any{"type": "string"}
	properties["conditions"] = map[string]any{"type": "array", "items": map[string]any{
		"type": "object", "required": []any{"type", "status"},
		"properties": map[string]any{"type": text, "status": text, "reason": text, "message": text, "timestamp": text},
	}}
}

// withOtherTypes is a status whose conditions have our format and allow one other type only.
func withOtherTypes(properties map[string]any) {
	withoutReport(properties)
	items := properties["conditions"].(map[string]any)["items"].(map[string]any)
	items["properties"].(map[string]any)["type"].(map[string]any)["enum"] = []any{"Other"}
}

// TestReportReachesRouterWithAnyCRD installs the CRDs that a cluster can have, in a possible order. With each, the
// built interceptor stops writing, its report is stored completely, and the built plugin verifies a weight by it.
func TestReportReachesRouterWithAnyCRD(t *testing.T) {
	f := newCRDCluster(t)
	f.install(t, withOtherConditions)
	if refused := f.create(t, "shop", "shop", bare); refused != "" {
		t.Fatal(refused)
	}
	f.apply(t, "shop", `{apiVersion: v1, kind: Service, metadata: {name: shop-stable}, spec: {ports: [{port: 80}]}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: shop-canary}, spec: {ports: [{port: 80}]}}`)
	plugin, canary := f.startPlugin(t, apiserver.AdminToken), rollout("shop", "shop")
	for i, test := range []struct {
		name                string
		edit                func(map[string]any)
		annotated, reported bool // whether the object has the annotation, and a report in the status
		ready               bool // whether the status has our conditions
	}{
		{"conditions of another format", withOtherConditions, true, false, false},
		{"conditions of another type", withOtherTypes, true, false, false},
		{"conditions and no report", withoutReport, true, false, true},
		{"ours", func(map[string]any) {}, false, true, true},
		{"no report again", withoutReport, true, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f.install(t, test.edit)
			weight := int32(10 + i)
			must(t, "SetWeight", plugin.SetWeight(canary, weight, nil))
			f.awaitIdle(t, weight)

			writer := f.writer(t)
			for range 2 { // The second write can name the annotation.
				f.report(t, writer)
			}
			before := f.object(t, "shop", "shop")
			after := f.report(t, writer)
			if before.ResourceVersion != after.ResourceVersion {
				t.Errorf("the same status again changed the object: %s, then %s", before.ResourceVersion,
					after.ResourceVersion)
			}
			_, isAnnotated := after.Annotations[httpv1alpha1.AnnotationStatus]
			found := meta.FindStatusCondition(after.Status.Conditions, httpv1alpha1.ConditionReady)
			if isReported := after.Status.DataPlane != nil; isAnnotated != test.annotated ||
				isReported != test.reported || (found != nil) != test.ready {
				t.Errorf("annotation %v, report in the status %v, conditions in the status %v; want %v, %v, %v: %+v",
					isAnnotated, isReported, found != nil, test.annotated, test.reported, test.ready, after)
			}
			if found != nil && strings.Contains(found.Message, httpv1alpha1.AnnotationStatus) != test.annotated {
				t.Errorf("condition Ready has %q", found.Message)
			}
			is := httpv1alpha1.StatusOf(after)
			if !meta.IsStatusConditionTrue(is.Conditions, httpv1alpha1.ConditionProgrammed) || is.DataPlane == nil ||
				!is.DataPlane.Effective {
				t.Errorf("status: %+v", is)
			}
			f.renewLease(t)
			verified, answer := plugin.VerifyWeight(canary, weight, nil)
			must(t, "VerifyWeight", answer)
			if verified != types.Verified {
				t.Errorf("weight %d is not verified; the report is %+v", weight, is.DataPlane)
			}
		})
	}
}

// awaitIdle runs a built interceptor without proxies until it has reported the object and writes nothing more.
func (f *crdCluster) awaitIdle(t *testing.T, weight int32) {
	t.Helper()
	running := f.startInterceptor(t, interceptorPod)
	defer running.Stop(t)
	hash := split.Hash(f.object(t, "shop", "shop").Annotations[httpv1alpha1.AnnotationWeightedBackends], "")
	await.True(t, "the weight is reported", func() bool {
		report := httpv1alpha1.StatusOf(f.object(t, "shop", "shop")).DataPlane
		return report != nil && report.AnnotationHash == hash && report.ReportedBy == interceptorPod &&
			report.Proxies.Ready == 0
	})
	// The Lease is renewed every 5 s. A write that repeats every half second would show in that time.
	renewals := func() (count, patches int) {
		for _, event := range f.requests(t, interceptorAccount) {
			if event.ObjectRef.Resource == "leases" && event.Verb == "update" {
				count++
			}
			if event.ObjectRef.Resource == httpv1alpha1.Resource && event.Verb == "patch" {
				patches++
			}
		}
		return count, patches
	}
	renewed, before := renewals()
	await.True(t, "no write from one renewal to the next", func() bool {
		last, after := renewals()
		if last == renewed {
			return false
		}
		t.Logf("weight %d: %d patches so far", weight, after)
		isIdle := after == before
		renewed, before = last, after
		return isIdle
	})
}

// TestAPIServerResponses checks the responses that the status client depends on.
func TestAPIServerResponses(t *testing.T) {
	t.Parallel()
	const namespace = "answers"
	shared.newNamespace(t, namespace)
	if refused := shared.create(t, namespace, "shop", bare); refused != "" {
		t.Fatal(refused)
	}
	uid := string(shared.object(t, namespace, "shop").UID)
	client, err := shared.Client(apiserver.InterceptorToken)
	if err != nil {
		t.Fatal(err)
	}
	apply := func(name, uid, subresource, rest string) error {
		return client.Patch("application/apply-patch+yaml").AbsPath(pathOf(namespace,
			name)+subresource).Param("fieldManager", "test").Param("force", "true").
			Body([]byte(`{"apiVersion": "http.keda.sh/v1alpha1", "kind": "HTTPScaledObject", ` + rest +
				`, "metadata": {"namespace": "` + namespace + `", "name": "` + name + `", "uid": "` + uid +
				`"}}`)).Do(t.Context()).Error()
	}
	const spec, status = `"spec": {}`, `"status": {"targetService": "shop:80"}`
	isOtherUID := func(err error) bool {
		cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
		return ok && cause.Field == "metadata.uid"
	}
	for name, test := range map[string]struct {
		err  error
		want func(error) bool
	}{
		"a field that the schema lacks": {
			apply("shop", uid, "/status", `"status": {"nonsense": 1}`),
			apierrors.IsInternalError,
		},
		"an object that is gone":     {apply("gone", uid, "", spec), apierrors.IsConflict},
		"the status of one":          {apply("gone", uid, "/status", status), apierrors.IsNotFound},
		"another object of the name": {apply("shop", "another", "", spec), isOtherUID},
		// In a write of a custom resource's status the API server ignores everything except the status.
		"the status of one of the name": {
			apply("shop", "another", "/status", status),
			func(err error) bool { return err == nil },
		},
	} {
		t.Logf("%s: %v", name, test.err)
		if !test.want(test.err) {
			t.Errorf("%s: %v", name, test.err)
		}
	}
}
