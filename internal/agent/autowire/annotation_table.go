package autowire

import "slices"

// annotationRules returns the table of the annotations that matter, in order: of the rules with the same annotation,
// the first with a matching value applies. Annotations that are not in the table are harmless. Sources, by family:
//
//   - nginx.ingress.kubernetes.io: ingress-nginx, docs/user-guide/nginx-configuration/annotations.md
//   - nginx.org, nginx.com: F5 NGINX Ingress Controller, internal/configs/annotations.go
//   - traefik.ingress.kubernetes.io: https://doc.traefik.io/traefik/reference/routing-configuration/kubernetes/ingress
//   - haproxy.org: HAProxy Technologies' controller, documentation/annotations.md, also for its two other prefixes
//   - haproxy-ingress.github.io: HAProxy Ingress, docs/content/en/docs/configuration/keys.md
//   - projectcontour.io: Contour, internal/annotation/annotations.go
//   - alb.ingress.kubernetes.io: AWS Load Balancer Controller, docs/guide/ingress/annotations.md
//   - cloud.google.com: ingress-gce, pkg/annotations/service.go
//   - appgw.ingress.kubernetes.io: Application Gateway Ingress Controller, pkg/annotations/ingress_annotations.go
//   - konghq.com: Kong Ingress Controller, internal/annotations/annotations.go
//   - haproxy.router.openshift.io: OpenShift's router, images/router/haproxy/conf/haproxy-config.template. It reads those
//     of Routes, and OpenShift copies those of an Ingress to the Routes that it creates for it
func annotationRules() []annotationRule {
	return slices.Concat(requestRules(), protocolRules(), hiddenRules(), healthRules(), affinityRules(), splitRules(),
		serviceRules(), openShiftRules())
}

// Patterns of values that several rules use. The placeholders are those of annotationRule.values.
const (
	isTrue = `true`
	// constant is a value without references to parts of the request: in nginx $1 and $host, in HAProxy \1 and
	// %[...], in Kong $(...).
	constant = `[^$\\%\s]+`
	// listsService is a list of Services, or of pairs with serviceName, that contains the backend's Service.
	listsService = `(.*[,;=\s])?{service}([,;\s].*)?`
	// listsPort is a list of ports that contains the backend's.
	listsPort = `(.*,)?\s*{port}\s*(,.*)?`
	// nginxDirective is a snippet of nginx with a directive that changes a request or its destination.
	nginxDirective = `(.*[\s;{}])?((proxy|grpc|fastcgi|uwsgi|scgi|memcached)_pass|rewrite|try_files|` +
		`include|\w+_by_lua\w*|proxy_ssl_certificate|(proxy|grpc)_set_header\s+["']?(host|:authority)|` +
		`set\s+\$(proxy_|best_http_host|http_host|host|service_|namespace|location_path))\b.*`
	// haproxyDirective is the same for HAProxy.
	haproxyDirective = `(.*\n)?\s*((http-request\s+(set|replace)-(path|uri|pathq|query|header\s+host)|` +
		`http-request\s+use-service|use-server|server|balance|source|option\s+httpchk|reqrep|reqirep)\b).*`
	// byClient is a method of load balancing in HAProxy that selects the same Pod for the same client or request.
	byClient = `(source|uri|url_param|hdr|rdp-cookie).*`
	// clientAddress and clientHeader are variables of nginx: the client's address, and a header of the request.
	clientAddress = `\$\{?(binary_)?remote_addr\}?`
	clientHeader  = `\$\{?http_(?P<variable>\w+?)\}?`
)

// requestRules returns the annotations that change the requests in a way that the agent compares with the triggers.
func requestRules() []annotationRule {
	nginx, alias := nginxFamily("server-alias"), haproxyIngress("server-alias")
	return []annotationRule{
		{
			names:  slices.Concat(nginxFamily("rewrite-target"), f5("rewrite-target"), haproxy("path-rewrite")),
			values: `/[^$\\%\s]*`, when: "a constant path", effect: replacesPath,
		},
		{
			names: kong("rewrite"), on: onIngress | onRoute, values: `/[^$\\%\s]*`, when: "a constant path",
			effect: replacesPath,
		},
		{
			names:  slices.Concat(haproxyIngress("rewrite-target"), appGateway("backend-path-prefix")),
			values: `/[^$\\%\s]*`, when: "a constant path", effect: replacesPrefix,
		},
		{names: kong("strip-path"), on: onIngress | onRoute, values: isTrue, when: "`true`", effect: stripsPrefix},
		{
			names: nginxFamily("upstream-vhost"), values: `\$(host|http_host|best_http_host)`,
			when: "`$host`, `$http_host`, `$best_http_host`", effect: harmless,
		},
		{
			names:  slices.Concat(nginxFamily("upstream-vhost"), haproxy("set-host"), appGateway("backend-hostname")),
			values: constant, when: "a constant host", effect: replacesHost,
		},
		{
			names: slices.Concat(nginx, alias, appGateway("hostname-extension")), values: `[\w.,*\s-]+`,
			when: "a list of hosts", effect: addsHosts,
		},
		{
			names: kong("host-aliases"), on: onIngress | onRoute, values: `[\w.,*\s-]+`, when: "a list of hosts",
			effect: addsHosts,
		},
		{names: nginxFamily("use-regex"), values: isTrue, when: "`true`", effect: matchesExpressions},
		{
			names: f5("path-regex"), values: `case_(in)?sensitive`, when: "`case_sensitive`, `case_insensitive`",
			effect: matchesExpressions,
		},
		{names: haproxyIngress("path-type"), values: `regex`, when: "`regex`", effect: matchesExpressions},
		{names: traefik("router.pathmatcher"), values: `PathRegexp`, when: "`PathRegexp`", effect: matchesExpressions},
	}
}

// protocolRules returns the annotations that set the protocol to the backends.
func protocolRules() []annotationRule {
	protocols := slices.Concat(nginxFamily("backend-protocol"), appGateway("backend-protocol"))
	scoped := slices.Concat(haproxyIngress("backend-protocol"), alb("backend-protocol"))
	both := onIngress | onService
	return []annotationRule{
		{names: protocols, values: `http|h1`, when: "`HTTP`", effect: usesHTTP1},
		{names: scoped, on: both, values: `http|h1`, when: "`HTTP`, `h1`", effect: usesHTTP1},
		{names: protocols, values: `https`, when: "`HTTPS`", effect: usesTLS},
		{names: scoped, on: both, values: `https|h1-ssl`, when: "`HTTPS`, `h1-ssl`", effect: usesTLS},
		{names: protocols, values: `grpc|h2|h2c`, when: "`GRPC`", effect: usesHTTP2},
		{names: scoped, on: both, values: `grpc|h2|h2c`, when: "`grpc`, `h2`", effect: usesHTTP2},
		{names: protocols, values: `grpcs|h2-ssl`, when: "`GRPCS`", effect: usesHTTP2TLS},
		{names: scoped, on: both, values: `grpcs|h2-ssl`, when: "`grpcs`, `h2-ssl`", effect: usesHTTP2TLS},
		{names: protocols, when: "any other value", effect: usesOther},
		{names: scoped, on: both, when: "any other value", effect: usesOther},
		{
			names: slices.Concat(haproxyIngress("secure-backends"), haproxy("server-ssl")), on: both, values: isTrue,
			when: "`true`", effect: usesTLS,
		},
		{names: haproxy("server-proto"), on: both, values: `h2`, when: "`h2`", effect: usesHTTP2},
		{names: f5("ssl-services"), values: listsService, when: "lists the Service", effect: usesTLS},
		{names: f5("grpc-services"), values: listsService, when: "lists the Service", effect: usesHTTP2},
		{names: f5("websocket-services"), values: listsService, when: "lists the Service", effect: upgrades},
		{names: traefik("service.serversscheme"), on: onService, values: `h2c`, when: "`h2c`", effect: usesHTTP2},
		{names: traefik("service.serversscheme"), on: onService, values: `https`, when: "`https`", effect: usesTLS},
		{
			names: contour("upstream-protocol.h2c"), on: onService, values: listsPort, when: "lists the port",
			effect: usesHTTP2,
		},
		{
			names: contour("upstream-protocol.h2"), on: onRoute | onService, values: listsPort, when: "lists the port",
			effect: usesHTTP2TLS,
		},
		{
			names: contour("upstream-protocol.tls"), on: onRoute | onService, values: listsPort, when: "lists the port",
			effect: usesTLS,
		},
		{names: alb("backend-protocol-version"), on: both, values: `grpc|http2`, when: "`GRPC`, `HTTP2`", effect: usesHTTP2},
		{names: appProtocols(), on: onService, values: `.*"HTTP2".*`, when: "a port with `HTTP2`", effect: usesHTTP2TLS},
		{names: appProtocols(), on: onService, values: `.*"HTTPS".*`, when: "a port with `HTTPS`", effect: usesTLS},
		{names: kong("protocol"), on: onService, values: `grpc`, when: "`grpc`", effect: usesHTTP2},
		{names: kong("protocol"), on: onRoute | onService, values: `grpcs`, when: "`grpcs`", effect: usesHTTP2TLS},
		{names: kong("protocol"), on: onRoute | onService, values: `https`, when: "`https`", effect: usesTLS},
	}
}

// affinityRules returns the annotations that send a client's requests to the same Pod.
func affinityRules() []annotationRule {
	both := onIngress | onService
	hash, method := nginxFamily("upstream-hash-by"), f5("lb-method")
	return slices.Concat([]annotationRule{
		{names: nginxFamily("affinity"), values: `cookie`, when: "`cookie`", effect: sticksByCookie},
		{names: hash, values: clientAddress, when: "`$remote_addr`, `$binary_remote_addr`", effect: sticksByAddress},
		{names: hash, values: clientHeader, when: "`$http_…`", effect: sticksByHeader},
		{names: hash, when: "any other value", effect: sticks},
		{
			names: method, values: `ip_hash|hash\s+` + clientAddress + `(\s+consistent)?`,
			when: "`ip_hash`, `hash $remote_addr`, `hash $binary_remote_addr`", effect: sticksByAddress,
		},
		{
			names: method, values: `hash\s+` + clientHeader + `(\s+consistent)?`, when: "`hash $http_…`",
			effect: sticksByHeader,
		},
		{names: method, values: `hash\s.*`, when: "`hash …`", effect: sticks},
		{
			names: []string{"nginx.com/sticky-cookie-services"}, values: listsService, when: "lists the Service",
			effect: sticksByCookie,
		},
		{names: traefik("service.sticky.cookie"), on: onService, values: isTrue, when: "`true`", effect: sticksByCookie},
		{names: traefik("service.sticky.cookie.*"), on: onService, effect: sticksByCookie},
		{
			names: alb("target-group-attributes"), on: both, values: `.*stickiness\.enabled\s*=\s*true.*`,
			when: "`stickiness.enabled=true`", effect: sticksByCookie,
		},
		{names: appGateway("cookie-based-affinity"), values: isTrue, when: "`true`", effect: sticksByCookie},
	}, haproxyAffinityRules())
}

// haproxyAffinityRules returns those of affinityRules that controllers with HAProxy have.
func haproxyAffinityRules() []annotationRule {
	both := onIngress | onService
	balance := slices.Concat(haproxy("load-balance"), haproxyIngress("balance-algorithm"))
	snippet := slices.Concat(haproxy("backend-config-snippet"), haproxyIngress("config-backend"))
	return []annotationRule{
		{
			names: slices.Concat(haproxy("cookie-persistence"), haproxy("cookie-persistence-no-dynamic")), on: both,
			effect: sticksByCookie,
		},
		{names: haproxyIngress("affinity"), on: both, values: `cookie`, when: "`cookie`", effect: sticksByCookie},
		{names: balance, on: both, values: `source`, when: "`source`", effect: sticksByAddress},
		{names: balance, on: both, values: `hdr\((?P<header>[^()]+)\)`, when: "`hdr(…)`", effect: sticksByHeader},
		{
			names: balance, on: both, values: byClient, when: "`uri`, `url_param`, `rdp-cookie`, any other `hdr`",
			effect: sticks,
		},
		{names: snippet, on: both, values: `(.*\n)?\s*stick\s.*`, when: "with `stick`", effect: sticks},
		{names: snippet, on: both, values: `(.*\n)?\s*cookie\s.*`, when: "with `cookie`", effect: sticksByCookie},
	}
}

// splitRules returns the annotations that split the traffic of a backend.
func splitRules() []annotationRule {
	return []annotationRule{
		{names: nginxFamily("canary"), values: isTrue, when: "`true`", effect: splits},
		{
			names: slices.Concat(haproxyIngress("blue-green-balance"), haproxyIngress("blue-green-deploy"),
				haproxyIngress("blue-green-cookie"), haproxyIngress("blue-green-header")),
			on: onIngress | onService, effect: splits,
		},
		{names: alb("actions.{service}"), effect: splits},
	}
}

// serviceRules returns the annotations that apply to the Service that an Ingress names.
func serviceRules() []annotationRule {
	return []annotationRule{
		{names: slices.Concat(alb("conditions.{service}"), alb("transforms.{service}")), effect: hidden},
		{names: alb("auth-type"), on: onService, values: `oidc|cognito`, when: "`oidc`, `cognito`", effect: belongsToService},
		{names: backendConfigs(), on: onService, effect: belongsToService},
		{names: alb("target-type"), on: onIngress | onService, values: `ip`, when: "`ip`", effect: reachesPods},
		{
			names: []string{"cloud.google.com/neg"}, on: onService, values: `.*"ingress"\s*:\s*true.*`,
			when: "`{\"ingress\": true}`", effect: reachesPods,
		},
	}
}

// hiddenRules returns the annotations whose effect on requests the agent cannot determine. Rules for constant values
// of the same annotations precede them.
func hiddenRules() []annotationRule {
	both := onIngress | onService
	return []annotationRule{
		{
			names: slices.Concat(nginxFamily("rewrite-target"), f5("rewrite-target"), haproxy("path-rewrite"),
				haproxyIngress("rewrite-target"), appGateway("backend-path-prefix")), when: "any other value", effect: hidden,
		},
		{names: kong("rewrite"), on: onIngress | onRoute, when: "any other value", effect: hidden},
		{
			names: slices.Concat(nginxFamily("upstream-vhost"), haproxy("set-host"), appGateway("backend-hostname"),
				nginxFamily("server-alias"), haproxyIngress("server-alias"), appGateway("hostname-extension")),
			when: "any other value", effect: hidden,
		},
		{names: haproxyIngress("server-alias-regex"), effect: hidden},
		{names: f5("rewrites"), values: listsService, when: "lists the Service", effect: hidden},
		{
			names: slices.Concat(nginxFamily("configuration-snippet"), nginxFamily("server-snippet"), f5("location-snippets"),
				f5("server-snippets")), values: nginxDirective, effect: hidden,
			when: "with a directive such as `proxy_pass`, `rewrite`, `proxy_set_header Host`",
		},
		{
			names: slices.Concat(haproxy("backend-config-snippet"), haproxyIngress("config-backend")), on: both,
			values: haproxyDirective, when: "with a directive such as `http-request set-path`, `server`", effect: hidden,
		},
		{names: f5("proxy-set-headers"), values: `(.*,)?\s*host\s*([:,].*)?`, when: "with `Host`", effect: hidden},
		{names: haproxy("request-set-header"), values: `(.*\n)?\s*host\s.*`, when: "with `Host`", effect: hidden},
		{names: haproxyIngress("headers"), on: both, values: `(.*\n)?\s*host\s*:.*`, when: "with `Host`", effect: hidden},
		{
			names: slices.Concat(nginxFamily("ssl-passthrough"), haproxyIngress("ssl-passthrough")), values: isTrue,
			when: "`true`", effect: hidden,
		},
		{names: haproxy("ssl-passthrough"), on: both, values: isTrue, when: "`true`", effect: hidden},
		{names: nginxFamily("proxy-ssl-secret"), effect: hidden},
		{
			names: slices.Concat(haproxy("server-crt"), haproxyIngress("secure-crt-secret"), haproxy("cr-backend")), on: both,
			effect: hidden,
		},
		{names: slices.Concat(haproxy("send-proxy-protocol"), haproxyIngress("proxy-protocol")), on: both, effect: hidden},
		{
			names: slices.Concat(haproxy("check-http"), haproxyIngress("health-check-uri"),
				haproxyIngress("health-check-port"), haproxyIngress("health-check-addr")), on: both, effect: hidden,
		},
		{names: alb("healthcheck-port"), on: both, values: `\d+`, when: "a number", effect: hidden},
		{names: haproxy("route-acl"), on: onService, effect: hidden},
		{names: traefik("router.middlewares"), effect: hidden},
		{names: traefik("service.serverstransport"), on: onService, effect: hidden},
		{names: traefik("service.passhostheader"), on: onService, values: `false`, when: "`false`", effect: hidden},
		{
			names:  slices.Concat(appGateway("rewrite-rule-set"), appGateway("rewrite-rule-set-custom-resource")),
			effect: hidden,
		},
		{names: kong("preserve-host"), on: onIngress | onRoute, values: `false`, when: "`false`", effect: hidden},
		{names: slices.Concat(kong("plugins"), kong("override")), on: onIngress | onRoute | onService, effect: hidden},
		{
			names: slices.Concat(kong("path"), kong("host-header"), kong("upstream-policy"), kong("client-cert")),
			on:    onService | onRoute, effect: hidden,
		},
	}
}

// openShiftRules returns the annotations of OpenShift's router. They are those of its own family, so that their order
// among the others does not matter. See addRoute for its cookies.
func openShiftRules() []annotationRule {
	both := onIngress | onOpenShift
	return []annotationRule{
		{
			names: openShift("rewrite-target"), on: both, values: `/[^$\\%'"#\s]*`, when: "a constant path",
			effect: replacesPrefix,
		},
		{names: openShift("rewrite-target"), on: both, values: `/.*`, when: "any other path", effect: hidden},
		{names: openShift("balance"), on: both, values: `source`, when: "`source`", effect: sticksByAddress},
		{
			names: openShift("pod-concurrent-connections"), on: both, values: `[+-]?\d+`, when: "a number",
			effect: hidden,
		},
		{names: openShift("h1-adjust-case"), on: both, values: `1|t|true`, when: "`true`", effect: hidden},
	}
}

// loadBalancers returns the load balancers that use NodePorts unless an annotation has effect reachesPods.
func loadBalancers() []loadBalancer {
	return []loadBalancer{
		{
			name: "an AWS Application Load Balancer", controllers: []string{"ingress.k8s.aws/alb", "eks.amazonaws.com/alb"},
			classes: []string{"alb"}, annotations: alb("*"),
			fix: "annotation alb.ingress.kubernetes.io/target-type: ip",
		},
		{
			name: "a Google Cloud load balancer", controllers: []string{"k8s.io/ingress-gce"},
			classes: []string{"gce", "gce-internal", "gce-regional-external"},
			annotations: []string{
				"networking.gke.io/*", "ingress.gcp.kubernetes.io/*", "kubernetes.io/ingress.global-static-ip-name",
				"kubernetes.io/ingress.regional-static-ip-name", "ingress.kubernetes.io/url-map",
				"ingress.kubernetes.io/backends", "ingress.kubernetes.io/forwarding-rule",
			},
			fix: `annotation cloud.google.com/neg: '{"ingress": true}'`,
		},
	}
}

// The names of an annotation in a family, with every prefix that its controllers accept by default.

func nginxFamily(key string) []string { return []string{"nginx.ingress.kubernetes.io/" + key} }
func f5(key string) []string          { return []string{"nginx.org/" + key} }
func traefik(key string) []string     { return []string{"traefik.ingress.kubernetes.io/" + key} }
func alb(key string) []string         { return []string{"alb.ingress.kubernetes.io/" + key} }
func appGateway(key string) []string  { return []string{"appgw.ingress.kubernetes.io/" + key} }
func kong(key string) []string        { return []string{"konghq.com/" + key} }
func openShift(key string) []string   { return []string{"haproxy.router.openshift.io/" + key} }
func contour(key string) []string {
	return []string{"projectcontour.io/" + key, "contour.heptio.com/" + key}
}

func haproxy(key string) []string {
	return []string{"haproxy.org/" + key, "haproxy.com/" + key, "ingress.kubernetes.io/" + key}
}

func haproxyIngress(key string) []string {
	return []string{"haproxy-ingress.github.io/" + key, "ingress.kubernetes.io/" + key}
}

func backendConfigs() []string {
	return []string{"cloud.google.com/backend-config", "beta.cloud.google.com/backend-config"}
}

func appProtocols() []string {
	return []string{"cloud.google.com/app-protocols", "service.alpha.kubernetes.io/app-protocols"}
}
