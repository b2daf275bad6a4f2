package agent_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// wiredKind is an object of a kind whose backends the agent changes: the resource, the path of the object in a namespace,
// and a function that waits until it is wired, or not, and returns it.
type wiredKind struct {
	resource string
	path     func(namespace string) string
	await    func(t *testing.T, namespace string, isWired bool) web
}

// wire waits until the object of a namespace is wired, and returns its original. The proxies come after the agent has
// installed their objects, as in a cluster.
func (k wiredKind) wire(t *testing.T, team string) (before web) {
	t.Helper()
	before = k.await(t, team, false)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonProxyUnavailable)
	proxies(t, team, true)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonNotProgrammed)
	programmed(t, team, "shop")
	k.await(t, team, true)
	awaitWiring(t, team, "shop", httpv1alpha1.ReasonWired)
	return before
}

// awaitReleased waits until the agent manages no field of the object.
func (k wiredKind) awaitReleased(t *testing.T, namespace string) {
	t.Helper()
	await.True(t, "no field is managed by the agent", func() bool {
		found := web{}
		return get(t, k.path(namespace), &found) && found.writtenAt(t).IsZero()
	})
}

// checkLife opts the wired object out and in again, by values of trafficAutowire, restores it by its annotation, and
// deletes the ScaledObject. Everything else stays as its user wrote it.
func (k wiredKind) checkLife(t *testing.T, team string, before web, without, with string) {
	t.Helper()
	trigger := func(kinds string) string {
		return shop(`{hosts: shop.test, port: "80", service: shop, trafficAutowire: "` + kinds + `"}`)
	}
	apply(t, team, trigger(without))
	areOriginal(t, []web{before}, []web{k.await(t, team, false)})
	k.awaitReleased(t, team)

	apply(t, team, trigger(with))
	record, _ := k.await(t, team, true).annotations()[httpv1alpha1.AnnotationAutowireUndo].(string)
	text, err := shared.admin.Patch(types.JSONPatchType).AbsPath(k.path(team)).Body([]byte(record)).DoRaw(t.Context())
	undone := web{}
	if err := errors.Join(err, json.Unmarshal(text, &undone)); err != nil {
		t.Fatal(err)
	}
	areOriginal(t, []web{before}, []web{undone})

	k.await(t, team, true)
	remove(t, scaledObject(team, "shop"))
	areOriginal(t, []web{before}, []web{k.await(t, team, false)})
	awaitGone(t, team, "shop")
	k.awaitReleased(t, team)
	events, err := shared.audit.RequestsOf(account)
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for _, event := range events {
		if event.Verb == "patch" && event.ResponseStatus.Code == http.StatusOK && event.ObjectRef.Namespace == team &&
			event.ObjectRef.Resource == k.resource {
			written++
		}
	}
	if want := 7; written != want { // thrice wired, twice restored, twice released
		t.Errorf("%d writes of %s, want %d", written, k.resource, want)
	}
}
