package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/localcluster/host"
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

func TestAClusterThatLacksSomethingIsNotTakenForTheOneAskedFor(t *testing.T) {
	dir := t.TempDir()
	raw, err := json.Marshal(node.Config{Forwards: []node.Forward{{Name: "shop", Target: "shop:80"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, host.PlanFile), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkPlan(dir, []stack.Addon{stack.EnvoyGateway}, nil); !errors.Is(err, errOtherCluster) {
		t.Errorf("without the add-on: error %v", err)
	}
	if err := checkPlan(dir, nil, []node.Forward{{Name: "shop", Target: "shop:81"}}); !errors.Is(err, errOtherCluster) {
		t.Errorf("without the forward: error %v", err)
	}
}
