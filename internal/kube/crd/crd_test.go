package crd_test

import (
	"encoding/json"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/kube/crd"
)

func TestDeclares(t *testing.T) {
	t.Parallel()
	var status crd.Schema
	err := json.Unmarshal([]byte(`{"properties": {
		"conditions": {"items": {"properties": {"type": {"enum": ["A", "B"]}, "status": {}}}},
		"free": {"x-kubernetes-preserve-unknown-fields": true},
		"names": {}
	}}`), &status)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`{}`:                               true,
		`{"conditions": []}`:               true,
		`{"conditions": [{"type": "A"}]}`:  true,
		`{"conditions": [{"type": "C"}]}`:  false,
		`{"conditions": [{"other": "A"}]}`: false,
		`{"free": {"any": ["thing"]}}`:     true,
		`{"names": "a"}`:                   true,
		`{"names": ["a"]}`:                 false,
		`{"dataPlane": 1}`:                 false,
	} {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if got := status.Declares(value); got != want {
			t.Errorf("%s: declared: %v, want %v", text, got, want)
		}
	}
}
