package traffic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/stall"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// The hosts of the applications.
const (
	webHost       = "web.traffic.test"
	stickyHost    = "sticky.traffic.test"
	socketHost    = "socket.traffic.test"
	awakeHost     = "awake.traffic.test"
	rollbackHost  = "rollback.traffic.test"
	crowdHost     = "crowd.traffic.test"
	greeterHost   = "greeter.traffic.test"
	namedHost     = "named.traffic.test"
	responderHost = "responder.traffic.test"
)

// suite is a cluster with the applications.
type suite struct {
	testbed.Kubectl // of namespace
	*meter

	ctx    context.Context //nolint:containedctx // that of the test, for clients in the background
	inside *inside.Cluster
	repo   string
	stalls *stall.Detector
	// ingress and proxies are the addresses of the Ingress controller and of the proxies of namespace.
	ingress, proxies string
	greeter, named   *caller
	responder        *caller
	ab               apacheBench
	// everywhere are the rows with requests in every state. The others belong to hold.
	everywhere                                  []*row
	lateByte, lateMessage, affinity, openSocket *row
	// awake is the row of startAwake.
	awake *row
	// jars are the cookies of the users of sticky.
	jars []http.CookieJar
	// slow are the slowest responses.
	slow sync.WaitGroup
}

// grpc returns kubectl for the namespace of the gRPC applications.
func (s *suite) grpc() testbed.Kubectl {
	return testbed.Kubectl{Cluster: s.Cluster, Namespace: grpcNamespace}
}

// app is an application with a ScaledObject, in one of the namespaces.
type app struct {
	testbed.Kubectl

	name string
	// isRollout is true for a Rollout, false for a Deployment.
	isRollout bool
	// backend is the Service in its Ingress.
	backend string
}

// apps returns the applications whose Ingresses change.
func (s *suite) apps() []app {
	return []app{
		{s.Kubectl, "web", true, "web-stable"},
		{s.Kubectl, "sticky", true, "sticky-stable"},
		{s.grpc(), "greeter", true, "greeter-stable"},
		{s.grpc(), "named", false, "named"},
		{s.grpc(), "responder", true, "responder"},
		{s.Kubectl, "awake", false, "awake"},
	}
}

// socket returns the application that scales to zero. Its Ingress is always wired: nothing else could wake it.
func (s *suite) socket() app { return app{s.Kubectl, "socket", true, "kedify-proxy"} }

// rollouts returns the applications with a canary.
func (s *suite) rollouts() []app {
	return append(slices.DeleteFunc(s.apps(), func(a app) bool { return !a.isRollout }), s.socket())
}

// launch starts a cluster with the applications, and waits until each responds through its Ingress and is served by the
// proxies.
func launch(t *testing.T) *suite {
	t.Helper()
	const proxies = "kedify-proxy"
	cluster, repo := testbed.Launch(t, provider.Spec{
		Addons: []string{"keda", "traefik"}, Forwards: map[string]string{
			provider.IngressAddress: provider.IngressTarget,
			namespace:               proxies + "." + namespace + ".svc.cluster.local:8080",
		},
	})
	node, err := inside.Open(cluster.Node)
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{
		Kubectl: testbed.Kubectl{Cluster: cluster, Namespace: namespace}, meter: new(meter), ctx: t.Context(),
		inside: node, repo: repo, stalls: stall.Watch(t), ingress: cluster.Addresses[provider.IngressAddress],
		proxies: cluster.Addresses[namespace],
	}
	s.jars = newJars(t)
	s.greeter, s.named = newCaller(t, s.ingress, greeterHost), newCaller(t, s.ingress, namedHost)
	s.responder = newCaller(t, s.ingress, responderHost)
	s.ab = s.newApacheBench(t)
	s.lateByte = s.row(fmt.Sprintf("first byte after %s", lateByte))
	s.lateMessage = s.row(fmt.Sprintf("gRPC stream, first message after %s", lateMessage))
	s.affinity = s.row(fmt.Sprintf("a cookie jar: %d of %d requests by one Pod", perUser, perUser))
	s.openSocket = s.row("WebSocket with a message each second for " + talkTime.String())
	s.awake = s.row(fmt.Sprintf("WebSocket for %s, scaled by request rate, min 1", socketTime))
	s.serveClassNginx(t)
	s.install(t, s.Kubectl, "objects.yaml")
	s.install(t, s.grpc(), "grpc.yaml")
	for _, a := range s.apps() {
		a.awaitReady(t)
	}
	s.awaitAnswers(t)
	return s
}

// serveClassNginx makes Traefik serve Ingresses of class nginx in addition, and follow annotations of ingress-nginx.
func (s *suite) serveClassNginx(t *testing.T) {
	t.Helper()
	traefik := testbed.Kubectl{Cluster: s.Cluster, Namespace: "traefik"}
	traefik.Do(t, "apply", "-f", "nginx.yaml")
	traefik.Do(t, "patch", "deployment/traefik", "--type=json", "-p", `[{"op":"add","path":`+
		`"/spec/template/spec/containers/0/args/-","value":"--providers.kubernetesingressnginx"}]`)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testbed.CommandTimeout())
		defer cancel()
		_, undoErr := s.Run(ctx, "kubectl", "-n", "traefik", "rollout", "undo", "deployment/traefik")
		_, deleteErr := s.Run(ctx, "kubectl", "delete", "-f", "nginx.yaml")
		if err := errors.Join(undoErr, deleteErr); err != nil {
			t.Error(err)
		}
	})
	traefik.Do(t, "rollout", "status", "deployment/traefik")
}

// install creates a namespace with two proxies and applications.
func (s *suite) install(t *testing.T, k testbed.Kubectl, file string) {
	t.Helper()
	k.CreateNamespace(t, k.Namespace)
	k.ExplainFailure(t,
		[]string{"get", "ingress,scaledobject,httpso,rollout", "-o", "yaml"},
		[]string{"get", "pods,services,endpointslices,events"},
		[]string{"logs", "deployment/kedify-proxy", "--all-pods", "--tail=60"},
		[]string{"logs", "-n", "keda", "deployment/kedify-http-agent", "--all-pods", "--tail=60"},
		[]string{"logs", "-n", "traefik", "deployment/traefik", "--tail=40"},
	)
	k.Do(t, "annotate", "namespace", k.Namespace, "http.kedify.io/proxy-replicas=2")
	k.Do(t, "apply", "-f", testbed.LimitRangeFile(s.repo))
	k.Do(t, "apply", "-f", file)
}

// awaitReady waits until the Pods of an application are ready and its proxies have its routes.
func (a app) awaitReady(t *testing.T) {
	t.Helper()
	if a.isRollout {
		a.Do(t, "wait", "rollout/"+a.name, "--for=jsonpath={.status.phase}=Healthy")
	} else {
		a.Do(t, "rollout", "status", "deployment/"+a.name)
	}
	a.Do(t, "wait", "scaledobject/"+a.name, "--for=condition=Ready")
	a.Do(t, "wait", "httpso/"+a.name, "--for=create")
	a.Do(t, "wait", "httpso/"+a.name, "--for=condition=Programmed")
	a.Do(t, "rollout", "status", "deployment/kedify-proxy")
}

// awaitAnswers waits until every client receives answers.
func (s *suite) awaitAnswers(t *testing.T) {
	t.Helper()
	for name, ask := range map[string]func() error{
		webHost: func() error { _, err := load.Probe(t.Context(), s.loadOf(webHost, 1)); return err },
		stickyHost: func() error {
			_, err := load.Probe(t.Context(), s.loadOf(stickyHost, 1))
			return err
		},
		"the proxies": func() error { return place{address: s.proxies, host: webHost}.offerTLS(t.Context()) },
		greeterHost:   func() error { return s.greeter.call(t.Context()) },
		namedHost:     func() error { return s.named.call(t.Context()) },
		responderHost: func() error { return s.responder.call(t.Context()) },
		awakeHost: func() error {
			return place{address: s.ingress, host: awakeHost}.shortWebSocket(t.Context())
		},
	} {
		var last error
		await.Described(t, "an answer of "+name, func() bool {
			last = ask()
			return last == nil
		}, func() string { return fmt.Sprint(last) })
	}
}

// loadOf returns the configuration of requests through the Ingress controller. All requests of one timeout fit in
// flight: otherwise this client would fail first when the machine stalls.
func (s *suite) loadOf(host string, perSecond int) load.Config {
	return load.Config{
		Address: s.ingress, Host: host, Path: "/color", Rate: float64(perSecond), Timeout: await.Patience(),
		MaxInFlight: perSecond * int(await.Patience().Seconds()),
	}
}

// setAutowire sets the trigger's key trafficAutowire.
func (a app) setAutowire(t *testing.T, value string) {
	t.Helper()
	a.Do(t, "patch", "scaledobject/"+a.name, "--type=json", "-p",
		`[{"op":"replace","path":"/spec/triggers/0/metadata/trafficAutowire","value":"`+value+`"}]`)
}

// awaitBackend waits until the Ingress points at a Service.
func (a app) awaitBackend(t *testing.T, service string) {
	t.Helper()
	a.Do(t, "wait", "ingress/"+a.name,
		"--for=jsonpath={.spec.rules[0].http.paths[0].backend.service.name}="+service)
}

// wire points every Ingress at the proxies. The agent takes over the protocol of greeter, whose Service has it in an
// annotation for the Ingress controller only, and the session affinity of sticky.
func (s *suite) wire(t *testing.T) {
	t.Helper()
	for _, a := range s.apps() {
		a.setAutowire(t, "ingress")
	}
	for _, a := range s.apps() {
		a.awaitBackend(t, "kedify-proxy")
	}
	for _, a := range s.apps() {
		t.Logf("%s: settings %q", a.name, a.Do(t, "get", "httpso/"+a.name, "-o",
			`jsonpath={.metadata.annotations.http\.kedify\.io/autowire-settings}`))
	}
}

// unwire points every Ingress at its application again.
func (s *suite) unwire(t *testing.T) {
	t.Helper()
	for _, a := range s.apps() {
		a.setAutowire(t, "false")
	}
	for _, a := range s.apps() {
		a.awaitBackend(t, a.backend)
	}
}

// setImage sets the version of a Rollout.
func (a app) setImage(t *testing.T, color string) {
	t.Helper()
	a.Do(t, "patch", "rollout/"+a.name, "--type=json", "-p",
		`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"argoproj/rollouts-demo:`+color+`"}]`)
}

// startCanaries starts a canary of each Rollout, and waits until it has its share of the requests.
func (s *suite) startCanaries(t *testing.T) {
	t.Helper()
	for _, a := range s.rollouts() {
		a.setImage(t, "yellow")
	}
	for _, a := range s.rollouts() {
		a.awaitPause(t, 1)
	}
}

// awaitPause waits until a Rollout pauses at a step, counted from 0. The steps before it have been verified.
func (a app) awaitPause(t *testing.T, step int) {
	t.Helper()
	a.await(t, fmt.Sprintf("paused at step %d", step), func(r kube.Rollout) bool {
		return r.Paused() && r.Status.CurrentStepIndex != nil && *r.Status.CurrentStepIndex == step
	})
}

// canaryPlace returns a user of a host whose requests the canary answers.
func (s *suite) canaryPlace(t *testing.T, host string) place {
	t.Helper()
	p, err := place{address: s.ingress, host: host}.canaryUser(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// abort ends the canaries, except that of socket, which ends with the test.
func (s *suite) abort(t *testing.T) {
	t.Helper()
	for _, a := range s.rollouts() {
		if a.name != s.socket().name {
			a.Argo(t, "abort", a.name)
			a.setImage(t, "blue")
		}
	}
	for _, a := range s.rollouts() {
		if a.name != s.socket().name {
			a.await(t, "healthy", kube.Rollout.Healthy)
		}
	}
}

// await waits for a state of a Rollout.
func (a app) await(t *testing.T, what string, isReached func(kube.Rollout) bool) {
	t.Helper()
	var seen kube.Rollout
	await.Described(t, a.name+" to be "+what, func() bool {
		seen = a.rollout(t)
		return isReached(seen)
	}, func() string { return fmt.Sprint(seen) })
}

// rollout returns the present Rollout.
func (a app) rollout(t *testing.T) (seen kube.Rollout) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.Do(t, "get", "rollout", a.name, "-o", "json")), &seen); err != nil {
		t.Fatal(err)
	}
	return seen
}
