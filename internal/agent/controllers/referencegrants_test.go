package controllers_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// TestGrantsAreOnlyRead has an agent that may not write ReferenceGrants, and does not try: it waits for that of a user.
func TestGrantsAreOnlyRead(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.share(t)
	m.agent.ReadsGrantsOnly = true
	m.refused = apierrors.NewForbidden(schema.GroupResource{Resource: "referencegrants"}, "kedify-proxy-team", errKilled)
	if err := m.again(t); err != nil {
		t.Errorf("the agent reports %v", err)
	}
	condition := meta.FindStatusCondition(m.shop(t).Status.Conditions, httpv1alpha1.ConditionAutowired)
	if condition == nil || condition.Reason != httpv1alpha1.ReasonNotGranted {
		t.Errorf("condition %+v, want reason %s", condition, httpv1alpha1.ReasonNotGranted)
	}
	m.grants = []apis.ReferenceGrant{{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "keda", Name: "of-a-user", CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour)),
		},
		Spec: apis.ReferenceGrantSpec{
			From: []apis.ReferenceGrantFrom{{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute", Namespace: "team"}},
			To:   []apis.ReferenceGrantTo{{Kind: "Service"}},
		},
	}}
	if err := m.again(t); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"shop", "shop", "kedify-proxy", "kedify-proxy", "shop"}, m.services(t)); diff != "" {
		t.Errorf("Services (-want +got):\n%s", diff)
	}
}
