package resolve_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestFailover is the table of spec.coldStartTimeoutFailoverRef: the resulting failover and the problems. An object
// with an invalid failover is still routed and keeps its published failover.
func TestFailover(t *testing.T) {
	t.Parallel()
	late := model.Failover{
		Service: model.Key{Namespace: "apps", Name: "late"}, Port: 80, Protocol: model.HTTP1,
		Timeout: 30 * time.Second,
	}
	soon, never, general := late, late, late
	soon.Timeout, never.Timeout, general.Timeout = 5*time.Second, math.MaxInt32*time.Second, 0
	for name, c := range map[string]struct {
		ref       httpv1alpha1.ColdStartTimeoutFailoverRef
		min       int32
		published *model.Failover
		want      *model.Failover
		wrong     string
	}{
		"port by number": {ref: httpv1alpha1.ColdStartTimeoutFailoverRef{Service: "late", Port: 80}, want: &late},
		"port by name, short timeout": {ref: httpv1alpha1.ColdStartTimeoutFailoverRef{
			Service: "late", PortName: "http",
			TimeoutSeconds: new(int32(5)),
		}, want: &soon},
		"timeout of zero, which is no limit of its own": {
			ref:  httpv1alpha1.ColdStartTimeoutFailoverRef{Service: "late", Port: 80, TimeoutSeconds: new(int32(0))},
			want: &general,
		},
		"timeout of zero after another one": {
			ref:       httpv1alpha1.ColdStartTimeoutFailoverRef{Service: "late", PortName: "http", TimeoutSeconds: new(int32(0))},
			published: &late, want: &general,
		},
		"timeout of decades": {
			ref: httpv1alpha1.ColdStartTimeoutFailoverRef{Service: "late", Port: 80, TimeoutSeconds: new(int32(math.MaxInt32))}, want: &never,
		},
		"minimum replicas above zero": {
			ref: httpv1alpha1.ColdStartTimeoutFailoverRef{Service: "late", Port: 80}, min: 1,
		},
		"missing Service": {
			ref: httpv1alpha1.ColdStartTimeoutFailoverRef{Service: "gone", Port: 80},
			wrong: `ServiceNotFound spec.coldStartTimeoutFailoverRef.service: Service "gone" not found in namespace "apps": ` +
				`create it or name another Service of the namespace`,
		},
		"Service of another namespace": {
			ref: httpv1alpha1.ColdStartTimeoutFailoverRef{Service: "other/abroad", Port: 80},
			wrong: `ServiceNotFound spec.coldStartTimeoutFailoverRef.service: Service "other/abroad" not found in namespace ` +
				`"apps": create it or name another Service of the namespace`,
		},
		"its own Service": {
			ref: httpv1alpha1.ColdStartTimeoutFailoverRef{Service: "shop", Port: 80},
			wrong: `InvalidSpec spec.coldStartTimeoutFailoverRef.service: "shop" is the Service that requests wait for: name ` +
				`another Service of the namespace`,
		},
		"missing port": {
			ref: httpv1alpha1.ColdStartTimeoutFailoverRef{Service: "late", Port: 81}, published: &late, want: &late,
			wrong: `PortNotFound spec.coldStartTimeoutFailoverRef.port: Service "late" has no TCP port 81, it has 80 (http): ` +
				`name another port or add this one`,
		},
		"no port": {
			ref:   httpv1alpha1.ColdStartTimeoutFailoverRef{Service: "late"},
			wrong: `PortNotFound spec.coldStartTimeoutFailoverRef: set exactly one of port and portName`,
		},
		"negative timeout": {
			ref: httpv1alpha1.ColdStartTimeoutFailoverRef{Service: "late", Port: 80, TimeoutSeconds: new(int32(-1))},
			wrong: `InvalidSpec spec.coldStartTimeoutFailoverRef.timeoutSeconds: -1 is negative: set it to 1 or more, to 0 ` +
				`for the time limit of objects without a failover, or remove it for the default of 30`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := kit.NewScaledObject("apps", "shop", "shop", 1, "shop.test")
			inputs := resolve.Inputs{
				ScaledObjects: []*httpv1alpha1.HTTPScaledObject{object},
				Services: kit.ResolveServices(kit.NewService("apps", "shop"), kit.NewService("apps", "late"),
					kit.NewService("other", "abroad")),
			}
			inputs.Published, _ = resolve.Build(inputs)
			for i := range inputs.Published.Routes {
				inputs.Published.Routes[i].Failover = c.published
			}
			object.Spec.ColdStartTimeoutFailoverRef = &c.ref
			object.Spec.Replicas = &httpv1alpha1.ReplicaRange{Min: &c.min}
			config, problems := resolve.Build(inputs)
			checkInvariants(t, config)
			var messages []string
			for _, problem := range problems {
				messages = append(messages, problem.Reason+" "+problem.Message)
			}
			if messages := strings.Join(messages, "; "); messages != c.wrong {
				t.Errorf("problems %q, want %q", messages, c.wrong)
			}
			for _, route := range config.Routes {
				if diff := cmp.Diff(c.want, route.Failover); diff != "" {
					t.Error(diff)
				}
			}
			if len(config.Routes) != 1 {
				t.Errorf("%d routes", len(config.Routes))
			}
		})
	}
}
