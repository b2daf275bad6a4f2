package doctor_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/doctor"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/events"
)

func TestHealthyInstallationHasNoFindings(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]doctor.Finding(nil), doctor.Examine(healthy(t)),
		cmp.Transformer("", nilForNone)); diff != "" {
		t.Error(diff)
	}
}

// nilForNone treats an empty list like nil.
func nilForNone(findings []doctor.Finding) []doctor.Finding {
	return append([]doctor.Finding(nil), findings...)
}

// TestTransientStatesAreNoFindings: states that are normal during a canary are not reported.
func TestTransientStatesAreNoFindings(t *testing.T) {
	t.Parallel()
	for name, pass := range map[string]func(*testing.T, *facts.Facts){
		"scaled to zero": func(t *testing.T, f *facts.Facts) {
			t.Helper()
			rollout("web", func(r *v1alpha1.Rollout) { r.Spec.Replicas, r.Status.AvailableReplicas = new(int32), 0 })(t,
				f)
			ready("web", "web-stable", 0)(t, f)
		},
		"scaling up from zero": func(t *testing.T, f *facts.Facts) {
			t.Helper()
			rollout("web", func(r *v1alpha1.Rollout) {
				r.Generation, r.Status.ObservedGeneration, r.Status.AvailableReplicas = 2, "1", 0
			})(t, f)
			ready("web", "web-stable", 0)(t, f)
		},
		"the first Pods are starting": func(t *testing.T, f *facts.Facts) {
			t.Helper()
			rollout("web",
				func(r *v1alpha1.Rollout) { r.Status = v1alpha1.RolloutStatus{Phase: v1alpha1.RolloutPhaseProgressing} })(t, f)
			ready("web", "web-stable", 0)(t, f)
			ready("web", "web-canary", 0)(t, f)
		},
		"the canary Pods are starting": func(t *testing.T, f *facts.Facts) {
			t.Helper()
			rollout("shop", func(r *v1alpha1.Rollout) { r.Status.Canary.Weights = nil })(t, f)
			ready("shop", "shop-canary", 0)(t, f)
		},
		"a canary whose first Pod is about to be created": withoutPods(time.Second),
		"a step without a weight":                         withoutPods(time.Minute, v1alpha1.CanaryStep{SetWeight: new(int32)}),
		"a step without Pods": withoutPods(time.Minute, v1alpha1.CanaryStep{
			SetCanaryScale: &v1alpha1.SetCanaryScale{Replicas: new(int32)},
		}, v1alpha1.CanaryStep{SetWeight: new(int32(20))}),
		"an aborted canary without Pods": func(t *testing.T, f *facts.Facts) {
			t.Helper()
			withoutPods(time.Minute)(t, f)
			rollout("shop", func(r *v1alpha1.Rollout) { r.Status.Abort = true })(t, f)
		},
		"a new object": change(func(f *facts.Facts) {
			f.HTTPScaledObjects[0].Status.Conditions = nil
			f.HTTPScaledObjects[0].CreationTimestamp = metav1.NewTime(f.Now.Add(-time.Second))
		}),
		"a report for an earlier generation": change(func(f *facts.Facts) {
			f.HTTPScaledObjects[0].Generation = 2
			f.HTTPScaledObjects[0].Status.Conditions[0].Status = metav1.ConditionFalse
		}),
		"an autoscaler whose first query failed": change(func(f *facts.Facts) {
			condition := &f.Autoscalers[0].Status.Conditions[1]
			condition.Reason, condition.LastTransitionTime = "FailedGetExternalMetric", metav1.NewTime(f.Now.Add(-time.Second))
		}),
		"a new webhook": change(func(f *facts.Facts) {
			f.Webhook.CreationTimestamp = metav1.NewTime(f.Now.Add(-time.Second))
			f.Webhook.Webhooks[0].ClientConfig.CABundle = nil
		}),
		"an agent with a disabled webhook": change(func(f *facts.Facts) {
			f.Webhook = nil
			f.Agent.Spec.Template.Spec.Containers[0].Args = []string{"--webhook-address="}
		}),
		"an agent with disabled proxies and autowiring": func(t *testing.T, f *facts.Facts) {
			t.Helper()
			denyAgent("patch", "ingresses")(t, f)
			denyAgent("patch", "deployments")(t, f)
			f.Agent.Spec.Template.Spec.Containers[0].Args = []string{"--install-proxies=false"}
			f.Agent.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{
				Name:  "KEDIFY_AGENT_AUTOWIRE",
				Value: "false",
			}}
		},
		"an agent for other namespaces": func(t *testing.T, f *facts.Facts) {
			t.Helper()
			denyAgent("patch", "scaledobjects")(t, f)
			f.Agent.Spec.Template.Spec.Containers[0].Args = []string{"--namespaces", "web,other"}
		},
		"no agent, and no objects of one": change(func(f *facts.Facts) {
			f.Agent, f.Webhook, f.HTTPScaledObjects[0].Labels = nil, nil, nil
		}),
		"a Secret that has not been read yet": change(func(f *facts.Facts) {
			certificate := tlsReady(f)
			certificate.Status, certificate.Reason, certificate.LastTransitionTime = metav1.ConditionUnknown, "SecretPending", metav1.NewTime(f.Now.Add(-time.Second))
		}),
		"manually installed proxies": change(func(f *facts.Facts) {
			conditions := &f.HTTPScaledObjects[0].Status.Conditions
			*conditions = append(*conditions, metav1.Condition{
				Type: "ProxyInstalled", Status: metav1.ConditionTrue,
				Reason: "NotManagedByAgent",
			})
		}),
		"a controller that is being restarted": change(func(f *facts.Facts) {
			f.Plugins.ManagedFields[0].Time = &metav1.Time{Time: f.Now.Add(-time.Minute)}
			f.Pods[0].DeletionTimestamp = &metav1.Time{Time: f.Now}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := healthy(t)
			pass(t, cluster)
			if findings := doctor.Examine(cluster); len(findings) > 0 {
				t.Errorf("found %+v", findings)
			}
		})
	}
}

// breakage is one way to break a healthy installation, and the finding that it causes.
type breakage struct {
	name     string
	change   func(*testing.T, *facts.Facts)
	code     doctor.Code
	severity doctor.Severity
	object   string
	field    string
	message  string // a substring of the message
	fix      string // a substring of the fix
	isPre    bool   // whether doctor --pre finds it
}

// breakages returns all breakages.
func breakages() []breakage {
	return slices.Concat(controllers(), applications(), agents(), warnings(), scaling(), preparing())
}

// examine returns the findings of the broken installation.
func (b *breakage) examine(cluster *facts.Facts) []doctor.Finding {
	if b.isPre {
		return doctor.ExaminePre(cluster)
	}
	return doctor.Examine(cluster)
}

// preparing are breakages of a cluster before an installation.
func preparing() []breakage {
	return []breakage{
		{
			name: "Kubernetes is too old", change: change(func(f *facts.Facts) { f.ServerVersion = "v1.29.4" }),
			code: doctor.KubernetesTooOld, object: "API server", message: "v1.29.4", fix: "upgrade the cluster", isPre: true,
		},
		{
			name: "the user may not create cluster roles", change: change(func(f *facts.Facts) {
				f.UserAllowed = map[facts.Permission]bool{}
				for _, permission := range doctor.InstallPermissions(f) {
					f.UserAllowed[permission] = permission.Resource != "clusterroles"
				}
			}),
			code: doctor.InstallForbidden, object: "your user",
			message: "create clusterroles.rbac.authorization.k8s.io, patch clusterroles", fix: "cluster administrator",
			isPre: true,
		},
	}
}

// edit replaces a substring of the list of plugins, which must exist.
func edit(old, replacement string) func(*testing.T, *facts.Facts) {
	return func(t *testing.T, cluster *facts.Facts) {
		t.Helper()
		text := cluster.Plugins.Data[facts.PluginsKey]
		if !strings.Contains(text, old) {
			t.Fatalf("%q is not in %q", old, text)
		}
		cluster.Plugins.Data[facts.PluginsKey] = strings.Replace(text, old, replacement, 1)
	}
}

// change adapts a function without a test.
func change(apply func(*facts.Facts)) func(*testing.T, *facts.Facts) {
	return func(_ *testing.T, cluster *facts.Facts) { apply(cluster) }
}

// rollout changes the Rollout of that name, and parses it again.
func rollout(name string, apply func(*v1alpha1.Rollout)) func(*testing.T, *facts.Facts) {
	return change(func(cluster *facts.Facts) {
		for i := range cluster.Rollouts {
			if cluster.Rollouts[i].Name == name {
				apply(cluster.Rollouts[i].Rollout)
				cluster.Rollouts[i] = gather.ParseRollout(cluster.Rollouts[i].Rollout)
			}
		}
	})
}

// routing replaces the routers of a Rollout.
func routing(name, router, config string) func(*testing.T, *facts.Facts) {
	return rollout(name, func(r *v1alpha1.Rollout) {
		r.Spec.Strategy.Canary.TrafficRouting.Plugins = nil
		if router != "" {
			r.Spec.Strategy.Canary.TrafficRouting.Plugins = map[string]json.RawMessage{router: json.RawMessage(config)}
		}
	})
}

// denyController denies a permission to the controller and KEDA.
func denyController(verb, resource string) func(*testing.T, *facts.Facts) {
	return deny(func(account string) bool { return account != facts.AgentName }, verb, resource)
}

// denyAgent denies a permission to the agent.
func denyAgent(verb, resource string) func(*testing.T, *facts.Facts) {
	return deny(func(account string) bool { return account == facts.AgentName }, verb, resource)
}

// deny denies a permission to the ServiceAccounts that match.
func deny(matches func(account string) bool, verb, resource string) func(*testing.T, *facts.Facts) {
	return func(t *testing.T, cluster *facts.Facts) {
		t.Helper()
		required := false
		for question := range cluster.Allowed {
			if matches(question.Account.Name) && question.Verb == verb && question.Resource == resource {
				cluster.Allowed[question], required = false, true
			}
		}
		if !required {
			t.Fatalf("no permission for %s %s was required", verb, resource)
		}
	}
}

// ready sets the number of ready endpoints of a Service.
func ready(namespace, name string, endpoints int) func(*testing.T, *facts.Facts) {
	return change(func(cluster *facts.Facts) {
		cluster.ReadyEndpoints[types.NamespacedName{Namespace: namespace, Name: name}] = endpoints
	})
}

const (
	configMap  = "ConfigMap argo-rollouts/argo-rollouts-config"
	controller = "Deployment argo-rollouts/argo-rollouts"
	list       = "data.trafficRouterPlugins"
	plugins    = "spec.strategy.canary.trafficRouting.plugins"
	account    = "ServiceAccount argo-rollouts/argo-rollouts"
)

func TestEachBreakageHasItsFinding(t *testing.T) {
	t.Parallel()
	all := breakages()
	if len(all) < 40 {
		t.Errorf("only %d breakages", len(all))
	}
	for _, test := range all {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cluster := healthy(t)
			test.change(t, cluster)
			findings := test.examine(cluster)
			if len(findings) != 1 {
				t.Fatalf("found %d, want 1: %+v", len(findings), findings)
			}
			if test.severity == "" {
				test.severity = doctor.Error
			}
			got := findings[0]
			want := doctor.Finding{
				Code: test.code, Severity: test.severity, Object: test.object, Field: test.field, Message: got.Message,
				Fix: got.Fix, URL: events.FindingsPage + "#" + strings.ToLower(string(test.code)),
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.Message == "" || !strings.Contains(got.Message, test.message) || !strings.Contains(got.Fix, test.fix) {
				t.Errorf("message %q, fix %q, want them with %q and %q", got.Message, got.Fix, test.message, test.fix)
			}
		})
	}
}
