package refusals_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// checkDuplicateHosts: two namespaces claim one host. The older object serves it, and the younger one has a condition
// and an Event, in each order of changes. The names of the namespaces, which decide between objects of the same second,
// are once in the order of age and once not.
func (s *environment) checkDuplicateHosts(t *testing.T) {
	for _, names := range [][2]string{{"twice-a", "twice-b"}, {"twice-z", "twice-y"}} {
		t.Run(strings.Join(names[:], " before "), func(t *testing.T) {
			t.Parallel()
			s.checkDuplicateHost(t, names[0], names[1])
		})
	}
}

// checkDuplicateHost runs the sequence. The app of the older namespace is stable, and the app of the younger one is
// canary.
func (s *environment) checkDuplicateHost(t *testing.T, older, younger string) {
	t.Helper()
	const name = "page"
	host := hostName(older, name)
	s.createNamespace(t, older)
	s.apply(t, "", `{apiVersion: v1, kind: Namespace, metadata: {name: `+younger+`}}`)
	s.apply(t, older, s.app("page-stable"))
	s.apply(t, younger, strings.ReplaceAll(s.app("page-canary"), "name: page-canary", "name: page-stable"))
	create := func(namespace string) {
		s.apply(t, namespace, fmt.Sprintf(`
apiVersion: http.keda.sh/v1alpha1
kind: HTTPScaledObject
metadata: {name: page, annotations: {http.kedify.io/fleet: shared}}
spec: {hosts: [%s], scaleTargetRef: {service: page-stable, port: 80}}
`, host))
	}
	expectConflict := func(loser, winner string) {
		t.Helper()
		message := fmt.Sprintf("spec.hosts: %s: belongs to namespace %q, whose HTTPScaledObject %[2]s/page is the oldest "+
			"with the host or a wildcard above it: remove the host, or have the owner add %q to the annotation "+
			"http.kedify.io/allowed-namespaces of %[2]s/page", host, winner, loser)
		warning := fmt.Sprintf("HTTPScaledObject %s/page claims host %s: no request is routed there, because the host "+
			"belongs to this object: if its namespace may have routes of the host, add it to the annotation "+
			"http.kedify.io/allowed-namespaces", loser, host)
		s.expectConditions(t, loser, name,
			notAccepted(httpv1alpha1.ReasonRouteConflict, message, "No request is routed to the object."))
		s.expectEvent(t, time.Time{}, loser, name, "Warning", httpv1alpha1.ReasonRouteConflict, message)
		s.expectConditions(t, winner, name, append(accepted(), metav1.Condition{
			Type: httpv1alpha1.ConditionHostsUncontested, Status: metav1.ConditionFalse,
			Reason: httpv1alpha1.ReasonHostClaimedByOther, Message: warning,
		}))
		s.expectEvent(t, time.Time{}, winner, name, "Warning", httpv1alpha1.ReasonHostClaimedByOther, warning)
		s.checkNeighbour(t, older)
	}

	create(older)
	expectAnswers(t, host, "stable")
	defer startLoad(t, host)()
	s.awaitNextSecond(t, older)
	create(younger)
	expectConflict(younger, older)
	expectAnswers(t, host, "stable")

	removed := time.Now()
	s.remove(t, objectPath(older, name))
	s.expectConditions(t, younger, name, accepted())
	s.expectEvent(t, removed, younger, name, "Normal", httpv1alpha1.ReasonAccepted, accepted()[0].Message)
	expectAnswers(t, host, "canary")

	s.awaitNextSecond(t, younger)
	create(older) // now this object is the younger one
	expectConflict(older, younger)
	expectAnswers(t, host, "canary")

	s.patch(t, objectPath(younger, name), `{spec: {hosts: [`+hostName(younger, name)+`]}}`)
	s.expectConditions(t, older, name, accepted())
	s.expectConditions(t, younger, name, append(accepted(), metav1.Condition{
		Type: httpv1alpha1.ConditionHostsUncontested, Status: metav1.ConditionTrue,
		Reason: httpv1alpha1.ReasonHostsUncontested, Message: "No other namespace claims a host of the object.",
	}))
	expectAnswers(t, host, "stable")
	expectAnswers(t, hostName(younger, name), "canary")
}

// awaitNextSecond waits until a new object is younger than the object page of a namespace: the API server's timestamps
// are in seconds.
func (s *environment) awaitNextSecond(t *testing.T, namespace string) {
	t.Helper()
	created := read[metav1.PartialObjectMetadata](t, s, objectPath(namespace, "page")).CreationTimestamp
	await.True(t, "the next second", func() bool { return time.Now().Unix() > created.Unix() })
}
