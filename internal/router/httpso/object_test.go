package httpso

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
)

// TestAReportOfBeforeTheLastWriteIsNotBelieved plays a weight that is left and set again: the first report about it must not pass for one about the second time.
func TestAReportOfBeforeTheLastWriteIsNotBelieved(t *testing.T) {
	t.Parallel()
	name := types.NamespacedName{Namespace: "shop", Name: "web"}
	state := func(version, text, reportedAt string) *object {
		return &object{name: name, resourceVersion: version, text: text, present: true, report: &httpv1alpha1.DataPlaneStatus{
			AnnotationHash: split.Hash(text, ""), Proxies: httpv1alpha1.ProxyCounts{Ready: 1, Acked: 1}, Effective: true, ResourceVersion: reportedAt,
		}}
	}
	tests := map[string]struct {
		states []*object
		after  time.Duration
		want   bool
	}{
		"nothing is known of before":                    {states: []*object{state("10", "a", "3")}, want: true},
		"the text is what it was":                       {states: []*object{state("10", "a", "3"), state("11", "a", "3")}, want: true},
		"set, left and set again":                       {states: []*object{state("10", "a", "3"), state("11", "b", "3"), state("12", "a", "3")}},
		"and reported again":                            {states: []*object{state("10", "a", "3"), state("11", "b", "3"), state("12", "a", "3"), state("13", "a", "12")}, want: true},
		"reported of the time between":                  {states: []*object{state("10", "a", "3"), state("11", "b", "3"), state("12", "a", "11")}},
		"an interceptor that is too old to say":         {states: []*object{state("10", "a", ""), state("11", "b", ""), state("12", "a", "")}, want: true},
		"an interceptor that has not seen it for long":  {states: []*object{state("10", "a", "3"), state("11", "b", "3"), state("12", "a", "3")}, after: 6 * time.Second, want: true},
		"an event from before comes after the last one": {states: []*object{state("10", "a", "3"), state("12", "a", "3"), state("11", "b", "3")}, want: true},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cache := kube.NewCache((*object).after)
				for _, each := range test.states {
					cache.Put(each)
				}
				time.Sleep(test.after) // The clock is synctest's.
				known, _, _ := cache.Get(name)
				if got, _ := takenByAll(known); (got == engine.Taken) != test.want {
					t.Errorf("taken by all: %v, want %v", got, test.want)
				}
			})
		})
	}
}
