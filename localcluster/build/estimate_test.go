package build

import (
	"math"
	"testing"
	"time"
)

// measured are the build times of a cluster's components in two runs on two cores with an empty cache, in build order.
func measured() map[string][]Cost {
	runs := map[string]map[string]float64{
		"first": {
			"kube-apiserver": 268, "kube-controller-manager": 73, "kube-scheduler": 7, "kubelet": 21, "kube-proxy": 7,
			"kubectl": 37, "etcd": 34, "containerd": 43, "cni": 5, "coredns": 11, "argo-rollouts": 94, "pause": 1,
		},
		"second": {
			"kube-apiserver": 308, "kube-controller-manager": 81, "kube-scheduler": 7, "kubelet": 38, "kube-proxy": 9,
			"kubectl": 27, "etcd": 10, "containerd": 36, "cni": 5, "coredns": 11, "argo-rollouts": 81, "pause": 1,
		},
	}
	out := map[string][]Cost{}
	compiled, _ := lanes(Components("..", "debian-12", KubernetesVersion))
	for name, seconds := range runs {
		for _, component := range compiled {
			took := time.Duration(seconds[component.Name] * float64(time.Second))
			out[name] = append(out[name], Cost{component.Estimate, took})
		}
	}
	return out
}

// After the first component, the estimate is at most a quarter wrong, at any speed of the machine.
func TestLeftCorrectsItself(t *testing.T) {
	for name, costs := range measured() {
		for _, factor := range []float64{0.4, 1, 3, 20} {
			for made := 1; made < len(costs)-1; made++ {
				var now []Cost
				var want time.Duration
				for i, c := range costs {
					elapsed := time.Duration(float64(c.Took) * factor)
					if i < made {
						now = append(now, Cost{c.Planned, elapsed})
						continue
					}
					now = append(now, Cost{Planned: c.Planned})
					want += elapsed
				}
				if got := Left(now); math.Abs(float64(got-want)) > 0.25*float64(want) {
					t.Errorf("%s run, factor %g: after %d components %s are left, estimated %s", name, factor, made, want, got)
				}
			}
		}
	}
}

func TestLeft(t *testing.T) {
	tests := []struct {
		name  string
		costs []Cost
		want  time.Duration
	}{
		{"nothing", nil, 0},
		{"as planned, before anything is measured", []Cost{{Planned: 60}, {Planned: 30}}, 90},
		{"half as fast", []Cost{{60, 120}, {Planned: 30}}, 60},
		{"three times as fast", []Cost{{60, 20}, {30, 10}, {Planned: 30}}, 10},
		{"all is made", []Cost{{60, 120}}, 0},
	}
	for _, tt := range tests {
		if got := Left(tt.costs); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// Downloads are free while something compiles.
func TestPlanned(t *testing.T) {
	components := []Component{{"a", 60, compiled{}}, {"b", 30, compiled{}}, {"c", 40, recipe{}}}
	if got := Planned(components); got != 90 {
		t.Errorf("all parts: %d, want 90", got)
	}
	if got := Planned(components[2:]); got != 40 {
		t.Errorf("a download: %d, want 40", got)
	}
}
