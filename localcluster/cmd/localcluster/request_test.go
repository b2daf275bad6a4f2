package main

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
	"github.com/kedify/argo-rollouts-plugin/localcluster/node"
	"github.com/kedify/argo-rollouts-plugin/localcluster/stack"
)

func TestParseForwards(t *testing.T) {
	got, err := parseForwards([]string{"shop=shop.default.svc.cluster.local:80"})
	want := []node.Forward{{Name: "shop", Target: "shop.default.svc.cluster.local:80"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v; forwards (-want +got):\n%s", err, diff)
	}
	for _, bad := range [][]string{{"shop"}, {"shop=shop"}, {"=shop:80"}, {"proxy=other:80"}, {"a=b:1", "a=c:2"}} {
		if got, err := parseForwards(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

func TestCheckRejectsDifferentCluster(t *testing.T) {
	running := node.Config{
		Forwards: []node.Forward{{Name: "shop", Target: "shop:80"}}, Addons: []string{"traefik"}, Bare: true,
		Settings: cluster.Settings{ExtraArgs: map[string][]string{"etcd": {"--log-level=debug"}}},
	}
	same := request{
		addons: []stack.Addon{stack.Traefik}, forwards: running.Forwards, extraArgs: running.Settings.ExtraArgs,
	}
	if err := same.check(running, true); err != nil {
		t.Errorf("the running cluster was requested: %v", err)
	}
	if err := (request{}).check(running, true); err != nil {
		t.Errorf("less than the running cluster was requested: %v", err)
	}
	for name, other := range map[string]request{
		"the forward":  {forwards: []node.Forward{{Name: "shop", Target: "shop:81"}}},
		"the argument": {extraArgs: map[string][]string{"etcd": {"--log-level=info"}}},
	} {
		if err := other.check(running, true); !errors.Is(err, errOtherCluster) {
			t.Errorf("without %s: error %v", name, err)
		}
	}
	if all, err := (request{addons: []stack.Addon{stack.KEDA}}).join(running); err != nil ||
		!slices.Equal(all, []stack.Addon{stack.Traefik, stack.KEDA}) {
		t.Errorf("with another add-on: %v, %v", all, err)
	}
	running.Addons = append(running.Addons, "keda-v2.20.2")
	if _, err := (request{addons: []stack.Addon{stack.KEDA}}).join(running); !errors.Is(err, errOtherCluster) {
		t.Errorf("with another KEDA: error %v", err)
	}
	if err := (request{}).check(running, false); !errors.Is(err, errOtherCluster) {
		t.Errorf("a bare cluster: error %v", err)
	}
}

func TestPartsThatDiffer(t *testing.T) {
	running := map[string]string{"etcd": "etcd-1", "kubelet": "kubelet-1", "gone": "gone-1"}
	wanted := map[string]string{"etcd": "etcd-1", "kubelet": "kubelet-2", "new": "new-1"}
	if diff := cmp.Diff([]string{"kubelet", "new"}, differing(running, wanted)); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}
