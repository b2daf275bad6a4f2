// Package samples lists the public samples of github.com/kedify/examples that concern HTTP scaling, and what this
// project does with each. The manifests in testdata are our own: they have the fields and values of the samples that
// this project reads. Package test/agent applies them, and docs/reference/kedify-samples.md shows the same rows.
package samples

// Sample is one sample, or one of the alternatives in it.
type Sample struct {
	// Name is the folder or file in kedify/examples.
	Name string
	// File is the file in testdata, "" if there is nothing to apply.
	File string
	// Happens is what this project does with it, and Refused what it does not do and why, "" for nothing. Both are
	// Markdown.
	Happens, Refused string
	// Objects are the HTTPScaledObjects that exist afterwards.
	Objects []Object
	// Backends are the backends of routing objects while the proxies are ready and serve all Objects: the path of each
	// below its namespace, and its backends in their order.
	Backends map[string]string
}

// Object is an HTTPScaledObject.
type Object struct {
	// Name is its name, and ScaledObject that of the ScaledObject with its trigger, "" if the agent did not make it.
	Name, ScaledObject string
	// Spec is the part of its spec that selects requests and their destination, as YAML.
	Spec string
	// Annotations are some of its annotations.
	Annotations map[string]string
	// Problems are the Warnings about its trigger, in the order of condition TriggerAccepted, without the field of the
	// trigger's metadata in front. All have reason KeyIgnored.
	Problems []string
	// Wiring is the reason of condition Autowired while the proxies are ready and serve the object, "" if the row does
	// not describe it.
	Wiring string
	// IsPartial reports whether the message of that condition reports that some requests of the backends get 404.
	IsPartial bool
}

// wired is the reason of an object whose backends point at the proxies.
const wired = "Wired"

// selected is the part of a row about Services without a selector.
const selected = ". The agent gives the Service [the selector of the fallback Service](../how-to/autowire-services.md#from-kedify), " +
	"and takes it over"

// All returns all samples, in the order of the repository.
func All() []Sample {
	return append(append(folders(), httpServers()...), courses()...)
}

// folders returns the samples that are folders of their own.
func folders() []Sample {
	return append([]Sample{
		{
			Name: "samples/agent-without-http-add-on",
			Happens: "nothing to apply: values of Kedify's chart. [The chart of this project](../how-to/install.md#with-helm) " +
				"contains the CRD. KEDA may come before or after the [agent](agent.md), which waits for it",
		},
		{
			Name: "samples/argo-rollouts-canary", File: "argo-rollouts-canary.yaml",
			Happens: "applied unchanged: the Rollout names the Service, the Ingress is wired, and `kedify/http` sets the weights. " +
				"The ClusterRole of the sample has the [permissions](kedify-http-router.md#permissions) for HTTPScaledObjects",
			Objects: []Object{{
				Name: "rollouts-demo", ScaledObject: "rollouts-demo", Wiring: wired,
				Spec: `{hosts: [demo.keda], pathPrefixes: [/], scaleTargetRef: {service: rollouts-demo-stable, port: 80}}`,
			}},
			Backends: map[string]string{ingress + "rollouts-demo": proxy},
		},
		{
			Name: "samples/chain-scaling", File: "chain-scaling.yaml",
			Happens: "an object for each of the four applications; the other trigger, `kubernetes-workload`, stays as it is. " +
				"`loadbalancing: eds` is what the proxies do" + selected,
			Objects: []Object{
				chained("frontend"), chained("backend-a"), chained("backend-b"), chained("backend-c"),
			},
		},
		{
			Name: "samples/envoy-http-scaler", File: "envoy-http-scaler.yaml",
			Happens: "the trigger is [converted](configuration.md#the-trigger-kedify-envoy-http): the requests that your Envoys " +
				"report are the demand. Nothing is routed or wired",
			Refused: "no Envoy may report until you add `externalProxySources`, the addresses of your Envoys. Otherwise any Pod " +
				"could scale the application",
			Objects: []Object{{
				Name: "http-server", ScaledObject: "http-server",
				Spec:        `{hosts: [external-proxy.invalid], scaleTargetRef: {service: http-server, port: 1}}`,
				Annotations: map[string]string{"http.kedify.io/routing": "none", "http.kedify.io/external-proxy-metric-key": "test"},
				Problems: []string{
					"externalProxySources: missing, so no Envoy may report requests, and the application keeps its replicas: set it " +
						"to the addresses or CIDRs of your Envoys, such as 10.0.0.0/8",
				},
			}},
			Backends: map[string]string{ingress + "envoy": "envoy:8080"},
		},
		{
			Name: "samples/grpc-responder", File: "grpc-responder.yaml",
			Happens: "applied unchanged. `backend-protocol: GRPC` of the Ingress is [taken over](autowire.md#http2-and-grpc)",
			Objects: []Object{{
				Name: "grpc-responder", ScaledObject: "grpc-responder", Wiring: wired,
				Spec: `{hosts: [grpc.keda], pathPrefixes: [/], scaleTargetRef: {service: grpc-responder, port: 50051}}`,
			}},
		},
		{
			Name: "samples/grpc-responder/config/so-tls.yaml", File: "grpc-responder-tls.yaml",
			Happens: "an object with the certificate: [TLS](../how-to/tls.md)",
			Objects: []Object{{
				Name: "grpc-responder", ScaledObject: "grpc-responder",
				Spec:        `{hosts: [grpc.keda], pathPrefixes: [/], scaleTargetRef: {service: grpc-responder, port: 50051}}`,
				Annotations: map[string]string{"http.kedify.io/tls-secret-name": "grpc-responder"}, //nolint:gosec // the name of a Secret
			}},
		},
		{
			Name: "samples/http-add-on_with_istio", File: "http-add-on-with-istio.yaml",
			Happens: "the HTTPScaledObject is served. Its VirtualService stays as it is",
			Refused: "the VirtualService sends requests to `keda-add-ons-http-interceptor-proxy`, which routes none here: use " +
				"Service `kedify-proxy` of the namespace instead, or a ScaledObject with a `kedify-http` trigger, whose " +
				"[VirtualService is wired](autowire.md). `replicas.max` and `scaledownPeriod` are those of the ScaledObject",
			Objects: []Object{{
				Name: "podinfo",
				Spec: `{hosts: [www.podinfo.com], scaleTargetRef: {service: podinfo, port: 9898}}`,
			}},
			Backends: map[string]string{
				"networking.istio.io/v1/virtualservices/podinfo": "keda-add-ons-http-interceptor-proxy.keda.svc.cluster.local:8080",
			},
		},
		{
			Name: "samples/http-scaler-healthchecks-with-paths", File: "http-scaler-healthchecks-with-paths.yaml",
			Happens: "an object, and the Ingress is wired. The proxies answer the load balancer's health checks themselves",
			Refused: "`healthcheckPathPrefix` and `pathEmbeddedHost` are ignored: " +
				"[a host in the path](#a-host-in-the-path-of-health-checks)",
			Objects: []Object{{
				Name: "http-server", ScaledObject: "http-server", Wiring: wired, Spec: demo,
				Problems: []string{
					`healthcheckResponse "pathEmbeddedHost": ` + notEmbedded,
					`healthcheckPathPrefix "/kedify-proxy/demo.keda": ` + notEmbedded,
				},
			}},
			Backends: map[string]string{ingress + "http-server": proxy},
		},
	}, append(multipleTriggers(), append(gloo(), headerRouting()...)...)...)
}

const (
	// ingress and httpRoute are the beginnings of paths, and proxy the backend of a wired object.
	ingress, httpRoute = "networking.k8s.io/v1/ingresses/", "gateway.networking.k8s.io/v1/httproutes/"
	proxy              = "kedify-proxy:8080"
	// demo is the spec of an object for all requests of the host of most samples.
	demo = `{hosts: [demo.keda], pathPrefixes: [/], scaleTargetRef: {service: http-server, port: 8080}}`
	// notEmbedded is the message about health checks with a host in their path.
	notEmbedded = "not supported: the proxies answer the health checks of load balancers for every Host that no object " +
		"has, such as an IP address, with any path and with 200; remove it; ignored"
)

// chained returns the object of an application of chain-scaling.
func chained(name string) Object {
	return Object{
		Name: name, ScaledObject: name, Wiring: wired,
		Spec: `{hosts: [` + name + `], scaleTargetRef: {service: ` + name + `, port: 8080}}`,
		Annotations: map[string]string{
			"http.kedify.io/traffic-autowire": "service", "http.kedify.io/fallback-service": name + "-fallback",
		},
	}
}

// multipleTriggers returns the alternatives of http-scaler-multiple-triggers.
func multipleTriggers() []Sample {
	const folder = "samples/http-scaler-multiple-triggers/"
	object := func(name, scaled, part string) Object {
		return Object{
			Name: name, ScaledObject: scaled, Wiring: wired,
			Spec: `{hosts: [demo.keda], ` + part + `, scaleTargetRef: {service: http-server, port: 8080}}`,
		}
	}
	alpha, beta := `headers: [{name: app, value: alpha}]`, `headers: [{name: app, value: beta}]`
	both := map[string]string{ingress + "http-server-echo": proxy, ingress + "http-server-info": proxy}
	const narrow = "requests without one of the headers get 404, as condition `Autowired` reports: add a trigger without headers, " +
		"as `http-scaler-with-header-routing` has one"
	headed := func(object Object) Object {
		object.IsPartial = true
		return object
	}
	return []Sample{
		{
			Name: folder + "so.yaml", File: "http-scaler-multiple-triggers-one.yaml",
			Happens:  "applied unchanged: an object, and the Ingress with its path is wired",
			Objects:  []Object{object("http-server-paths", "http-server-paths", `pathPrefixes: [/echo]`)},
			Backends: map[string]string{ingress + "http-server-echo": proxy, ingress + "http-server-info": "http-server:8080"},
		},
		{
			Name: folder + "so-paths.yaml", File: "http-scaler-multiple-triggers-paths.yaml",
			Happens: "applied unchanged: an object for each trigger, the second with the trigger's name as a suffix; both " +
				"Ingresses are wired",
			Objects: []Object{
				object("http-server-paths", "http-server-paths", `pathPrefixes: [/echo]`),
				object("http-server-paths-info", "http-server-paths", `pathPrefixes: [/info]`),
			},
			Backends: both,
		},
		{
			Name: folder + "so-headers.yaml", File: "http-scaler-multiple-triggers-headers.yaml",
			Happens: "an object for each trigger; both Ingresses are wired", Refused: narrow, Backends: both,
			Objects: []Object{
				headed(object("http-server-headers", "http-server-headers", alpha)),
				headed(object("http-server-headers-beta", "http-server-headers", beta)),
			},
		},
		{
			Name: folder + "so-paths-headers.yaml", File: "http-scaler-multiple-triggers-both.yaml",
			Happens: "an object for each trigger; both Ingresses are wired", Refused: narrow, Backends: both,
			Objects: []Object{
				headed(object("http-server-combined", "http-server-combined", `pathPrefixes: [/info], `+alpha)),
				headed(object("http-server-combined-beta", "http-server-combined", `pathPrefixes: [/echo], `+beta)),
			},
		},
	}
}

// gloo returns the alternatives of http-scaler-with-gloo.
func gloo() []Sample {
	const folder = "samples/http-scaler-with-gloo/manifests/"
	problem := []string{
		`trafficAutowire "gloo": "gloo": use a list of ingress, httproute, virtualservice, route, service, separated by ` +
			`commas, or false for none; false applies`,
	}
	const refused = "`trafficAutowire: gloo` is ignored: objects of Gloo are not wired. Name Service `kedify-proxy`, port 8080, " +
		"in the VirtualService, RouteTable or Upstream"
	object := func(name, host string) Object {
		return Object{
			Name: name, ScaledObject: name, Problems: problem,
			Spec:        `{hosts: [` + host + `], pathPrefixes: [/], scaleTargetRef: {service: ` + name + `, port: 8080}}`,
			Annotations: map[string]string{"http.kedify.io/traffic-autowire": "false"},
		}
	}
	waiting := object("http-server-waiting", "gloo-waiting.keda")
	waiting.Annotations["http.kedify.io/cold-start-waiting-page-enabled"] = "true"
	waiting.Annotations["http.kedify.io/cold-start-waiting-page-config-map-ref"] = "http-server-waiting-page"
	return []Sample{
		{
			Name: folder + "app.yaml", File: "http-scaler-with-gloo.yaml", Happens: "an object that the proxies serve",
			Refused: refused, Objects: []Object{object("http-server", "gloo-http.keda")},
		},
		{
			Name: folder + "waiting-page-demo.yaml", File: "http-scaler-with-gloo-waiting-page.yaml",
			Happens: "an object with a waiting page; the names of the ConfigMap's keys are [accepted](../how-to/scale-from-zero.md" +
				"#a-page-of-your-own)",
			Refused: refused + ". The ConfigMap needs the label `http.keda.sh/response-body: \"true\"`, or the page of the " +
				"interceptor is shown (`WaitingPageNotFound`)",
			Objects: []Object{waiting},
		},
	}
}

// headerRouting returns the alternatives of http-scaler-with-header-routing.
func headerRouting() []Sample {
	const folder = "samples/http-scaler-with-header-routing/"
	all := Object{Name: "http-server", ScaledObject: "http-server", Spec: demo, Wiring: wired}
	object := func(name, headers string) Object {
		return Object{
			Name: name, ScaledObject: name,
			Spec: `{hosts: [demo.keda], pathPrefixes: [/], headers: ` + headers + `, scaleTargetRef: {service: ` + name +
				`, port: 8080}}`,
		}
	}
	backends := map[string]string{ingress + "http-server": proxy}
	return []Sample{
		{
			Name: folder + "manifests.yaml", File: "http-scaler-with-header-routing.yaml", Backends: backends,
			Happens: "applied unchanged: three objects for one host, and the Ingress is wired",
			Objects: []Object{all, object("foo", `[{name: app, value: foo}]`), object("bar", `[{name: app, value: bar}]`)},
		},
		{
			Name: folder + "header-patterns.yaml", File: "http-scaler-with-header-routing-patterns.yaml", Backends: backends,
			Happens: "applied unchanged, [with the same meaning](configuration.md#conditions-on-headers)",
			Objects: []Object{
				all, object("foo", `[{name: User-Agent, valueWildcard: "Python*"}]`),
				object("bar", `[{name: User-Agent, valueRegex: 'Go/[0-9]+(\.[0-9]+)*'}, {name: X-Environment, value: Prod}]`),
			},
		},
	}
}

// httpServers returns the alternatives of http-server, and websocket-server.
func httpServers() []Sample {
	const folder = "samples/http-server/config/"
	internal := func(hosts, port string) Object {
		return Object{
			Name: "server-service", ScaledObject: "server-service", Wiring: wired,
			Spec: `{hosts: [` + hosts + `], scaleTargetRef: {service: server-service, ` + port + `}}`,
			Annotations: map[string]string{
				"http.kedify.io/traffic-autowire": "service", "http.kedify.io/fallback-service": "server-service-fallback",
			},
		}
	}
	named := internal("tls-demo.keda, server-service.default.svc.cluster.local", "port: 8443")
	named.Annotations["http.kedify.io/tls-secret-name"], named.Wiring = "http-server-tls", "NoCertificate"
	const ineffective = "has no effect unless scalingMetric is requestRate"
	return []Sample{
		{
			Name: folder + "manifests.yaml, manifests-arm.yaml, so.yaml", File: "http-server.yaml",
			Happens: "applied unchanged: an object, and the Ingress is wired",
			Objects: []Object{{
				Name: "http-server", ScaledObject: "http-server", Wiring: wired,
				Spec: `{hosts: [demo.keda], scaleTargetRef: {service: http-server, port: 8080}}`,
			}},
			Backends: map[string]string{ingress + "http-server": proxy},
		},
		{
			Name: folder + "tls-manifests.yaml, tls-so.yaml", File: "http-server-tls.yaml",
			Happens: "an object with the certificate: [TLS](../how-to/tls.md). The proxies connect by TLS, because of the name of " +
				"the Service's port",
			Objects: []Object{{
				Name: "http-server-tls", ScaledObject: "http-server-tls",
				Spec:        `{hosts: [tls-demo.keda], scaleTargetRef: {service: http-server-tls, port: 443}}`,
				Annotations: map[string]string{"http.kedify.io/tls-secret-name": "http-server-tls"}, //nolint:gosec // the name of a Secret
			}},
		},
		{
			Name: folder + "internal-service-autowiring.yaml", File: "http-server-internal.yaml",
			Happens: "an object" + selected, Objects: []Object{internal("server-service.keda", "port: 8080")},
		},
		{
			Name: folder + "internal-service-autowiring-named-ports.yaml", File: "http-server-internal-named-port.yaml",
			Happens: "an object with the port's name" + selected,
			Objects: []Object{internal("server-service.keda", "portName: myport")},
		},
		{
			Name: folder + "internal-service-autowiring-tls.yaml, …-tls-buggy.yaml", File: "http-server-internal-tls.yaml",
			Happens: "an object with the certificate, for which the Service waits" + selected, Objects: []Object{named},
		},
		{
			Name: "samples/websocket-server", File: "websocket-server.yaml",
			Happens: "an object, and the Ingress is wired. Proxies pass WebSockets on, and each open one counts",
			Refused: "`granularity` and `window` have no effect with `concurrency`",
			Objects: []Object{{
				Name: "websocket-server", ScaledObject: "websocket-server", Wiring: wired,
				Spec: `{hosts: [websocket.keda], pathPrefixes: [/], scaleTargetRef: {service: websocket-server, port: 8080}}`,
				Problems: []string{
					`granularity "1s": ` + ineffective, `window "1m": ` + ineffective,
				},
			}},
			Backends: map[string]string{ingress + "websocket-server": proxy},
		},
	}
}

// courses returns the courses in killercoda.
func courses() []Sample {
	object := func(name, host, wiring string) Object {
		return Object{
			Name: name, ScaledObject: name, Wiring: wiring,
			Spec: `{hosts: [` + host + `], pathPrefixes: [/], scaleTargetRef: {service: ` + name + `, port: 8080}}`,
		}
	}
	return []Sample{
		{
			Name: "killercoda/gateway-api, first part", File: "killercoda-gateway-api.yaml",
			Happens: "an object, and its backend in the HTTPRoute is wired; the other backend and the weights stay",
			Objects: []Object{object("blue", "keda-meets-gw.com", wired)},
			Backends: map[string]string{
				httpRoute + "app": "kedify-proxy:8080 prpl:8080",
			},
		},
		{
			Name: "killercoda/gateway-api, weighted", File: "killercoda-gateway-api-weighted.yaml",
			Happens:  "an object for each version. The course's own Envoy sends requests to Service `kedify-proxy`, with the Host of each",
			Objects:  []Object{object("blue", "blue", ""), object("prpl", "prpl", "")},
			Backends: map[string]string{httpRoute + "app": "envoy:8080 envoy:8080"}, //nolint:dupword // two backends
		},
		{
			Name: "killercoda/grpc", File: "killercoda-grpc.yaml",
			Happens: "an object with the certificate: [TLS](../how-to/tls.md)",
			Refused: "the Ingress is not wired, because of `backend-protocol: GRPCS`: the proxies do not support " +
				"[HTTP/2 over TLS](autowire.md#http2-and-grpc) to the application",
			Backends: map[string]string{ingress + "grpc-responder": "grpc-responder:50051"},
			Objects: []Object{{
				Name: "grpc-responder", ScaledObject: "grpc-responder",
				Spec:        `{hosts: [grpc.keda], pathPrefixes: [/], scaleTargetRef: {service: grpc-responder, port: 50051}}`,
				Annotations: map[string]string{"http.kedify.io/tls-secret-name": "grpc-responder"}, //nolint:gosec // the name of a Secret
			}},
		},
		{
			Name: "killercoda/http-scaler", File: "killercoda-http-scaler.yaml",
			Happens:  "applied unchanged: an object, and the Ingress is wired",
			Objects:  []Object{object("blue", "blue.com", wired)},
			Backends: map[string]string{ingress + "blue": proxy},
		},
	}
}
