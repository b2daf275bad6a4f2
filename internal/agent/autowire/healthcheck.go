package autowire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// What the proxies answer to health checks of load balancers, which use the address of a Pod as host: an HTTP status,
// and the grpc-status that Envoy derives from it for requests of gRPC (Unknown).
const (
	healthStatus     = 200
	healthGRPCStatus = 2
)

// Annotations of the AWS Load Balancer Controller that belong together.
const (
	albVersion      = "alb.ingress.kubernetes.io/backend-protocol-version"
	albSuccessCodes = "alb.ingress.kubernetes.io/success-codes"
)

// healthRules returns the annotations that set how a load balancer checks the health of its backends. The Application
// Gateway Ingress Controller takes port and path from the readiness probe of the Pods unless annotations set them
// (pkg/appgw/health_probes.go): those of the proxies are 9901 and /ready.
func healthRules() []annotationRule {
	both := onIngress | onService
	return []annotationRule{
		{names: []string{albSuccessCodes}, on: both, effect: expectsStatus},
		{
			names:  slices.Concat(appGateway("health-probe-status-codes"), appGateway("health-probe-status-code")),
			effect: expectsStatus,
		},
		{names: alb("healthcheck-protocol"), on: both, values: `https`, when: "`HTTPS`", effect: checksByTLS},
		{names: alb("healthcheck-protocol"), on: both, values: `http`, when: "`HTTP`", effect: checksInClear},
		{names: appGateway("health-probe-path"), values: `/ready`, when: "`/ready`", effect: harmless},
		{names: appGateway("health-probe-port"), values: `9901`, when: "`9901`", effect: harmless},
		{
			names:  slices.Concat(appGateway("health-probe-path"), appGateway("health-probe-port")),
			when:   "any other value",
			effect: checksElsewhere,
		},
	}
}

// healthBlocker returns why a load balancer would regard the proxies as unhealthy: they answer its health checks
// differently from what annotations request.
func (p *objectPlan) healthBlocker(to *backend) (reason, message string) {
	if elsewhere := p.toProxies.find(checksElsewhere); elsewhere != nil {
		message = fmt.Sprintf("%s sets a health check that the proxies answer with an error; remove it, or list it in "+
			"annotation %s of the Ingress if the proxies send it to an application that answers it",
			elsewhere.text, httpv1alpha1.AnnotationAutowireAccept)
	} else if message = p.statusIssue(); message == "" {
		message = p.checkProtocolIssue(to)
	}
	if message == "" {
		return "", ""
	}
	return httpv1alpha1.ReasonUnsupportedAnnotation, message
}

// statusIssue returns why the status of the proxies' answer to a health check is a failure, or an empty text.
func (p *objectPlan) statusIssue() string {
	isGRPC := func(by match) bool { return by.name == albVersion && strings.EqualFold(by.value, "GRPC") }
	expected, status, answer := p.toProxies.find(expectsStatus), healthStatus, "status 200"
	grpc := slices.IndexFunc(p.toProxies[usesHTTP2], isGRPC)
	if grpc >= 0 {
		status, answer = healthGRPCStatus, "grpc-status 2"
	}
	switch {
	case expected == nil && grpc >= 0 && !p.object.accepts(albSuccessCodes):
		return fmt.Sprintf("%s makes the load balancer expect grpc-status 12 from health checks, which the proxies answer "+
			"with %s; add annotation %s: 0-99 to Service %s",
			p.toProxies[usesHTTP2][grpc].text, answer, albSuccessCodes, ProxyService)
	case expected == nil || includesStatus(expected.value, status):
		return ""
	case expected.name == albSuccessCodes:
		return fmt.Sprintf("%s does not contain the answer of the proxies to health checks, %s; add annotation %s: %q to "+
			"Service %s", expected.text, answer, albSuccessCodes, strconv.Itoa(status), ProxyService)
	}
	return fmt.Sprintf("%s does not contain the answer of the proxies to health checks, %s; add %d to it",
		expected.text, answer, status)
}

// checkProtocolIssue returns why a health check uses TLS to a port for clear text or the other way round, or an empty
// text.
func (p *objectPlan) checkProtocolIssue(to *backend) string {
	wrong, accepts, fix := p.toProxies.find(checksByTLS), "clear text", "HTTP"
	if to.service.Port.Number == TLSPort {
		wrong, accepts, fix = p.toProxies.find(checksInClear), "TLS", "HTTPS"
	}
	if wrong == nil {
		return ""
	}
	return fmt.Sprintf("%s sets the protocol of health checks, and port %d of Service %s accepts %s; add annotation "+
		"%s: %s to Service %s", wrong.text, to.service.Port.Number, ProxyService, accepts, wrong.name, fix, ProxyService)
}

// includesStatus reports whether a list of codes and ranges, such as 200-399,404, contains a status.
func includesStatus(list string, status int) bool {
	for entry := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(entry), "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(strings.TrimSpace(first))
		to, lastErr := strconv.Atoi(strings.TrimSpace(last))
		if err == nil && lastErr == nil && from <= status && status <= to {
			return true
		}
	}
	return false
}
