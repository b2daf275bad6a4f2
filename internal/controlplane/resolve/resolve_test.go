package resolve_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// compareAddresses makes go-cmp compare the standard library's addresses.
var compareAddresses = cmpopts.EquateComparable(netip.AddrPort{})

// The golden scenarios of package translate show the effect of each rule. The tests here check properties of all
// Inputs.

func TestResultIsIndependentOfInputOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		inputs := randomInputs(random)
		config, problems := resolve.Build(inputs)
		shuffle(random, inputs.ScaledObjects)
		shuffle(random, inputs.Services)
		shuffle(random, inputs.EndpointSlices)
		for _, slice := range inputs.EndpointSlices {
			shuffle(random, slice.Endpoints)
		}
		again, sameProblems := resolve.Build(inputs)
		if diff := cmp.Diff(config, again, compareAddresses); diff != "" {
			t.Fatalf("seed %d: another Config:\n%s", seed, diff)
		}
		if diff := cmp.Diff(problems, sameProblems); diff != "" {
			t.Fatalf("seed %d: other Problems:\n%s", seed, diff)
		}
	}
}

func TestInputsAreNotModified(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		inputs := randomInputs(rand.New(rand.NewPCG(seed, 2)))
		same := randomInputs(rand.New(rand.NewPCG(seed, 2)))
		inputs.Published, _ = resolve.Build(same)
		same.Published, _ = resolve.Build(same)
		resolve.Build(inputs)
		if diff := cmp.Diff(same, inputs, compareAddresses); diff != "" {
			t.Fatalf("seed %d: the input was changed:\n%s", seed, diff)
		}
	}
}

// TestPublishedConfigIsStable resolves random Inputs on top of another published Config, and then repeatedly on top
// of the result, which must become stable.
func TestPublishedConfigIsStable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 3))
		before, inputs := randomInputs(random), randomInputs(random)
		inputs.Published, _ = resolve.Build(before)
		moves := 0
		for ; moves < 4; moves++ {
			config, _ := resolve.Build(inputs)
			checkInvariants(t, config)
			if cmp.Equal(inputs.Published, config, compareAddresses) {
				break
			}
			inputs.Published = config
		}
		if moves == 4 {
			t.Errorf("seed %d: the same Inputs never give a stable Config", seed)
		}
	}
}

// TestValidationErrorAffectsOneObject invalidates one object in every way and checks the routes of another one.
func TestValidationErrorAffectsOneObject(t *testing.T) {
	t.Parallel()
	valid := kit.NewScaledObject("apps", "good", "good", 1, "good.example.com")
	poison := kit.NewScaledObject("apps", "poison", "poison", 2, "poison.example.com")
	for name, spoil := range map[string]func(*httpv1alpha1.HTTPScaledObject){
		"no hosts in the shared fleet": func(o *httpv1alpha1.HTTPScaledObject) {
			o.Spec.Hosts, o.Annotations = nil, map[string]string{httpv1alpha1.AnnotationFleet: httpv1alpha1.FleetShared}
		},
		"bad host": func(o *httpv1alpha1.HTTPScaledObject) {
			o.Spec.Hosts = []string{"\x00", "*.*", strings.Repeat("x", 10_000)}
		},
		"too many hosts":    func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.Hosts = many(10_000, "h%d.example.com") },
		"bad prefix":        func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.PathPrefixes = []string{"?"} },
		"too many prefixes": func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.PathPrefixes = many(257, "/%d") },
		"too many routes": func(o *httpv1alpha1.HTTPScaledObject) {
			o.Spec.Hosts, o.Spec.PathPrefixes = many(100, "h%d.example.com"), many(100, "/%d")
		},
		"bad header": func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.Headers = []httpv1alpha1.Header{{Name: ":path"}} },
		"repeated header": func(o *httpv1alpha1.HTTPScaledObject) {
			o.Spec.Headers = []httpv1alpha1.Header{{Name: "a"}, {Name: "A"}}
		},
		"too many headers":         func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.Headers = make([]httpv1alpha1.Header, 17) },
		"no service":               func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.ScaleTargetRef.Service = "" },
		"port and portName":        func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.ScaleTargetRef.PortName = "http" },
		"no port":                  func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.ScaleTargetRef.Port = 0 },
		"negative port":            func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.ScaleTargetRef.Port = -1 },
		"host of the valid object": func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.Hosts = valid.Spec.Hosts },
		"empty annotation":         annotate(""),
		"huge annotation":          annotate("- {service: a, weight: 1}\n" + strings.Repeat("#", 1<<20)),
		"aliased annotation":       annotate("- &a {service: a, weight: 1}\n- *a"),
		"missing services":         annotate("[{service: a, weight: 1}, {service: b, weight: 1}]"),
	} {
		spoiled := poison.DeepCopy()
		spoil(spoiled)
		config, problems := resolve.Build(resolve.Inputs{
			ScaledObjects:  []*httpv1alpha1.HTTPScaledObject{spoiled, valid},
			Services:       kit.ResolveServices(kit.NewService("apps", "good"), kit.NewService("apps", "poison")),
			EndpointSlices: kit.ResolveEndpointSlices(kit.NewEndpointSlice("apps", "good", "10.0.0.1")),
		})
		checkInvariants(t, config)
		if len(problems) == 0 {
			t.Errorf("%s: there is no Problem", name)
		}
		for _, problem := range problems {
			if problem.On.Name != "poison" || problem.Reason == "" || len(problem.Message) > 1000 {
				t.Errorf("%s: unexpected Problem: %+v", name, problem)
			}
		}
		served := slices.ContainsFunc(config.Routes, func(route model.Route) bool {
			return route.Owner.Name == "good" && route.Match.Host == "good.example.com" &&
				len(config.Services[route.Backends[0].ServicePort()].Ready) == 1
		})
		if !served {
			t.Errorf("%s: the other object is no longer served: %+v", name, config)
		}
	}
}

// TestLastGoodRoute invalidates a served object and checks its backends.
func TestLastGoodRoute(t *testing.T) {
	t.Parallel()
	bare := kit.NewScaledObject("apps", "shop", "stable", 1, "shop.example.com")
	shared := kit.WithSplit(bare, split.Backend{Service: "stable", Weight: 80},
		split.Backend{Service: "canary", Weight: 20})
	unreadable := func(o *httpv1alpha1.HTTPScaledObject) {
		o.Spec = httpv1alpha1.HTTPScaledObjectSpec{Unreadable: `timeouts: time: invalid duration "soon"`}
	}
	wrongPort := func(o *httpv1alpha1.HTTPScaledObject) {
		o.Spec.ScaleTargetRef.Port, o.Spec.ScaleTargetRef.PortName = 0, "htpp"
	}
	for name, test := range map[string]struct {
		before *httpv1alpha1.HTTPScaledObject // nil for a new object
		spoil  func(*httpv1alpha1.HTTPScaledObject)
		want   map[string]uint32 // weights by Service and port; nil if no request is routed to the object
	}{
		"a bare route with a wrong port": {bare, wrongPort, map[string]uint32{"apps/stable:80": 100}},
		"a bare route to a missing Service": {
			bare,
			func(o *httpv1alpha1.HTTPScaledObject) { o.Spec.ScaleTargetRef.Service = "stabel" },
			map[string]uint32{"apps/stable:80": 100},
		},
		"a split with a wrong port": {
			shared, wrongPort,
			map[string]uint32{"apps/stable:80": 80, "apps/canary:80": 20},
		},
		"a split that ends with a wrong port": {
			shared,
			func(o *httpv1alpha1.HTTPScaledObject) { wrongPort(o); o.Annotations = nil },
			map[string]uint32{"apps/stable:0": 100},
		},
		"an unreadable spec": {
			shared, unreadable,
			map[string]uint32{"apps/stable:80": 80, "apps/canary:80": 20},
		},
		"a new object with an unreadable spec": {nil, unreadable, nil},
		"a new object with a wrong port":       {nil, wrongPort, map[string]uint32{"apps/stable:0": 100}},
	} {
		inputs := resolve.Inputs{Services: kit.ResolveServices(kit.NewService("apps", "stable"), kit.NewService("apps", "canary"))}
		spoiled := bare.DeepCopy()
		if test.before != nil {
			inputs.ScaledObjects = []*httpv1alpha1.HTTPScaledObject{test.before}
			inputs.Published, _ = resolve.Build(inputs)
			spoiled = test.before.DeepCopy()
		}
		test.spoil(spoiled)
		inputs.ScaledObjects = []*httpv1alpha1.HTTPScaledObject{spoiled}
		config, problems := resolve.Build(inputs)
		var got map[string]uint32
		for _, route := range config.Routes {
			got = map[string]uint32{}
			for _, backend := range route.Backends {
				got[fmt.Sprintf("%s:%d", backend.Service, backend.Port)] = backend.Weight
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" || len(problems) == 0 {
			t.Errorf("%s: problems %v, backends (-want +got):\n%s", name, problems, diff)
		}
	}
}

// TestProtocol checks the protocols of appProtocol and of the port's name.
func TestProtocol(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		appProtocol, name string
		want              model.Protocol
	}{
		// KEP-3726
		{"kubernetes.io/h2c", "", model.HTTP2},
		{"kubernetes.io/ws", "", model.HTTP1},
		{"kubernetes.io/wss", "", model.HTTPS},
		{"Kubernetes.IO/H2C", "", model.HTTP2},
		{"kubernetes.io/WSS", "", model.HTTPS},
		// Contour, Envoy Gateway
		{"projectcontour.io/h2c", "", model.HTTP2},
		{"projectcontour.io/tls", "", model.HTTPS},
		{"projectcontour.io/h2", "", model.HTTPS},
		{"gateway.envoyproxy.io/h2c", "", model.HTTP2},
		{"gateway.envoyproxy.io/ws", "", model.HTTP1},
		{"gateway.envoyproxy.io/wss", "", model.HTTPS},
		// common names
		{"http", "", model.HTTP1},
		{"HTTP", "", model.HTTP1},
		{"http2", "", model.HTTP2},
		{"h2c", "", model.HTTP2},
		{"grpc", "", model.HTTP2},
		{"GRPC", "", model.HTTP2},
		{"grpc-v1", "", model.HTTP2},
		{"grpc-web", "", model.HTTP1},
		{"grpc-Web-v1", "", model.HTTP1},
		{"grpc-website", "", model.HTTP2},
		{"https", "", model.HTTPS},
		{"HTTPS", "", model.HTTPS},
		{"tls", "", model.HTTPS},
		{"h2", "", model.HTTPS},
		{"grpcs", "", model.HTTPS},
		{"ws", "", model.HTTP1},
		{"wss", "", model.HTTPS},
		{"tcp", "", model.HTTP1},
		{"unknown", "", model.HTTP1},
		{"mongo", "", model.HTTP1},
		{"example.com/grpc", "", model.HTTP1},
		{"mycompany.com/foo", "", model.HTTP1},
		{"mycompany.com/h2c", "", model.HTTP1},
		{"mycompany.com/https", "", model.HTTP1},
		{"kubernetes.io/grpc", "", model.HTTP1},
		{"grpc-example.com/x", "", model.HTTP1},
		// names of ports
		{"", "", model.HTTP1},
		{"", "web", model.HTTP1},
		{"", "http", model.HTTP1},
		{"", "http-web", model.HTTP1},
		{"", "http2", model.HTTP2},
		{"", "http2-api", model.HTTP2},
		{"", "h2c", model.HTTP2},
		{"", "h2c-api", model.HTTP2},
		{"", "grpc", model.HTTP2},
		{"", "GRPC", model.HTTP2},
		{"", "grpc-api", model.HTTP2},
		{"", "http2-x", model.HTTP2},
		{"", "HTTP2", model.HTTP2},
		{"", "grpc-web", model.HTTP1},
		{"", "grpc-web-x", model.HTTP1},
		{"", "grpc-webhook", model.HTTP2},
		{"", "tcp-grpc", model.HTTP1},
		{"", "h2", model.HTTP1},
		{"", "ws", model.HTTP1},
		{"", "grpcapi", model.HTTP1},
		{"", "mygrpc", model.HTTP1},
		{"", "https", model.HTTPS},
		{"", "https-admin", model.HTTPS},
		{"", "httpsadmin", model.HTTP1},
		{"", "tls", model.HTTPS},
		{"", "wss", model.HTTP1},
		// appProtocol has precedence.
		{"http", "grpc", model.HTTP1},
		{"unknown", "grpc", model.HTTP1},
		{"mycompany.com/foo", "grpc", model.HTTP1},
		{"mycompany.com/foo", "https", model.HTTP1},
		{"kubernetes.io/ws", "http2", model.HTTP1},
		{"kubernetes.io/wss", "grpc", model.HTTPS},
		{"kubernetes.io/h2c", "grpc-web", model.HTTP2},
		{"grpc", "https", model.HTTP2},
	} {
		service := kit.NewService("apps", "shop")
		port := &service.Spec.Ports[0]
		if port.Name = c.name; c.appProtocol != "" {
			port.AppProtocol = &c.appProtocol
		}
		object := kit.NewScaledObject("apps", "shop", "shop", 1, "shop.test")
		config, _ := resolve.Build(resolve.Inputs{
			ScaledObjects: []*httpv1alpha1.HTTPScaledObject{object}, Services: kit.ResolveServices(service),
		})
		if got := config.Routes[0].Backends[0].Protocol; got != c.want {
			t.Errorf("appProtocol %q, name %q: got %s, want %s", c.appProtocol, c.name, got, c.want)
		}
	}
}

// TestPorts checks the selection of the Service's TCP port by number or name.
func TestPorts(t *testing.T) {
	t.Parallel()
	service := kit.NewService("apps", "shop")
	service.Spec.Ports = []corev1.ServicePort{
		{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP},
		{Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP},
		{Name: "web", Port: 80},
	}
	for name, c := range map[string]struct {
		target httpv1alpha1.ScaleTargetRef
		want   uint32 // 0 for a Problem
	}{
		"by number":         {httpv1alpha1.ScaleTargetRef{Port: 80}, 80},
		"by name":           {httpv1alpha1.ScaleTargetRef{PortName: "web"}, 80},
		"next to UDP":       {httpv1alpha1.ScaleTargetRef{Port: 53}, 53},
		"UDP by name":       {httpv1alpha1.ScaleTargetRef{PortName: "dns"}, 0},
		"other number":      {httpv1alpha1.ScaleTargetRef{Port: 8080}, 0},
		"other name":        {httpv1alpha1.ScaleTargetRef{PortName: "http"}, 0},
		"neither":           {httpv1alpha1.ScaleTargetRef{}, 0},
		"both":              {httpv1alpha1.ScaleTargetRef{Port: 80, PortName: "web"}, 0},
		"outside the range": {httpv1alpha1.ScaleTargetRef{Port: 65536 + 80}, 0},
	} {
		object := kit.NewScaledObject("apps", "shop", "shop", 1, "shop.example.com")
		object.Spec.ScaleTargetRef = c.target
		object.Spec.ScaleTargetRef.Service = "shop"
		config, problems := resolve.Build(resolve.Inputs{
			ScaledObjects: []*httpv1alpha1.HTTPScaledObject{object}, Services: kit.ResolveServices(service),
		})
		if got := config.Routes[0].Backends[0].Port; got != c.want || (len(problems) == 0) != (c.want != 0) {
			t.Errorf("%s: got port %d and %v, want %d", name, got, problems, c.want)
		}
		if c.want == 0 && problems[0].Reason != httpv1alpha1.ReasonPortNotFound {
			t.Errorf("%s: got reason %s", name, problems[0].Reason)
		}
	}
}

// TestTimeouts: a timeout that is missing or negative is the default, and 0 is no limit.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	of := func(duration time.Duration) *metav1.Duration { return &metav1.Duration{Duration: duration} }
	for name, c := range map[string]struct {
		timeouts *httpv1alpha1.Timeouts
		want     model.Timeouts
	}{
		"absent":   {nil, model.Timeouts{}},
		"empty":    {&httpv1alpha1.Timeouts{}, model.Timeouts{}},
		"response": {&httpv1alpha1.Timeouts{ResponseHeader: of(time.Minute)}, model.Timeouts{ResponseHeader: model.TimeoutOf(time.Minute)}},
		"wait":     {&httpv1alpha1.Timeouts{ConditionWait: of(time.Minute)}, model.Timeouts{ColdStart: model.TimeoutOf(time.Minute)}},
		"negative": {&httpv1alpha1.Timeouts{ResponseHeader: of(-1), ConditionWait: of(-1)}, model.Timeouts{}},
		"very negative": {
			&httpv1alpha1.Timeouts{ResponseHeader: of(math.MinInt64), ConditionWait: of(math.MinInt64)}, model.Timeouts{},
		},
		"centuries": {
			&httpv1alpha1.Timeouts{ResponseHeader: of(math.MaxInt64), ConditionWait: of(math.MaxInt64)},
			model.Timeouts{ResponseHeader: model.TimeoutOf(math.MaxInt64), ColdStart: model.TimeoutOf(math.MaxInt64)},
		},
		"a nanosecond, and none": {
			&httpv1alpha1.Timeouts{ResponseHeader: of(1), ConditionWait: of(0)},
			model.Timeouts{ResponseHeader: model.TimeoutOf(1), ColdStart: model.TimeoutOf(0)},
		},
		"none": {
			&httpv1alpha1.Timeouts{ResponseHeader: of(0), ConditionWait: of(0)},
			model.Timeouts{ResponseHeader: model.TimeoutOf(0), ColdStart: model.TimeoutOf(0)},
		},
	} {
		object := kit.NewScaledObject("apps", "shop", "shop", 1, "shop.example.com")
		object.Spec.Timeouts = c.timeouts
		config, _ := resolve.Build(resolve.Inputs{ScaledObjects: []*httpv1alpha1.HTTPScaledObject{object}})
		if got := config.Routes[0].Timeouts; got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// TestAnnotatedTimeouts: an invalid timeout leaves the published one active, if any, and the others as they are.
func TestAnnotatedTimeouts(t *testing.T) {
	t.Parallel()
	const request, idle = httpv1alpha1.AnnotationRequestTimeout, httpv1alpha1.AnnotationIdleTimeout
	const message = " is not a duration of at least 0s: write one such as 30s or 10m, 0s for no limit, or remove the annotation"
	minute := model.TimeoutOf(time.Minute)
	for name, c := range map[string]struct {
		request, idle, wrong string
		want, published      model.Timeouts
	}{
		"neither":     {},
		"empty":       {request: " ", idle: ""},
		"both":        {request: "60s", idle: " 1m ", want: model.Timeouts{Request: minute, Idle: minute}},
		"no limit":    {request: "0", idle: "0s", want: model.Timeouts{Request: model.TimeoutOf(0), Idle: model.TimeoutOf(0)}},
		"minus zero":  {request: "-0s", want: model.Timeouts{Request: model.TimeoutOf(0)}},
		"one invalid": {request: "60", idle: "1m", want: model.Timeouts{Idle: minute}, wrong: `annotation ` + request + `: "60"` + message},
		"negative":    {idle: "-1s", wrong: `annotation ` + idle + `: "-1s"` + message},
		"published": {
			request: "1m", idle: "soon", published: model.Timeouts{Request: model.TimeoutOf(1), Idle: model.TimeoutOf(2)},
			want: model.Timeouts{Request: minute, Idle: model.TimeoutOf(2)}, wrong: `annotation ` + idle + `: "soon"` + message,
		},
		"too long": {request: "9999999999h", wrong: `annotation ` + request + `: "9999999999h"` + message},
	} {
		object := kit.NewScaledObject("apps", "shop", "shop", 1, "shop.example.com")
		object = kit.WithAnnotation(kit.WithAnnotation(object, request, c.request), idle, c.idle)
		inputs := resolve.Inputs{ScaledObjects: []*httpv1alpha1.HTTPScaledObject{object}}
		inputs.Published, _ = resolve.Build(inputs)
		inputs.Published.Routes[0].Timeouts = c.published
		if c.published == (model.Timeouts{}) {
			inputs.Published = model.Config{}
		}
		config, problems := resolve.Build(inputs)
		if got := config.Routes[0].Timeouts; got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
		wrong := ""
		for _, problem := range problems {
			if problem.Reason == httpv1alpha1.ReasonInvalidTimeout {
				wrong = problem.Message
			}
		}
		if wrong != c.wrong {
			t.Errorf("%s: got problem %q, want %q", name, wrong, c.wrong)
		}
	}
}

// TestHealthPath: health checks that the proxy answers are those of a path with a static answer.
func TestHealthPath(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, response, want string }{
		"neither":     {},
		"static":      {"/healthz", httpv1alpha1.HealthcheckStatic, "/healthz"},
		"passthrough": {"/healthz", "passthrough", ""},
		"no response": {"/healthz", "", ""},
		"no path":     {"", httpv1alpha1.HealthcheckStatic, ""},
		"relative":    {"healthz", httpv1alpha1.HealthcheckStatic, ""},
		"with query":  {"/healthz?deep=1", httpv1alpha1.HealthcheckStatic, ""},
		"with slash":  {"/healthz/", httpv1alpha1.HealthcheckStatic, "/healthz/"},
	} {
		object := kit.WithAnnotation(kit.NewScaledObject("apps", "shop", "shop", 1, "shop.example.com"),
			httpv1alpha1.AnnotationHealthcheckPath, c.path)
		object = kit.WithAnnotation(object, httpv1alpha1.AnnotationHealthcheckResponse, c.response)
		config, _ := resolve.Build(resolve.Inputs{ScaledObjects: []*httpv1alpha1.HTTPScaledObject{object}})
		if got := config.Routes[0].HealthPath; got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestExperimentServicePort has Services that map 80 to 8080, and one of an experiment as the controller of Argo
// Rollouts creates it: with the number of the container's port.
func TestExperimentServicePort(t *testing.T) {
	t.Parallel()
	service := func(name string, ports ...corev1.ServicePort) *corev1.Service {
		made := kit.NewService("apps", name)
		made.Spec.Ports = ports
		return made
	}
	outer := corev1.ServicePort{Port: 80, TargetPort: intstr.FromInt32(8080)}
	for name, c := range map[string]struct {
		canary, experiment []corev1.ServicePort
		want               []uint32 // of stable, canary and the experiment; nil if rejected
	}{
		"container port": {
			[]corev1.ServicePort{outer},
			[]corev1.ServicePort{{Port: 9090}, {Port: 8080}},
			[]uint32{80, 80, 8080},
		},
		"same number": {
			[]corev1.ServicePort{outer},
			[]corev1.ServicePort{{Port: 8080}, {Port: 80}},
			[]uint32{80, 80, 80},
		},
		"no matching port": {[]corev1.ServicePort{outer}, []corev1.ServicePort{{Port: 1}, {Port: 2}}, nil},
		"only UDP": {
			[]corev1.ServicePort{outer},
			[]corev1.ServicePort{{Port: 8080, Protocol: corev1.ProtocolUDP}},
			nil,
		},
		// The user creates the canary Service, so it has the port that the object names.
		"a canary without the port": {[]corev1.ServicePort{{Port: 8080}}, []corev1.ServicePort{{Port: 8080}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := kit.WithAnnotation(kit.NewScaledObject("apps", "shop", "shop", 1, "shop.test"),
				httpv1alpha1.AnnotationWeightedBackends,
				"[{service: shop, weight: 70}, {service: canary, weight: 20}, {service: try, weight: 10}]")
			object.Spec.ScaleTargetRef.Port, object.Spec.ScaleTargetRef.PortName = 80, ""
			config, problems := resolve.Build(resolve.Inputs{
				ScaledObjects: []*httpv1alpha1.HTTPScaledObject{object},
				Services: kit.ResolveServices(service("shop", outer), service("canary", c.canary...),
					service("try", c.experiment...)),
			})
			var got []uint32
			for _, backend := range config.Routes[0].Backends {
				got = append(got, backend.Port)
			}
			if c.want == nil {
				got = got[1:] // only its own Service
			}
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" || (len(problems) > 0) != (c.want == nil) {
				t.Errorf("%v; ports (-want +got):\n%s", problems, diff)
			}
		})
	}
}
