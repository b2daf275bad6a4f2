package doctor_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/doctor"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// healthy returns the facts of testdata/healthy.yaml, half an hour after its creation, with all permissions.
func healthy(t *testing.T) *facts.Facts {
	t.Helper()
	text, err := os.ReadFile("testdata/healthy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cluster := &facts.Facts{
		Now:            time.Date(2026, 1, 1, 0, 30, 0, 0, time.UTC),
		CRDs:           map[string]facts.CRD{},
		Services:       map[types.NamespacedName]*corev1.Service{},
		ReadyEndpoints: map[types.NamespacedName]int{},
		Unread:         map[facts.Resource]error{},
	}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		add(t, cluster, document)
	}
	cluster.Allowed = map[facts.Permission]bool{}
	for _, question := range doctor.RequiredPermissions(cluster) {
		cluster.Allowed[question] = true
	}
	return cluster
}

// add adds the object of a document to the facts.
func add(t *testing.T, cluster *facts.Facts, document []byte) {
	t.Helper()
	var head struct {
		metav1.TypeMeta
		Metadata struct {
			metav1.ObjectMeta
			Ready int
		}
		Served, Fields []string
	}
	decode(t, document, &head)
	name := types.NamespacedName{Namespace: head.Metadata.Namespace, Name: head.Metadata.Name}
	switch head.Kind {
	case "Deployment":
		place := map[string]**appsv1.Deployment{
			"argo-rollouts": &cluster.Controller, "keda-add-ons-http-interceptor": &cluster.Interceptor,
			facts.ScalerService: &cluster.Scaler, facts.AgentName: &cluster.Agent, "keda-operator": &cluster.Operator,
		}[name.Name]
		*place = decode(t, document, new(appsv1.Deployment))
	case "MutatingWebhookConfiguration":
		cluster.Webhook = decode(t, document, new(admissionregistrationv1.MutatingWebhookConfiguration))
	case "ConfigMap":
		if place := decode(t, document, new(corev1.ConfigMap)); name.Name == httpv1alpha1.InterceptorCA {
			cluster.CA = place
		} else {
			cluster.Plugins = place
		}
	case "Pod":
		cluster.Pods = append(cluster.Pods, *decode(t, document, new(corev1.Pod)))
	case "Node":
		cluster.Nodes = append(cluster.Nodes, *decode(t, document, new(corev1.Node)))
	case "CustomResourceDefinition":
		cluster.CRDs[name.Name] = facts.CRD{
			ObjectMeta: head.Metadata.ObjectMeta, Served: head.Served,
			StatusFields: head.Fields,
		}
	case "Rollout":
		cluster.Rollouts = append(cluster.Rollouts, gather.ParseRollout(decode(t, document, new(v1alpha1.Rollout))))
	case "Service":
		cluster.Services[name], cluster.ReadyEndpoints[name] = &corev1.Service{}, head.Metadata.Ready
	case "HTTPScaledObject":
		cluster.HTTPScaledObjects = append(cluster.HTTPScaledObjects,
			*decode(t, document, new(httpv1alpha1.HTTPScaledObject)))
	case "HTTPRoute":
		read := facts.Route{Kind: route.HTTPRoute, Name: name}
		text, err := yaml.YAMLToJSON(document)
		if err != nil {
			t.Fatal(err)
		}
		if err := utiljson.Unmarshal(text, &read.Content); err != nil {
			t.Fatal(err)
		}
		cluster.Routes = append(cluster.Routes, read)
	case "ScaledObject":
		cluster.ScaledObjects = append(cluster.ScaledObjects, *decode(t, document, new(facts.ScaledObject)))
	case "HorizontalPodAutoscaler":
		cluster.Autoscalers = append(cluster.Autoscalers,
			*decode(t, document, new(autoscalingv2.HorizontalPodAutoscaler)))
	default:
		t.Fatalf("unknown kind %q", head.Kind)
	}
}

// decode decodes a document into target, and returns it.
func decode[T any](t *testing.T, document []byte, target *T) *T {
	t.Helper()
	text, err := yaml.YAMLToJSON(document)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, target); err != nil {
		t.Fatal(err)
	}
	return target
}
