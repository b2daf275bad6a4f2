package scenarios_test

import "k8s.io/apimachinery/pkg/types"

// few returns the scenarios that run with each release of the controller: the typical canaries, and the differences
// between releases.
func few() []string {
	return []string{
		"every step", "promoted in full", "undone at 20", "dynamicStableScale, aborted", "managed routes in their order",
		"two triggers, one aborted canary",
		"aborted at 50 while half of the stable Pods are pending and an HPA scales",
	}
}

// ofTwoTriggers returns scenarios with a ScaledObject with two triggers: the HTTPScaledObjects web, which the Rollout
// names, and next.
func ofTwoTriggers() []scenario {
	all := []scenario{
		{
			name: "two triggers, one canary", steps: twoSteps, want: "0 20 50 100 0", next: "0 20 50 100 0",
			play: play(twoTriggers, update("2"), both("20"), ahead("20"), both("50"), ahead("50"), both("0"), healthy),
		},
		{
			name: "two triggers, one aborted canary", steps: twoSteps, want: "0 20 50 0", next: "0 20 50 0",
			play: play(twoTriggers, update("2"), ahead("20"), both("50"), func(s *environment) {
				s.awaitPause("50")
				s.abortAtOnce(func() {
					s.player.LimitAvailable(s.namespace, "1", 2)
					s.scale(8)
				})
				s.player.RemoveLimit(s.namespace, "1")
			}, both("0"), degraded),
		},
		{
			name: "two triggers, header and mirror routes", managed: "[{name: a}, {name: b}]",
			steps: "[{setCanaryScale: {weight: 20}}, " + headerStep("a") + ", " + mirrorStep("b") +
				", {pause: {}}, {setWeight: 20}, {pause: {}}]",
			want: "0 0[a] 0[a][b] 20[a][b] 100[a][b] 100 0", next: "0 0[a] 0[a][b] 20[a][b] 100[a][b] 100 0",
			play: play(twoTriggers, update("2"), both("0[a][b]"), ahead("0[a][b]"), both("20[a][b]"), ahead("20[a][b]"),
				both("0"), healthy),
		},
		{
			name: "a trigger more, in the middle", steps: twoSteps, want: "0 20 50 100 0", next: "0 20 50 100 0",
			play: play(func(s *environment) { s.controlled("web") }, update("2"), func(s *environment) {
				s.awaitPause("20")
				s.object("next")
				s.controlled("next")
				s.merge("", `{"metadata":{"annotations":{"touched":"yes"}}}`) // triggers a reconcile
			}, both("20"), ahead("20"), both("50"), ahead("50"), both("0"), healthy),
		},
		{
			name: "a trigger less, in the middle", steps: twoSteps, want: "0 20 50 100 0", next: "0 20 0",
			play: play(twoTriggers, update("2"), both("20"), func(s *environment) {
				s.awaitPause("20")
				s.merged("next", `{"metadata":{"ownerReferences":null}}`)
				s.promote()
			}, func(s *environment) { s.awaitSplitOf("next", "0") }, ahead("50"), healthy),
		},
	}
	for i := range all {
		all[i].only = kedify.resource
	}
	return all
}

// twoTriggers makes the ScaledObject web the controller of two objects.
func twoTriggers(s *environment) {
	s.object("next")
	s.controlled("web")
	s.controlled("next")
}

// both waits until both objects have this traffic split.
func both(want string) func(*environment) {
	return func(s *environment) {
		s.awaitSplit(want)
		s.awaitSplitOf("next", want)
	}
}

// controlled adds the owner reference that the agent writes.
func (s *environment) controlled(name string) {
	s.t.Helper()
	s.merged(
		name,
		`{"metadata":{"ownerReferences":[{"apiVersion":"keda.sh/v1alpha1","kind":"ScaledObject","name":"web",`+
			`"uid":"1f0c2a52-5b1e-4a53-9d57-000000000000","controller":true}]}}`,
	)
}

// merged merges a patch into an HTTPScaledObject.
func (s *environment) merged(name, patch string) {
	s.t.Helper()
	path := "/apis/http.keda.sh/v1alpha1/namespaces/" + s.namespace + "/httpscaledobjects/" + name
	if err := s.admin.Patch(types.MergePatchType).AbsPath(path).Body([]byte(patch)).Do(s.t.Context()).Error(); err != nil {
		s.t.Fatal(err)
	}
}
